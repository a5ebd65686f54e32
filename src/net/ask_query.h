/* SPDX-License-Identifier: Apache-2.0 */
/* ask_query.h - a query at a gateway (docs/protocol.md, "Queries"), on a connection of its own, row by row.
 *
 *     r = ask_query_open(&ask, &options, &q, &why);
 *     while ((r = ask_query_next(q, timeout_ns, &why)) > 0)
 *         ... ask_query_row(q), ask_query_columns(q) values ...
 *     ask_query_close(q);
 *
 * Nothing is read ahead but the bytes of a frame: a program that does not read makes the gateway wait. As
 * ask.h: nothing here prints, for one thread. */
#ifndef GRIDLINE_NET_ASK_QUERY_H
#define GRIDLINE_NET_ASK_QUERY_H

#include "net/ask.h"
#include "net/query.h"

struct ask_query_options {
    struct slice text;
    uint64_t time_ms, rows; /* limits; 0 = the gateway's defaults */
    /* Now and then while it takes long, from ask_query_next; NULL = nobody asks. */
    void (*progress)(void *arg, uint64_t rows_seen, uint64_t elapsed_ms);
    void *arg;
};

/* How it ended. */
struct ask_query_end {
    uint16_t status; /* enum control_status */
    uint32_t column; /* of the text, from 1: where it is wrong; 0 = nowhere in particular */
    uint64_t rows, lost;
    struct notices notices;
};

struct ask_query;
/* Connects and asks, as ask_open. text is copied. E_LIMIT: it is too long. */
int ask_query_open(const struct ask_options *o, const struct ask_query_options *query, struct ask_query **out,
                   struct diag *why);
/* What still runs is cancelled: the gateway sees that the asker is gone. */
void ask_query_close(struct ask_query *q); /* NULL is fine */

/* 1: a row; 0: that was the last one. -EAGAIN: none came within timeout_ns (INT64_MAX: for as long as it
 * takes); -EINTR: on_wait said so; both may be called again. Others: it has ended, *why says why: -EACCES,
 * E_PROTO (the text is wrong), -ECANCELED after ask_query_cancel, -EREMOTEIO (what the gateway says), or the
 * connection broke. */
int ask_query_next(struct ask_query *q, int64_t timeout_ns, struct diag *why);
/* Asks the gateway to stop; what ask_query_next gives then is its end. */
void ask_query_cancel(struct ask_query *q);

/* 0: not known yet; known with the first row, and at the end. */
size_t ask_query_columns(const struct ask_query *q);
struct slice ask_query_column(const struct ask_query *q, size_t i); /* its name */
/* As many values as there are columns; borrowed until the next call. */
const struct value *ask_query_row(const struct ask_query *q);
/* false: it has not ended, or not by the gateway's word. */
bool ask_query_end(const struct ask_query *q, struct ask_query_end *out);

#endif
