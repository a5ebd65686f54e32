/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/api_poll.h"

#include "base/clock.h"
#include "base/mem.h"
#include "event/block.h"

#include <errno.h>

struct poll {
    struct subscriber subscriber; /* first: the callbacks get it */
    struct poll_options options;
    struct registry *registry;
    struct batch_builder *builder;
    struct event *timer; /* the end: of the time, or as soon as there is enough */
    uint64_t journal;
    struct position position;
    struct poll_batch batches[POLL_BATCHES];
    size_t n_batches;
    size_t bytes;
    uint64_t events;
    struct subscription_gap gaps[POLL_GAPS];
    size_t n_gaps;
    bool is_over; /* nothing more is taken */
};

static void end_soon(struct poll *p)
{
    p->is_over = true;
    event_active(p->timer, EV_TIMEOUT, 0);
}

static bool is_writable(const struct subscriber *s)
{
    return !((const struct poll *)(const void *)s)->is_over;
}

static struct batch *decode(struct poll *p, struct slice block)
{
    if (block_check(block) <= 0 || block_decode(block, p->builder, NULL) < 0)
        return NULL;
    return batch_builder_finish(p->builder, NULL);
}

/* Where events were left out between, only the last one's place is known. */
static bool is_contiguous(const struct chunk *c)
{
    return c->last.event - c->first.event + 1 == c->count;
}

static void on_events(struct subscriber *s, uint32_t id, struct chunk *c)
{
    struct poll *p = (struct poll *)(void *)s;
    uint64_t left = p->options.max - p->events;
    (void)id; /* it has one */
    if (p->is_over)
        return;
    struct batch *b = decode(p, c->data);
    if (!b) { /* no memory: it comes with the next call */
        end_soon(p);
        return;
    }
    size_t n = b->n > left && is_contiguous(c) ? (size_t)left : b->n;
    p->batches[p->n_batches++] = (struct poll_batch){b, n};
    p->events += n;
    p->bytes += c->data.n;
    p->position = c->last;
    p->position.event -= (uint32_t)(b->n - n);
    if (p->events >= p->options.max || p->n_batches == POLL_BATCHES || p->bytes > POLL_BYTES)
        end_soon(p);
}

static void on_gap(struct subscriber *s, uint32_t id, const struct subscription_gap *gap)
{
    struct poll *p = (struct poll *)(void *)s;
    (void)id;
    if (p->is_over)
        return;
    p->gaps[p->n_gaps++] = *gap;
    p->position = gap->to.record ? gap->to : p->position;
    if (p->n_gaps == POLL_GAPS)
        end_soon(p);
}

static void on_position(struct subscriber *s, uint32_t id, struct position at)
{
    struct poll *p = (struct poll *)(void *)s;
    (void)id;
    if (!p->is_over)
        p->position = at;
}

/* What came together is given together. */
static void on_flush(struct subscriber *s)
{
    struct poll *p = (struct poll *)(void *)s;
    if (!p->is_over && (p->events || p->n_gaps))
        end_soon(p);
}

static void on_ended(struct subscriber *s, uint32_t id, const char *why)
{
    (void)id, (void)why; /* what there is, is good */
    end_soon((struct poll *)(void *)s);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct poll *p = arg;
    char position[API_POSITION_MAX];
    (void)fd, (void)what; /* a timer's */
    p->is_over = true;
    subscriptions_forget(p->options.subscriptions, &p->subscriber);
    (void)api_position_print(position, p->journal, p->position);
    const struct poll_result result = {.batches = p->batches,
                                       .n_batches = p->n_batches,
                                       .gaps = p->gaps,
                                       .n_gaps = p->n_gaps,
                                       .position = position};
    p->options.done(p->options.arg, &result);
}

static int make_parts(struct poll *p)
{
    p->registry = registry_create();
    p->builder = p->registry ? batch_builder_create(p->registry, 0) : NULL;
    p->timer = evtimer_new(p->options.base, on_timer, p);
    return p->builder && p->timer ? 0 : -ENOMEM;
}

static int start_timer(struct poll *p)
{
    int64_t most = POLL_WAIT_MAX_S * NS_PER_S, wait = p->options.wait_ns;
    wait = wait > most ? most : wait < 0 ? 0 : wait;
    const struct timeval in = {wait / NS_PER_S, wait % NS_PER_S / 1000};
    return evtimer_add(p->timer, &in) == 0 ? 0 : -ENOMEM;
}

int poll_start(const struct poll_options *o, const struct subscription_options *what, struct poll **out,
               struct diag *why)
{
    static const struct subscriber_ops ops = {.is_writable = is_writable,
                                              .events = on_events,
                                              .gap = on_gap,
                                              .position = on_position,
                                              .flush = on_flush,
                                              .ended = on_ended};
    struct subscription_options options = *what;
    bool is_elsewhere;
    struct poll *p = mem_try_alloc(sizeof *p);
    if (!p)
        return -ENOMEM;
    p->options = *o;
    p->options.max = o->max > POLL_MAX ? POLL_MAX : o->max;
    p->subscriber = (struct subscriber){.ops = &ops, .who = o->who, .name = o->name};
    p->journal = subscriptions_journal(o->subscriptions);
    options.format = SLICE_LIT("binary");
    options.from = api_position_from(options.from, p->journal, &is_elsewhere);
    int r = make_parts(p);
    if (r == 0)
        r = subscriptions_add(o->subscriptions, &p->subscriber, 1, &options, &p->position, why);
    if (r == 0)
        r = start_timer(p);
    if (r < 0) {
        poll_destroy(p);
        return r;
    }
    if (is_elsewhere)
        p->gaps[p->n_gaps++] = (struct subscription_gap){.reason = GAP_GONE, .to = p->position};
    *out = p;
    return 0;
}

void poll_destroy(struct poll *p)
{
    if (!p)
        return;
    subscriptions_forget(p->options.subscriptions, &p->subscriber);
    for (size_t i = 0; i < p->n_batches; i++)
        batch_unref(p->batches[i].batch);
    if (p->timer)
        event_free(p->timer);
    batch_builder_destroy(p->builder);
    registry_destroy(p->registry);
    mem_free(p);
}
