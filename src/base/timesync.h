/* SPDX-License-Identifier: Apache-2.0 */
/* timesync.h - global time out of exchanges with a gateway (DG-11; DESIGN.md, "Time"). Pure: every time comes as
 * an argument, so that a simulation can drive it.
 *
 * Global time is CLOCK_BOOTTIME + base. An exchange (t0 sent, t3 received, both CLOCK_BOOTTIME here; t1, t2 the
 * gateway's global time between) says base = t2 + rtt/2 - t3 with a bound of rtt/2, which grows by the drift rate
 * with age; the exchange whose bound is smallest now counts. A correction that is within the bound, or within
 * what the kernel says of a synchronised clock, is not applied: then global time is local UTC. Others are slewed
 * at no more than 500 ppm, so that time never goes back; over a second, time jumps and a new generation begins.
 *
 * The true offset lies within offset ± bound at all times, slewing included: what is not applied yet is part of
 * the bound. */
#ifndef GRIDLINE_BASE_TIMESYNC_H
#define GRIDLINE_BASE_TIMESYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIMESYNC_UNKNOWN UINT64_MAX

enum { TIMESYNC_EXCHANGES = 8, TIMESYNC_DRIFT_PPM = 250, TIMESYNC_SLEW_PPM = 500 };

/* The local clocks, read together. */
struct timesync_now {
    int64_t boot_ns, utc_ns;
};

struct timesync_exchange {
    int64_t t0_ns, t1_ns, t2_ns, t3_ns;
};

/* What events are stamped with: global = utc + offset_ns while the generation stays. */
struct timesync_state {
    int64_t offset_ns;   /* global - local UTC, as applied now; 0 = local UTC is good enough, or nothing known */
    int64_t base_ns;     /* global - CLOCK_BOOTTIME */
    uint64_t bound_ns;   /* TIMESYNC_UNKNOWN before the first exchange */
    uint32_t generation; /* from 0; one more at each jump */
};

enum timesync_change {
    TIMESYNC_SAME,
    TIMESYNC_SLEWING, /* another correction is being slewed in */
    TIMESYNC_JUMPED,  /* a correction over a second was applied: new generation */
    TIMESYNC_STEPPED, /* the local UTC clock was set: global time went on, the offset is new, new generation */
    TIMESYNC_RESUMED  /* the host was suspended meanwhile; bounds have grown by the time slept */
};

struct timesync; /* in timesync.c; ~1 KiB */
struct timesync *timesync_create(uint32_t drift_ppm); /* 0 = TIMESYNC_DRIFT_PPM. NULL: no memory */
void timesync_destroy(struct timesync *t);            /* NULL is fine */

/* -ERANGE: one that can't be (t3 < t0, t2 < t1, a negative rtt): not taken. */
int timesync_add(struct timesync *t, const struct timesync_exchange *x, struct timesync_now now,
                 enum timesync_change *change);
/* Another gateway: its time may differ. Old exchanges are forgotten; the correction stays until the next one. */
void timesync_forget(struct timesync *t);
/* Looks at the clocks: slews, and sees steps and suspends (mono_ns is CLOCK_MONOTONIC). Called once a round. maxerror_ns: the
 * kernel's own (adjtimex) if it is synchronised, else TIMESYNC_UNKNOWN. */
enum timesync_change timesync_look(struct timesync *t, struct timesync_now now, int64_t mono_ns, uint64_t maxerror_ns);
void timesync_state(const struct timesync *t, struct timesync_now now, struct timesync_state *out);
/* Global time at that moment. */
int64_t timesync_global_ns(const struct timesync *t, struct timesync_now now);

#endif
