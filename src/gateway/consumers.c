/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/consumers.h"

#include "base/mem.h"

#include <errno.h>

struct consumers {
    struct consumers_options options;
    struct subscriptions *subscriptions;
};

int consumers_create(const struct consumers_options *o, struct consumers **out, struct diag *why)
{
    struct consumers *c = mem_try_alloc(sizeof *c);
    if (!c)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    c->options = *o;
    *out = c;
    return 0;
}

void consumers_shut_down(struct consumers *c)
{
    (void)c; /* nobody listens by themselves yet */
}

void consumers_destroy(struct consumers *c)
{
    mem_free(c);
}

void consumers_batch(struct consumers *c, const struct batch *b, struct position at)
{
    (void)c, (void)b, (void)at;
}

void consumers_flush(struct consumers *c, uint64_t last_record)
{
    (void)c, (void)last_record;
}

void consumers_tick(struct consumers *c, int64_t now_ns)
{
    (void)c, (void)now_ns;
}

void consumers_worker(struct consumers *c, struct worker *w, enum worker_state before)
{
    (void)c, (void)w, (void)before;
}

struct subscriptions *consumers_subscriptions(struct consumers *c)
{
    return c->subscriptions;
}
