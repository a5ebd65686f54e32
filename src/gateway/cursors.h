/* SPDX-License-Identifier: Apache-2.0 */
/* cursors.h - how far the consumers of durable subscriptions have got: a name and a position each. They are
 * records of the journal (type 8), written at most once a second each, and all again with every checkpoint;
 * what was lost of that by a crash is given again, and the consumer knows it by its position. Pure state. */
#ifndef GRIDLINE_GATEWAY_CURSORS_H
#define GRIDLINE_GATEWAY_CURSORS_H

#include "base/strbuf.h"
#include "journal/journal.h"
#include "net/subscribe.h"

enum { CURSORS_MAX = 48, CURSOR_NAME_MAX = 64, CURSOR_HOLDER_MAX = 128 };

struct cursor_mark {
    char name[CURSOR_NAME_MAX + 1]; /* [A-Za-z0-9._:-] */
    struct position position;
    int64_t used_ns; /* when it was moved or opened last, UTC */
    uint64_t who;    /* whose it is: a hash of the identity that made it; 0 = anybody's */
    char holder[CURSOR_HOLDER_MAX + 1]; /* that identity as text, cut to fit; "" = not known */
    uint64_t hold; /* bytes that the journal may grow to for it; 0 = as the gateway's configuration says */
    /* Its part of the ledger. Records gave way before it had passed them: so many, the last of them. Of their
     * events so many came from the archive when they were read, and so many are lost; of lost_records nobody
     * knows how many events they had. */
    uint64_t gone, gone_to;
    uint64_t refilled, lost, lost_records, read_to; /* read_to: records up to it are counted */
    uint64_t lag_bytes; /* of the journal's segments that it has not passed, a moment ago */
    bool gone_told;     /* in the log, since it was behind last */
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
/* The last record that it is done with as a whole. */
uint64_t cursors_passed(const struct cursor_mark *m);
/* What they still need of the journal: CURSORS_MAX at most, bytes where a mark has no hold of its own. */
size_t cursors_holds(const struct cursors *c, uint64_t bytes, struct journal_hold *out);
/* What segments take that have records above a number that cursors_holds gave. */
void cursors_set_bytes(struct cursors *c, const struct journal_hold *bytes, size_t n);
/* The journal begins with record first now: counts what was deleted before they had passed it, and calls fn
 * with each that has lost some since the last time. */
void cursors_note_first(struct cursors *c, uint64_t first, void (*fn)(void *arg, struct cursor_mark *m),
                        void *arg);

/* Writes those that are dirty, by write: 0, or it is tried again next time. False: some are left. */
bool cursors_write(struct cursors *c, int (*write)(void *arg, struct slice record), void *arg);
/* After the restore: gives the journal its number if it has none. */
void cursors_name_journal(struct cursors *c);
void cursors_dirty_all(struct cursors *c);
/* A record: text name, position, i64 used, u8 1 = it is gone, u64 whose, text holder, u64 hold, gone,
 * gone_to, refilled, lost, lost_records, read_to (what is not there: 0). E_PROTO. */
int cursors_restore(struct cursors *c, struct slice record);

#endif
