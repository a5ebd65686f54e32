/* SPDX-License-Identifier: Apache-2.0 */
/* action.h - what is done about faults: notices wait here for their turn, run in processes of their own
 * (gridline-act, net/act.h), are tried again, limited, counted and audited.
 *
 * A notice becomes an order, or joins one: actions that can be about many faults collect those of group_ns
 * into one order that says how many there are and lists the first. An order is written down (state.h) before
 * its fault's notice counts as given, each attempt before it starts, and its end when it is known. So after
 * kill -9 at any point: waiting          it is still waiting started, no end  repeated if its action says so
 * (it counts as an attempt), else ended as `unknown`, which is told; never more than `attempts` starts in all
 *     ended            it is over
 *
 * Limits of each action, all with defaults: rate (runs in a time), concurrency, queue, attempts, timeout, and
 * a breaker that stops trying after failures in a row. What a limit keeps waiting waits, up to the queue;
 * what does not fit is left out and counted by reason, and the next order of that action that runs says how
 * many were ({left_out}).
 *
 * Data of an order, by name, for {NAME} in the action's options: kind (fire, repeat, escalate, clear), rule,
 * severity, fault (the id), summary, help, time (ISO 8601), since, guard (this host), count (faults in this
 * order), list (a line for each, the first 50), left_out, action, attempt, and the fields of the (first)
 * fault's row by their own names, behind which these come.
 *
 * The program acts as its own user and group, in the guard's folder, with a small fixed environment and
 * GRIDLINE_ variables of the data. One thread, the guard's loop. */
#ifndef GRIDLINE_GUARD_ACTION_H
#define GRIDLINE_GUARD_ACTION_H

#include "guard/audit.h"
#include "guard/faults.h"
#include "guard/state.h"

struct event_base;

enum action_result { ACTION_DONE, ACTION_FAILED, ACTION_UNKNOWN, ACTION_LEFT_OUT };
const char *action_result_name(enum action_result r);

/* An order's attempt has ended, or the order was left out: for the guard's event `action`. Borrowed. */
struct action_end {
    const struct action_config *action;
    uint64_t order;
    enum action_result result;
    enum notice_kind kind;
    uint64_t fault;    /* the first */
    struct slice rule; /* its rule's name */
    uint32_t faults;   /* how many it is about */
    uint32_t attempt;
    bool is_last;              /* it is not tried again */
    int64_t waited_ns, ran_ns; /* from the notice to the start; of this attempt */
    int code, exit_code;
    struct slice text;
};

/* Of one action, since the start. Nothing gets lost:
 *     given + restored = joined + waiting + running + done + failed + unknown + left_out_queue +
 *                        left_out_memory */
struct action_counts {
    uint64_t given, joined;         /* notices; those that went into an order that was there */
    uint64_t restored;              /* orders found after a restart */
    uint64_t started, repeated;     /* attempts; those that were not the first */
    uint64_t done, failed, unknown; /* orders that are over */
    uint64_t left_out_queue, left_out_memory;
    size_t waiting, running;
    bool is_broken; /* the breaker is open */
};

struct actions_options {
    const struct guard_config *config;
    struct state *state;
    struct audit *audit;
    struct event_base *base;
    const char *act; /* path of gridline-act */
    void (*on_end)(void *arg, const struct action_end *e);
    void *arg;
};

struct actions;
int actions_create(const struct actions_options *o, struct actions **out); /* o's members are borrowed */
/* Ends what runs (it is repeated or told at the next start). */
void actions_destroy(struct actions *a); /* NULL is fine */
/* Records of state_open, before the first turn. E_PROTO, E_VERSION; -ENOENT: no such action any more, told as
 * left out. */
int actions_restore(struct actions *a, uint64_t id, struct slice record);

/* Queues it and puts its record (state_put): it counts when the caller has committed. E_LIMIT: left out,
 * counted. */
int actions_give(struct actions *a, unsigned action, const struct notice *n);
/* Starts what may start now: writes it down, commits, and only then starts. Called after each commit, when
 * something has ended, and when actions_next says. */
void actions_turn(struct actions *a, int64_t now_ns);
int64_t actions_next(const struct actions *a); /* UTC ns; INT64_MAX = nothing waits for time */
void actions_count(const struct actions *a, unsigned action, struct action_counts *out);

#endif
