/* SPDX-License-Identifier: Apache-2.0 */
/* log_histogram.h - which bucket a double falls in when each power of two is cut in 8 equal parts.
 *
 * The exponent and the first three bits of the fraction of a double are, as an integer, the number of its
 * bucket: no logarithm, no table. 2 x 16384 buckets cover every double but NaN, negative ones first, so that
 * the order of the buckets is the order of the values. A bucket is at most 1/8 of its lower end wide and
 * stands for its middle, so a value is told to 6.25%. Two exceptions: the bucket of 0 stands for 0 exactly
 * and also takes numbers below 2^-1025, and the other subnormal numbers (below 2.2e-308) are told to 2^-1026.
 */
#ifndef GRIDLINE_CLIENT_LOG_HISTOGRAM_H
#define GRIDLINE_CLIENT_LOG_HISTOGRAM_H

#include <stdint.h>

enum {
    LOG_BUCKETS_SIDE = 1 << 14, /* 11 bits of exponent, 3 of fraction */
    LOG_BUCKETS = 2 * LOG_BUCKETS_SIDE,
};

/* v is not NaN. -0.0 is 0. */
unsigned log_bucket_of(double v);
/* The value that stands for a bucket. */
double log_bucket_value(unsigned i);

/* Quantiles of counts[first..last], total of them altogether. qs ascend, each in 0..1; out[j] is the value of
 * the bucket that holds the ceil(qs[j] * total)-th smallest. total > 0. */
void log_quantiles(_Atomic uint64_t *counts, unsigned first, unsigned last, uint64_t total, const double *qs,
                   unsigned n, double *out);

#endif
