/* SPDX-License-Identifier: Apache-2.0 */
/* timers.h - one-shot timers on a wheel: setting and stopping one is a few instructions, whatever their
 * number. A timer never fires early and up to TIMERS_TICK_NS late. Embedded in what it is for; one thread. */
#ifndef GRIDLINE_BENCH_TIMERS_H
#define GRIDLINE_BENCH_TIMERS_H

#include <stdint.h>

enum { TIMERS_SLOTS = 4096, TIMERS_TICK_NS = 2000000 };

struct timer;
typedef void (*timer_fn)(void *arg, struct timer *t);

struct timer {
    struct timer *next, *previous; /* NULL: not set */
    int64_t at_ns;
    timer_fn fire;
};

struct timers {
    struct timer slots[TIMERS_SLOTS]; /* heads of rings: by the tick, modulo TIMERS_SLOTS */
    int64_t done_tick;                /* up to here all have fired */
    void *arg;                        /* given to every fire */
};

void timers_init(struct timers *ts, int64_t now_ns, void *arg);
/* Sets it, also if it is set already. CLOCK_MONOTONIC. */
void timer_set(struct timers *ts, struct timer *t, int64_t at_ns, timer_fn fire);
void timer_stop(struct timer *t);
/* Fires what is due. */
void timers_run(struct timers *ts, int64_t now_ns);

#endif
