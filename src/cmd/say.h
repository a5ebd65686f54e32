/* SPDX-License-Identifier: Apache-2.0 */
/* say.h - what a command tells the person: messages and one line of progress, all on standard error. The one
 * place that writes there. Not thread-safe: commands have one thread. */
#ifndef GRIDLINE_CMD_SAY_H
#define GRIDLINE_CMD_SAY_H

#include "event/notice.h"

#include <stdbool.h>
#include <stdint.h>

/* "gridline NAME: message"; NAME is that of say_start. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The message alone: "file:line: reason". */
void say_plain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Facts beside an answer, each as say() does. */
void say_notices(const struct notices *notices);

/* name is borrowed. */
void say_start(const char *name);
/* From now on progress is shown if standard error is a terminal and more than a second has passed. total 0:
 * not known. What is done is counted in bytes. */
void say_progress_start(const char *what, uint64_t total);
/* Cheap enough for every batch; draws twice a second. */
void say_progress(uint64_t done);
void say_progress_end(void);

/* A line that the next one takes the place of; only on a terminal. say_progress_end takes it away. */
void say_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Asks the person at the terminal; false: no, or nobody is there. */
bool say_confirm(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
