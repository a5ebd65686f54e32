/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/filter.h"

#include "base/mem.h"
#include "base/text.h"
#include "event/limits.h"
#include "event/predicate.h"

struct filter {
    struct predicate *where;
    int64_t first_ns, last_ns; /* both included */
    bool is_empty;             /* no time lies between the limits */
    bool passes_all;
    struct slice host, prog; /* "" = nothing to fill in */
    struct event *events;
    struct slice *raw;
    size_t cap;
};

static int take_name(const char *option, const char *text, struct slice *out, struct diag *why)
{
    *out = slice_str(text ? text : "");
    if (out->n > EVENT_ORIGIN_MAX)
        return diag_set(why, E_LIMIT, 0, "--%s: at most %d bytes are allowed", option, EVENT_ORIGIN_MAX);
    if (!text_is_utf8(*out) || text_has_control(*out))
        return diag_set(why, E_PROTO, 0, "--%s: not printable UTF-8 text", option);
    return 0;
}

static void take_times(struct filter *f, const struct filter_options *o)
{
    f->first_ns = o->from.is_set ? o->from.at_ns : INT64_MIN;
    f->last_ns = !o->to.is_set ? INT64_MAX : o->to.at_ns == INT64_MIN ? INT64_MIN : o->to.at_ns - 1;
    f->is_empty = f->last_ns < f->first_ns || (o->to.is_set && o->to.at_ns == INT64_MIN);
}

/* "…, column 12, in --where" is more use than the reason alone. */
static int compile_where(struct filter *f, const char *where, int64_t now_ns, struct diag *why)
{
    struct diag inner = {0};
    int r = predicate_compile(slice_str(where), now_ns, &f->where, &inner);
    if (r < 0)
        return diag_set(why, r, inner.col, "--where, column %u: %.160s", (unsigned)inner.col,
                        *inner.message ? inner.message : err_text(r));
    return 0;
}

int filter_create(const struct filter_options *o, int64_t now_ns, struct filter **out, struct diag *why)
{
    struct filter *f = mem_alloc(sizeof *f);
    int r = take_name("host", o->host, &f->host, why);
    if (r == 0)
        r = take_name("prog", o->prog, &f->prog, why);
    if (r == 0 && o->where)
        r = compile_where(f, o->where, now_ns, why);
    if (r < 0) {
        filter_destroy(f);
        return r;
    }
    take_times(f, o);
    f->passes_all = !o->where && !o->from.is_set && !o->to.is_set && f->host.n == 0 && f->prog.n == 0;
    *out = f;
    return 0;
}

void filter_destroy(struct filter *f)
{
    if (!f)
        return;
    predicate_destroy(f->where);
    mem_free(f->events);
    mem_free(f->raw);
    mem_free(f);
}

static void make_room(struct filter *f, size_t n)
{
    if (n <= f->cap)
        return;
    mem_free(f->events);
    mem_free(f->raw);
    f->events = mem_alloc(n * sizeof *f->events);
    f->raw = mem_alloc(n * sizeof *f->raw);
    f->cap = n;
}

static bool passes(struct filter *f, const struct event *e)
{
    if (f->is_empty || e->time_ns < f->first_ns || e->time_ns > f->last_ns)
        return false;
    return !f->where || predicate_test(f->where, e);
}

void filter_run(struct filter *f, const struct batch *in, struct batch *out)
{
    size_t n = 0;
    *out = (struct batch){.origin = in->origin, .events = in->events, .raw = in->raw, .n = in->n};
    if (f->passes_all)
        return;
    make_room(f, in->n);
    for (size_t i = 0; i < in->n; i++) {
        struct event e = in->events[i];
        if (e.host.n == 0)
            e.host = f->host;
        if (e.prog.n == 0)
            e.prog = f->prog;
        if (!passes(f, &e))
            continue;
        if (in->raw)
            f->raw[n] = in->raw[i];
        f->events[n++] = e;
    }
    out->events = f->events;
    out->raw = in->raw ? f->raw : NULL;
    out->n = n;
    if (n < in->n)
        out->origin = (struct batch_origin){.clock = in->origin.clock};
}
