/* SPDX-License-Identifier: Apache-2.0 */
/* backtest.h - what a guard with this configuration would have done: its rules over events of the past, by a
 * clock that follows them. The same rules, live tables and faults as in the guard; nothing is written down,
 * nobody is told, and no action is ever run: what would have been given to which is said.
 *
 * An event counts as heard at its own time. A rule is evaluated at `from` and then every `every`, after all
 * events up to that moment. Events of a while before `from` are needed (backtest_begins), so that rules do
 * not begin without data. Rules that are asked at the gateway are asked by `ask`, if there is one.
 *
 *     backtest_create(&options, &b, &why);
 *     ... for each event in order of time, from backtest_begins(b) on: backtest_take(b, e);
 *     backtest_finish(b);
 *     ... for each rule: backtest_rule(b, i, &result);
 *
 * What can't be tested, and is said of the rule: the guard's own tables (host_health, guard_health, faults,
 * rules) and those of a gateway (workers, sensors, ...), whose past is not kept. Limits, grouping and retries
 * of actions are not played through. One thread. */
#ifndef GRIDLINE_GUARD_BACKTEST_H
#define GRIDLINE_GUARD_BACKTEST_H

#include "base/strbuf.h"
#include "event/event.h"
#include "guard/rule.h"

/* Something that would have happened; borrowed for the call. */
struct backtest_deed {
    enum backtest_kind { BACKTEST_FIRE, BACKTEST_CLEAR, BACKTEST_NOTICE } kind;
    int64_t at_ns;
    const struct rule_config *rule;
    const struct fault *fault;
    enum notice_kind notice;            /* of a notice: what is told, */
    const struct action_names *actions; /* and whom; never none */
};

struct backtest_options {
    const struct guard_config *config; /* borrowed, as all here */
    int64_t from_ns, to_ns;            /* evaluations in [from, to) */
    bool with_defaults;                /* our own rules, too; else they are as if not enabled */
    /* The rows of a text as a gateway would have given them at now_ns; out is good until the next two calls.
     * Never fails: out->code. NULL: nobody can say. */
    void (*ask)(void *arg, const char *text, int64_t now_ns, struct rule_answer *out);
    void (*on_deed)(void *arg, const struct backtest_deed *d);
    bool (*is_stopped)(
        void *arg); /* asked before each turn: true, and nothing is evaluated any more. NULL = never */
    void *arg;
};

struct backtest_result { /* of a rule */
    const struct rule_config *rule;
    bool is_tested;  /* at least one evaluation gave an answer */
    const char *why; /* it was not, or the last failure; "" = nothing to say */
    uint64_t evaluations, failures;
    uint64_t fires, clears, notices, left_out;
    size_t firing;     /* at the end */
    int64_t firing_ns; /* of all episodes that have cleared */
};

struct backtest;
/* E_PROTO, -EACCES: a rule can't be used; -EINVAL: from is not before to; *why. */
int backtest_create(const struct backtest_options *o, struct backtest **out, struct diag *why);
void backtest_destroy(struct backtest *b); /* NULL is fine */

int64_t backtest_begins(const struct backtest *b);
int64_t backtest_now(const struct backtest *b); /* how far it has come */
/* What it needs to hear: patterns of event names with commas between; "" = nothing. */
void backtest_events(const struct backtest *b, struct strbuf *out);
/* Not before the last one; evaluates what was due before it. What is after `to` does nothing. */
void backtest_take(struct backtest *b, const struct event *e);
void backtest_finish(struct backtest *b);
/* The i-th rule of the configuration; false after the last. */
bool backtest_rule(const struct backtest *b, size_t i, struct backtest_result *out);

#endif
