/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - --watch: the same question again and again. On a terminal the table is drawn anew each time;
 * everywhere else only rows that are new or have changed are printed. */
#ifndef GRIDLINE_CMD_WATCH_H
#define GRIDLINE_CMD_WATCH_H

#include "base/map.h"
#include "cmd/question.h"

enum { WATCH_EVERY_MS = 2000 };

struct watch_options {
    const char *const *keys;    /* columns that name a row; NULL ends them */
    const char *const *changes; /* columns whose change counts; NULL: all */
};

/* Asks once, or with is_watch until it is stopped; an exit code. behind (NULL: nothing) prints what follows
 * the rows of a round. Sets q->on_row: the caller's on_row is each. */
int watch_run(struct question *q, const char *verb, bool is_watch, const struct watch_options *o,
              void (*each)(void *arg, const struct frame_answer *row), void (*behind)(void *arg), void *arg);

#endif
