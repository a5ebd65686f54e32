/* SPDX-License-Identifier: Apache-2.0 */
/* stream_asks.h - what the tests of latest and summary share: a control with verbs, and somebody who asks,
 * page by page, and keeps every row. */
#ifndef GRIDLINE_TESTS_GATEWAY_STREAM_ASKS_H
#define GRIDLINE_TESTS_GATEWAY_STREAM_ASKS_H

#include "unit/test.h"

#include "base/arena.h"
#include "base/clock.h"
#include "event/block.h"
#include "gateway/control.h"

enum { ASKED_ROWS_MAX = 70000 };

static const struct access_identity owner = {.kind = ACCESS_OWNER, .uid = 0};
static const struct access_identity local = {.kind = ACCESS_LOCAL, .uid = 1000};
static const struct access_identity agent = {.kind = ACCESS_AGENT, .uid = UINT32_MAX, .name = "h1"};

struct asked {
    struct control_asker asker;
    struct arena arena;
    struct args *rows; /* all pages */
    size_t n_rows, pages, most_bytes, bytes;
    struct registry *registry;
    struct batch *batches[512];
    size_t n_batches;
    const struct event *events[ASKED_ROWS_MAX];
    size_t n_events;
    int status; /* of the last answer; -1: not yet */
    char text[512];
    char after[64];
};

static inline void asked_block(struct asked *k, struct slice block)
{
    struct diag why = {0};
    struct batch_builder *b = batch_builder_create(k->registry, 0);
    assert_int_equal(block_check(block), (int64_t)block.n);
    assert_int_equal(block_decode(block, b, &why), 0);
    struct batch *batch = batch_builder_finish(b, NULL);
    assert_non_null(batch);
    assert_true(k->n_batches < 512);
    k->batches[k->n_batches++] = batch;
    for (size_t i = 0; i < batch->n; i++)
        k->events[k->n_events++] = &batch->events[i];
    batch_builder_destroy(b);
}

static inline void asked_answer(struct control_asker *a, const struct frame_answer *answer)
{
    struct asked *k = (struct asked *)(void *)a;
    assert_int_equal(k->status, -1);
    if (answer->status == CONTROL_MORE) {
        struct value block = args_value(answer->args, "block");
        k->bytes += answer->args.bytes.n;
        if (block.type == VALUE_BYTES) {
            asked_block(k, value_slice(block));
            return;
        }
        assert_true(k->n_rows < ASKED_ROWS_MAX);
        k->rows[k->n_rows++] = (struct args){arena_copy(&k->arena, answer->args.bytes), answer->args.n};
        return;
    }
    k->status = answer->status;
    (void)snprintf(k->text, sizeof k->text, "%.*s", SLICE_ARG(answer->text));
    (void)snprintf(k->after, sizeof k->after, "%.*s", SLICE_ARG(args_text(answer->args, "after")));
}

static inline void asked_fini(struct asked *k)
{
    for (size_t i = 0; i < k->n_batches; i++)
        batch_unref(k->batches[i]);
    registry_destroy(k->registry);
    arena_fini(&k->arena);
    free(k->rows);
    free(k);
}

static inline struct asked *asked_new(const struct access_identity *who)
{
    struct asked *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->asker = (struct control_asker){.answer = asked_answer, .who = who};
    k->registry = registry_create();
    k->rows = calloc(ASKED_ROWS_MAX, sizeof *k->rows);
    return k;
}

/* One page: names and texts by turns, NULL at the end; after it, if there was one. */
static inline void ask_page(struct control *c, struct asked *k, const char *verb, const char *const *args)
{
    struct args_writer w = {0};
    for (; args && args[0]; args += 2)
        args_add_text(&w, args[0], slice_str(args[1]));
    if (k->after[0])
        args_add_text(&w, "after", slice_str(k->after));
    k->status = -1;
    k->bytes = 0;
    control_ask(c, &k->asker, &(struct frame_control){7, slice_str(verb), args_of(&w)});
    args_writer_fini(&w);
    assert_int_not_equal(k->status, -1);
    k->pages++;
    k->most_bytes = k->bytes > k->most_bytes ? k->bytes : k->most_bytes;
}

/* All pages. asked_fini. */
static inline struct asked *ask_as(struct control *c, const struct access_identity *who, const char *verb,
                                   const char *const *args)
{
    struct asked *k = asked_new(who);
    do
        ask_page(c, k, verb, args);
    while (k->after[0]);
    return k;
}

#define ask(c, verb, ...) ask_as(c, &owner, verb, (const char *const[]){__VA_ARGS__, NULL})

static const struct control_ops no_ops;

struct asks {
    struct event_base *base;
    struct workers *workers;
    struct ledger ledger;
    struct control *control;
};

static inline void asks_init(struct asks *a)
{
    const struct workers_options o = {.lease_ms = 3000, .renew_ms = 1000};
    *a = (struct asks){.base = event_base_new(), .workers = workers_create(&o)};
    a->control = control_create(a->base, a->workers, &a->ledger, &no_ops, NULL);
    assert_non_null(a->control);
}

static inline void asks_fini(struct asks *a)
{
    control_destroy(a->control);
    workers_destroy(a->workers);
    ledger_fini(&a->ledger);
    event_base_free(a->base);
}

#endif
