/* SPDX-License-Identifier: Apache-2.0 */
/* errand.h - work that may block (a question to the gateway, a ping), on a few threads of its own; its result
 * comes back to the loop. Bounded: at most ERRANDS_MAX wait, more are refused. */
#ifndef GRIDLINE_GUARD_ERRAND_H
#define GRIDLINE_GUARD_ERRAND_H

#include "base/err.h"

#include <stdbool.h>

enum { ERRANDS_MAX = 1024 };

struct event_base;

/* Embedded in whatever it is about. */
struct errand {
    void (*run)(struct errand *e);  /* on a thread; nothing but e's own may be touched */
    void (*done)(struct errand *e); /* on the loop; also when it never ran (is_dropped): frees e */
    bool is_dropped;
    struct errand *next; /* the pool's own */
};

struct errands;
int errands_create(struct event_base *base, unsigned threads, struct errands **out);
/* Waits for those that run; the others are done with is_dropped. run should look at errands_is_ending now and
 * then. */
void errands_destroy(struct errands *e); /* NULL is fine */
/* Takes it. E_LIMIT: too many wait; it is not taken. */
int errands_send(struct errands *e, struct errand *errand);
bool errands_is_ending(const struct errands *e); /* from any thread */

#endif
