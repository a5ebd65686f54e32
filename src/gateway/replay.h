/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h - what is in the journal, for those who come late or are slow: read in a thread of its own, since
 * the loop never waits for a disk.
 *
 * A reader is asked for a piece at a time (replay_ask): up to a record that is known to be settled, and about
 * REPLAY_PIECE bytes of batches. The answer comes on the loop, by on_piece; then it may be asked again. One
 * thread serves all readers in turn. The journal is opened read-only beside the one that writes it; what was
 * deleted comes from the archive where that has it (struct replay_refill), else as a gap, as what is damaged.
 *
 * Everything here is called on the loop. */
#ifndef GRIDLINE_GATEWAY_REPLAY_H
#define GRIDLINE_GATEWAY_REPLAY_H

#include "event/batch.h"
#include "net/subscribe.h"

#include <event2/event.h>

enum {
    REPLAY_PIECE = 1 << 20, /* bytes of memory of the batches of one answer, about */
    REPLAY_ITEMS = 256      /* and how many of them */
};

/* A batch, or (batch NULL) what is lost: everything of records first..last, or `count` events of one. */
struct replay_item {
    struct batch *batch;
    struct position at;   /* of the batch: record and part */
    uint64_t first, last; /* lost */
    uint64_t count;       /* 0 = nobody knows */
    bool is_gone;         /* its records are deleted: it comes from the archive, or is lost with them */
};

/* Deleted records, from elsewhere (cmd/refill.h). On replay's thread. */
struct replay_refill {
    /* Records first..last; of first only what is behind that position. NULL: no memory. */
    void *(*open)(void *arg, uint64_t first, uint64_t last, struct position behind);
    /* The next batch, whose reference is the caller's, or what is lost; false: that was all. In the order of
     * the journal. */
    bool (*next)(void *reader, struct replay_item *out);
    void (*close)(void *reader); /* NULL is fine */
    void *arg;
};

struct replay_piece {
    const struct replay_item *items; /* borrowed for the call, as are the batches */
    size_t n;
    uint64_t done; /* everything up to this record has been given */
    int error;     /* 0, or why it ends here: the reader is of no more use */
};

struct replay;
/* journal: the folder. refill: borrowed, NULL = deleted records are gaps. NULL: no memory. */
struct replay *replay_create(struct event_base *base, const char *journal,
                             const struct replay_refill *refill);
void replay_destroy(struct replay *r); /* NULL is fine; after its readers */

struct replay_reader;
/* From the record on that is at that position, or behind it if all of it is; record 0 = the oldest that is
 * kept. NULL: no memory. */
struct replay_reader *replay_open(struct replay *r, struct position behind,
                                  void (*on_piece)(void *arg, const struct replay_piece *p), void *arg);
void replay_close(struct replay_reader *reader); /* NULL is fine; not answered any more */
/* Not while an answer is on its way. */
void replay_ask(struct replay_reader *reader, uint64_t up_to);

#endif
