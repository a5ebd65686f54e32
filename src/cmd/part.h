/* SPDX-License-Identifier: Apache-2.0 */
/* part.h - a program that another one of gridline's keeps running: started, found ready, started again when
 * it dies, and ended.
 *
 * The owner blocks SIGCHLD and the signals that are to end it (part_block_signals), and waits for them in part_wait. A part is in
 * a process group of its own, so that Ctrl-C reaches the owner alone, which ends its parts in order; it is
 * sent SIGTERM by the kernel if its owner is killed. One thread. */
#ifndef GRIDLINE_CMD_PART_H
#define GRIDLINE_CMD_PART_H

#include "base/strbuf.h"

#include <sys/types.h>

enum { PART_WORDS = 160 };

struct part {
    const char *name;            /* "agent" */
    const char *program;         /* "gridline-agent" */
    char *words[PART_WORDS + 2]; /* arguments, from [1] on; owned */
    size_t n_words;
    struct strbuf ready; /* the file that it writes when it is ready; begins with nothing there */

    pid_t pid;          /* 0 = it does not run */
    int status;         /* of the last end, as waitpid has it */
    int64_t started_ns; /* monotonic */
    int64_t again_ns;   /* when it is to be started again; 0 = it is not to */
    int64_t delay_ns;   /* before that */
};

/* Adds an argument, made like printf's. */
void part_add(struct part *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Takes the last one away. */
void part_drop(struct part *p);
void part_fini(struct part *p); /* it has ended */

/* -errno: no process could be made. That its program is not there shows as an end with status 127. */
int part_start(struct part *p);
bool part_is_ready(const struct part *p);

/* The signals that part_wait waits for: once, before the first part is started. */
void part_block_signals(void);
/* Waits until something happens, at most that long: the signal that is to end the owner; SIGCHLD: some part
 * may have ended (part_look); 0: the time is over. */
int part_wait(int64_t timeout_ns);
/* Did it end since the last look? Then it is to be started again after a while: soon if it ran for some
 * time, later and later if it does not. */
bool part_look(struct part *p);
/* "was killed by signal 9", "ended with exit code 1". */
void part_print_end(const struct part *p, struct strbuf *out);

/* SIGTERM, and after PART_GRACE_S, or if a signal comes after a second of it, SIGKILL. False: it had to be
 * killed. */
enum { PART_GRACE_S = 10 };
bool part_stop(struct part *p);

#endif
