/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/changes.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cmd/stop.h"

#include <gridline/consumer.h>

enum { BEGIN_MS = 10000, STEP_MS = 250, TOGETHER_MS = 50 };
static const int64_t ns_per_ms = 1000000;

struct changes {
    gridline_consumer *consumer;
    const char *field; /* borrowed */
    bool has_begun, has_ended;
    struct changes_seen seen;
    char *names[CHANGES_NAMES]; /* seen.names, owned */
    struct args_writer rows[CHANGES_NAMES];
    struct args gone[CHANGES_NAMES];
};

/* ---------------------------------------------------------------- what was seen */

static void forget(struct changes *c)
{
    for (size_t i = 0; i < c->seen.n; i++)
        mem_free(c->names[i]);
    c->seen = (struct changes_seen){.gone = c->gone};
}

static void add_name(struct changes *c, struct slice name)
{
    for (size_t i = 0; i < c->seen.n; i++)
        if (slice_eq_str(name, c->names[i]))
            return;
    if (c->seen.n == CHANGES_NAMES) {
        c->seen.is_all = true;
        return;
    }
    char *copy = mem_alloc(name.n + 1);
    memcpy(copy, name.p, name.n);
    c->names[c->seen.n] = copy;
    c->seen.names[c->seen.n++] = copy;
}

static struct slice text_of(const gridline_item *item, const char *field)
{
    struct gridline_value v;
    if (gridline_item_get(item, field, &v) != 1 || v.type != 't')
        return SLICE_LIT("");
    return slice_of(v.v.p, v.n);
}

/* A row as `sensors` has it, of an entry that is no more. */
static void add_gone(struct changes *c, const gridline_item *item)
{
    if (c->seen.n_gone == CHANGES_NAMES) {
        c->seen.is_all = true;
        return;
    }
    struct args_writer *row = &c->rows[c->seen.n_gone];
    args_writer_reset(row);
    args_add_text(row, "host", text_of(item, "target"));
    args_add_text(row, "sensor", text_of(item, "sensor"));
    args_add_text(row, "status", SLICE_LIT("gone"));
    if (text_of(item, "mode").n)
        args_add_text(row, "mode", text_of(item, "mode"));
    c->gone[c->seen.n_gone++] = args_of(row);
}

static void take(struct changes *c, const gridline_item *item)
{
    switch (gridline_item_kind(item)) {
    case GRIDLINE_ITEM_EVENT: /* an agent's own events have no such field: what they say the gateway will say,
                                 too */
        if (text_of(item, c->field).n)
            add_name(c, text_of(item, c->field));
        if (slice_eq_str(text_of(item, "status"), "gone"))
            add_gone(c, item);
        return;
    case GRIDLINE_ITEM_SUBSCRIBED: /* again: meanwhile anything may have changed */
        c->seen.is_all = c->has_begun;
        c->has_begun = true;
        return;
    case GRIDLINE_ITEM_GAP:
        c->seen.is_all = true;
        return;
    case GRIDLINE_ITEM_REFUSED:
        c->has_ended = true;
        return;
    default: /* connections that come and go are dialled again */
        return;
    }
}

/* Waits until something is there, or the time is up, and takes all there is. */
static void take_for(struct changes *c, int wait_ms)
{
    const gridline_item *item;
    int64_t until_ns = clock_mono_ns() + wait_ms * ns_per_ms;
    int step = wait_ms < STEP_MS ? wait_ms : STEP_MS;
    while (!c->has_ended && !stop_asked()) {
        int r = gridline_consumer_next(c->consumer, step, &item);
        if (r == 1) {
            take(c, item);
            step = 0; /* and what came with it */
        } else if (step == 0 || clock_mono_ns() >= until_ns) {
            return;
        }
    }
}

/* ---------------------------------------------------------------- */

struct changes *changes_open(const char *gateway, const char *identity, const char *events, const char *field)
{
    char why[200];
    const struct gridline_consumer_options o = {
        .size = sizeof o, .gateways = gateway, .identity = identity, .prog = "gridline-watch"};
    const struct gridline_subscription s = {.size = sizeof s, .events = events};
    struct changes *c = mem_alloc(sizeof *c);
    c->field = field;
    forget(c);
    c->consumer = gridline_consumer_open(&o, why, sizeof why);
    if (!c->consumer || gridline_consumer_subscribe(c->consumer, &s) < 0) {
        changes_close(c);
        return NULL;
    }
    int64_t until_ns = clock_mono_ns() + BEGIN_MS * ns_per_ms;
    while (!c->has_begun && !c->has_ended && !stop_asked() && clock_mono_ns() < until_ns)
        take_for(c, STEP_MS);
    if (c->has_begun && !c->has_ended)
        return c;
    changes_close(c);
    return NULL;
}

void changes_close(struct changes *c)
{
    if (!c)
        return;
    forget(c);
    for (size_t i = 0; i < CHANGES_NAMES; i++)
        args_writer_fini(&c->rows[i]);
    gridline_consumer_close(c->consumer);
    mem_free(c);
}

bool changes_wait(struct changes *c, int wait_ms, struct changes_seen *out)
{
    forget(c);
    take_for(c, wait_ms);
    bool is_some = c->seen.n || c->seen.n_gone || c->seen.is_all;
    if (is_some) /* a change is rarely alone, and what it is told by may be before what it is asked by */
        take_for(c, TOGETHER_MS);
    *out = c->seen;
    return is_some;
}

bool changes_has_ended(const struct changes *c)
{
    return c->has_ended;
}
