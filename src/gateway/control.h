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
 * Other parts of the gateway answer questions of their own (control_add): `latest`, `summary`, `sensors`, ...
 * Every interface, frames, HTTP and XML-RPC, asks by control_ask, so that all have the same verbs and the
 * same access.
 *
 * What was asked by whom of which workers, and how it ended, is an event `control` (on_done). On the loop. */
#ifndef GRIDLINE_GATEWAY_CONTROL_H
#define GRIDLINE_GATEWAY_CONTROL_H

#include "event/event.h"
#include "gateway/access.h"
#include "gateway/ledger.h"
#include "gateway/worker.h"
#include "net/control.h"

#include <event2/event.h>

enum { CONTROL_REQUESTS = 64, CONTROL_TIMEOUT_MS = 10000 };

/* Who asked. Embedded in the session. */
struct control_asker {
    void (*answer)(struct control_asker *a, const struct frame_answer *answer);
    /* Rows that are events; NULL: they come as answers with one value, `block` (event/block.h). */
    void (*events)(struct control_asker *a, uint64_t request, const struct event *events, size_t n);
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

/* A question that is being answered, within the call. Rows as they are found, then control_end, once. In
 * pages: an answer is to be about CONTROL_PAGE bytes; where there is more, the last answer's args have
 * `after` (uint or text), and the asker asks again with that. */
enum { CONTROL_PAGE = 96 << 10 };
struct control_turn;
const struct access_identity *control_who(const struct control_turn *t);
struct args control_args(const struct control_turn *t);
/* false: nobody listens any more; do not go on. */
bool control_row(struct control_turn *t, struct args row);
bool control_events(struct control_turn *t, const struct event *events, size_t n);
size_t control_given(const struct control_turn *t); /* bytes of rows so far, about */
void control_end(struct control_turn *t, enum control_status status, struct args args, const char *format,
                 ...) __attribute__((format(printf, 4, 5))); /* the text; "" = none */

struct control_verb {
    const char *name;
    /* Without it, of any host at all, the question is not asked: not allowed. ACCESS_ACTIONS: nobody needs
     * one. */
    enum access_action action;
    void (*run)(void *arg, struct control_turn *t);
};

struct control;
struct cursors;
struct directory;
struct gateway_archive;
struct class_source;
/* The classes by which fields are taken (event/class.h); NULL = nobody keeps any. */
const struct class_source *control_classes(const struct control_turn *t);
/* A verb of control that has ended, for the audit: an event `control` with what it was about as `where`. */
void control_audit(const struct control_turn *t, const char *verb, struct slice what);
/* The verbs are borrowed for good. -ENOMEM. */
int control_add(struct control *c, const struct control_verb *verbs, size_t n, void *arg);
/* The verbs there are, and what one has to be allowed for each. */
void control_each_verb(const struct control *c,
                       void (*fn)(void *arg, const char *name, enum access_action action), void *arg);
struct control *control_create(struct event_base *base, struct workers *workers, struct ledger *ledger,
                               const struct control_ops *ops, void *arg); /* NULL: no memory */
void control_destroy(struct control *c);                                  /* NULL is fine */

/* Rows of hosts have what the directory knows of them from now on. Borrowed; NULL = none. */
void control_set_directory(struct control *c, const struct directory *d);
/* The ledger has a row for each durable subscription that lost records of the journal from now on. The same.
 */
void control_set_cursors(struct control *c, const struct cursors *cursors);
/* Rows of the ledger say whose streams are too many for the archive from now on. The same. */
void control_set_archive(struct control *c, const struct gateway_archive *a);
/* Questions take fields by these classes from now on. The same. */
void control_set_classes(struct control *c, const struct class_source *classes);

/* Answers now or later, by asker->answer; always ends with a status that is not CONTROL_MORE. */
void control_ask(struct control *c, struct control_asker *asker, const struct frame_control *question);
/* The asker is gone: what it asked goes on, unanswered. */
void control_forget(struct control *c, const struct control_asker *asker);
/* A worker's ANSWER, and the end of its connection. */
void control_answered(struct control *c, struct worker *w, const struct frame_answer *answer);
void control_disconnected(struct control *c, struct worker *w);

#endif
