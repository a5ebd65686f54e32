/* SPDX-License-Identifier: Apache-2.0 */
/* control.h - CONTROL and ANSWER (docs/protocol.md, "Control"): a gateway to its worker, and a person's
 * command to a gateway. A question may have many answers: rows with CONTROL_MORE, then the last one with the
 * status that counts. Statuses are the exit codes of DESIGN.md. */
#ifndef GRIDLINE_NET_CONTROL_H
#define GRIDLINE_NET_CONTROL_H

#include "net/args.h"
#include "net/frame.h"

enum control_frame { FRAME_CONTROL = 14, FRAME_ANSWER = 15 };

enum control_status {
    CONTROL_DONE = 0,
    CONTROL_FAILED = 1,
    CONTROL_USAGE = 2,
    CONTROL_NOT_FOUND = 3,
    CONTROL_PARTLY = 4,
    CONTROL_NOT_ALLOWED = 5,
    CONTROL_MORE = 65535 /* a row; others follow */
};

struct frame_control {
    uint64_t request; /* the asker's choice */
    struct slice verb;
    struct args args;
};

struct frame_answer {
    uint64_t request;
    uint16_t status;
    struct slice text; /* for a person; "" = nothing to say */
    struct args args;
};

void frame_put_control(struct strbuf *out, uint32_t worker, const struct frame_control *c);
int frame_get_control(struct slice payload, struct frame_control *out);
void frame_put_answer(struct strbuf *out, uint32_t worker, const struct frame_answer *a);
int frame_get_answer(struct slice payload, struct frame_answer *out);

#endif
