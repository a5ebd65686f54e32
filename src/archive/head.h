/* SPDX-License-Identifier: Apache-2.0 */
/* head.h - the newest rows of one stream, in memory, until they are sealed.
 *
 * Rows are kept as rows: a row is written in one place, and the next of this stream comes when all others
 * have had one, so an array a column would cost a cache miss a value. They become columns when they are read
 * or sealed (head_rows). What is in a buffer never changes again: readers on other threads hold a reference
 * and a number of rows and look at these without a lock. When it is full, or a row needs a column or more
 * text than there is room for, a larger buffer takes its place and the old one stays with those who hold it.
 *
 * The writer's thread; head_buffer_unref and head_rows on any. Whoever shares heads between threads changes
 * head.buffer under its lock: by head_reserve, which says what it is about to do.
 *
 * Cost of a row: 24 bytes and 8 a column, and a copy of everything now and then (twice as large each time).
 */
#ifndef GRIDLINE_ARCHIVE_HEAD_H
#define GRIDLINE_ARCHIVE_HEAD_H

#include "archive/rows.h"
#include "base/arena.h"

#include <stdatomic.h>

enum { HEAD_ORIGINS_MAX = 65535 };

struct head_column {
    uint16_t id;
    uint8_t type;
    char *bytes; /* text of all rows, one after the other; NULL for numbers */
    uint32_t bytes_max;
};

/* A row: this, then for each column 8 bytes: the number, or where its text ends. */
struct head_cells {
    int64_t time_ns;
    uint64_t seq;
    uint16_t origin;
    uint8_t level;
    uint64_t cells[]; /* bits of the columns that have a value, a word for 64; then the values */
};

struct head_buffer {
    _Atomic uint32_t refs;
    uint32_t rows_max, origins_max, n_columns;
    uint32_t mask_words, row_bytes;
    bool has_text;
    char *rows; /* rows_max of row_bytes */
    struct row_origin *origins;
    struct head_column columns[]; /* by id */
};

static inline struct head_cells *head_row_at(const struct head_buffer *b, uint32_t row)
{
    return (struct head_cells *)(void *)(b->rows + (size_t)row * b->row_bytes);
}

struct head_buffer *head_buffer_ref(struct head_buffer *b);
void head_buffer_unref(struct head_buffer *b); /* NULL is fine */

struct head {
    struct head_buffer *buffer; /* NULL: no row yet */
    uint32_t n, n_origins;
    uint32_t rows_first; /* so many came the last time: the first buffer has room for them. 0 = not known */
    size_t used_bytes;   /* of the buffer; what has room only is not in memory yet */
    bool is_unsorted;    /* some row is older than the one before it */
    /* How the fields of the schema that came last go into columns: */
    const struct schema *schema; /* owned reference */
    uint16_t *places;            /* of its fields; UINT16_MAX: a key, or there is no column for it */
    bool is_complete;            /* the buffer has all columns that it needs */
};

void head_fini(struct head *h);

/* A row to append. ids: the column of each field of the event's schema (catalog_learn). with_keys: key values
 * are kept as columns, too (an overflow stream, whose key does not say them). */
struct head_row {
    const struct event *event;
    const uint16_t *ids;
    const struct batch_origin *origin;
    uint64_t seq;
    bool with_keys;
};
/* Makes room for one more row like this: 0; 1: *out is the buffer that has to take head.buffer's place first
 * (head_replace), under the owner's lock. E_LIMIT: the head can take no more origins before it is sealed. */
int head_reserve(struct head *h, const struct head_row *row, struct head_buffer **out);
/* Gives the head that buffer; returns the one it had. */
struct head_buffer *head_replace(struct head *h, struct head_buffer *b);
/* After head_reserve. */
void head_append(struct head *h, const struct head_row *row);

/* Takes the rows of [from, to) out: the buffer that is to take head.buffer's place, NULL when none is left.
 * *out: what the head is then (h itself stays as it is until the owner, under its lock, makes it that). */
void head_without(const struct head *h, int64_t from_ns, int64_t to_ns, struct head *out);

/* The first n rows of b, as rows in order of time; what is not in b is in arena. want: only these columns
 * (ids ascending); NULL = all. Columns without a value are left out. -ENOMEM. */
int head_rows(const struct head_buffer *b, uint32_t n, uint32_t n_origins, bool is_unsorted,
              const uint16_t *want, size_t n_want, struct arena *arena, struct rows *out);

#endif
