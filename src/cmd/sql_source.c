/* SPDX-License-Identifier: Apache-2.0 */
/* An archive's folder is read as the gateway reads its own, by query threads, whose pieces are those of the
 * wire: so both sources give the same rows, progress and limits. */
#include "cmd/sql_source.h"

#include "archive/query.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cmd/say.h"
#include "cmd/stop.h"
#include "net/ask_query.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <unistd.h>

enum { STEP_MS = 250, PROGRESS_AFTER_MS = 1000, GATEWAY_TABLES = 16 };
static const int64_t ns_per_ms = 1000000;

struct sql_source {
    struct sql_source_options options;
    int64_t asked_ns;
    uint64_t rows_seen;
    /* Of a gateway: */
    struct ask_query *remote; /* NULL: none runs */
    /* Of a folder: */
    struct query_asker asker;
    struct queries *queries;
    struct query *local; /* NULL: none runs */
    struct table_ops tables[GATEWAY_TABLES];
    struct strbuf piece; /* what came last */
    struct slice rest;   /* rows of it */
    char *names;
    struct slice *columns;
    struct value *row;
    uint32_t n_columns;
    bool has_piece, is_over;
    int result;
    struct diag why;
    uint64_t lost;
    struct notices notices;
};

static void show_progress(const struct sql_source *s)
{
    int64_t ms = (clock_mono_ns() - s->asked_ns) / ns_per_ms;
    if (ms >= PROGRESS_AFTER_MS)
        say_status("%" PRId64 " s, %" PRIu64 " rows looked at; Ctrl-C cancels", ms / 1000, s->rows_seen);
}

/* ---------------------------------------------------------------- a gateway */

static bool on_wait(void *arg)
{
    show_progress(arg);
    return stop_asked();
}

static void on_remote_progress(void *arg, uint64_t rows_seen, uint64_t elapsed_ms)
{
    struct sql_source *s = arg;
    (void)elapsed_ms; /* counted here, too */
    s->rows_seen = rows_seen;
}

static int ask_remote(struct sql_source *s, struct slice text, struct diag *why)
{
    const struct sql_source_options *o = &s->options;
    const struct ask_options ask = {.gateway = o->gateway,
                                    .identity = o->identity,
                                    .prog = "gridline-sql",
                                    .timeout_ns = o->timeout_ns,
                                    .on_wait = on_wait,
                                    .arg = s};
    const struct ask_query_options query = {.text = text,
                                            .time_ms = (uint64_t)((o->time_ns + ns_per_ms - 1) / ns_per_ms),
                                            .rows = o->rows,
                                            .progress = on_remote_progress,
                                            .arg = s};
    int r = ask_query_open(&ask, &query, &s->remote, why);
    return r == -ENOENT ? -ENOTCONN : r; /* a socket that is not there; nothing that was asked for */
}

static int next_remote(struct sql_source *s, struct diag *why)
{
    int r = ask_query_next(s->remote, INT64_MAX, why);
    return r == -EINTR ? -ECANCELED : r;
}

/* ---------------------------------------------------------------- a folder */

static void keep_columns(struct sql_source *s, const struct result_piece *p)
{
    struct slice rest = p->names, name;
    s->names = mem_alloc(p->names.n + 1);
    s->columns = mem_alloc(p->n_columns * sizeof *s->columns);
    s->row = mem_alloc(p->n_columns * sizeof *s->row);
    char *at = s->names;
    while (result_next_name(&rest, &name)) {
        if (name.n)
            memcpy(at, name.p, name.n);
        s->columns[s->n_columns++] = slice_of(at, name.n);
        at += name.n;
    }
}

static void on_piece(struct query_asker *a, struct slice bytes)
{
    struct sql_source *s = (struct sql_source *)((char *)a - offsetof(struct sql_source, asker));
    struct result_piece p;
    strbuf_reset(&s->piece);
    strbuf_add_slice(&s->piece, bytes);
    s->result = strbuf_failed(&s->piece) ? -ENOMEM : result_read(strbuf_slice(&s->piece), s->n_columns, &p);
    if (s->result < 0)
        return;
    if (p.has_columns)
        keep_columns(s, &p);
    s->rest = p.rows;
    s->has_piece = true;
}

static void on_end(struct query_asker *a, const struct query_end *end)
{
    struct sql_source *s = (struct sql_source *)((char *)a - offsetof(struct sql_source, asker));
    s->is_over = true;
    s->result = end->r;
    s->why = *end->why;
    s->lost = end->lost;
    s->notices = *end->notices;
    if (end->r == -ENOTCONN)
        (void)diag_set(&s->why, end->r, 0,
                       "the text names a table of a gateway, and --archive asks none; --gateway does");
}

static void on_local_progress(struct query_asker *a, uint64_t rows_seen, int64_t elapsed_ns)
{
    struct sql_source *s = (struct sql_source *)((char *)a - offsetof(struct sql_source, asker));
    (void)elapsed_ns; /* counted here, too */
    s->rows_seen = rows_seen;
}

