/* SPDX-License-Identifier: Apache-2.0 */
/* announce.h - tells the gateway which sensors this agent has and what they are doing (SENSORS,
 * net/sensors.h): the whole list after each registration that was granted, and when something in it is
 * different. One comparison of two numbers while nothing changes. On the loop. */
#ifndef GRIDLINE_AGENT_ANNOUNCE_H
#define GRIDLINE_AGENT_ANNOUNCE_H

#include "agent/manager.h"
#include "agent/upstream.h"

struct announce;
struct announce *announce_create(struct manager *m); /* borrowed */
void announce_destroy(struct announce *a);           /* NULL is fine */

/* After a round, when all of it has been done: what changed in it leaves as one list. What can't be sent now
 * is sent at a later look. */
void announce_look(struct announce *a, struct upstream *u);

#endif
