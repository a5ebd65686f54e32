/* SPDX-License-Identifier: Apache-2.0 */
/* bucket.h - a limit on how often: so many at once, so many a second after that. */
#ifndef GRIDLINE_BASE_BUCKET_H
#define GRIDLINE_BASE_BUCKET_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

struct bucket {
    int64_t each_ns; /* what one costs */
    int64_t burst_ns;
    int64_t full_at_ns; /* when everything that was taken has been earned again */
};

static inline struct bucket bucket_of(int64_t burst, int64_t each_ns)
{
    return (struct bucket){.each_ns = each_ns, .burst_ns = burst * each_ns, .full_at_ns = INT64_MIN};
}

static inline bool bucket_take(struct bucket *b, int64_t now_ns)
{
    int64_t full = b->full_at_ns > now_ns ? b->full_at_ns : now_ns;
    if (full + b->each_ns > now_ns + b->burst_ns)
        return false;
    b->full_at_ns = full + b->each_ns;
    return true;
}

#endif
