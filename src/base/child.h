/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - a program that runs for us, supervised: bounded in time and in what it prints, never waited for,
 * and nothing of it is left when it has ended.
 *
 *     child_start(&options, now, &c, &why);
 *     while (child_pump(c, now)) {                      (whenever child_wait_fd(c) is readable)
 *         use child_output(c); child_consume(c, n);
 *     }
 *     if (child_end(c)->reason != CHILD_BY_ITSELF) child_explain(c, &why);
 *     child_destroy(c);
 *
 * child_wait_fd is the only descriptor to wait for: output, errors, the end of the process and all time
 * limits make it readable. No threads, no signal handlers, no SIGCHLD; no call here waits but child_settle,
 * when asked to.
 *
 * The run is over when the program ends: what it printed until then is kept, and whatever it left running is
 * killed (strays.h: its process group, and those that left it). When it is stopped it gets SIGTERM, and after
 * the grace SIGKILL, with its group. When we die, it is killed (spawn.h). */
#ifndef GRIDLINE_SENSOR_CHILD_H
#define GRIDLINE_SENSOR_CHILD_H

#include "base/err.h"
#include "base/slice.h"

#include <stdint.h>

#define CHILD_GRACE   (INT64_C(2) * 1000 * 1000 * 1000) /* ns, where options say nothing */
#define CHILD_GIVE_UP (INT64_C(5) * 1000 * 1000 * 1000) /* ns after SIGKILL: then it can't be killed */

enum { CHILD_BUFFER = 64 << 10, CHILD_INPUT_MAX = 4 << 20 };

/* 0 = no limit, but for grace_ns and buffer_max, which have defaults. Both output and errors count. */
struct child_options {
    const char *const *argv; /* ends with NULL; borrowed for the call */
    const char *const *env;  /* "NAME=value" besides our own; ends with NULL; NULL = none */
    bool env_is_all;         /* nothing of ours besides env */
    bool has_input;          /* else /dev/null */
    int64_t max_run_ns;
    int64_t grace_ns; /* from SIGTERM to SIGKILL */
    uint64_t max_bytes, max_lines;
    uint64_t max_bytes_s, max_lines_s; /* in one second */
    size_t buffer_max; /* output waiting for child_consume; when it is full the program has to wait */
    int nice, oom_score_adj;
};

enum child_reason {
    CHILD_BY_ITSELF, /* it ended, or somebody else ended it */
    CHILD_TIME,      /* the rest: a limit was reached, we ended it */
    CHILD_BYTES,
    CHILD_LINES,
    CHILD_BYTES_S,
    CHILD_LINES_S,
    CHILD_STOPPED /* child_stop */
};

struct child_end {
    enum child_reason reason;
    int code, signal; /* exit code, or the signal that killed it (then code is -1) */
    int64_t ran_ns;   /* from start to end */
    bool has_left;    /* something could not be killed */
};

struct child;

/* *out is untouched on failure. now_ns is monotonic, here and below. */
int child_start(const struct child_options *options, int64_t now_ns, struct child **out, struct diag *why);
/* If it still runs it is stopped, out of sight: see child_settle. NULL is fine. */
void child_destroy(struct child *c);

int child_wait_fd(const struct child *c);
/* Moves things along: 1; 0 when it has ended, its output is in child_output, and nothing of it is left. */
int child_pump(struct child *c, int64_t now_ns);
void child_stop(struct child *c, int64_t now_ns);
/* What it printed and nobody consumed; borrowed until the next call. */
struct slice child_output(const struct child *c);
void child_consume(struct child *c, size_t n);
/* Its last line of errors, printable, cut to fit a message; "" = none. */
const char *child_said(const struct child *c);

/* Queues bytes for its input. E_LIMIT: CHILD_INPUT_MAX wait already; -EPIPE: it takes no more; -ENOMEM. */
int child_write(struct child *c, struct slice bytes);
/* Nothing more comes: its input ends behind what was queued. */
void child_end_input(struct child *c);

/* NULL until child_pump has returned 0. */
const struct child_end *child_end(const struct child *c);
/* Why it ended, in words: "check_disk: killed after 10s: no end". Returns a code that fits (-ETIMEDOUT,
 * E_LIMIT, -ECHILD). Not for those that ended by themselves with code 0. */
int child_explain(const struct child *c, struct diag *why);

/* Goes on ending those that were destroyed while they ran: how many are not ended yet. Waits for them at most
 * wait_ns; what lives then is killed at once. Programs with sensors call child_settle(0) whenever they wake
 * up (it costs nothing when there are none) and child_settle(CHILD_GRACE) before they exit. */
size_t child_settle(int64_t wait_ns);

#endif
