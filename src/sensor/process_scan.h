/* SPDX-License-Identifier: Apache-2.0 */
/* process_scan.h - which processes there are, cheaply, again and again: the list of pids in /proc is one or
 * two system calls, but what each of them is costs three more a process. So a pid is looked at when it is new
 * and in the two scans after (a new process often runs another program first), and then only in one scan of
 * SCAN_TURNS: a process that takes another program or name later, or a pid that came again between two scans,
 * is found within SCAN_TURNS scans. */
#ifndef GRIDLINE_SENSOR_PROCESS_SCAN_H
#define GRIDLINE_SENSOR_PROCESS_SCAN_H

#include "sensor/env.h"

enum { SCAN_TURNS = 16, SCAN_NEW = 3 };

struct scan_pid {
    uint32_t pid;
    uint32_t age; /* scans since it appeared, up to SCAN_NEW */
};

/* Zeroed = never scanned. */
struct process_scan {
    struct scan_pid *pids[2]; /* sorted: the last scan's, and room for the next */
    size_t n[2], room[2];
    unsigned last; /* which of the two */
    uint32_t turn;
};

void process_scan_fini(struct process_scan *s);
/* Lists /proc and calls fn for each pid that is to be looked at, ascending; all of them when is_whole.
 * E_NODATA: no /proc; -ENOMEM; -errno. */
int process_scan_run(struct process_scan *s, struct sensor_env *env, bool is_whole,
                     void (*fn)(void *arg, uint32_t pid), void *arg);

#endif
