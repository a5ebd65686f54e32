/* SPDX-License-Identifier: Apache-2.0 */
/* query_rows.h - rows of a result as bytes, in one of the formats of event/query.h. Pure: no I/O.
 *
 *     JSON      {"columns":["host","n"],"rows":[["a",1],["b",null]],"rows_count":2,"lost":0}; what went wrong
 *               behind the first page: a member "error"; notices, if any: a member "notices"
 *     NDJSON    {"host":"a","n":1} a row; the last line is {"end":{"status":"done","rows":2,"lost":0}}, with
 *               "notices", if any. A name that comes again has the number of its column behind it: NAME_3
 *     CSV       RFC 4180, the names in its first line; it has no place for what went wrong
 *     BINARY    pieces of net/query.h
 *
 * In JSON and CSV bytes are base64, and text that is not UTF-8 is bytes; NaN and Inf are text in JSON. */
#ifndef GRIDLINE_ARCHIVE_QUERY_ROWS_H
#define GRIDLINE_ARCHIVE_QUERY_ROWS_H

#include "archive/sql.h"
#include "base/strbuf.h"
#include "event/query.h"
#include "event/value.h"

/* Embedded; zeroed before the first use. */
struct query_rows {
    enum query_format format;
    size_t n_columns;
    struct strbuf out; /* what waits to be given: whole rows */
    uint64_t rows;
    struct strbuf names;  /* NDJSON: `"host":`, one behind the other, */
    uint32_t *ends;       /* each up to here */
    struct value *values; /* room for a row */
    uint64_t given;       /* pages that were taken out */
};

/* Begins a result: the head is in out. -ENOMEM; E_LIMIT: too many columns. */
int query_rows_begin(struct query_rows *w, enum query_format format, const struct slice *names, size_t n);
void query_rows_fini(struct query_rows *w); /* of a zeroed one, too */
/* Adds a row of n_columns values. E_LIMIT: it is larger than RESULT_ROW_MAX; nothing was added. -ENOMEM. */
int query_rows_add(struct query_rows *w, const struct value *values, struct diag *why);
/* The row that the statement is at. */
int query_rows_add_step(struct query_rows *w, const struct sql_statement *s, struct diag *why);
/* A page is full: who gives pages takes it now. */
static inline bool query_rows_is_full(const struct query_rows *w)
{
    return w->out.n >= QUERY_PAGE;
}
/* Moves what is in out to *page, which is empty; the next page begins. */
void query_rows_take(struct query_rows *w, struct strbuf *page);
/* The result ends: as struct query_end has it. */
void query_rows_end(struct query_rows *w, int r, const struct diag *why, uint64_t lost,
                    const struct notices *notices);

/* One value as JSON. */
void query_rows_put_json(struct strbuf *out, struct value v);

#endif
