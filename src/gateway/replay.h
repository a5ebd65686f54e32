/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h - what is in the journal, for those who come late or are slow: read in a thread of its own, since
 * the loop never waits for a disk.
 *
 * A reader is asked for a piece at a time (replay_ask): up to a record that is known to be settled, and about
 * REPLAY_PIECE bytes of batches. The answer comes on the loop, by on_piece; then it may be asked again. One
 * thread serves all readers in turn. The journal is opened read-only beside the one that writes it; what was
 * forced out or is damaged comes as a gap.
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
};

struct replay_piece {
    const struct replay_item *items; /* borrowed for the call, as are the batches */
    size_t n;
    uint64_t done; /* everything up to this record has been given */
    int error;     /* 0, or why it ends here: the reader is of no more use */
};

struct replay;
/* journal: the folder. NULL: no memory. */
struct replay *replay_create(struct event_base *base, const char *journal);
void replay_destroy(struct replay *r); /* NULL is fine; after its readers */

struct replay_reader;
/* From the record on that has `from`; 0 = the oldest that is kept. NULL: no memory. */
struct replay_reader *replay_open(struct replay *r, uint64_t from,
                                  void (*on_piece)(void *arg, const struct replay_piece *p), void *arg);
void replay_close(struct replay_reader *reader); /* NULL is fine; not answered any more */
/* Not while an answer is on its way. */
void replay_ask(struct replay_reader *reader, uint64_t up_to);

#endif
