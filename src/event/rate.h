/* SPDX-License-Identifier: Apache-2.0 */
/* rate.h - what a counter gained between two readings, and how fast.
 *
 * A counter that went back (reset, wrapped, another device of the same name) has gained nobody knows what: there is no
 * rate then, a gap and not a spike. Rates are rounded to two decimals: what lies below is the jitter of the clock, and
 * rounded ones pack as decimals, in a few bytes. */
#ifndef GRIDLINE_EVENT_RATE_H
#define GRIDLINE_EVENT_RATE_H

#include "event/value.h"

/* False when it went back; *gain is untouched then. */
static inline bool rate_gain(uint64_t before, uint64_t now, uint64_t *gain)
{
    if (now < before)
        return false;
    *gain = now - before;
    return true;
}

/* The same of two readings; also false when one is missing. Both are VALUE_UINT or VALUE_NONE. */
static inline bool rate_gain_of(struct value before, struct value now, uint64_t *gain)
{
    return before.type == VALUE_UINT && now.type == VALUE_UINT && rate_gain(before.u, now.u, gain);
}

static inline struct value rate_rounded(double v)
{
    return value_float(round(v * 100) / 100);
}

/* gain * scale a second; none when no time has passed. */
static inline struct value rate_per_second(uint64_t gain, double scale, int64_t interval_ns)
{
    return interval_ns > 0 ? rate_rounded((double)gain * scale * 1e9 / (double)interval_ns) : value_none();
}

/* Of two readings; none when one is missing, it went back, or no time has passed. */
static inline struct value rate_of(struct value before, struct value now, double scale, int64_t interval_ns)
{
    uint64_t gain;
    return rate_gain_of(before, now, &gain) ? rate_per_second(gain, scale, interval_ns) : value_none();
}

#endif
