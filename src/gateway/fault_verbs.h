/* SPDX-License-Identifier: Apache-2.0 */
/* fault_verbs.h - what guards have told of faults and rules, as questions, and orders to guards.
 *
 * faults {state, rule, host} and rules {rule, host}: rows of the newest event of each stream `fault.state` or
 * `rule.state` that is held (latest.h), as the asker may see them by the action query. state: "" = open ones
 * (neither pending nor cleared), "all", or a state; rule and host are patterns, host that of what the fault
 * is about. What was told before the gateway started is not known here until a guard tells it again.
 *
 * ack {fault, note}, unack {fault}, silence {rule, host, where, until, note}, unsilence {id, guard}: become
 * the gateway's own event `fault.order` {order, fault, rule, target, where, until, id, guard, by, note},
 * which guards subscribe to and obey. `by` is who asked, as the gateway knows it. They take the action
 * control: of the host that the fault or the silence is about; of all hosts where that is a pattern or not
 * known.
 *
 * On the loop. */
#ifndef GRIDLINE_GATEWAY_FAULT_VERBS_H
#define GRIDLINE_GATEWAY_FAULT_VERBS_H

#include "gateway/control.h"
#include "gateway/latest.h"
#include "gateway/own.h"

struct fault_verbs;
/* Adds the verbs; latest and own are borrowed, and must outlive c's questions. -ENOMEM. */
int fault_verbs_create(struct control *c, struct latest *latest, struct own *own, struct fault_verbs **out);
void fault_verbs_destroy(struct fault_verbs *v); /* NULL is fine */

#endif
