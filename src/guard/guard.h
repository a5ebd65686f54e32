/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h - the guard: events in, faults judged, actions out. Wires live, judge, faults, actions, state,
 * audit and health on one loop; whoever runs it (cmd/guard_main.c) brings the events.
 *
 * A turn: the rules that are due are evaluated (faults_begin .. end), notices are drawn and given to actions,
 * all that changed is put down and committed, and only then events are announced and actions start. */
#ifndef GRIDLINE_GUARD_GUARD_H
#define GRIDLINE_GUARD_GUARD_H

#include "base/strbuf.h"
#include "event/event.h"
#include "guard/config.h"

struct event_base;
struct guard;

/* config and act, the path of gridline-act, are borrowed. */
int guard_create(const struct guard_config *config, const char *act, struct event_base *base,
                 struct guard **out, struct diag *why);
void guard_destroy(struct guard *g); /* NULL is fine */
/* Only looks whether every rule can be used. */
int guard_check(const struct guard_config *config, struct diag *why);
/* An event that came. from_gateway: a gateway gave it, which keeps names like fault.order to itself; an agent
 * does not. */
void guard_take(struct guard *g, const struct event *e, bool from_gateway);
/* The newest of a stream that came before anybody listened: it is as old as it is. */
void guard_prime(struct guard *g, const struct event *e);
/* What it needs to hear: patterns of event names with commas between. */
void guard_events(const struct guard *g, struct strbuf *out);
/* Does it hear anything: a feed is connected, or not. */
void guard_feeds(struct guard *g, size_t connected);

#endif
