/* SPDX-License-Identifier: Apache-2.0 */
/* rows_join.h - rows of several chunks of one stream as the rows of one: in order of time, those of the same
 * time in the order in which their chunks are given. Rows that are there twice (the same producer, epoch and
 * number) are there once. Pure: no I/O. */
#ifndef GRIDLINE_ARCHIVE_ROWS_JOIN_H
#define GRIDLINE_ARCHIVE_ROWS_JOIN_H

#include "archive/rows.h"

struct rows_part {
    struct rows rows;    /* with everything: times, levels, origins, all columns */
    const uint16_t *ids; /* the number in the result of each of its columns, by their ids */
};

/* In arena, or borrowed from the parts. *doubled: rows that were left out. E_LIMIT: more origins or text than
 * rows can have. -ENOMEM. Cost: a copy of everything; a sort only if parts overlap in time. */
int rows_join(const struct rows_part *parts, size_t n, struct arena *arena, struct rows *out,
              uint32_t *doubled);

#endif
