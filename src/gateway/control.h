/* SPDX-License-Identifier: Apache-2.0 */
/* control.h - questions that people ask of a gateway and what it asks of its workers for them (DG-10).
 *
 * Verbs from a person's command (docs/protocol.md, "Control"): hosts, ledger, status: rows from what the
 * gateway knows. worker.suspend|resume|kill|set, sensor.start|stop|set, activate: to each worker that
 * `workers` (patterns of host names by commas; "" = all) and `where` (a predicate over host, state, mode and
 * the static properties) choose; every worker's answer is a row as it comes, those that have no connection or
 * do not answer in `timeout_ms` (10 s) are rows, too; the last answer counts them: n of m. At most
 * CONTROL_REQUESTS questions are open at a time.
 *
 * What was asked by whom of which workers, and how it ended, is an event `control` (on_done). On the loop. */
#ifndef GRIDLINE_GATEWAY_CONTROL_H
#define GRIDLINE_GATEWAY_CONTROL_H

#include "gateway/access.h"
#include "gateway/ledger.h"
#include "gateway/worker.h"
#include "net/control.h"

#include <event2/event.h>

enum { CONTROL_REQUESTS = 64, CONTROL_TIMEOUT_MS = 10000 };

/* Who asked. Embedded in the session. */
struct control_asker {
    void (*answer)(struct control_asker *a, const struct frame_answer *answer);
    const struct access_identity *who;
};

/* One line of the audit. */
struct control_done {
    const struct access_identity *who;
    struct slice verb, workers, where;
    uint32_t asked, answered; /* workers; answered: with status 0 */
    uint16_t status;
};

struct control_ops {
    /* To w's agent: 0, -ENOTCONN. */
    int (*send)(void *arg, struct worker *w, const struct frame_control *c);
    /* ACTIVATE (list: frame.h) to the programs of that host that are connected here: how many. */
    size_t (*activate)(void *arg, struct slice host, struct slice list);
    /* Named numbers of the gateway itself, for `status`. */
    void (*status)(void *arg, struct args_writer *out);
    void (*on_done)(void *arg, const struct control_done *d);
};

struct control;
struct control *control_create(struct event_base *base, struct workers *workers, struct ledger *ledger,
                               const struct control_ops *ops, void *arg); /* NULL: no memory */
void control_destroy(struct control *c);                                  /* NULL is fine */

/* Answers now or later, by asker->answer; always ends with a status that is not CONTROL_MORE. */
void control_ask(struct control *c, struct control_asker *asker, const struct frame_control *question);
/* The asker is gone: what it asked goes on, unanswered. */
void control_forget(struct control *c, const struct control_asker *asker);
/* A worker's ANSWER, and the end of its connection. */
void control_answered(struct control *c, struct worker *w, const struct frame_answer *answer);
void control_disconnected(struct control *c, struct worker *w);

#endif
