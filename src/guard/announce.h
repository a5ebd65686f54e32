/* SPDX-License-Identifier: Apache-2.0 */
/* announce.h - the guard's own events, through libgridline: acknowledged, kept in a backup while nobody takes
 * them. So the archive has the history of faults, and everybody who may can subscribe to them.
 *
 *     fault.state   rule, fault, target (keys); state, severity, episode, since, summary, told, silenced,
 * hidden, quiet, by, note; fields of the row as `row` (JSON) fault.action  action, rule (keys); order, kind,
 * fault, faults, result, attempt, is_last, waited_ms, ran_ms, exit_code, text rule.state    rule (key);
 * severity, place, evaluations, failures, last_ms, why, pending, firing, clearing, left_out guard.state
 * feeds, events, rows, rules, faults, firing, hosts, late, left_out, audit
 *     fault.silence silence (its id; key); over, rule, hosts, where, from, until, by, note
 *
 * Nothing here waits. NULL is fine everywhere: then nothing is announced (a back-test). */
#ifndef GRIDLINE_GUARD_ANNOUNCE_H
#define GRIDLINE_GUARD_ANNOUNCE_H

#include "guard/action.h"
#include "guard/rule.h"

struct announce;
/* url: where to; backup: a folder for what nobody takes yet. */
int announce_create(const struct guard_config *config, const char *url, const char *backup,
                    struct announce **out, struct diag *why);
void announce_destroy(struct announce *a);

/* "acknowledged" is a state for people: firing, and acknowledged. */
const char *fault_shown_state(const struct fault *f);
void announce_fault(struct announce *a, const struct fault *f);
/* is_over: it has ended, by its time or by an order. */
void announce_silence(struct announce *a, const struct silence *s, bool is_over);
void announce_action(struct announce *a, const struct action_end *e);
void announce_rule(struct announce *a, const struct rule *r, const struct faults *faults, unsigned index);

struct guard_totals {
    uint64_t feeds, events, rows, rules, hosts, late, left_out;
    struct faults_counts faults;
    const char *audit; /* the last hash of the audit; "" = none yet */
};
void announce_guard(struct announce *a, const struct guard_totals *t);
/* Sends what was written, without waiting. */
void announce_flush(struct announce *a);

#endif
