/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - --watch: a question, and then what changes. On a terminal the table is drawn anew every two
 * seconds, or when the gateway tells of a change; everywhere else rows that are new or have changed are
 * printed as they come. Where the gateway does not tell, it is asked again and again. */
#ifndef GRIDLINE_CMD_WATCH_H
#define GRIDLINE_CMD_WATCH_H

#include "base/map.h"
#include "cmd/question.h"

enum { WATCH_EVERY_MS = 2000 };

struct watch_options {
    const char *const *keys;    /* columns that name a row; NULL ends them */
    const char *const *changes; /* columns whose change counts; NULL: all */
    const char *events;         /* what the gateway tells of changes by; NULL: nothing */
    const char *field;          /* of these events: what changed, */
    const char *narrow;         /* which is what this argument of the question takes patterns for */
};

/* Its line in a command's table of options. */
/* clang-format off */
#define WATCH_OPTION(type, member) \
    {0, "watch", OPTION_FLAG, NULL, offsetof(type, member), \
     "go on until stopped: on a terminal the table is drawn anew, elsewhere rows are printed when they change"}
/* clang-format on */

/* Asks once, or with is_watch until it is stopped; an exit code. behind (NULL: nothing) prints what follows
 * the rows of a round. Sets q->on_row: the caller's on_row is each. */
int watch_run(struct question *q, const char *verb, bool is_watch, const struct watch_options *o,
              void (*each)(void *arg, const struct frame_answer *row), void (*behind)(void *arg), void *arg);

#endif
