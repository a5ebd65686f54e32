/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/remote.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "net/ask_query.h"

#include <errno.h>
#include <stdio.h>

struct remote {
    struct errands *errands;
    struct arena arena;
    const char **gateways; /* "" = that of this host */
    size_t n_gateways;
    const char *identity;
};

/* A question on its way. Everything in it belongs to the thread while that has it. */
struct asking {
    struct errand errand; /* first: the callbacks get it */
    struct remote *remote;
    remote_done done;
    void *arg;
    int64_t asked_ns, deadline_ns; /* monotonic */
    size_t n_texts;
    struct slice texts[REMOTE_TEXTS_MAX];
    struct arena arena; /* texts and rows */
    struct rule_answer answers[REMOTE_TEXTS_MAX];
    struct diag why[REMOTE_TEXTS_MAX];
};

/* ---------------------------------------------------------------- on a thread */

/* The rows of one answer as they come: an array that doubles. */
struct rows {
    struct asking *a;
    struct value *values;
    size_t n, cap;
};

static int take_names(struct asking *a, const struct ask_query *q, struct rule_answer *out)
{
    out->n_columns = ask_query_columns(q);
    struct slice *names = arena_alloc(&a->arena, (out->n_columns + 1) * sizeof *names);
    for (size_t i = 0; names && i < out->n_columns; i++)
        if (!(names[i] = arena_copy(&a->arena, ask_query_column(q, i))).p)
            return -ENOMEM;
    out->names = names;
    return names ? 0 : -ENOMEM;
}

static int grow(struct rows *rows, size_t more)
{
    size_t cap = rows->cap ? 2 * rows->cap : 256;
    while (cap < rows->n + more)
        cap *= 2;
    struct value *v = arena_alloc(&rows->a->arena, cap * sizeof *v);
    if (!v)
        return -ENOMEM;
    if (rows->n)
        memcpy(v, rows->values, rows->n * sizeof *v);
    rows->values = v;
    rows->cap = cap;
    return 0;
}

static int take_row(struct rows *rows, const struct value *values, size_t n)
{
    if (rows->a->arena.total > REMOTE_BYTES_MAX)
        return E_LIMIT;
    if (rows->n + n > rows->cap && grow(rows, n) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        struct value v = values[i];
        if (value_is_text(v.type) && !(v.p = arena_copy(&rows->a->arena, value_slice(v)).p))
            return -ENOMEM;
        rows->values[rows->n++] = v;
    }
    return 0;
}

static int take_rows(struct asking *a, struct ask_query *q, int64_t until_ns, struct rule_answer *out,
                     struct diag *why)
{
    struct rows rows = {.a = a};
    int r = 0;
    for (;;) {
        int64_t left_ns = until_ns - clock_mono_ns();
        r = left_ns > 0 ? ask_query_next(q, left_ns, why) : -EAGAIN;
        if (r == -EAGAIN || r == -EINTR)
            return diag_set(why, -ETIMEDOUT, 0, "the gateway did not answer in time; see `deadline`");
        if (r < 0)
            return r;
        if (!out->names && (r == 1 || ask_query_columns(q)) && take_names(a, q, out) < 0)
            return -ENOMEM;
        if (r == 0)
            break;
        if ((r = take_row(&rows, ask_query_row(q), out->n_columns)) < 0)
            return diag_set(why, r, 0, "the answer is too large");
    }
    out->values = rows.values;
    out->n_rows = out->n_columns ? rows.n / out->n_columns : 0;
    return 0;
}

static bool is_ending(void *arg)
{
    const struct asking *a = arg;
    return errands_is_ending(a->remote->errands);
}

