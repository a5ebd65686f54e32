/* SPDX-License-Identifier: Apache-2.0 */
/* broker.h - the host's end of a pinhole: a Unix socket that is bound into sandboxes. Whoever may connect can have
 * the one agent of this host started, and tell it of jobs; nothing else.
 *
 *   - It runs as the user of the grid's client, and starts only the program that it was started with, opened then and
 *     executed by its descriptor, with arguments of its own.
 *   - A request is net/launch.h's 128 bytes: anything else, one byte more or a descriptor with it, is refused. One
 *     request a connection, in BROKER_READ_MS; if all places are taken, in BROKER_HURRY_MS.
 *   - The kernel says who asks: this user, root, and the users it was told.
 *   - Limits: BROKER_CALLERS connections at a time, of each user BROKER_BURST requests at once and
 *     BROKER_PER_S a second, and BROKER_STARTS programs started at once, one each BROKER_START_EVERY_S after that.
 *   - Every request is one line of the log, with its user, process and result (rate-limited: base/log.h).
 *
 * One thread, one poll. */
#ifndef GRIDLINE_LAUNCH_BROKER_H
#define GRIDLINE_LAUNCH_BROKER_H

#include "launch/agent_args.h"

#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

enum {
    BROKER_CALLERS = 32,
    BROKER_READ_MS = 5000,
    BROKER_HURRY_MS = 500,
    BROKER_BURST = 120,
    BROKER_PER_S = 40,
    BROKER_STARTS = 4,
    BROKER_START_EVERY_S = 5,
    BROKER_USERS_MAX = 64
};

struct broker_options {
    const char *socket;
    const char *program; /* the agent's */
    const char *cgroup;  /* for it to go to; NULL */
    struct agent_terms agent;
    int64_t timeout_ns; /* for it to run */
    const uid_t *users; /* besides this one and root */
    size_t n_users;
};

struct broker;
/* -EADDRINUSE: another broker serves the socket. *out is untouched on failure. Borrows what options point to. */
int broker_create(const struct broker_options *o, struct broker **out, struct diag *why);
void broker_destroy(struct broker *b); /* NULL is fine; removes the socket if it is still ours */
/* Until stop is readable. */
int broker_run(struct broker *b, int stop);

#endif
