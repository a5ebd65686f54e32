/* SPDX-License-Identifier: Apache-2.0 */
/* journal_batches.h - the gateway's journal as batches of events, from any record on: what a durable consumer
 * with a cursor reads, and `gridline-gateway --dump`.
 *
 *     struct journal_batches *b;
 *     struct journal_batch item;
 *     int r = journal_batches_open(journal, position + 1, &b);
 *     while ((r = journal_batches_next(b, &item)) == 0)
 *         ...
 *     if (r == E_NODATA)
 *         journal_cursor_move(cursor, journal_batches_done(b));
 *
 * Samples need what was announced before them in their segment, so reading from the middle of one walks from
 * its beginning. One thread, the journal's. */
#ifndef GRIDLINE_GATEWAY_JOURNAL_BATCHES_H
#define GRIDLINE_GATEWAY_JOURNAL_BATCHES_H

#include "event/batch.h"
#include "journal/journal.h"

enum journal_batch_kind {
    JOURNAL_BATCH,     /* events */
    JOURNAL_LOST,      /* records first..last are lost: damaged, or gone */
    JOURNAL_UNREADABLE /* events of record first that can't be read: why says what is wrong */
};

struct journal_batch {
    enum journal_batch_kind kind;
    uint64_t first, last;           /* numbers of the records; equal but for JOURNAL_LOST */
    uint32_t part;                  /* which batch of that record, from 0: as live ones are counted */
    struct batch *batch;            /* borrowed until the next call; take a reference to keep it */
    enum journal_gap_reason reason; /* JOURNAL_LOST */
    uint64_t count;                 /* JOURNAL_UNREADABLE: events, 0 = nobody knows how many */
    const char *why;                /* borrowed until the next call */
};

struct journal_batches;
/* Starts at record number from; 0 = the oldest kept. Borrows j. */
int journal_batches_open(struct journal *j, uint64_t from, struct journal_batches **out);
void journal_batches_close(struct journal_batches *b); /* NULL is fine */
/* The next: 0. E_NODATA at the end of what is committed: call again after the next commit. Other errors as
 * journal_reader_next; -ENOMEM: call again. */
int journal_batches_next(struct journal_batches *b, struct journal_batch *out);
/* The last record of which everything has been given; 0 = none yet. */
uint64_t journal_batches_done(const struct journal_batches *b);

#endif
