/* SPDX-License-Identifier: Apache-2.0 */
/* timekeeper.h - the agent's global time: exchanges in, the time of events out, `clock` events when something
 * changes and with every renewal, and the shared page for the other programs of the host.
 *
 * It looks at the clocks once a round and after each exchange; what there is to tell it tells then, not
 * within the connection's callbacks. The clock of a round (flow.h) is read at its first row, so a step
 * between two looks is in it already. One thread. */
#ifndef GRIDLINE_AGENT_TIMEKEEPER_H
#define GRIDLINE_AGENT_TIMEKEEPER_H

#include "agent/flow.h"
#include "base/clockpage.h"
#include "event/batch.h"

struct timekeeper;
/* flow is borrowed. page: path of the shared page; NULL = none. One that can't be made is logged, not an
 * error. keeps_utc: the correction is switched off, only bounds are told. NULL: no memory. */
struct timekeeper *timekeeper_create(struct flow *flow, const char *page, bool keeps_utc);
void timekeeper_destroy(struct timekeeper *t); /* NULL is fine; removes the page */

/* Whose exchanges come from now on. Another one's time may differ: what was known is forgotten. */
void timekeeper_set_gateway(struct timekeeper *t, const char *address);
/* An answer of the gateway; t3 was read when it came. */
void timekeeper_exchange(struct timekeeper *t, const struct timesync_exchange *x);
/* Once a round, before the sensors, and after the connection was moved along: cheap. True: it has put
 * something into the flow, whose round is to be ended. */
bool timekeeper_look(struct timekeeper *t);
/* When it wants to look at the latest (CLOCK_MONOTONIC), so that the page stays valid. */
int64_t timekeeper_next_ns(const struct timekeeper *t);

/* The global time now. */
int64_t timekeeper_now_ns(const struct timekeeper *t);
/* The clock at this moment, for the rows of a round and the heads of their blocks. 0.3 us. */
struct batch_clock timekeeper_clock(const struct timekeeper *t);

#endif
