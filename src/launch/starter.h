/* SPDX-License-Identifier: Apache-2.0 */
/* starter.h - the chain from who wants an agent to the agent: a starter that dies at once, and the daemon, which has
 * nothing left in common with either: no parent, session, process group, terminal, descriptor, pipe, working
 * directory, environment, ignored or blocked signal, processor that it is bound to, oom_score_adj, nor a soft limit
 * below the hard one. (What can't be left by a process itself stays: namespaces, seccomp filters, hard limits, a higher
 * nice value; and its cgroup, unless one to go to is given.)
 *
 * Slurm's proctrack/linuxproc looks for a step's processes by following parents in /proc, others by session or
 * process group: neither finds the daemon. */
#ifndef GRIDLINE_LAUNCH_STARTER_H
#define GRIDLINE_LAUNCH_STARTER_H

#include "base/err.h"

struct starter {
    int image; /* the program (image.h); stays the caller's */
    const char *const *argv;
    const char *cgroup; /* a cgroup's folder that the daemon goes to; NULL = it stays where it is */
};

/* Returns when the daemon executes the program, and the starter has ended; at most timeout_ms. It knows nothing of
 * how the daemon gets on. */
int starter_run(const struct starter *s, int timeout_ms, struct diag *why);

#endif
