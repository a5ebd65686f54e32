/* SPDX-License-Identifier: Apache-2.0 */
/* deliver.h - a command's events to a gateway: blocks out, acknowledgements back. What was sent is kept until
 * it is acknowledged and sent again when the connection breaks, so memory is the gateway's window (about
 * 1 MiB) and a block.
 *
 *     r = deliver_open(&options, &d, &why);       (deliver_welcome: what the gateway has of it already)
 *     r = deliver_put(d, block, &why);            any number of times; waits for room
 *     r = deliver_finish(d, is_whole, &why);      until all is acknowledged
 *     deliver_close(d);
 *
 * Calls wait. A gateway that goes away is dialled again until patience_ns have passed without one that
 * answers. For one thread. */
#ifndef GRIDLINE_CMD_DELIVER_H
#define GRIDLINE_CMD_DELIVER_H

#include "base/err.h"
#include "net/frame.h"

enum { DELIVER_REASONS = REFUSE_TOO_NEW + 1 };

struct deliver_options {
    const char *gateway, *identity; /* as of net/ask.h; borrowed */
    const char *host, *prog;        /* for HELLO; borrowed */
    struct frame_origin origin;     /* whose seq WELCOME tells, and whose COUNTS are sent */
    int64_t patience_ns;            /* 0 = 30 s */
    bool (*on_wait)(void *arg); /* twice a second at least: true ends the call with -EINTR. NULL = never */
    void *arg;
};

/* Events. sent = passed + the sum of refused + those that are on the way. */
struct deliver_counts {
    uint64_t sent, passed;
    uint64_t refused[DELIVER_REASONS]; /* for good, by enum frame_refusal; 0: any other reason */
    uint32_t reconnects;
    char text[DELIVER_REASONS][120]; /* what the gateway said of the last refusal for that reason */
};

struct deliver;
/* -EACCES: the gateway or its socket says that you may not; -EINTR; -ETIMEDOUT...: *why has a sentence. */
int deliver_open(const struct deliver_options *o, struct deliver **out, struct diag *why);
/* Says nothing more on the wire. NULL is fine. */
void deliver_close(struct deliver *d);

/* What the gateway said when it was reached first. */
const struct frame_welcome *deliver_welcome(const struct deliver *d);
/* A whole block, which is copied, with its own origin: the options' or another. */
int deliver_put(struct deliver *d, struct slice block, struct diag *why);
/* Waits for the last acknowledgement, then COUNTS and BYE. before: what was held when it began and has not
 * been sent, for COUNTS; is_whole: nothing will ever follow under this origin. */
int deliver_finish(struct deliver *d, uint64_t before, bool is_whole, struct diag *why);
void deliver_counts(const struct deliver *d, struct deliver_counts *out);

#endif
