/* SPDX-License-Identifier: Apache-2.0 */
/* local.h - the agent's Unix socket: programs on this host subscribe to its events (the guard, `gridline
 * tail`).
 *
 * A consumer says HELLO (role consumer), then SUBSCRIBE with patterns of event names, a predicate, and of the
 * options host, on_change, cross, delta and every (event/select.h); from then on it gets EVENTS with blocks
 * (docs/protocol.md, "Subscriptions"). Each has its own bounded queue: when LOCAL_QUEUE_MAX bytes wait for
 * it, it loses batches, is told how many events in a GAP, and nobody else notices. Only the agent's own user
 * and root may connect.
 *
 * Everything is on the loop. */
#ifndef GRIDLINE_AGENT_LOCAL_H
#define GRIDLINE_AGENT_LOCAL_H

#include "base/err.h"
#include "event/batch.h"

#include <event2/event.h>

enum {
    LOCAL_CONSUMERS_MAX = 64,
    LOCAL_SUBSCRIPTIONS_MAX = 16, /* a consumer */
    LOCAL_QUEUE_MAX = 1 << 20,
    LOCAL_INPUT_MAX = 128 << 10,
    LOCAL_HELLO_MS = 10000
};

struct local;
/* on_change is called when a subscription came or went: sensors that run on request may have to start or
 * stop. */
int local_create(struct event_base *base, const char *path, void (*on_change)(void *arg), void *arg,
                 struct local **out, struct diag *why);
void local_destroy(struct local *l); /* NULL is fine; removes the socket */

bool local_has_any(const struct local *l); /* subscriptions */
/* Does a subscription ask for events of this name? One without patterns takes what there is and asks for
 * nothing. */
bool local_asks(const struct local *l, const char *event);
void local_batch(struct local *l, const struct batch *b);

struct local_counts {
    size_t consumers, subscriptions;
    uint64_t passed, dropped; /* events, summed over consumers */
};
void local_counts(const struct local *l, struct local_counts *out);

#endif
