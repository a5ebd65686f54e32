/* SPDX-License-Identifier: Apache-2.0 */
/* SQL: net/ask_query, which the command uses, too. Names and text are slices in there and C strings out here:
 * copied when they are looked at, names for good, text into an arena that the next row empties. */
#include "consumer/internal.h"

#include "base/mem.h"
#include "net/ask_query.h"

#include <errno.h>

enum { CONNECT_MS = 10000 };
static const int64_t ns_per_ms = 1000000;

struct gridline_query {
    struct ask_query *query;
    struct arena names;       /* of columns */
    const char **columns;     /* there; NULL until they are known */
    struct arena words;       /* of the row */
    struct ask_query_end end; /* once a notice was asked for: texts are lent from here */
    struct diag why;
};

static const char *word(struct arena *arena, struct slice s)
{
    char *to = arena_alloc(arena, s.n + 1);
    if (!to)
        return NULL;
    if (s.n)
        memcpy(to, s.p, s.n);
    to[s.n] = '\0';
    return to;
}

static int open_query(struct gridline_consumer *c, size_t gateway, const struct gridline_query_options *o,
                      struct gridline_query *q)
{
    if (gateway >= c->n_links)
        return diag_set(&c->why, -ENOENT, 0, "there is no gateway %zu", gateway);
    if (!o->sql)
        return diag_set(&c->why, -EINVAL, 0, "there is no statement");
    const struct ask_options ask = {.gateway = c->links[gateway].address,
                                    .identity = c->identity,
                                    .prog = c->prog,
                                    .timeout_ns =
                                        (o->connect_ms > 0 ? o->connect_ms : CONNECT_MS) * ns_per_ms};
    const struct ask_query_options query = {.text = slice_str(o->sql),
                                            .time_ms = o->time_ms,
                                            .rows = o->rows,
                                            .progress = o->progress,
                                            .arg = o->arg};
    return ask_query_open(&ask, &query, &q->query, &c->why);
}

gridline_query *gridline_query_open(gridline_consumer *c, size_t gateway,
                                    const struct gridline_query_options *given)
{
    struct gridline_query_options o = {0};
    memcpy(&o, given, given->size < sizeof o ? given->size : sizeof o);
    struct gridline_query *q = mem_try_alloc(sizeof *q);
    int r = q ? open_query(c, gateway, &o, q) : diag_set(&c->why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    if (r == 0)
        return q;
    gridline_query_close(q);
    errno = r < -4095 ? EPROTO : -r; /* our own codes are none of errno's */
    return NULL;
}

void gridline_query_close(gridline_query *q)
{
    if (!q)
        return;
    ask_query_close(q->query);
    arena_fini(&q->names);
    arena_fini(&q->words);
    mem_free(q);
}

static int keep_columns(struct gridline_query *q)
{
    size_t n = ask_query_columns(q->query);
    if (q->columns || n == 0)
        return 0;
    const char **columns = arena_alloc(&q->names, n * sizeof *columns);
    for (size_t i = 0; columns && i < n; i++) {
        columns[i] = word(&q->names, ask_query_column(q->query, i));
        if (!columns[i])
            return -ENOMEM;
    }
    q->columns = columns;
    return columns ? 0 : -ENOMEM;
}

int gridline_query_next(gridline_query *q, int timeout_ms)
{
    arena_reset(&q->words);
    int r = ask_query_next(q->query, timeout_ms < 0 ? INT64_MAX : timeout_ms * ns_per_ms, &q->why);
    if (r >= 0 && keep_columns(q) < 0)
        r = diag_set(&q->why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    return r < -4095 ? -EPROTO : r;
}

void gridline_query_cancel(gridline_query *q)
{
    ask_query_cancel(q->query);
}

size_t gridline_query_columns(const gridline_query *q)
{
    return q->columns ? ask_query_columns(q->query) : 0;
}

const char *gridline_query_column(const gridline_query *q, size_t i)
{
    return i < gridline_query_columns(q) ? q->columns[i] : NULL;
}

int gridline_query_value(gridline_query *q, size_t i, struct gridline_value *out)
{
    static const char letters[VALUE_TYPES + 1] = "\0iufbtx";
    if (i >= gridline_query_columns(q))
        return -ENOENT;
    struct value v = ask_query_row(q->query)[i];
    struct gridline_value g = {.name = q->columns[i], .type = letters[v.type]};
    if (value_is_text(v.type)) {
        g.v.p = word(&q->words, value_slice(v));
        g.n = v.n;
        if (!g.v.p)
            return -ENOMEM;
    } else {
        g.v.u = v.u;
    }
    *out = g;
    return v.type != VALUE_NONE;
}

int gridline_query_status(const gridline_query *q)
{
    struct ask_query_end end;
    if (!ask_query_end(q->query, &end))
        return -EINPROGRESS;
    return end.status <= GRIDLINE_STATUS_NOT_ALLOWED ? end.status : GRIDLINE_STATUS_FAILED;
}

const char *gridline_query_why(const gridline_query *q)
{
    return q->why.message;
}

uint64_t gridline_query_lost(const gridline_query *q)
{
    struct ask_query_end end;
    (void)ask_query_end(q->query, &end); /* not yet: 0 */
    return end.lost;
}

int gridline_query_notice(gridline_query *q, size_t i, const char **code, const char **text)
{
    if (!ask_query_end(q->query, &q->end))
        return -EINPROGRESS;
    if (i >= q->end.notices.n)
        return 0;
    *code = q->end.notices.list[i].code;
    *text = q->end.notices.list[i].text;
    return 1;
}
