/* SPDX-License-Identifier: Apache-2.0 */
/* Questions: net/ask, which the commands use, too. Answers in pages are asked for until there are no more.
 * Each question has a connection of its own: on one that was kept and is found broken nobody could say
 * whether the gateway has done what was asked, and asking again might do it twice. */
#include "consumer/internal.h"

#include "event/block.h"
#include "net/ask.h"

#include <errno.h>

enum { TIMEOUT_MS = 10000 };
static const int64_t ns_per_ms = 1000000;

struct asking {
    struct gridline_consumer *consumer;
    struct gridline_item row;
    gridline_row_fn fn;
    void *arg;
    int stopped; /* what fn returned */
};

static int give(struct asking *a)
{
    if (!a->fn)
        return 0;
    a->stopped = a->fn(a->arg, &a->row);
    a->stopped = a->stopped < 0 ? a->stopped : 0;
    return a->stopped;
}

static int give_events(struct asking *a, struct slice block)
{
    struct batch_builder *builder = a->consumer->builder;
    if (block_check(block) != (int64_t)block.n)
        return E_PROTO;
    int r = block_decode(block, builder, NULL);
    struct batch *b = r == 0 ? batch_builder_finish(builder, NULL) : NULL;
    if (!b)
        return r < 0 ? r : -ENOMEM;
    for (size_t i = 0; i < b->n && r == 0; i++) {
        arena_reset(&a->consumer->words);
        a->row.event = &b->events[i];
        r = give(a);
    }
    batch_unref(b);
    return r;
}

/* A row is named values, or events, as one of them, `block`. */
static int on_row(void *arg, const struct frame_answer *row)
{
    struct asking *a = arg;
    struct value block = args_value(row->args, "block");
    const bool is_events = block.type == VALUE_BYTES && row->args.n == 1;
    arena_reset(&a->consumer->words);
    item_set(&a->row, is_events ? GRIDLINE_ITEM_EVENT : GRIDLINE_ITEM_ROW, NULL, 0, 0, row->text);
    if (is_events)
        return give_events(a, value_slice(block));
    a->row.row = row->args;
    return give(a);
}

static bool add_value(struct args_writer *to, const struct gridline_value *v)
{
    struct slice name = slice_str(v->name);
    struct slice text = {0};
    if (v->type == 't' || v->type == 'x')
        text = slice_of(v->v.p, v->n == (size_t)-1 ? strlen(v->v.p) : v->n);
    if (name.n == 0 || name.n > ARGS_NAME_MAX || text.n > ARGS_TEXT_MAX || to->n >= ARGS_MAX - 1)
        return false;
    switch (v->type) {
    case 'i':
        args_add(to, name, value_int(v->v.i));
        return true;
    case 'u':
        args_add(to, name, value_uint(v->v.u));
        return true;
    case 'f':
        args_add(to, name, value_float(v->v.f));
        return true;
    case 'b':
        args_add(to, name, value_bool(v->v.u != 0));
        return true;
    case 't':
        args_add(to, name, value_text(text));
        return true;
    case 'x':
        args_add(to, name, value_bytes(text));
        return true;
    default:
        return false;
    }
}

/* The same values and where the page before ended. */
static void put_page(struct args_writer *page, struct args values, struct value after)
{
    struct arg v;
    args_writer_reset(page);
    while (args_next(&values, &v))
        args_add(page, v.name, v.value);
    args_add(page, SLICE_LIT("after"), after);
}

/* All pages; the last answer is in *end, borrowed from ask. */
static int ask_pages(struct asking *a, struct ask *ask, struct ask_question *q, struct args values,
                     struct ask_end *end)
{
    struct diag *why = &a->consumer->why;
    struct args_writer page = {0};
    struct value after = value_none();
    int r;
    do {
        put_page(&page, values, after);
        q->args = args_of(&page);
        r = strbuf_failed(&page.list) ? diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM))
                                      : ask_run(ask, q, on_row, a, end, why);
        if (a->stopped < 0)
            (void)diag_set(why, a->stopped, 0, "stopped");
        item_clear(&a->row);
        after = r == 0 && end->status == GRIDLINE_STATUS_DONE ? args_value(end->args, "after") : value_none();
    } while (after.type != VALUE_NONE);
    args_writer_fini(&page);
    return r;
}

static int run(struct asking *a, size_t gateway, const char *verb, struct args values, int64_t silence_ns)
{
    struct gridline_consumer *c = a->consumer;
    const struct ask_options o = {.gateway = c->links[gateway].address,
                                  .identity = c->identity,
                                  .prog = c->prog,
                                  .timeout_ns = silence_ns};
    struct ask_question q = {.verb = slice_str(verb), .silence_ns = silence_ns};
    struct ask_end end = {0};
    struct ask *ask = NULL;
    int r = ask_open(&o, &ask, &c->why);
    if (r == 0)
        r = ask_pages(a, ask, &q, values, &end);
    if (r == 0) {
        (void)diag_set(&c->why, 0, 0, "%.*s", (int)(end.text.n < 190 ? end.text.n : 190), end.text.p);
        r = end.status <= GRIDLINE_STATUS_NOT_ALLOWED ? end.status : GRIDLINE_STATUS_FAILED;
    }
    ask_close(ask);
    return r;
}

int gridline_consumer_ask(gridline_consumer *c, size_t gateway, const char *verb,
                          const struct gridline_value *values, size_t n, int timeout_ms, gridline_row_fn fn,
                          void *arg)
{
    struct asking a = {.consumer = c, .row = {.words = &c->words}, .fn = fn, .arg = arg};
    struct args_writer list = {0};
    int r = gateway < c->n_links ? 0 : diag_set(&c->why, -ENOENT, 0, "there is no gateway %zu", gateway);
    for (size_t i = 0; i < n && r == 0; i++)
        if (!add_value(&list, &values[i]))
            r = diag_set(&c->why, -EINVAL, 0, "the value '%.100s' can't be sent", values[i].name);
    if (r == 0)
        r = run(&a, gateway, verb, args_of(&list), (timeout_ms > 0 ? timeout_ms : TIMEOUT_MS) * ns_per_ms);
    args_writer_fini(&list);
    return r;
}

static void add_text(struct gridline_value *values, size_t *n, const char *name, const char *text)
{
    if (text && text[0])
        values[(*n)++] = (struct gridline_value){.name = name, .type = 't', .v.p = text, .n = (size_t)-1};
}

int gridline_consumer_latest(gridline_consumer *c, size_t gateway, const char *events, const char *host,
                             const char *where, gridline_row_fn fn, void *arg)
{
    struct gridline_value values[3];
    size_t n = 0;
    add_text(values, &n, "event", events);
    add_text(values, &n, "host", host);
    add_text(values, &n, "where", where);
    return gridline_consumer_ask(c, gateway, "latest", values, n, 0, fn, arg);
}

int gridline_consumer_summary(gridline_consumer *c, size_t gateway, const char *events, const char *host,
                              const char *fields, const char *windows, gridline_row_fn fn, void *arg)
{
    struct gridline_value values[4];
    size_t n = 0;
    add_text(values, &n, "event", events);
    add_text(values, &n, "host", host);
    add_text(values, &n, "field", fields);
    add_text(values, &n, "window", windows);
    return gridline_consumer_ask(c, gateway, "summary", values, n, 0, fn, arg);
}
