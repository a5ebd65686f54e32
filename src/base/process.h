/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - another process of this host, as /proc tells it. A pid alone names no process for long: with
 * the start time it does. */
#ifndef GRIDLINE_BASE_PROCESS_H
#define GRIDLINE_BASE_PROCESS_H

#include "base/strbuf.h"

#include <sys/types.h>

enum { PROCESS_FILE_MAX = 128 << 10 };

/* /proc/PID/NAME, at most PROCESS_FILE_MAX bytes of it, in place of what out had; false when it can't be read
 * (the process has gone, or is not ours). */
bool process_read(pid_t pid, const char *name, struct strbuf *out);

struct process_stat {
    struct slice name; /* at most 15 bytes, any; borrowed from the buffer */
    char state;        /* R, S, D, Z, ... */
    uint64_t start;    /* ticks after boot */
};
/* false: there is none, or no more. Uses buffer. */
bool process_stat(pid_t pid, struct strbuf *buffer, struct process_stat *out);
/* It has ended, though its parent has not noticed. */
static inline bool process_is_dead(const struct process_stat *s)
{
    return s->state == 'Z' || s->state == 'X' || s->state == 'x';
}

#endif
