/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h - the guard's Unix socket: questions and orders of people (docs/protocol.md, "Control"), as a
 * gateway takes them, from the guard's own user and root alone. Every connection and everything that waits is
 * bounded. On the loop. */
#ifndef GRIDLINE_GUARD_SERVE_H
#define GRIDLINE_GUARD_SERVE_H

#include "net/control.h"

struct event_base;

/* Who asks and what is answered; valid within the call of serve_ask. */
struct serve_reply;
/* A row. false: what waits for this asker is too much already, the answer is to end (CONTROL_PARTLY). */
bool serve_row(struct serve_reply *to, const struct args_writer *row);
/* Its user, for the audit: "uid 1000". */
const char *serve_asker(const struct serve_reply *to);

/* Answers one question: rows, and then the last answer's status, with text and values (the writer is the
 * server's own, empty at first). */
typedef uint16_t (*serve_ask)(void *arg, const struct frame_control *question, struct serve_reply *to,
                              struct strbuf *text, struct args_writer *values);

enum {
    SERVE_ASKERS_MAX = 32,
    SERVE_INPUT_MAX = 128 << 10,
    SERVE_OUTPUT_MAX = 32 << 20,
    SERVE_HELLO_MS = 10000
};

struct serve;
int serve_create(struct event_base *base, const char *path, serve_ask ask, void *arg, struct serve **out,
                 struct diag *why);
void serve_destroy(struct serve *s); /* NULL is fine */

#endif
