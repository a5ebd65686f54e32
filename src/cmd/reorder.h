/* SPDX-License-Identifier: Apache-2.0 */
/* reorder.h - events that come in about the order of time, from many streams, put in the order of time.
 *
 *     reorder_add(r, batch, first, now_ns, utc_ns);
 *     reorder_run(r, now_ns, sink, arg);      after each batch, and when reorder_due_ns says so
 *     reorder_run(r, INT64_MAX, sink, arg);   at the end: all of them
 *
 * An event waits at most wait_ns from when it came; then it is given, behind every one that is here and has
 * an earlier time. So the result is in order as far as no event comes more than wait_ns behind one of a later
 * time; how often one stands behind one of a later time is counted. Events of the same time keep the order in
 * which they came. One that claims to be more than REORDER_AHEAD_NS ahead of the clock here stands where it
 * came: a host with a wrong clock disturbs only its own events. When there are more than max_bytes of them,
 * the earliest do not wait any longer (counted).
 *
 * A batch is kept (batch_ref) until its last event is given: memory is counted in whole batches. Cost: a
 * heap, log n comparisons an event. One thread. */
#ifndef GRIDLINE_CMD_REORDER_H
#define GRIDLINE_CMD_REORDER_H

#include "event/batch.h"

#define REORDER_AHEAD_NS (INT64_C(60) * 1000000000)

struct reorder;

struct reorder_counts {
    uint64_t given;
    uint64_t late;    /* of them: behind one with a later time */
    uint64_t hurried; /* of them: did not wait, for want of memory */
};

struct reorder *reorder_create(int64_t wait_ns, size_t max_bytes); /* NULL: no memory */
void reorder_destroy(struct reorder *r);                           /* NULL is fine; what waits is forgotten */

/* Events of b from `first` on, that came now (monotonic, and UTC). -ENOMEM: none of them was taken. */
int reorder_add(struct reorder *r, struct batch *b, size_t first, int64_t now_ns, int64_t utc_ns);
/* Takes events in order, borrowed for the call. */
typedef int (*reorder_sink)(void *arg, const struct batch *events);
/* Gives those whose time has come. What sink says, if that is negative. */
int reorder_run(struct reorder *r, int64_t now_ns, reorder_sink sink, void *arg);
/* When there is something to give; INT64_MAX = nothing waits. */
int64_t reorder_due_ns(const struct reorder *r);
void reorder_counts(const struct reorder *r, struct reorder_counts *out);

#endif
