/* SPDX-License-Identifier: Apache-2.0 */
/* merge.h - small chunks of one stream in a partition made into larger ones: every flush leaves one a stream,
 * and a query has to look at each. Rows that are there twice are left out on the way; rows that are kept no
 * longer, too. Of a tier's partition, rows of the same stream and step become one.
 *
 * Works in small steps on the writer's thread, between which everything else goes on: some blobs are read,
 * written anew in memory, and put in the place of the old ones in one commit. Their generation is that of the
 * newest of them, marks stay as they are. A blob that can't be read whole is left alone.
 *
 * Memory: the bytes of up to MERGE_BLOBS_MAX blobs, twice, and one stream's rows. */
#ifndef GRIDLINE_ARCHIVE_MERGE_H
#define GRIDLINE_ARCHIVE_MERGE_H

#include "archive/archive.h"

enum {
    MERGE_BLOBS_MAX = 16,    /* in one commit */
    MERGE_BLOBS_MIN = 8,     /* while the partition is still filled: less is not worth writing it again */
    MERGE_ROWS_ENOUGH = 4096 /* of a chunk: it stays as it is */
};

struct merge_options {
    bool is_closed; /* hardly any rows will come: two blobs are worth it */
    /* Rows of that event name before this time are to be left out; INT64_MIN: none are. NULL = none of any.
     */
    int64_t (*floor)(void *arg, struct slice name);
    void *arg;
    /* Blobs up to a generation in here and blobs beyond it stay apart: tiers have been made of the former. */
    const uint64_t *borders;
    size_t n_borders;
};

struct merge_counts {
    uint64_t commits, blobs_in, blobs_out, rows, doubled, dropped;
};

struct merge;
/* span: of a partition that there is. Borrows a; o.borders is copied. */
int merge_create(struct archive *a, const struct partition_span *span, const struct merge_options *o,
                 struct merge **out);
void merge_destroy(struct merge *m); /* NULL is fine; what is not committed is as if it never was */
/* 1: there is more to do; 0: there is nothing (left) to merge; -ENOSPC, -EIO, -ENOMEM, E_DAMAGE: this
 * partition is better left alone for a while. */
int merge_step(struct merge *m);
struct merge_counts merge_counts(const struct merge *m);

#endif
