/* SPDX-License-Identifier: Apache-2.0 */
/* global.h - global time for a handle's events, by the page that an agent of this host keeps (base/clockpage.h).
 *
 * Events are stamped with local UTC at no further cost; the drainer adds the offset when it takes them out of the rings.
 * The offset stays the same for a whole block, so that raw time is time - offset of the block's head exactly; what it
 * is off by meanwhile, because the page's own is slewed on, is part of the block's bound. Without a page: local UTC,
 * offset 0, bound unknown, generation 0. Under the handle's lock. */
#ifndef GRIDLINE_CLIENT_GLOBAL_H
#define GRIDLINE_CLIENT_GLOBAL_H

#include "base/clockpage.h"
#include "client/ticks.h"
#include "event/batch.h"

struct global {
    struct clockpage *page; /* NULL: none is known */
    int64_t search_at_ns;   /* CLOCK_MONOTONIC, when to look for one again */
    struct clock_moment last;
    struct batch_clock clock; /* of the block that is being filled */
};

void global_init(struct global *g);
void global_fini(struct global *g);
/* Before events are taken, right after m's update, since which nothing was taken. True: they need another clock than
 * those in the block: it must be handed over first. Then global_begin. 0.3 us; once a second some failing open(2) where
 * there is no page. */
bool global_look(struct global *g, const struct tick_map *m, struct batch_clock *now);
/* What is taken from here on has this clock; has_block: joins what is in the block already. */
void global_begin(struct global *g, const struct batch_clock *now, bool has_block);

#endif
