/* SPDX-License-Identifier: Apache-2.0 */
/* tier_columns.h - what a row of a tier (tier.h) looks like: a stream's rows of one step, folded.
 *
 * It has the event's name and its stream's key; its time is when the step begins. A column has the name of
 * the field that it is about; its unit says what of it (and its own unit is in the catalogue):
 *
 *   unit         type
 *   rows         uint    (no name) how many rows they were
 *   first_at     uint    (no name) when the first of them was, ns since the step began; last_at: the last
 *   TYPE:count   uint    how many had a value of that field and type (TYPE: int, uint, float, bool, ...)
 *   TYPE:nans    uint    how many of them were NaN; missing = 0
 *   TYPE:min, :max, :first, :last    of that type; missing where there is none
 *   TYPE:sum     float
 *   TYPE:first_at, :last_at    uint    when first and last were, where that is not first_at and last_at of
 * the row
 *
 * Of text and bytes: count, last and last_at. So the summaries of a tier's chunk answer for the chunk what
 * those of raw chunks do: the sum of counts, the least of mins, ... Two rows of the same stream and step are
 * as good as one: late rows make such, and merging (merge.h) puts them together. Which of them has the first
 * value of a field is told by first_at: certain, unless the two have rows of the same time. */
#ifndef GRIDLINE_ARCHIVE_TIER_COLUMNS_H
#define GRIDLINE_ARCHIVE_TIER_COLUMNS_H

#include "archive/rows.h"
#include "base/map.h"

enum tier_part {
    TIER_COUNT,
    TIER_NANS,
    TIER_MIN,
    TIER_MAX,
    TIER_SUM,
    TIER_FIRST,
    TIER_LAST,
    TIER_FIRST_AT,
    TIER_LAST_AT,
    TIER_FIELD_PARTS, /* those above are of fields */
    TIER_ROWS = TIER_FIELD_PARTS,
    TIER_ROW_FIRST_AT,
    TIER_ROW_LAST_AT,
    TIER_OTHER /* nothing of ours */
};

/* What a column is; *type: of the field that it is of. */
enum tier_part tier_part_of(const struct field *column, uint8_t *type);
/* The column for a part of a field, or for one that is of none (field is not looked at). false: fields of
 * that type have no such part. Borrows the field's name. */
bool tier_column_of(const struct field *field, enum tier_part part, struct field *out);

/* ---------------------------------------------------------------- a table that grows */

/* The columns that chunks of one event name have, as they come: for blobs, which have tables of their own. A
 * zeroed struct with name set is an empty one. */
struct tier_table {
    struct table_def def; /* columns: grown, never moved under a reader's feet: see tier_table_id */
    uint32_t max;
    struct map by_content;
    struct arena arena;
};
void tier_table_fini(struct tier_table *t);
/* The number of that column (by name, type and unit), which is new if need be; def.columns may move. E_LIMIT:
 * there are ROWS_COLUMNS_MAX already. -ENOMEM. */
int tier_table_id(struct tier_table *t, const struct field *column, uint16_t *id);

/* ---------------------------------------------------------------- reading */

/* For the columns of a tier's table: of which column of another one they are. A field may have been folded with several
 * types, in the course of time: each is a slot. */
struct tier_column {
    uint8_t part; /* enum tier_part */
    uint32_t at;  /* slot */
};
struct tier_slot {
    uint32_t place; /* of its field among the ids asked */
    uint8_t type;
};
struct tier_columns {
    struct tier_column *of; /* by id of the tier's column */
    uint32_t n;
    struct tier_slot *slots;
    uint32_t n_slots;
    uint64_t content; /* a hash of the tier's columns */
};
/* ids: columns of `table`, ascending, a table by fields. Text of a number field has no slot; of a text field that was
 * folded as a number only how many there were is of use. -ENOMEM. */
int tier_columns_init(struct tier_columns *t, const struct table_def *tier, const struct table_def *table,
                      const uint16_t *ids, uint32_t n_ids);
void tier_columns_fini(struct tier_columns *t);
/* Were they made for a table of these columns? */
bool tier_columns_are_of(const struct tier_columns *t, const struct table_def *tier);

/* Sets that part of a field's summary by what the summary of the tier's column says. first_ns and last_ns are
 * set to when the rows of the tier begin: whoever knows better adds to it. */
void tier_column_set(struct column_summary *to, enum tier_part part, const struct column_summary *of);

#endif
