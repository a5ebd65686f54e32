/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/consumers.h"

#include "base/mem.h"
#include "gateway/demand.h"
#include "gateway/subscription_verbs.h"

#include <errno.h>

struct consumers {
    struct consumers_options options;
    struct subscriptions *subscriptions;
    struct demand *demand; /* NULL: not yet, or no longer */
};

/* ---------------------------------------------------------------- demand */

static void on_demand(void *arg)
{
    struct consumers *c = arg;
    if (c->demand)
        demand_changed(c->demand);
}

static void on_registered(void *arg, struct worker *w)
{
    struct consumers *c = arg;
    if (c->demand)
        demand_registered(c->demand, w);
}

static int send_demand(void *arg, struct worker *w, const struct frame_demand *d)
{
    return sessions_demand(((struct consumers *)arg)->options.sessions, w, d);
}

static int open_demand(struct consumers *c)
{
    const struct demand_options options = {.base = c->options.base,
                                           .workers = c->options.workers,
                                           .subscriptions = c->subscriptions,
                                           .standing = c->options.demand,
                                           .send = send_demand,
                                           .arg = c};
    c->demand = demand_create(&options);
    c->options.sessions->registered = on_registered;
    c->options.sessions->registered_arg = c;
    return c->demand ? 0 : -ENOMEM;
}

/* ---------------------------------------------------------------- all of it */

static int open_subscriptions(struct consumers *c)
{
    const struct subscriptions_options options = {.base = c->options.base,
                                                  .journal = c->options.journal,
                                                  .settled = c->options.last_record,
                                                  .cursors = c->options.cursors,
                                                  .on_demand = on_demand,
                                                  .arg = c};
    c->subscriptions = subscriptions_create(&options);
    c->options.sessions->subscriptions = c->subscriptions;
    return c->subscriptions ? subscription_verbs_add(c->options.control, c->subscriptions) : -ENOMEM;
}

int consumers_create(const struct consumers_options *o, struct consumers **out, struct diag *why)
{
    struct consumers *c = mem_try_alloc(sizeof *c);
    if (!c)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    c->options = *o;
    int r = open_subscriptions(c);
    if (r == 0)
        r = open_demand(c);
    if (r < 0) {
        consumers_destroy(c);
        return diag_set(why, r, 0, "%s", err_text(r));
    }
    *out = c;
    return 0;
}

void consumers_shut_down(struct consumers *c)
{
    (void)c; /* nobody listens by themselves yet */
}

void consumers_destroy(struct consumers *c)
{
    if (!c)
        return;
    demand_destroy(c->demand);
    c->demand = NULL;
    subscriptions_destroy(c->subscriptions);
    mem_free(c);
}

void consumers_batch(struct consumers *c, const struct batch *b, struct position at)
{
    subscriptions_batch(c->subscriptions, b, at);
}

void consumers_flush(struct consumers *c, uint64_t last_record)
{
    subscriptions_flush(c->subscriptions, last_record);
}

void consumers_tick(struct consumers *c, int64_t now_ns)
{
    subscriptions_tick(c->subscriptions, now_ns);
}

void consumers_worker(struct consumers *c, struct worker *w, enum worker_state before)
{
    (void)c, (void)w, (void)before;
}

struct subscriptions *consumers_subscriptions(struct consumers *c)
{
    return c->subscriptions;
}
