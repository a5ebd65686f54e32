/* SPDX-License-Identifier: Apache-2.0 */
/* agent.h - the agent as one piece: configuration, sensors, destinations and the local socket on one loop.
 *
 * agent_run returns after SIGTERM or SIGINT, or when a guest is asked to go. SIGHUP reads the configuration
 * again: what did not change is not touched; a bad one keeps the old one and says so. */
#ifndef GRIDLINE_AGENT_AGENT_H
#define GRIDLINE_AGENT_AGENT_H

#include "agent/config.h"

struct agent_options {
    struct config_flags config;
    const char *ready_file; /* written once everything runs; NULL = none */
};

struct agent;
/* -EEXIST: another agent of this host and gateway runs, *why says which. *out is untouched on failure.
 * Borrows what options point to. */
int agent_create(const struct agent_options *options, struct agent **out, struct diag *why);
void agent_destroy(struct agent *a); /* NULL is fine */
int agent_run(struct agent *a);

#endif
