/* SPDX-License-Identifier: Apache-2.0 */
/* strays.h - the processes that a run leaves behind: found and killed.
 *
 * A run is a program that we started (its leader) with all its descendants. Those that stay in its process
 * group die with one kill(2). Those that left it (setsid, a double fork) are found in two ways:
 *
 *   - The process adopts orphans (strays_adopt: the kernel's child subreaper). A descendant that lost its
 *     parent is then a child of ours, and /proc/PID/task/PID/children lists it, whatever session, group or
 *     environment it gave itself. Killing it makes its own children ours, and so on, until there are none.
 *     Cost: one small file a run.
 *   - Otherwise (sensors used in somebody else's program) all of /proc is searched for the run's session and
 *     for its mark. One that has cleaned its environment as well as left its session is not found so.
 *
 * Each run has a mark, a variable of its environment, that its descendants inherit:
 *
 *     GRIDLINE_CHILD=NAMESPACE.PID.START.RUN
 *
 * (the pid namespace's inode, our pid and start time in ticks, the run's number). It tells whose an orphan is
 * while several runs are under way. It also outlives us: when we are killed with -9 the leaders die
 * (spawn.h), but no kernel facility short of a namespace or a cgroup ends their children (a service manager
 * that stops the whole cgroup does). strays_of_the_dead, called at the next start, finds them.
 *
 * Runs are kept in one list for the process, for the processes they make are: children belong to the process,
 * not to a sensor. One thread. */
#ifndef GRIDLINE_SENSOR_STRAYS_H
#define GRIDLINE_SENSOR_STRAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { STRAYS_MARK_MAX = 120 };

struct run {
    struct run *next;
    pid_t leader; /* stays unreaped until strays_kill has nothing left to find: its number is the session's */
    char mark[STRAYS_MARK_MAX]; /* "GRIDLINE_CHILD=..." */
    bool was_searched;          /* the last search found nothing; see strays_kill */
};

/* From now on orphans come to this process, and *every* child of it that is not a run's leader is taken for
 * one: it is killed when the run it belongs to ends, or when any run ends if it hides whose it is. For
 * programs that start processes in no other way. -errno: not possible here. */
int strays_adopt(void);

/* Fills in the mark. */
void strays_mark(struct run *run);
/* The leader is started: the run exists. */
void strays_begin(struct run *run);
void strays_end(struct run *run);

/* Kills (SIGKILL) what is left of the run besides its leader, and reaps what of it is ours. 0: there was
 * nothing. Else call again when they have had time to die; what they had started comes to light only then. */
size_t strays_kill(struct run *run);
/* Reaps orphans that have ended by themselves. A system call or two when there are none. */
void strays_reap(void);
/* Kills what earlier processes of ours, which are gone, have left; how many there were. Searches all of
 * /proc. */
size_t strays_of_the_dead(void);

#endif
