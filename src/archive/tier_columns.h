/* SPDX-License-Identifier: Apache-2.0 */
/* tier_columns.h - what a row of a tier (tier.h) looks like: a stream's rows of one step, folded.
 *
 * It has the event's name and its stream's key; its time is when the step begins. Columns:
 *
 *   rows                 uint    how many rows they were
 *   FIELD:TYPE:count     uint    how many had a value of that field and type (TYPE: int, uint, float, bool,
 * ...) FIELD:TYPE:nans      uint    how many of them were NaN; missing = 0 FIELD:TYPE:min, :max, :first,
 * :last    of the field's type; missing where there is none FIELD:TYPE:sum       float
 *
 * Of text and bytes: count and last. So the summaries of a tier's chunk answer for the chunk what those of
 * raw chunks do: the sum of counts, the least of mins, ... Two rows of the same stream and step are as good
 * as one: late rows make such, and merging (merge.h) puts them together. */
#ifndef GRIDLINE_ARCHIVE_TIER_COLUMNS_H
#define GRIDLINE_ARCHIVE_TIER_COLUMNS_H

#include "archive/rows.h"
#include "base/strbuf.h"

enum tier_part {
    TIER_COUNT,
    TIER_NANS,
    TIER_MIN,
    TIER_MAX,
    TIER_SUM,
    TIER_FIRST,
    TIER_LAST,
    TIER_PARTS,
    TIER_ROWS, /* the column rows */
    TIER_OTHER /* nothing of ours */
};

/* "load1:float:sum" -> load1, float, sum. TIER_OTHER: it is none. */
enum tier_part tier_column_parse(struct slice name, struct slice *field, uint8_t *type);
void tier_column_name(struct strbuf *out, struct slice field, uint8_t type, enum tier_part part);
/* What type a part of a field of that type has; VALUE_NONE: there is no such part. */
uint8_t tier_column_type(uint8_t type, enum tier_part part);

/* For the columns of a tier's table: of which column of another one they are. */
struct tier_column {
    uint8_t part; /* enum tier_part */
    uint32_t at;  /* place among the ids asked */
};
struct tier_columns {
    struct tier_column *of; /* by id of the tier's column */
    uint32_t n;
    uint64_t names; /* a hash of those of the tier's columns: their types go by them */
};
/* ids: columns of `table`, ascending. -ENOMEM. */
int tier_columns_init(struct tier_columns *t, const struct table_def *tier, const struct table_def *table,
                      const uint16_t *ids, uint32_t n_ids);
void tier_columns_fini(struct tier_columns *t);
/* Were they made for a table of these columns? */
bool tier_columns_are_of(const struct tier_columns *t, const struct table_def *tier);

/* Sets that part of a field's summary by what the summary of the tier's column says. step_ns: the tier's. */
void tier_column_set(struct column_summary *to, enum tier_part part, const struct column_summary *of,
                     int64_t step_ns);

#endif
