/* SPDX-License-Identifier: Apache-2.0 */
#include "net/ask_query.h"

#include "base/clock.h"
#include "base/mem.h"
#include "event/query.h"

#include <errno.h>

enum { QUERY_ID = 1 }; /* the connection has no other */

struct ask_query {
    struct ask *ask;
    struct ask_query_options options;
    char *names; /* of the columns, owned */
    struct slice *columns;
    struct value *row;
    uint32_t n_columns;
    struct slice rest; /* rows of the last frame that were not given yet; in the connection's buffer */
    struct ask_query_end end;
    bool has_ended, is_cancelled;
};

/* ---------------------------------------------------------------- frames */

static int keep_columns(struct ask_query *q, const struct result_piece *p)
{
    struct slice rest = p->names, name;
    q->names = mem_try_alloc(p->names.n + 1);
    q->columns = mem_try_alloc(p->n_columns * sizeof *q->columns);
    q->row = mem_try_alloc(p->n_columns * sizeof *q->row);
    if (!q->names || !q->columns || !q->row)
        return -ENOMEM;
    char *at = q->names;
    while (result_next_name(&rest, &name)) {
        if (name.n)
            memcpy(at, name.p, name.n);
        q->columns[q->n_columns++] = slice_of(at, name.n);
        at += name.n;
    }
    return 0;
}

static int on_rows(struct ask_query *q, struct slice payload)
{
    struct frame_rows f;
    struct result_piece p;
    if (frame_get_rows(payload, &f) < 0)
        return E_PROTO;
    if (f.id != QUERY_ID)
        return 0;
    int r = result_read(f.piece, q->n_columns, &p);
    if (r == 0 && p.has_columns)
        r = keep_columns(q, &p);
    if (r == 0)
        q->rest = p.rows;
    return r;
}

static int error_of(uint16_t status)
{
    switch (status) {
    case CONTROL_DONE:
        return 0;
    case CONTROL_USAGE:
        return E_PROTO;
    case CONTROL_NOT_FOUND:
        return -ENOENT;
    case CONTROL_NOT_ALLOWED:
        return -EACCES;
    default:
        return -EREMOTEIO;
    }
}

static int on_end(struct ask_query *q, struct slice payload, struct diag *why)
{
    struct frame_query_end f;
    if (frame_get_query_end(payload, &f) < 0)
        return E_PROTO;
    if (f.id != QUERY_ID)
        return 0;
    q->end = (struct ask_query_end){f.status, f.column, f.rows, f.lost, f.notices};
    q->has_ended = true;
    int r = error_of(f.status);
    if (r == 0)
        return 0;
    r = q->is_cancelled ? -ECANCELED : r;
    return diag_set(why, r, f.column, "%.*s", (int)(f.text.n < 190 ? f.text.n : 190), f.text.p);
}

static int on_progress(const struct ask_query *q, struct slice payload)
{
    struct frame_query_progress p;
    if (frame_get_query_progress(payload, &p) < 0)
        return E_PROTO;
    if (p.id == QUERY_ID && q->options.progress)
        q->options.progress(q->options.arg, p.rows_seen, p.elapsed_ms);
    return 0;
}

/* Others are not for a query. */
static int take_frame(struct ask_query *q, const struct frame *f, struct diag *why)
{
    int r = 0;
    if (f->type == FRAME_ROWS)
        r = on_rows(q, f->payload);
    else if (f->type == FRAME_QUERY_END)
        r = on_end(q, f->payload, why);
    else if (f->type == FRAME_QUERY_PROGRESS)
        r = on_progress(q, f->payload);
    if (r < 0 && !why->message[0])
        (void)diag_set(why, r, 0, "%.120s: %s", ask_address(q->ask), err_text(r));
    return r;
}

int ask_query_next(struct ask_query *q, int64_t timeout_ns, struct diag *why)
{
    int64_t now = clock_mono_ns(), until_ns = timeout_ns < INT64_MAX - now ? now + timeout_ns : INT64_MAX;
    struct frame f;
    why->message[0] = '\0';
    while (!result_next_row(&q->rest, q->n_columns, q->row)) {
        if (q->has_ended)
            return 0;
        int r = ask_frame(q->ask, until_ns, &f, why);
        if (r == 0)
            r = take_frame(q, &f, why);
        if (r < 0)
            return r;
    }
    return 1;
}

void ask_query_cancel(struct ask_query *q)
{
    if (!q->has_ended && !q->is_cancelled)
        frame_put_query_cancel(ask_out(q->ask), QUERY_ID);
    q->is_cancelled = true;
}

/* ---------------------------------------------------------------- */

static void put_query(struct ask_query *q)
{
    struct args_writer options = {0};
    if (q->options.time_ms)
        args_add_uint(&options, "time_ms", q->options.time_ms);
    if (q->options.rows)
        args_add_uint(&options, "rows", q->options.rows);
    struct strbuf *out = ask_out(q->ask);
    frame_put_query(out, &(struct frame_query){QUERY_ID, q->options.text, args_of(&options)});
    out->failed = out->failed || strbuf_failed(&options.list);
    args_writer_fini(&options);
}

int ask_query_open(const struct ask_options *o, const struct ask_query_options *query, struct ask_query **out,
                   struct diag *why)
{
    if (query->text.n > QUERY_TEXT_MAX)
        return diag_set(why, E_LIMIT, 0, "a query has %d KiB at most", QUERY_TEXT_MAX >> 10);
    struct ask_query *q = mem_try_alloc(sizeof *q);
    if (!q)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    q->options = *query;
    q->rest = slice_of("", 0);
    int r = ask_open(o, &q->ask, why);
    if (r < 0) {
        ask_query_close(q);
        return r;
    }
    put_query(q);
    q->options.text = slice_of("", 0); /* it was copied */
    *out = q;
    return 0;
}

void ask_query_close(struct ask_query *q)
{
    if (!q)
        return;
    ask_close(q->ask);
    mem_free(q->names);
    mem_free(q->columns);
    mem_free(q->row);
    mem_free(q);
}

size_t ask_query_columns(const struct ask_query *q)
{
    return q->n_columns;
}

struct slice ask_query_column(const struct ask_query *q, size_t i)
{
    return q->columns[i];
}

const struct value *ask_query_row(const struct ask_query *q)
{
    return q->row;
}

bool ask_query_end(const struct ask_query *q, struct ask_query_end *out)
{
    *out = q->end;
    return q->has_ended;
}
