/* SPDX-License-Identifier: Apache-2.0 */
/* ticks.h - time stamps that cost as little as the machine allows, made into UTC later.
 *
 * A tick is a cycle of the processor's time stamp counter where the kernel itself keeps time by it, and a
 * nanosecond of CLOCK_REALTIME elsewhere. The drainer takes an anchor (ticks and CLOCK_MONOTONIC, read
 * together to some 20 ns) each time it empties the rings, and interpolates between the last two; UTC is that
 * plus the distance of the two clocks, which changes only when somebody sets the clock. So slewing by NTP is
 * followed exactly, time never runs back because of us, and events read out after a step of the clock are
 * stamped by the new one. */
#ifndef GRIDLINE_CLIENT_TICKS_H
#define GRIDLINE_CLIENT_TICKS_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* Decided once, when the library is loaded. */
extern bool ticks_are_tsc;

static inline uint64_t ticks_now(bool tsc)
{
#if defined(__x86_64__)
    if (__builtin_expect(tsc, 1))
        return __rdtsc();
#endif
    (void)tsc;
    return (uint64_t)clock_utc_ns();
}

/* About how many ticks that is; for deadlines, not for time stamps. */
uint64_t ticks_per_ms(void);

struct tick_anchor {
    uint64_t ticks;
    int64_t mono_ns;
};

struct tick_map {
    uint64_t base_ticks;
    int64_t base_ns; /* UTC at base_ticks */
    uint64_t rate;   /* ns a tick, times 2^48 */
    struct tick_anchor first, last;
    uint64_t nominal;   /* rate from first to last */
    bool is_new;        /* first to last is too short to tell the rate */
    int64_t utc_offset; /* CLOCK_REALTIME - CLOCK_MONOTONIC */
};

void tick_map_init(struct tick_map *m);
/* A new anchor: from now on ticks up to this moment are converted with it, to UTC: who wants another time adds the
 * distance to base_ns, after each update. 200 ns. */
void tick_map_update(struct tick_map *m);

static inline int64_t tick_map_ns(const struct tick_map *m, uint64_t ticks)
{
    __extension__ typedef __int128 wide;
    return m->base_ns + (int64_t)(((wide)(int64_t)(ticks - m->base_ticks) * (wide)m->rate) >> 48);
}

#endif
