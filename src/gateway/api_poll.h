/* SPDX-License-Identifier: Apache-2.0 */
/* api_poll.h - a subscription for those who ask again and again instead of listening: from a position on,
 * some events, and the position behind them. It waits until there are any, or for its time. On the loop. */
#ifndef GRIDLINE_GATEWAY_API_POLL_H
#define GRIDLINE_GATEWAY_API_POLL_H

#include "gateway/api_position.h"
#include "gateway/subscription.h"

enum { POLL_WAIT_MAX_S = 30, POLL_MAX = 10000, POLL_GAPS = 16, POLL_BATCHES = 256, POLL_BYTES = 2 << 20 };

struct poll_batch {
    struct batch *batch;
    size_t n; /* of its events, from the first on */
};

struct poll_result {
    const struct poll_batch *batches;
    size_t n_batches;
    const struct subscription_gap *gaps;
    size_t n_gaps;
    const char *position;
};

struct poll_options {
    struct event_base *base;
    struct subscriptions *subscriptions;
    const struct access_identity *who;
    const char *name;
    int64_t wait_ns; /* at most POLL_WAIT_MAX_S */
    uint64_t max; /* events, about: more than POLL_MAX is that; a piece from which events were filtered is not
                     cut */
    void (*done)(void *arg, const struct poll_result *p); /* once, from the loop; it may destroy the poll */
    void *arg;
};

struct poll;
/* As subscriptions_add; the format is its own. */
int poll_start(const struct poll_options *o, const struct subscription_options *what, struct poll **out,
               struct diag *why);
void poll_destroy(struct poll *p); /* NULL is fine */

#endif
