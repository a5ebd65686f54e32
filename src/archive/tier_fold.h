/* SPDX-License-Identifier: Apache-2.0 */
/* tier_fold.h - rows of one stream folded by steps into rows of a tier (tier_columns.h). Pure: no I/O. */
#ifndef GRIDLINE_ARCHIVE_TIER_FOLD_H
#define GRIDLINE_ARCHIVE_TIER_FOLD_H

#include "archive/tier_columns.h"

/* Rows as they were measured: table has their columns. out's are numbered as t's, which grows. Columns for
 * which t has no room are left out: *left_out counts their values. -ENOMEM. */
int tier_fold_rows(const struct rows *rows, const struct table_def *table, int64_t step_ns,
                   struct tier_table *t, struct arena *arena, struct rows *out, uint64_t *left_out);
/* Rows of a tier: of a finer one, or (step_ns 0) of the same, those of one step into one. Their columns are
 * t's, and so are out's. */
int tier_fold_again(const struct rows *rows, struct tier_table *t, int64_t step_ns, struct arena *arena,
                    struct rows *out);

#endif