static int ask_one(struct asking *a, const char *gateway, size_t i, int64_t until_ns, struct diag *why)
{
    int64_t left_ns = until_ns - clock_mono_ns();
    const struct ask_options ask = {.gateway = gateway,
                                    .identity = a->remote->identity,
                                    .prog = "gridline-guard",
                                    .timeout_ns = left_ns > 1000000 ? left_ns : 1000000,
                                    .on_wait = is_ending,
                                    .arg = a};
    const struct ask_query_options query = {
        .text = a->texts[i], .time_ms = (uint64_t)ask.timeout_ns / 1000000, .rows = REMOTE_ROWS_MAX};
    struct ask_query *q;
    a->answers[i] = (struct rule_answer){.code = 0};
    int r = ask_query_open(&ask, &query, &q, why);
    if (r < 0)
        return r;
    r = take_rows(a, q, until_ns, &a->answers[i], why);
    ask_query_close(q);
    return r;
}

/* Does it make sense to ask the next gateway? Not if this one understood the question. */
static bool may_go_on(int r)
{
    return r != E_PROTO && r != -EACCES && r != E_LIMIT && r != -ENOMEM && r != -EREMOTEIO;
}

static void run(struct errand *e)
{
    struct asking *a = (struct asking *)e;
    const struct remote *remote = a->remote;
    for (size_t i = 0; i < a->n_texts; i++) {
        int r = -ENOENT;
        for (size_t g = 0; g < remote->n_gateways && !is_ending(a); g++) {
            int64_t now_ns = clock_mono_ns(), left_ns = a->deadline_ns - now_ns;
            bool is_last = g + 1 == remote->n_gateways;
            a->why[i] = (struct diag){0};
            r = ask_one(a, remote->gateways[g], i, is_last ? a->deadline_ns : now_ns + left_ns / 2,
                        &a->why[i]);
            if (r == 0 || !may_go_on(r))
                break;
        }
        a->answers[i].code = r;
        a->answers[i].why = a->why[i].message;
        if (r < 0)
            a->answers[i].n_rows = 0;
    }
}

/* ---------------------------------------------------------------- on the loop */

static void done(struct errand *e)
{
    struct asking *a = (struct asking *)e;
    if (!e->is_dropped && !is_ending(a))
        a->done(a->arg, a->answers, a->n_texts, clock_mono_ns() - a->asked_ns);
    arena_fini(&a->arena);
    mem_free(a);
}

int remote_ask(struct remote *r, const char *const *texts, size_t n, int64_t deadline_ns, remote_done fn,
               void *arg)
{
    struct asking *a = mem_alloc(sizeof *a);
    int64_t now_ns = clock_mono_ns();
    int code = 0;
    *a = (struct asking){.errand = {.run = run, .done = done},
                         .remote = r,
                         .done = fn,
                         .arg = arg,
                         .asked_ns = now_ns,
                         .deadline_ns = now_ns + deadline_ns};
    for (; a->n_texts < n && code == 0; a->n_texts++)
        if (!(a->texts[a->n_texts] = arena_copy(&a->arena, slice_str(texts[a->n_texts]))).p)
            code = -ENOMEM;
    if (code == 0)
        code = errands_send(r->errands, &a->errand);
    if (code < 0) {
        arena_fini(&a->arena);
        mem_free(a);
    }
    return code;
}

/* "" stays as it is: one, of this host. */
static int split(struct remote *r, const char *gateways)
{
    size_t n = 1;
    for (const char *p = gateways; *p; p++)
        n += *p == ',';
    char *text = arena_alloc(&r->arena, strlen(gateways) + 1);
    r->gateways = arena_alloc(&r->arena, n * sizeof *r->gateways);
    if (!text || !r->gateways)
        return -ENOMEM;
    memcpy(text, gateways, strlen(gateways) + 1);
    for (char *next; text; text = next) {
        if ((next = strchr(text, ',')))
            *next++ = '\0';
        r->gateways[r->n_gateways++] = text;
    }
    return 0;
}

int remote_create(struct errands *errands, const char *gateways, const char *identity, struct remote **out)
{
    struct remote *r = mem_alloc(sizeof *r);
    *r = (struct remote){.errands = errands, .identity = identity && *identity ? identity : NULL};
    int code = split(r, gateways);
    if (code < 0) {
        remote_destroy(r);
        return code;
    }
    *out = r;
    return 0;
}

void remote_destroy(struct remote *r)
{
    if (!r)
        return;
    arena_fini(&r->arena);
    mem_free(r);
}
