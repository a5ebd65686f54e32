/* SPDX-License-Identifier: Apache-2.0 */
/* guard_feed.h - what the guard hears: a subscription at its gateways and at this host's agent, as a consumer
 * of both. The same event may come from either; the guard takes the newest of each stream, so the second
 * changes nothing. */
#ifndef GRIDLINE_CMD_GUARD_FEED_H
#define GRIDLINE_CMD_GUARD_FEED_H

#include "guard/guard.h"

struct guard_feed;
/* Everything is borrowed. Dials and waits for nobody. */
int guard_feed_create(struct event_base *base, const struct guard_config *config, struct guard *guard,
                      struct guard_feed **out, struct diag *why);
void guard_feed_destroy(struct guard_feed *f); /* NULL is fine */

#endif
