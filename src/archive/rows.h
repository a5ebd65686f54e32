/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - rows of one stream as columns in memory: what a chunk is made of and what it becomes again.
 *
 * A table is an event name; its columns are the union of the fields of all its schema versions, each a (name,
 * type). A stream is a host, prog and key values of it (event/stream_key.h); key fields are in the stream's
 * key and not columns of its rows. A row is an event: time, level, values, and where it came from (producer,
 * epoch, seq, clock).
 *
 * Plain values that borrow: from the head (head.h) that fills, or from the arena a chunk was decoded into. */
#ifndef GRIDLINE_ARCHIVE_ROWS_H
#define GRIDLINE_ARCHIVE_ROWS_H

#include "base/arena.h"
#include "base/slice.h"
#include "event/batch.h"
#include "event/class.h"

#include <stdint.h>

enum {
    ROWS_CHUNK_MIN = 128,   /* a chunk has so many rows unless its stream has no more of them yet, */
    ROWS_CHUNK_MAX = 16384, /* and never more than these */
    ROWS_COLUMNS_MAX = 4096 /* of a table: more go to no column and are counted */
};

/* What a table's columns are, in the order of their numbers. Keys, too: they have values in rows only in
 * overflow streams (archive.h), else they are in the stream's key. */
struct table_def {
    struct slice name; /* of the event */
    const struct field *columns;
    uint32_t n_columns;
    /* Of a catalogue's table, which has a column for each (name, type): the same by fields (fields.h). NULL else. */
    const struct table_def *fields;
    /* Of a table by fields: what is known of the class of each. NULL else. */
    const struct class_state *states;
};

/* Values of one column for all rows; by its type one array of 8 bytes a row, or text. */
struct column {
    uint16_t id;  /* its number in the table */
    uint8_t type; /* as the table has it */
    union {
        const int64_t *i;
        const uint64_t *u; /* and bool: 0 or 1 */
        const double *f;
        const uint32_t *ends; /* text, bytes: where row r's bytes end; they begin at ends[r - 1], or 0 */
    };
    const char *bytes;       /* text, bytes */
    const uint64_t *present; /* a bit a row; NULL = every row has a value. Values of rows without one: any */
};

/* Who made a row, and with which clock it was stamped (batch_origin without the number). */
struct row_origin {
    uint8_t producer[16];
    uint64_t epoch;
    struct batch_clock clock;
};

/* Rows of a chunk are in order of time, those of the same time in order of arrival. Columns without any value
 * are not there. */
struct rows {
    uint32_t n;
    uint32_t n_columns;
    const int64_t *time_ns;
    const uint8_t *level;
    const uint64_t *seq;    /* 0 = none */
    const uint16_t *origin; /* of origins */
    const struct row_origin *origins;
    uint32_t n_origins;
    const struct column *columns; /* by id, ascending */
};

static inline bool column_has(const struct column *c, uint32_t row)
{
    return !c->present || (c->present[row >> 6] >> (row & 63) & 1);
}

static inline struct value column_value(const struct column *c, uint32_t row)
{
    if (!column_has(c, row))
        return value_none();
    if (!value_is_text(c->type))
        return (struct value){.u = c->u[row], .type = c->type};
    uint32_t from = row ? c->ends[row - 1] : 0;
    return (struct value){.p = c->bytes + from, .n = c->ends[row] - from, .type = c->type};
}

/* How many of the first n rows have a value. */
uint32_t column_count(const struct column *c, uint32_t n);

/* Rows [from, to) of r; what can't be borrowed is in arena. -ENOMEM. */
int rows_slice(const struct rows *r, uint32_t from, uint32_t to, struct arena *arena, struct rows *out);

/* What is kept of a column of a chunk beside its values. Of numbers (bool: 0 and 1): min, max and sum leave
 * NaN out, which `nans` counts; without any number they are missing. first and last are those of the first
 * and last row that has a value. sum is of doubles, in the order of rows, for integers exact as long as it
 * fits 2^53. A zero among min and max is 0.0, never -0.0 (they are equal, so
 * whichever it were would depend on the order of looking); first and last are as they are. Of numbers as written (VALUE_NUMBER) they are floats. Of text: only
 * count and when first and last are. */
struct column_summary {
    uint32_t count; /* rows with a value, NaN too */
    uint32_t nans;
    struct value min, max, first, last; /* of the column's type; VALUE_NONE: there is none */
    double sum;
    int64_t first_ns, last_ns; /* when first and last are */
};

/* Of c within rows [from, to) of r. Cost: one pass over 8 bytes a row, vectorised where all are present. */
void column_summarise(const struct rows *r, const struct column *c, uint32_t from, uint32_t to,
                      struct column_summary *out);
/* Adds what is later or earlier: min, max, count, sum; first and last by their times. */
void column_summary_merge(struct column_summary *to, const struct column_summary *from);
/* Its values as floats, so that it can be merged with that of a column of floats. */
void column_summary_to_float(struct column_summary *s);

#endif