/* System tables are a gateway's. */
static int fill_none(void *arg, const void *who, const char *name, struct table_rows *out)
{
    (void)arg, (void)who, (void)name, (void)out;
    return -ENOTCONN;
}

static int open_folder(struct sql_source *s, struct diag *why)
{
    const struct queries_options o = {.dir = s->options.archive, .running = 1};
    size_t n = 0;
    if (access(s->options.archive, R_OK | X_OK) < 0) /* a reader makes no archive where there is none */
        return diag_set(why, -errno, 0, "%s: %s", s->options.archive, err_text(-errno));
    int r = queries_create(&o, &s->queries, why);
    for (; r == 0 && table_gateway_names[n] && n < GATEWAY_TABLES; n++)
        s->tables[n] = (struct table_ops){table_gateway_names[n], "", fill_none, NULL};
    if (r == 0)
        r = queries_mount(s->queries, s->tables, n);
    return r < 0 && !why->message[0] ? diag_set(why, r, 0, "%s", err_text(r)) : r;
}

static int ask_local(struct sql_source *s, struct slice text, struct diag *why)
{
    const struct query_ops *ops = queries_ops(s->queries);
    const struct query_text query = {
        .text = text, .format = QUERY_BINARY, .time_ns = s->options.time_ns, .rows = s->options.rows};
    int r = 0;
    s->asker = (struct query_asker){.piece = on_piece, .end = on_end, .progress = on_local_progress};
    s->is_over = s->has_piece = false;
    s->result = 0;
    s->local = ops->ask(ops->arg, &s->asker, &query, &r, why);
    return r;
}

static int next_local(struct sql_source *s, struct diag *why)
{
    const struct query_ops *ops = queries_ops(s->queries);
    while (!result_next_row(&s->rest, s->n_columns, s->row)) {
        if (s->result < 0)
            return diag_set(why, s->result, s->why.col, "%s",
                            s->why.message[0] ? s->why.message : err_text(s->result));
        if (s->is_over)
            return 0;
        if (s->has_piece)
            ops->more(s->local);
        s->has_piece = false;
        show_progress(s);
        struct pollfd p = {.fd = ops->fd(ops->arg), .events = POLLIN};
        (void)poll(&p, 1, STEP_MS); /* interrupted or in vain: it is looked again */
        if (stop_asked())
            return -ECANCELED;
        ops->turn(ops->arg);
    }
    return 1;
}

/* ---------------------------------------------------------------- */

static void end_query(struct sql_source *s)
{
    say_progress_end();
    ask_query_close(s->remote);
    s->remote = NULL;
    if (s->local)
        queries_ops(s->queries)->close(s->local);
    s->local = NULL;
    mem_free(s->names);
    mem_free(s->columns);
    mem_free(s->row);
    s->names = NULL;
    s->columns = NULL;
    s->row = NULL;
    s->n_columns = 0;
    s->rest = slice_of("", 0);
    s->why = (struct diag){0};
    s->lost = s->rows_seen = 0;
    s->notices = (struct notices){0};
}

int sql_source_open(const struct sql_source_options *o, struct sql_source **out, struct diag *why)
{
    struct sql_source *s = mem_alloc(sizeof *s);
    s->options = *o;
    s->rest = slice_of("", 0);
    int r = o->archive ? open_folder(s, why) : 0;
    if (r < 0) {
        sql_source_close(s);
        return r;
    }
    *out = s;
    return 0;
}

void sql_source_close(struct sql_source *s)
{
    if (!s)
        return;
    end_query(s);
    queries_destroy(s->queries);
    strbuf_fini(&s->piece);
    mem_free(s);
}

int sql_source_ask(struct sql_source *s, struct slice text, struct diag *why)
{
    end_query(s);
    s->asked_ns = clock_mono_ns();
    int r = s->queries ? ask_local(s, text, why) : ask_remote(s, text, why);
    return r == -EINTR ? -ECANCELED : r;
}

int sql_source_next(struct sql_source *s, struct diag *why)
{
    int r = s->queries ? next_local(s, why) : next_remote(s, why);
    say_progress_end();
    return r;
}

size_t sql_source_columns(const struct sql_source *s)
{
    return s->remote ? ask_query_columns(s->remote) : s->n_columns;
}

struct slice sql_source_column(const struct sql_source *s, size_t i)
{
    return s->remote ? ask_query_column(s->remote, i) : s->columns[i];
}

const struct value *sql_source_row(const struct sql_source *s)
{
    return s->remote ? ask_query_row(s->remote) : s->row;
}

void sql_source_end(const struct sql_source *s, uint64_t *lost, struct notices *notices)
{
    struct ask_query_end end = {.lost = s->lost, .notices = s->notices};
    if (s->remote)
        (void)ask_query_end(s->remote, &end); /* not yet: none */
    *lost = end.lost;
    *notices = end.notices;
}
