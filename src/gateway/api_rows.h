/* SPDX-License-Identifier: Apache-2.0 */
/* api_rows.h - rows of named values (net/args.h), and events, as JSON and CSV. Pure functions.
 *
 * JSON: text and bool as they are; bytes in base64; NaN, Inf and -Inf as text, for want of numbers. */
#ifndef GRIDLINE_GATEWAY_API_ROWS_H
#define GRIDLINE_GATEWAY_API_ROWS_H

#include "event/event.h"
#include "net/args.h"

void rows_put_value(struct strbuf *out, struct value v);
/* {"name":value,...}; of a name that comes twice the last. text, for a person, is member `text` if not "" and
 * the row has none. */
void rows_put_row(struct strbuf *out, struct args row, struct slice text);
/* The members of the same, by commas: without braces. How many. */
size_t rows_put_members(struct strbuf *out, struct args row);
/* An event as it is in NDJSON, without the line's end. -ENOMEM. */
int rows_put_event(struct strbuf *out, const struct event *e);
/* An event as a row: time (ISO 8601), host, prog, level, name and its fields; a field named like one of the
 * five has a `$` in front. */
void rows_of_event(struct args_writer *out, const struct event *e);

/* Rows kept until their columns are known, then written as CSV (RFC 4180): the union of their names, in the
 * order in which they came. Missing is empty, empty text is "". */
enum { ROWS_COLUMNS_MAX = 1024 };
struct rows_table {
    struct strbuf names;             /* of the columns, */
    uint32_t ends[ROWS_COLUMNS_MAX]; /* each up to here */
    size_t n_columns;
    struct strbuf rows; /* lists, one behind the other */
    size_t n;
    bool has_left_out; /* columns, for being too many */
};
void rows_table_add(struct rows_table *t, struct args row, struct slice text);
void rows_table_put(const struct rows_table *t, struct strbuf *out);
void rows_table_fini(struct rows_table *t);

#endif
