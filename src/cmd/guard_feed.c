/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/guard_feed.h"

#include "base/log.h"
#include "base/mem.h"
#include "consumer/internal.h"
#include "event/select.h"

#include <errno.h>
#include <event2/event.h>

enum { BATCHES_A_TURN = 64, LINKS_MAX = 64 };

struct guard_feed {
    struct guard *guard;
    const char *agent; /* "" = it is not listened to */
    gridline_consumer *consumer;
    struct event *readable;
    bool is_up[LINKS_MAX]; /* by the gateway's place */
    size_t n_up;
};

/* Its place among the gateways: at most LINKS_MAX of them. */
static size_t place_of(const struct guard_feed *f, const char *gateway)
{
    const char *name;
    size_t i = 0;
    while (i < LINKS_MAX - 1 && (name = gridline_consumer_gateway(f->consumer, i)) &&
           strcmp(name, gateway) != 0)
        i++;
    return i;
}

static void set_up(struct guard_feed *f, const char *gateway, bool is_up)
{
    size_t i = place_of(f, gateway);
    if (f->is_up[i] == is_up)
        return;
    f->is_up[i] = is_up;
    f->n_up += is_up ? 1 : (size_t)-1;
    guard_feeds(f->guard, f->n_up);
}

static void take_batch(struct guard_feed *f, const struct gridline_item *item)
{
    bool from_gateway = strcmp(gridline_item_gateway(item), f->agent) != 0;
    for (size_t i = item->at; i < item->batch->n; i++)
        guard_take(f->guard, &item->batch->events[i], from_gateway);
}

/* All names where they are too many to be listed. */
static void patterns_of(const struct guard_feed *f, struct strbuf *out)
{
    guard_events(f->guard, out);
    if (out->n <= SELECT_PATTERNS_MAX)
        return;
    strbuf_reset(out);
    strbuf_add_char(out, '*');
}

static int prime(void *arg, const gridline_item *row)
{
    const struct guard_feed *f = arg;
    if (row->event)
        guard_prime(f->guard, row->event);
    return 0;
}

/* What the gateway knows already: without it a guard that starts anew would hear of each stream only when
 * that has something new to say, and could take a fault that is not heard of yet for one that has cleared. An
 * agent has none. */
static void ask_latest(struct guard_feed *f, const char *gateway)
{
    struct strbuf events = {0};
    if (strcmp(gateway, f->agent) == 0)
        return;
    patterns_of(f, &events);
    int r = gridline_consumer_latest(f->consumer, place_of(f, gateway), strbuf_slice(&events).p, NULL, NULL,
                                     prime, f);
    if (r != GRIDLINE_STATUS_DONE && r != GRIDLINE_STATUS_NOT_FOUND)
        log_info("%s does not say what is latest: %s", gateway, gridline_consumer_why(f->consumer));
    strbuf_fini(&events);
}

static void take(struct guard_feed *f, const struct gridline_item *item)
{
    const char *gateway = gridline_item_gateway(item), *text = gridline_item_text(item);
    switch (gridline_item_kind(item)) {
    case GRIDLINE_ITEM_EVENT:
        take_batch(f, item);
        break;
    case GRIDLINE_ITEM_SUBSCRIBED:
        log_info("listening to %s", gateway);
        ask_latest(f, gateway);
        set_up(f, gateway, true);
        break;
    case GRIDLINE_ITEM_GAP:
        log_info("%s: some events are missing: %llu", gateway, (unsigned long long)gridline_item_lost(item));
        break;
    case GRIDLINE_ITEM_BROKEN:
        log_error("%s: %s", gateway, text);
        set_up(f, gateway, false);
        break;
    case GRIDLINE_ITEM_RETRY:
        log_info("%s can't be reached: %s; it is tried again", gateway, text);
        break;
    case GRIDLINE_ITEM_REFUSED:
        log_error("%s refuses to give events: %s", gateway, text);
        set_up(f, gateway, false);
        break;
    default:
        break;
    }
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct guard_feed *f = arg;
    const struct gridline_item *item;
    (void)fd, (void)what; /* there is something to do */
    for (int i = 0; i < BATCHES_A_TURN && consumer_next_batch(f->consumer, 0, &item) > 0; i++)
        take(f, item);
}

static int subscribe(struct guard_feed *f, struct diag *why)
{
    struct strbuf events = {0};
    patterns_of(f, &events);
    const struct gridline_subscription s = {.size = sizeof s, .events = strbuf_slice(&events).p};
    int r = strbuf_failed(&events) ? -ENOMEM : gridline_consumer_subscribe(f->consumer, &s);
    if (r < 0)
        (void)diag_set(why, r, 0, "%s", gridline_consumer_why(f->consumer));
    strbuf_fini(&events);
    return r < 0 ? r : 0;
}

static int connect_all(struct guard_feed *f, const struct guard_config *c, struct diag *why)
{
    struct strbuf all = {0};
    strbuf_add_str(&all, c->gateway);
    if (*c->agent)
        strbuf_printf(&all, "%s%s", all.n ? "," : "", c->agent);
    const struct gridline_consumer_options o = {.size = sizeof o,
                                                .gateways = strbuf_slice(&all).p,
                                                .identity = c->identity && *c->identity ? c->identity : NULL,
                                                .prog = "gridline-guard"};
    f->consumer = gridline_consumer_open(&o, why->message, sizeof why->message);
    strbuf_fini(&all);
    return f->consumer ? 0 : -EINVAL;
}

int guard_feed_create(struct event_base *base, const struct guard_config *config, struct guard *guard,
                      struct guard_feed **out, struct diag *why)
{
    struct guard_feed *f = mem_alloc(sizeof *f);
    *f = (struct guard_feed){.guard = guard, .agent = config->agent};
    int r = connect_all(f, config, why);
    if (r == 0)
        r = subscribe(f, why);
    if (r == 0) {
        f->readable =
            event_new(base, gridline_consumer_fd(f->consumer), EV_READ | EV_PERSIST, on_readable, f);
        r = f->readable && event_add(f->readable, NULL) == 0 ? 0 : -ENOMEM;
    }
    if (r < 0) {
        guard_feed_destroy(f);
        return r;
    }
    on_readable(-1, 0, f); /* it dials */
    *out = f;
    return 0;
}

void guard_feed_destroy(struct guard_feed *f)
{
    if (!f)
        return;
    if (f->readable)
        event_free(f->readable);
    gridline_consumer_close(f->consumer);
    mem_free(f);
}
