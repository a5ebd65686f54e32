/* SPDX-License-Identifier: Apache-2.0 */
/* judge.h - runs the queries of rules over live tables (live.h), in a SQLite of the guard's own: in memory,
 * nothing to write, no files, no extensions.
 *
 * Tables: NAME_latest for each event name that was heard, with columns time, host, prog, level, the fields,
 * and hidden `heard` (when, ns) and `domain` (of the host's name what follows the first dot; NULL for a name
 * without one and for an address); and what was mounted (host_health, faults, rules). A field that is called
 * like time, host, prog or level gets a $ before its name; where one is called heard or domain it is the
 * hidden column that gets it. Integers above INT64_MAX are text with 20 digits, NaN is NULL. A
 * NAME_latest that nobody has sent yet is an empty table: a rule may be written before its sensor runs.
 * Columns that are not known yet are looked for again when they come; until then the rule says so (E_NODATA)
 * and has no data.
 *
 * A judge sees only rows that were heard at or after `since_ns` of the run, so a rule never takes old values
 * for new ones. `column op constant` (=, <>, <, <=, >, >=, IS NULL, IS NOT NULL, IN) goes down into the
 * columns, equality of host into the index; ORDER BY and GROUP BY host are free.
 *
 * Functions: now() (ns, the run's), age(time) in seconds, and SQLite's own but those that reach outside.
 * One thread, that of live. */
#ifndef GRIDLINE_GUARD_JUDGE_H
#define GRIDLINE_GUARD_JUDGE_H

#include "base/err.h"
#include "event/value.h"
#include "guard/live.h"

/* A table of the guard's own: rows made when a query begins. */
struct judge_table {
    const char *name;
    const char *const *columns; /* ends with NULL */
    /* Gives each row to put, with as many values as there are columns; borrowed for the call. */
    int (*fill)(void *arg, int (*put)(void *to, const struct value *row), void *to);
    void *arg;
};

struct judge;
/* live, tables (and what they point at) are borrowed. Also bounds what SQLite takes in this process to 256
 * MiB.
 */
int judge_create(struct live *live, const struct judge_table *tables, size_t n, struct judge **out);
void judge_destroy(struct judge *j); /* NULL is fine; queries that are left can only be destroyed */

struct query;
/* Looks at the text; it is compiled here, and again whenever a table it names has got columns. E_PROTO,
 * -EACCES (it writes, or attaches, or calls what it may not): *why with line and column. E_NODATA is no
 * failure: it can't be compiled yet for want of a column, *out is made all the same. -EXDEV: it names tables
 * that only a gateway has (archive, summary, forecast, sensors, workers, ...), *why has the first: it is to
 * be asked there (remote.h). */
int query_create(struct judge *j, struct slice text, struct query **out, struct diag *why);
void query_destroy(struct query *q); /* NULL is fine */
/* The i-th live table that it reads (the event's name in SQL, "cpu"); false after the last. */
bool query_table(const struct query *q, size_t i, struct slice *name);

struct query_run {
    int64_t now_ns;   /* now() */
    int64_t since_ns; /* rows heard before do not exist */
    int64_t time_ns;  /* at most so long; 0 = 1 s */
    size_t rows_max;  /* 0 = 1,000,000; more is E_LIMIT, after those were given */
    /* Each row: n values by the columns' names; borrowed for the call, in which live must not change.
     * Negative ends the run and is returned. */
    int (*row)(void *arg, const struct slice *names, const struct value *values, size_t n);
    void *arg;
};
/* 0: whole; E_NODATA: a column is not there yet, and nothing was run; or a table, and then the rows were
 * given that there are with that table empty; -ETIMEDOUT, E_LIMIT, E_PROTO, -ENOMEM: *why (NULL is fine). */
int query_run(struct query *q, const struct query_run *run, struct diag *why);

#endif
