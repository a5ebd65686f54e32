/* SPDX-License-Identifier: Apache-2.0 */
/* timesync.h - global time out of exchanges with a gateway (DG-11; DESIGN.md, "Time"). Pure: every time comes
 * as an argument, so that a simulation can drive it. One thread.
 *
 * Global time is CLOCK_BOOTTIME + base. An exchange (t0 sent, t3 received, both CLOCK_BOOTTIME here; t1, t2
 * the gateway's global time between) says base = t2 + rtt/2 - t3 with a bound of rtt/2, which grows by the
 * drift rate with age; the exchange whose bound is smallest now counts. An offset to local UTC that is within
 * the bound, or within what the kernel says of a synchronised clock, is not applied: then global time is
 * local UTC. Others are slewed in at no more than 500 ppm, so that time never goes back; over a second, time
 * jumps and a new generation begins.
 *
 * The true offset lies within offset ± bound at all times, slewing included: what is not applied yet is part
 * of the bound.
 *
 *     clock_read_moment(&now);
 *     change = timesync_look(t, &now, maxerror_ns);
 *     timesync_state(t, &now, &state);            stamp with now.utc_ns + state.offset_ns, say ±
 * state.bound_ns */
#ifndef GRIDLINE_BASE_TIMESYNC_H
#define GRIDLINE_BASE_TIMESYNC_H

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIMESYNC_UNKNOWN UINT64_MAX

enum {
    TIMESYNC_DRIFT_PPM = 250,          /* of a clock that nobody disciplines, against the gateway's */
    TIMESYNC_SLEW_PPM = 500,           /* how fast a correction is slewed in */
    TIMESYNC_JUMP_NS = 1000 * 1000000, /* a correction over this jumps */
    TIMESYNC_STEP_NS = 1000000, /* local UTC changed by more than this against CLOCK_BOOTTIME: it was set */
    TIMESYNC_RESUME_NS =
        2000 * 1000000 /* how wrong the kernel may be about the time slept: it has a clock of seconds */
};
#define TIMESYNC_RTT_MAX_NS (INT64_C(8) * NS_PER_S) /* an exchange that took longer tells nothing of use */

struct timesync_exchange {
    int64_t t0_ns, t1_ns, t2_ns, t3_ns;
};

/* What events are stamped with: global = utc + offset_ns while the generation stays. */
struct timesync_state {
    int64_t
        offset_ns;   /* global - local UTC, as applied now; 0 = local UTC is good enough, or nothing known */
    int64_t base_ns; /* global - CLOCK_BOOTTIME */
    uint64_t bound_ns;   /* TIMESYNC_UNKNOWN before the first exchange */
    uint32_t generation; /* one more at each jump, and each time that local UTC is set */
};

/* Global time from a moment on, as far as it is known then: all that whoever shares it must know. */
struct timesync_line {
    int64_t at_ns;         /* the moment, CLOCK_BOOTTIME */
    int64_t base_ns;       /* global - CLOCK_BOOTTIME then, */
    int64_t goal_ns;       /* and where that is slewed to */
    int64_t utc_base_ns;   /* local UTC - CLOCK_BOOTTIME then */
    uint32_t utc_error_ns; /* how well that was read */
    int64_t slew_ns;    /* CLOCK_MONOTONIC - CLOCK_MONOTONIC_RAW then: more of it is no drift but a daemon */
    int64_t slept_ns;   /* CLOCK_BOOTTIME - CLOCK_MONOTONIC then: more of it was a suspend */
    uint64_t bound_ns;  /* then, good for the whole way to the goal; or TIMESYNC_UNKNOWN */
    uint32_t drift_ppm; /* by which it grows */
    uint32_t generation;
    bool is_utc; /* global time is local UTC, whatever happens to that: nothing was ever known, or it is
                    wanted */
};

enum timesync_change {
    TIMESYNC_SAME,
    TIMESYNC_SLEWING, /* a correction is slewed in that was not within the bound told before */
    TIMESYNC_JUMPED,  /* a correction over a second was applied: new generation */
    TIMESYNC_STEPPED, /* local UTC was set: global time went on, the offset is new, new generation */
    TIMESYNC_RESUMED  /* the host was suspended meanwhile: the bound has grown by the time slept and by
                       * TIMESYNC_RESUME_NS */
};

struct timesync; /* ~400 bytes */
/* drift_ppm 0 = TIMESYNC_DRIFT_PPM. keeps_utc: nothing is ever applied, only the bound is told. NULL: no
 * memory. */
struct timesync *timesync_create(uint32_t drift_ppm, bool keeps_utc);
void timesync_destroy(struct timesync *t); /* NULL is fine */
/* The first generation; 0 unless said. Before the first look. */
void timesync_set_generation(struct timesync *t, uint32_t generation);

/* Looks at the clocks: sees steps and suspends. Before anything below, and then as often
 * as there is something to stamp. maxerror_ns: the kernel's own (adjtimex) if it is synchronised, else
 * TIMESYNC_UNKNOWN. */
enum timesync_change timesync_look(struct timesync *t, const struct clock_moment *now, uint64_t maxerror_ns);
/* Right after a look at the same moment. *rtt_ns (NULL is fine) gets its round trip. -ERANGE: one that can't
 * be (t3 < t0, t2 < t1, a negative rtt, times far off, over TIMESYNC_RTT_MAX_NS): not taken. */
int timesync_add(struct timesync *t, const struct timesync_exchange *x, const struct clock_moment *now,
                 enum timesync_change *change, uint64_t *rtt_ns);
/* Another gateway: its time may differ. What is known is forgotten; the correction stays until the next
 * exchange. */
void timesync_forget(struct timesync *t);

void timesync_line(const struct timesync *t, const struct clock_moment *now, struct timesync_line *out);
void timesync_state(const struct timesync *t, const struct clock_moment *now, struct timesync_state *out);
bool timesync_is_slewing(const struct timesync *t, int64_t boot_ns);
/* Global time at that moment: UTC + offset. */
int64_t timesync_global_ns(const struct timesync *t, const struct clock_moment *now);

/* The same for a line that somebody else made, later. Whatever happened to the clocks since then is seen
 * here, too; a step of local UTC counts as the next generation, as it will for whoever made the line. */
void timesync_line_state(const struct timesync_line *l, const struct clock_moment *now,
                         struct timesync_state *out);

#endif
