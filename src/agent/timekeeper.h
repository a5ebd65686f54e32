/* SPDX-License-Identifier: Apache-2.0 */
/* timekeeper.h - the agent's global time: exchanges in, the time of events out, `clock` events when something
 * changes and with every renewal, and the shared page for the other programs of the host. */
#ifndef GRIDLINE_AGENT_TIMEKEEPER_H
#define GRIDLINE_AGENT_TIMEKEEPER_H

#include "agent/flow.h"
#include "base/clockpage.h"
#include "event/batch.h"

struct timekeeper;
/* page: path of the shared page; NULL = none. One that can't be made is logged, not an error. */
struct timekeeper *timekeeper_create(struct flow *flow, const char *page);
void timekeeper_destroy(struct timekeeper *t); /* NULL is fine; removes the page */

void timekeeper_exchange(struct timekeeper *t, const struct timesync_exchange *x);
/* Another gateway answers from now on. */
void timekeeper_forget(struct timekeeper *t);
/* Once a round, before the sensors: cheap. Steps and suspends are told as events. */
void timekeeper_look(struct timekeeper *t, int64_t now_mono_ns);
/* The global time now, for events. */
int64_t timekeeper_now_ns(const struct timekeeper *t);
/* For batch headers. */
struct batch_clock timekeeper_clock(const struct timekeeper *t);

#endif
