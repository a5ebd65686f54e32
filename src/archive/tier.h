/* SPDX-License-Identifier: Apache-2.0 */
/* tier.h - partitions of coarser resolution: of every stream and step of 10 s, a minute and an hour the
 * count, min, max, sum, first and last of each field (tier_columns.h), kept longer than the rows themselves.
 *
 * The tier of 10 s is made of raw rows when their partition is closed, that of a minute of it, that of an
 * hour of that. A tier's file has a mark: up to which generation of what it is made of it has everything.
 * What comes later (late rows) is added, as rows of its own: two rows of one step are as good as one, and
 * merging puts them together. So nothing is made twice, and a tier stays when the rows are gone.
 *
 * Works in small steps on the writer's thread, a chunk each, and is committed at once. */
#ifndef GRIDLINE_ARCHIVE_TIER_H
#define GRIDLINE_ARCHIVE_TIER_H

#include "archive/archive.h"

enum { TIERS = 3 };
/* From the finest on, in ns. */
extern const int64_t tier_steps[TIERS];

/* Can there be a tier of that step for the partition? Its steps must lie wholly in it. */
bool tier_fits(const struct partition_span *span, int64_t step_ns);
/* What a tier of that span has; 0: there is none yet, or nothing in it. Opens the file. */
int tier_mark(struct archive *a, const struct partition_span *tier, uint64_t *mark);

struct tier_counts {
    uint64_t chunks, rows_in, rows_out;
    uint64_t damaged;  /* rows that could not be read: they are not in the tier */
    uint64_t left_out; /* values of fields beyond what a table can have */
};

struct tier;
/* The tier of step_ns, which fits, for a partition of raw rows or of a finer tier that there is. */
int tier_create(struct archive *a, const struct partition_span *from, int64_t step_ns, struct tier **out);
void tier_destroy(struct tier *t); /* NULL is fine; what is not committed is as if it never was */
/* 1: there is more to do; 0: it is done, and on disk; errors of partitions: it can be begun again. */
int tier_step(struct tier *t);
struct tier_counts tier_counts(const struct tier *t);

#endif
