/* SPDX-License-Identifier: Apache-2.0 */
/* summary.h - averages, minima and maxima of every stream, kept as events come (JM-4, JM-11), and the
 * question `summary` about them. Whoever may ask for summaries need not be allowed to see events.
 *
 * Of each numeric field (int, uint, float; not keys) and each window: count, min, max, mean, sum, first,
 * last; of counters the rate, too. NaN is no number and is left out. By the events' own time:
 *
 *   - A window of length W goes in SUMMARY_STEPS steps of W / SUMMARY_STEPS, which begin at multiples of that
 *     since 1970. At any moment it covers the step that is running and the SUMMARY_STEPS - 1 before it:
 * exactly the events with from <= time < to, where to is the end of the running step and from = to - W. So of
 * the past it has between 5/6 W and W. Every row says its from and to.
 *   - What a row says is what anybody would compute of all events with these times that have come so far;
 * mean and sum up to the rounding of additions. Events that come late count where they belong while that step
 * is within the window; later they are outside of it anyway, and counted as `late`.
 *   - An event may be ahead of the gateway's clock by a step; what is further ahead is left out, and counted
 * as `ahead`: its row lacks it when its time comes.
 *   - first is the value of the smallest time, of several the least; last that of the largest time, of
 * several the greatest.
 *   - rate: what the readings of the range gained a second, each since the reading before it (event/rate.h:
 * one that went back is a gap, its time does not count; nor does that of the first there is). A reading that
 * is not newer than all of its stream before it is left out of this.
 *
 * Memory: 64 bytes a field, window and step, of SUMMARY_STEPS + 1 steps (one ahead): 448 bytes a field and
 * window, 1,344 with three windows; a counter 112 a window more. Bounded by streams and by memory. When full,
 * a stream that was quiet for the longest window gives way to a new one; while there is none such, new ones
 * are left out and counted: so those that are kept are right, instead of none.
 *
 * Cost: about 250 ns an event of 20 fields with three windows, 500 to 900 ns where the streams do not fit
 * into the caches (bench/streams.c); a question reads up to 21 x 64 bytes a row. No allocation but for new
 * streams and fields. Not kept over a restart. On the loop.
 *
 * The question (docs/protocol.md): event, host, field (patterns; host: places, streams.h), window (durations
 * by commas), where (over host, prog, name, the key fields, `field` and `window`), after. Rows are named
 * values. */
#ifndef GRIDLINE_GATEWAY_SUMMARY_H
#define GRIDLINE_GATEWAY_SUMMARY_H

#include "base/err.h"
#include "event/batch.h"
#include "gateway/control.h"
#include "gateway/stream_options.h"

enum { SUMMARY_STEPS = 6 };

struct summary_counts {
    uint64_t streams, bytes; /* now */
    uint64_t taken;          /* events with something to summarise: */
    uint64_t left_out;       /* of streams, or with fields, that there was no room for */
    uint64_t late, ahead;    /* times that one was outside of a window */
    uint64_t forgotten;      /* streams that gave way */
};

struct summary;
/* E_PROTO: *why says what is wrong with the windows; -ENOMEM. */
int summary_create(const struct summary_options *o, struct summary **out, struct diag *why);
void summary_destroy(struct summary *s); /* NULL is fine */
/* now_ns: the gateway's clock, UTC. */
void summary_batch(struct summary *s, const struct batch *b, int64_t now_ns);
void summary_counts(const struct summary *s, struct summary_counts *out);
/* Adds the verb; s is its arg. */
int summary_add_verbs(struct summary *s, struct control *c);

struct summary_value {
    int64_t from_ns, to_ns; /* [from, to) */
    uint64_t count;
    struct value min, max, first, last; /* of the field's type */
    double sum, mean;
    struct value rate;    /* a second; VALUE_NONE: no counter, or no two readings */
    int64_t last_ns;      /* time of last */
    uint64_t late, ahead; /* events of the stream that were outside of this window when they came */
};
/* Of the stream that e is of: false, there is nothing within the window. */
bool summary_get(struct summary *s, const struct event *e, struct slice field, int64_t window_ns,
                 int64_t now_ns, struct summary_value *out);
bool summary_check(const struct summary *s); /* all invariants, for tests */

#endif
