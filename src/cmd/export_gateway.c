/* SPDX-License-Identifier: Apache-2.0 */
/* From a gateway's archive, by SQL: event_blocks() gives events as blocks. One statement a partition, and one
 * for each stretch between two, as a gateway does not let a statement run for ever. */
#include "base/clock.h"
#include "base/mem.h"
#include "cmd/export.h"
#include "cmd/say.h"
#include "cmd/stop.h"
#include "event/block.h"
#include "net/ask_query.h"

#include <errno.h>
#include <inttypes.h>

enum { STATEMENT_MS = 600000, COLUMNS = 3 };

struct gateway_source {
    const struct export_options *options;
    struct export_request request;
    int64_t *edges; /* of partitions, ascending, each once */
    size_t n_edges, max_edges;
    size_t next_edge;
    int64_t from_ns; /* of the stretch that is read, or comes next */
    bool is_end;
    struct ask_query *query; /* of the stretch; NULL: between two */
    struct registry *registry;
    struct batch_builder *builder;
    struct batch *lent;
    uint64_t lost;
    struct notices notices;
};

static void source_close(void *source)
{
    struct gateway_source *s = source;
    if (!s)
        return;
    ask_query_close(s->query);
    batch_unref(s->lent);
    batch_builder_destroy(s->builder);
    registry_destroy(s->registry);
    mem_free(s->edges);
    mem_free(s);
}

static int report(int r, const struct diag *why)
{
    if (r < 0 && r != -EINTR)
        say("%s", why && why->message[0] ? why->message : err_text(r));
    return r;
}

static bool on_wait(void *arg)
{
    (void)arg; /* stopping is of the process */
    return stop_asked();
}

static int ask(struct gateway_source *s, const struct strbuf *text, struct ask_query **out)
{
    struct diag why = {0};
    const struct ask_options o = {.gateway = s->options->gateway,
                                  .identity = s->options->identity,
                                  .prog = "gridline-export",
                                  .timeout_ns = s->options->timeout_ns,
                                  .on_wait = on_wait};
    const struct ask_query_options query = {.text = strbuf_slice(text), .time_ms = STATEMENT_MS};
    int r = strbuf_failed(text) ? -ENOMEM : ask_query_open(&o, &query, out, &why);
    return report(r, &why);
}

static int add_edge(struct gateway_source *s, struct value v)
{
    if (v.type != VALUE_INT || (s->n_edges && v.i <= s->edges[s->n_edges - 1]))
        return 0;
    if (s->n_edges == s->max_edges) {
        size_t max = s->max_edges ? s->max_edges * 2 : 64;
        int64_t *edges = mem_try_resize(s->edges, max * sizeof *edges);
        if (!edges)
            return -ENOMEM;
        s->edges = edges;
        s->max_edges = max;
    }
    s->edges[s->n_edges++] = v.i;
    return 0;
}

static int read_edges(struct gateway_source *s)
{
    struct ask_query *q = NULL;
    struct strbuf text = {0};
    struct diag why = {0};
    strbuf_add_str(&text, "SELECT from_time, to_time FROM partitions WHERE step = 0 ORDER BY from_time");
    int r = ask(s, &text, &q);
    strbuf_fini(&text);
    while (r == 0 && (r = ask_query_next(q, INT64_MAX, &why)) > 0) {
        const struct value *row = ask_query_row(q);
        r = add_edge(s, row[0]);
        if (r == 0)
            r = add_edge(s, row[1]);
    }
    ask_query_close(q);
    return q ? report(r, &why) : r;
}

static int source_open(const struct export_options *o, void **out)
{
    struct gateway_source *s = mem_alloc(sizeof *s);
    s->options = o;
    s->registry = registry_create();
    s->builder = s->registry ? batch_builder_create(s->registry, 0) : NULL;
    int r = s->builder ? read_edges(s) : report(-ENOMEM, NULL);
    if (r < 0)
        source_close(s);
    else
        *out = s;
    return r;
}

/* ---------------------------------------------------------------- stretches */

static void add_text(struct strbuf *out, struct slice text)
{
    strbuf_add_str(out, ", '");
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '\'')
            strbuf_add_char(out, '\'');
        strbuf_add_char(out, text.p[i]);
    }
    strbuf_add_char(out, '\'');
}

