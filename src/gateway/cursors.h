/* SPDX-License-Identifier: Apache-2.0 */
/* cursors.h - how far the consumers of durable subscriptions have got: a name and a position each. They are
 * records of the journal (type 8), written at most once a second each, and all again with every checkpoint;
 * what was lost of that by a crash is given again, and the consumer knows it by its position. Pure state. */
#ifndef GRIDLINE_GATEWAY_CURSORS_H
#define GRIDLINE_GATEWAY_CURSORS_H

#include "base/strbuf.h"
#include "net/subscribe.h"

enum { CURSORS_MAX = 48, CURSOR_NAME_MAX = 64 };

struct cursor_mark {
    char name[CURSOR_NAME_MAX + 1]; /* [A-Za-z0-9._:-] */
    struct position position;
    int64_t used_ns; /* when it was moved or opened last, UTC */
    uint64_t who;    /* whose it is: a hash of the identity that made it; 0 = anybody's */
    bool is_dirty;   /* its record is older than this */
    bool is_removed; /* a record still has to say so */
    void *owner;     /* the subscription that reads by it; NULL = nobody does */
};

struct cursors {
    uint64_t journal;      /* the number of the journal, random: another one has another; 0 = none yet */
    bool is_journal_dirty; /* as of a mark; its record has no name, and the number as its position's record */
    struct cursor_mark all[CURSORS_MAX];
    size_t n;
};

/* NULL: there is none. */
struct cursor_mark *cursors_find(struct cursors *c, struct slice name);
/* Finds it, or makes it at that position. NULL: there are too many, or it is no name. */
struct cursor_mark *cursors_open(struct cursors *c, struct slice name, struct position at, int64_t utc_ns);
void cursors_move(struct cursor_mark *m, struct position to, int64_t utc_ns); /* only forward */
void cursors_remove(struct cursor_mark *m);

/* Writes those that are dirty, by write: 0, or it is tried again next time. False: some are left. */
bool cursors_write(struct cursors *c, int (*write)(void *arg, struct slice record), void *arg);
/* After the restore: gives the journal its number if it has none. */
void cursors_name_journal(struct cursors *c);
void cursors_dirty_all(struct cursors *c);
/* A record: text name, position, i64 used, u8 1 = it is gone, u64 whose (not there: 0). E_PROTO. */
int cursors_restore(struct cursors *c, struct slice record);

#endif
