/* SPDX-License-Identifier: Apache-2.0 */
/* demand.h - what the gateway's consumers ask of its workers' sensors that run on request (JM-2, SV-5).
 *
 * A subscription that names events is a request to every worker that its host patterns and its owner's access
 * leave; one without patterns takes what is sent anyway. What the configuration lists (`demand`) is a request
 * to all, for as long as the gateway runs: for observers, latest and summaries, the archive. Each worker is
 * told (net/demand.h) the patterns that it is asked for, with the smallest period of each, when that is
 * something else than it was told last, and after it has registered.
 *
 * Changes are waited for a moment (DEMAND_DELAY_MS) and looked at together, a piece at a time: however many
 * workers and subscriptions there are, the loop is held up for some ms at a time, and a fraction of its time.
 * Workers that are asked for the same share one list; without host patterns and with full access that is all
 * of them: a look at a worker is then comparing two numbers. 16 bytes a worker.
 *
 * More than DEMAND_MAX different patterns for one worker, or DEMAND_BYTES_MAX of them, are asked for as `*`:
 * nobody who asks goes without, and it is said in the log, and counted. On the loop. */
#ifndef GRIDLINE_GATEWAY_DEMAND_H
#define GRIDLINE_GATEWAY_DEMAND_H

#include "gateway/subscription.h"
#include "gateway/worker.h"
#include "net/demand.h"

#include <event2/event.h>

enum { DEMAND_DELAY_MS = 10, DEMAND_DELAY_MAX_MS = 300 };

struct demand_options {
    struct event_base *base; /* borrowed, as all of these */
    struct workers *workers;
    struct subscriptions *subscriptions;
    const char *standing; /* as gateway_config's demand; NULL = none */
    /* To w's agent: 0; -ENOTCONN: it will register again. */
    int (*send)(void *arg, struct worker *w, const struct frame_demand *d);
    void *arg;
};

struct demand;
struct demand *demand_create(const struct demand_options *o); /* NULL: no memory */
void demand_destroy(struct demand *d);                        /* NULL is fine */

/* Subscriptions have come or gone. */
void demand_changed(struct demand *d);
/* w holds a lease on a connection that has not been told anything. */
void demand_registered(struct demand *d, const struct worker *w);

struct demand_counts {
    uint64_t sent;   /* DEMAND frames */
    uint64_t coarse; /* of these, with `*` for what did not fit */
};
void demand_counts(const struct demand *d, struct demand_counts *out);

#endif
