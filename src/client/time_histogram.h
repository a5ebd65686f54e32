/* SPDX-License-Identifier: Apache-2.0 */
/* time_histogram.h - Paradyn's time histogram: how much of something fell in each slice of a run of any
 * length.
 *
 * A fixed number of buckets of equal width in time. When time runs past the last one, neighbours are added
 * together (folding) and the width doubles; so the memory is fixed and the sum of the buckets is always the
 * sum of what was added. Any thread adds, at any time, without waiting. */
#ifndef GRIDLINE_CLIENT_TIME_HISTOGRAM_H
#define GRIDLINE_CLIENT_TIME_HISTOGRAM_H

#include <stdint.h>

enum { TIME_BUCKETS_MIN = 2, TIME_BUCKETS_MAX = 1024 };

struct time_histogram;

/* width_ns > 0. Time 0 is the beginning of the first bucket. NULL: no memory, or an argument out of range. */
struct time_histogram *time_histogram_create(unsigned buckets, int64_t width_ns);
void time_histogram_destroy(struct time_histogram *h); /* NULL is fine */
/* Forgets everything, also adds that were under way: for a child after fork, where nobody else runs. */
void time_histogram_clear(struct time_histogram *h);

/* at_ns since time 0; earlier counts as 0. value is finite. */
void time_histogram_add(struct time_histogram *h, int64_t at_ns, double value);

/* Copies the buckets that have begun at at_ns to out (room for all of them) and returns how many; *width_ns
 * is how wide each is. An add that runs meanwhile is in it whole or not at all. */
unsigned time_histogram_read(struct time_histogram *h, int64_t at_ns, double *out, int64_t *width_ns);

#endif
