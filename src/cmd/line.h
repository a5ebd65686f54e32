/* SPDX-License-Identifier: Apache-2.0 */
/* line.h - lines that a person types at a terminal. With libedit (line_editline.c) they can be edited, have a
 * history that is kept in a file, and words are completed; a build without it (line_plain.c) reads lines as
 * the terminal gives them. */
#ifndef GRIDLINE_CMD_LINE_H
#define GRIDLINE_CMD_LINE_H

#include "base/slice.h"

struct line_options {
    const char *name;    /* of the command, for ~/.editrc */
    const char *history; /* file; NULL: it is not kept */
    /* The words that could be meant by one that begins so: add for each. */
    void (*complete)(void *arg, struct slice word, void (*add)(void *to, struct slice candidate), void *to);
    void *arg;
};

struct line_reader;
struct line_reader *line_open(const struct line_options *o); /* NULL: no memory, or no terminal to edit on */
void line_close(struct line_reader *r);                      /* NULL is fine; the history is written */
/* 1: a line without its end, borrowed until the next call; 0: there are no more (Ctrl-D); -EINTR: Ctrl-C,
 * what was typed is forgotten. */
int line_read(struct line_reader *r, const char *prompt, struct slice *out);
void line_remember(struct line_reader *r, const char *text); /* in the history */

#endif