/* Asks for the next stretch; s->from_ns is then where the one behind it begins. */
static int ask_stretch(struct gateway_source *s)
{
    int64_t end = s->request.to_ns;
    while (s->next_edge < s->n_edges && s->edges[s->next_edge] <= s->from_ns)
        s->next_edge++;
    if (s->next_edge < s->n_edges && s->edges[s->next_edge] <= end)
        end = s->edges[s->next_edge];
    s->is_end = end == s->request.to_ns;
    struct strbuf text = {0};
    strbuf_printf(&text, "SELECT events, to_time, block FROM event_blocks(%" PRId64 ", %" PRId64, s->from_ns,
                  end);
    add_text(&text, s->request.events);
    add_text(&text, s->request.hosts);
    add_text(&text, s->request.where);
    strbuf_printf(&text, ", %d)", s->request.with_origins);
    int r = ask(s, &text, &s->query);
    strbuf_fini(&text);
    s->from_ns = end;
    return r;
}

static int source_begin(void *source, const struct export_request *q)
{
    struct gateway_source *s = source;
    ask_query_close(s->query);
    s->query = NULL;
    s->request = *q;
    s->request.from_ns =
        q->from_ns > INT64_MIN ? q->from_ns : INT64_MIN + 1; /* a number that SQL can write */
    s->request.to_ns = q->to_ns < INT64_MAX ? q->to_ns + 1 : INT64_MAX;
    s->from_ns = s->request.from_ns;
    s->next_edge = 0;
    s->lost = 0;
    s->notices = (struct notices){0};
    s->is_end = s->from_ns >= s->request.to_ns;
    return 0;
}

static int decode(struct gateway_source *s, const struct value *row, struct diag *why)
{
    struct slice block = value_slice(row[COLUMNS - 1]);
    if (row[COLUMNS - 1].type != VALUE_BYTES || block_check(block) != (int64_t)block.n)
        return diag_set(why, E_DAMAGE, 0, "a block of the gateway can't be read");
    int r = block_decode(block, s->builder, why);
    s->lent = r == 0 ? batch_builder_finish(s->builder, NULL) : NULL;
    return r < 0 ? r : s->lent ? 1 : -ENOMEM;
}

/* Of several stretches with the same notice, say of the archive's lag, one is enough. */
static void take_end(struct gateway_source *s, const struct ask_query_end *end)
{
    s->lost += end->lost;
    notices_join(&s->notices, &end->notices);
}

/* 1: a batch; 0: the stretch is at its end. */
static int next_of_stretch(struct gateway_source *s)
{
    struct diag why = {0};
    struct ask_query_end end;
    int r = ask_query_next(s->query, INT64_MAX, &why);
    if (r > 0)
        r = ask_query_columns(s->query) == COLUMNS ? decode(s, ask_query_row(s->query), &why) : E_PROTO;
    if (r > 0)
        return r;
    if (r == 0 && ask_query_end(s->query, &end))
        take_end(s, &end);
    ask_query_close(s->query);
    s->query = NULL;
    return report(r, &why);
}

static int source_next(void *source, const struct batch **out)
{
    struct gateway_source *s = source;
    batch_unref(s->lent);
    s->lent = NULL;
    for (;;) {
        int r = s->query ? next_of_stretch(s) : 0;
        if (r > 0)
            *out = s->lent;
        if (r != 0 || (s->is_end && !s->query))
            return r;
        r = ask_stretch(s);
        if (r < 0)
            return r;
    }
}

static int64_t source_at_ns(void *source)
{
    const struct gateway_source *s = source;
    return s->lent && s->lent->n ? s->lent->events[0].time_ns : s->from_ns;
}

static uint64_t source_lost(void *source)
{
    return ((struct gateway_source *)source)->lost;
}

static void source_notices(void *source, struct notices *out)
{
    *out = ((struct gateway_source *)source)->notices;
}

const struct export_source_ops export_gateway = {
    .open = source_open,
    .close = source_close,
    .begin = source_begin,
    .next = source_next,
    .at_ns = source_at_ns,
    .lost = source_lost,
    .notices = source_notices,
};
