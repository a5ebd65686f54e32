/* SPDX-License-Identifier: Apache-2.0 */
#include "client/log_histogram.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { FRACTION_BITS = 52, CUT = FRACTION_BITS - 3 };

unsigned log_bucket_of(double v)
{
    uint64_t bits;
    double magnitude = fabs(v);
    memcpy(&bits, &magnitude, sizeof bits);
    unsigned k = (unsigned)(bits >> CUT);
    return v < 0 && k > 0 ? LOG_BUCKETS_SIDE - 1 - k : LOG_BUCKETS_SIDE + k;
}

double log_bucket_value(unsigned i)
{
    unsigned k = i < LOG_BUCKETS_SIDE ? LOG_BUCKETS_SIDE - 1 - i : i - LOG_BUCKETS_SIDE;
    if (k == 0)
        return 0;
    uint64_t bits = (uint64_t)k << CUT | 1ull << (CUT - 1); /* the middle: linear within a power of two */
    double v;
    memcpy(&v, &bits, sizeof v);
    if (isnan(v)) /* half a bucket above infinity */
        v = INFINITY;
    return i < LOG_BUCKETS_SIDE ? -v : v;
}

void log_quantiles(_Atomic uint64_t *counts, unsigned first, unsigned last, uint64_t total, const double *qs,
                   unsigned n, double *out)
{
    uint64_t below = 0;
    unsigned j = 0;
    for (unsigned i = first; i <= last && j < n; i++) {
        below += atomic_load_explicit(&counts[i], memory_order_relaxed);
        while (j < n && (double)below >= ceil(qs[j] * (double)total) && below > 0)
            out[j++] = log_bucket_value(i);
    }
    while (j < n)
        out[j++] = log_bucket_value(last);
}
