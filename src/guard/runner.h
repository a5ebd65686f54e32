/* SPDX-License-Identifier: Apache-2.0 */
/* runner.h - one attempt of an action: a process of gridline-act that gets a request and gives a reply
 * (net/act.h), on the loop. Ended when its time is over; it knows its deadline itself and has a few seconds
 * more to end what it started. One thread. */
#ifndef GRIDLINE_GUARD_RUNNER_H
#define GRIDLINE_GUARD_RUNNER_H

#include "base/err.h"
#include "base/slice.h"
#include "net/act.h"

struct event_base;
struct runner;

struct runner_end {
    bool is_known; /* it said how it ended; else nobody knows what it has done */
    int code;      /* 0: done */
    int exit_code; /* of the program that it ran; -1 = none */
    struct slice text, output;
    int64_t ran_ns;
};

/* request is copied. fn is called once, later, from the loop; runner_destroy may be called in it. *why: it
 * could not be started, and nothing has run. */
int runner_start(struct event_base *base, const char *act, const struct act_request *request,
                 void (*fn)(void *arg, const struct runner_end *e), void *arg, struct runner **out,
                 struct diag *why);
/* What still runs is ended, out of sight (child_settle). NULL is fine. */
void runner_destroy(struct runner *r);

#endif
