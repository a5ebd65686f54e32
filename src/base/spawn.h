/* SPDX-License-Identifier: Apache-2.0 */
/* spawn.h - starts a program cheaply and cleanly: no shell, no copy of our memory, nothing of ours inherited
 * but its three descriptors and the environment it is given.
 *
 * posix_spawn can't ask for the parent-death signal, a session of its own without a race, or a descriptor for
 * the process, so this does what posix_spawn does, with those. */
#ifndef GRIDLINE_SENSOR_SPAWN_H
#define GRIDLINE_SENSOR_SPAWN_H

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct spawn {
    const char *const *argv; /* ends with NULL; a name without a slash is looked for in PATH */
    const char *const *env;  /* all of it; ends with NULL */
    int in, out, err;        /* what become its descriptors 0, 1 and 2; they stay ours to close */
    int nice;                /* added to ours */
    int oom_score_adj;       /* 0 = as ours */
    bool is_kept;            /* it goes on when we end: a server that was asked for */
    /* Where it writes its number, before it becomes the program: no moment at which it runs and nobody knows
     * it, also if we end. First under the other name, of the same folder, which is not there. NULL = nowhere.
     */
    const char *pid_file, *pid_file_new;
};

/* The program runs in a session of its own, with default signals, none blocked, and is killed (SIGKILL) when
 * the calling *thread* ends, however that happens, but for is_kept. (The kernel forgets the latter for
 * set-uid programs.) *pidfd is readable when it has ended. -ENOENT, -EACCES, ... with *why when it can't be
 * started: nothing is left then, pid_file neither. Needs Linux 5.4. Cost: the caller stands still until the
 * kernel has loaded the program, a few hundred µs on an idle machine. */
int spawn(const struct spawn *s, pid_t *pid, int *pidfd, struct diag *why);

#endif
