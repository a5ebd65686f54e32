/* SPDX-License-Identifier: Apache-2.0 */
/* sql.h - SQL over a view (view.h): SQLite with our tables, read-only and bounded.
 *
 * Tables: every event name (columns: time, host, prog, level, the fields; hidden: producer, epoch, seq,
 * clock_offset, clock_bound, nan), NAME_latest, NAME_bucket(from, to, step), NAME_forecast(field, horizon),
 * samples_bucket(from, to, step), rebuild(...), tables, baselines, partitions, and what was mounted
 * (event/table.h). Names: characters outside of [a-z0-9_] become _; the exact name works quoted. docs/sql.md
 * has all of it.
 *
 * An engine belongs to one thread; a statement is prepared and stepped on it, one at a time, as its reader
 * has one view at a time. Cost of taking one up: a view and the tables that the text names, some tens of
 * microseconds. */
#ifndef GRIDLINE_ARCHIVE_SQL_H
#define GRIDLINE_ARCHIVE_SQL_H

#include "archive/view.h"
#include "event/notice.h"
#include "event/table.h"

struct sql_limits {
    int64_t time_ns; /* 0 = the default, 30 s */
    uint64_t rows;   /* of the result; 0 = 1,000,000 */
    size_t bytes;    /* of memory that SQLite takes; 0 = 256 MiB */
};

/* What an asker may see. NULL functions: everything. Called on the query's thread; must be thread-safe. */
struct sql_access {
    bool (*may_table)(void *arg, struct slice event);
    bool (*may_stream)(void *arg, struct slice event, struct slice host);
    bool (*may_field)(void *arg, struct slice event, struct slice host, struct slice field);
    void *arg;
};

struct sql_value { /* of a result */
    enum { SQL_NULL, SQL_INT, SQL_FLOAT, SQL_TEXT, SQL_BYTES } kind;
    union {
        int64_t i;
        double f;
    };
    struct slice text; /* SQL_TEXT, SQL_BYTES; good until the next step */
};

struct sql_engine;
/* Borrows r, which no other engine uses. -EBUSY: SQLite was in use before it could be told to ask us for
 * memory (sql_memory.c). */
int sql_engine_create(struct view_reader *r, struct sql_engine **out);
void sql_engine_destroy(struct sql_engine *e); /* NULL is fine */

struct sql_query {
    struct slice text;                /* one statement */
    const struct sql_limits *limits;  /* NULL = the defaults */
    const struct sql_access *access;  /* NULL = everything */
    const struct table_rows *mounted; /* system tables that the text may name, filled (event/table.h) */
    size_t n_mounted;
    int64_t now_ns; /* what `now` is, UTC; 0 = the clock's */
    /* Rows after now_ns do not exist: what would have been said then. Tables that can't tell (NAME_latest,
     * rebuild, deviations, event_blocks) are refused; of a time of which only tiers are left, the step that
     * now is in counts whole. */
    bool is_past;
    const _Atomic bool *is_cancelled; /* NULL = never */
    _Atomic uint64_t *progress;       /* rows looked at so far; NULL = nobody asks */
};

struct sql_statement;
/* E_PROTO: *why has what is wrong with the text and where (column); -EACCES: it writes, or calls what it may
 * not. The text is copied; access, mounted and the rest are borrowed until sql_finish. -EBUSY: another is
 * open. */
int sql_prepare(struct sql_engine *e, const struct sql_query *q, struct sql_statement **out,
                struct diag *why);
void sql_finish(struct sql_statement *s); /* NULL is fine */
size_t sql_columns(const struct sql_statement *s);
const char *sql_column_name(const struct sql_statement *s, size_t i);
/* 1: a row; 0: the end; -ETIMEDOUT, E_LIMIT (rows, memory), -ECANCELED, E_PROTO...: *why. */
int sql_step(struct sql_statement *s, struct diag *why);
struct sql_value sql_value(const struct sql_statement *s, size_t i);
/* What was lost to damage on the way: said beside the result. */
struct scan_loss sql_damaged(const struct sql_statement *s);
/* Facts beside the rows so far; borrowed until sql_finish. Tables add to sql_context.notices. */
const struct notices *sql_notices(const struct sql_statement *s);

/* The names of mounted tables that the text could mean, before it is prepared: fn for each identifier. */
void sql_identifiers(struct slice text, void (*fn)(void *arg, struct slice name), void *arg);
/* The table name of an event name: "job.state" -> job_state. */
void sql_table_name(struct strbuf *out, struct slice event);

#endif
