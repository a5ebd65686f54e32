/* SPDX-License-Identifier: Apache-2.0 */
/* query.h - the query threads: event/query.h over an archive.
 *
 * A query waits until it may run, is given the system tables that it names (event/table.h), and runs on a
 * thread with a reader and an engine of its own. At most `running` run at a time. One whose reader is slow
 * stops QUERY_AHEAD pages ahead of it and lets another run; it keeps its thread, of which there are `open` at
 * most, until its time is up. At most `waiting` wait; those beyond are refused.
 *
 * Everything here is called on the loop, which also calls queries_ops()->turn when its fd is readable. */
#ifndef GRIDLINE_ARCHIVE_QUERY_H
#define GRIDLINE_ARCHIVE_QUERY_H

#include "archive/sql.h"
#include "event/query.h"
#include "event/table.h"

enum {
    QUERY_RUNNING = 2, /* defaults */
    QUERY_OPEN = 16,
    QUERY_WAITING = 64,
    QUERY_AHEAD = 4,         /* pages that may wait for their reader */
    QUERY_PROGRESS_MS = 500, /* how often askers are told */
    QUERY_TABLES = 32        /* system tables of one text */
};

/* A tile (event/query.h: QUERY_TILE), on a query's thread: appends all of it to out. */
struct query_tile {
    struct slice text;
    enum query_format format;
    const struct sql_access *access;
    const _Atomic bool *is_cancelled;
    int64_t until_ns; /* monotonic */
};
typedef int query_tile_fn(void *arg, struct view_reader *r, const struct query_tile *t, struct strbuf *out,
                          struct diag *why);

/* 0: the default. */
struct queries_options {
    struct archive *archive; /* in this process; NULL: that in dir. Borrowed, as dir is */
    const char *dir;
    unsigned running, open, waiting;
    size_t cache_bytes;  /* of a thread's reader; 8 MiB */
    int64_t time_ns;     /* of a query that asks for none; 30 s */
    int64_t time_max_ns; /* 10 minutes */
    size_t memory_bytes; /* of a query in SQLite; sql.h's */
    size_t tables_bytes; /* of its system tables; 64 MiB */
    query_tile_fn *tile; /* NULL: there are none */
    void *tile_arg;
    /* Called on a query's thread before it takes its view: waits for what the archive has not seen yet. NULL
     * = not. */
    void (*catch_up)(void *arg);
    void *catch_up_arg;
};

struct queries_counts {
    uint64_t asked, refused; /* refused: too many */
    uint64_t done, failed, timed_out, cancelled;
    uint64_t rows, bytes; /* given */
    size_t waiting, open; /* now */
};

struct queries;
int queries_create(const struct queries_options *o, struct queries **out, struct diag *why);
void queries_destroy(
    struct queries *all); /* NULL is fine; after its queries were closed. Waits for threads */
/* System tables, which a text may name from now on; borrowed for life. Those mounted first win. -ENOMEM. */
int queries_mount(struct queries *all, const struct table_ops *tables, size_t n);
const struct query_ops *queries_ops(struct queries *all); /* for life */
void queries_counts(const struct queries *all, struct queries_counts *out);

#endif
