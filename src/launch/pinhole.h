/* SPDX-License-Identifier: Apache-2.0 */
/* pinhole.h - the ways out of a sandbox, each one file with one table at its bottom and one line in pinholes.def.
 *
 *     unix     a socket that the grid's client has bound into the sandbox; `gridline pinhole` serves it outside
 *     systemd  the user's service manager starts the agent
 *     spawn    a process of our own, where the sandbox only tracks process groups, sessions or parents
 *
 * A pinhole is tried only if what it needs is there; all of them are bounded in time, and none harms the job. */
#ifndef GRIDLINE_LAUNCH_PINHOLE_H
#define GRIDLINE_LAUNCH_PINHOLE_H

#include "launch/agent_args.h"
#include "net/launch.h"

#include <stdbool.h>
#include <stdint.h>

#define PINHOLE_SOCKET "/run/gridline/pinhole.sock"
#define PINHOLE_ENV    "GRIDLINE_PINHOLE" /* another path of the socket */

struct pinhole_terms {
    struct agent_terms agent;
    const char *program; /* the agent's; NULL = none was found */
    bool is_carried;     /* it came with the job, the host has it not */
    const char *socket;
    const char *cgroup; /* for the agent to go to; NULL */
};

struct pinhole_ops {
    const char *name, *summary;
    /* Is what it needs here? Else *why. */
    bool (*is_here)(const struct pinhole_terms *t, struct diag *why);
    /* Has the agent created outside, and waits until it is confirmed to run, until the monotonic time until_ns at
     * most. */
    int (*start)(const struct pinhole_terms *t, int64_t until_ns, struct diag *why);
    /* Carries what the launcher tells of its job; waits no longer. */
    int (*tell)(const struct pinhole_terms *t, const struct launch_request *r, int64_t until_ns);
};

extern const struct pinhole_ops *const pinholes[]; /* in the order they are tried; ends with NULL */
/* NULL: there is none of that name. */
const struct pinhole_ops *pinhole_by_name(struct slice name);

/* Tries p, or with NULL all; which one did it is in *used. *why is of the last one tried. */
int pinhole_open(const struct pinhole_ops *p, const struct pinhole_terms *t, int64_t until_ns,
                 const struct pinhole_ops **used, struct diag *why);

/* For those that share the agent's network namespace. */
int pinhole_confirm(const struct pinhole_terms *t, int64_t until_ns, struct diag *why);
int pinhole_tell_agent(const struct pinhole_terms *t, const struct launch_request *r, int64_t until_ns);
int pinhole_left_ms(int64_t until_ns); /* at least 0 */

#endif
