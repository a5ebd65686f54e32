/* SPDX-License-Identifier: Apache-2.0 */
/* ask.h - a command's connection to a gateway: one question at a time, waiting for its answers
 * (docs/protocol.md, "Control").
 *
 *     struct ask *a;
 *     r = ask_open(&options, &a, &why);
 *     r = ask_run(a, &question, on_row, arg, &end, &why);    (rows as they come; end is the last answer)
 *     ask_close(a);
 *
 * Addresses: unix:PATH, tcp://HOST[:PORT], tls://HOST[:PORT] with the operator's identity. Every call waits,
 * up to its time limit. Nothing here prints: *why has whole sentences that say what to do. For one thread. */
#ifndef GRIDLINE_NET_ASK_H
#define GRIDLINE_NET_ASK_H

#include "base/err.h"
#include "net/control.h"

struct ask_options {
    const char *gateway; /* NULL or "": that of this host, dial_default_gateway */
    const char
        *identity;    /* folder (net/tls.h) for tls://; NULL: GRIDLINE_IDENTITY, or else in the home folder */
    const char *prog; /* who asks, for the gateway's log */
    int64_t
        timeout_ns; /* until it is connected; and of silence, unless a question says otherwise. 0 = 10 s */
    /* Called while it waits, at least twice a second: true ends the call with -EINTR. NULL = never. */
    bool (*on_wait)(void *arg);
    void *arg;
};

struct ask;
/* -EACCES: the gateway or its socket says that you may not; -EINTR; -ETIMEDOUT; others: it can't be reached.
 */
int ask_open(const struct ask_options *o, struct ask **out, struct diag *why);
void ask_close(struct ask *a); /* NULL is fine; says BYE */
const char *ask_address(const struct ask *a);

/* What greeting the gateway told of its clock: global time is the local UTC + offset, within ± bound (half
 * the round trip). */
struct ask_clock {
    int64_t rtt_ns, offset_ns, bound_ns;
};
void ask_clock(const struct ask *a, struct ask_clock *out);

struct ask_question {
    struct slice verb;
    struct args args;
    int64_t silence_ns; /* how long the gateway may say nothing; 0 = that of the options */
};

/* Borrowed until the next call. */
struct ask_end {
    uint16_t status;
    struct slice text;
    struct args args;
};

/* A row; negative ends the call with that code. Borrowed for the call. */
typedef int (*ask_row)(void *arg, const struct frame_answer *row);
/* 0: the last answer is in *end, whatever its status. After a failure the connection is of no more use. */
int ask_run(struct ask *a, const struct ask_question *q, ask_row row, void *arg, struct ask_end *end,
            struct diag *why);

/* ---------------------------------------------------------------- other frames, for ask_query.h */

/* What is appended here is sent by the next ask_frame. */
struct strbuf *ask_out(struct ask *a);
/* The next frame that is no PING; borrowed until the next call. -EAGAIN: none has come by then (monotonic);
 * -EINTR: on_wait said so, and it can be called again. Others: the connection is of no more use, *why says
 * it. */
int ask_frame(struct ask *a, int64_t until_ns, struct frame *out, struct diag *why);

#endif
