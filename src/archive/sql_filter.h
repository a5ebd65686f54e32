/* SPDX-License-Identifier: Apache-2.0 */
/* sql_filter.h - what a query asks of a table's rows, as far as a table can use it: which streams, chunks and
 * rows can't be of interest. What passes is tested again by SQLite, which has the last word: a filter may let
 * too much through, never too little. */
#ifndef GRIDLINE_ARCHIVE_SQL_FILTER_H
#define GRIDLINE_ARCHIVE_SQL_FILTER_H

#include "archive/sql_internal.h"

/* Every test also fails for what is missing (NULL). */
struct sql_test {
    enum { TEST_HAS, TEST_RANGE, TEST_TEXTS } kind;
    int column;          /* of the SQL table */
    int64_t least, most; /* TEST_RANGE: within both, ends included */
    double low, high;
    struct slice *texts; /* TEST_TEXTS: one of them */
    size_t n_texts;
};

struct sql_filter {
    struct sql_context *context;
    const struct sql_shape *shape;
    struct sql_test *tests;
    size_t n;
    bool is_never;          /* no row can pass */
    int64_t from_ns, to_ns; /* what the tests of time say */
    bool is_used_known;
    bool *used;         /* a column each: it is read */
    struct arena arena; /* of tests */
};

/* xBestIndex: which constraints are of use, and what the scan will cost, by guess. */
int sql_filter_plan(struct sql_context *c, const struct sql_shape *s, sqlite3_index_info *info);
/* xOpen: borrows all. 0 or -ENOMEM. */
int sql_filter_init(struct sql_filter *f, struct sql_context *c, const struct sql_shape *s);
/* xFilter: what sql_filter_plan wrote, with the values. 0 or -ENOMEM. */
int sql_filter_set(struct sql_filter *f, const char *plan, int argc, sqlite3_value **argv);
void sql_filter_fini(struct sql_filter *f); /* a zeroed one is fine */
/* Leaves out what is not of streams: tests of time and rows. */
void sql_filter_forget_rows(struct sql_filter *f);

/* Could the stream have rows that pass, and may it be seen? As far as its key tells. */
bool sql_filter_stream(const struct sql_filter *f, const struct stream_key_parts *parts);
/* Could the chunk, as far as its summaries tell? Of a stream that passed. */
bool sql_filter_chunk(const struct sql_filter *f, const struct blob_chunk *chunk);
/* Is every row of the chunk known to pass this test, so that none need be looked at? */
bool sql_test_is_sure(const struct sql_test *t, const struct column_summary *s, uint32_t n_rows);
/* keep[i] becomes false where row i of the column does not pass. */
void sql_test_rows(const struct sql_test *t, const struct column *c, uint32_t n_rows, bool *keep);
bool sql_test_text(const struct sql_test *t, struct slice text);

/* Its place among chunk->ids, or -1. */
int sql_chunk_column(const struct blob_chunk *chunk, uint16_t id);
/* The field's value in the stream's key, as its column has it; VALUE_NONE: it is not there. Borrows fields, or buf. */
struct value sql_key_value(struct slice fields, const struct sql_field *f, char buf[VALUE_SPELLING_MAX]);

#endif
