/* SPDX-License-Identifier: Apache-2.0 */
/* Timers.
 *
 * What a thread has running is kept in the thread: a small table of (timer, depth, when it began). Start and
 * stop touch nothing shared until the outermost stop, which adds to three atomic totals; and a thread that
 * ends in between takes its table with it, so that nothing has to be cleaned up and no other thread can
 * inherit a start. (A list in the timer with a node a thread was rejected: it grows with every thread that
 * ever was.) A timer is known there by a number that is never used again, not by its address, which is after
 * a close.
 *
 * Event: NAME {count int: outermost stops, wall.ns int, cpu.ns int}, since open, when asked and on close,
 * even if 0. It has unmatched int too when there were stops without a start, or starts beyond RUNNING_MAX
 * timers at once in one thread: those are not timed. A report beside a stop may have its count and not yet
 * its times. A child starts at 0 after fork; what its one thread has running counts from the fork on. */
#include "client/point.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdatomic.h>
#include <time.h>

enum { RUNNING_MAX = 32 };

struct gridline_timer {
    struct point point;
    uint64_t number; /* from 1, unique in the process */
    _Atomic uint64_t count, wall_ns, cpu_ns, unmatched;
};

struct running {
    uint64_t number; /* of the timer; 0 = free */
    uint64_t depth;  /* starts less stops */
    int64_t wall_start_ns, cpu_start_ns;
};

static _Atomic uint64_t last_number;
static __thread struct running table[RUNNING_MAX];

/* This thread's entry for the number, or NULL; number 0 finds a free one. */
static struct running *find(uint64_t number)
{
    for (unsigned i = 0; i < RUNNING_MAX; i++)
        if (table[i].number == number)
            return &table[i];
    return NULL;
}

static int64_t thread_cpu_ns(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0)
        return 0;
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void report(struct point *p)
{
    struct gridline_timer *t = (struct gridline_timer *)p;
    uint64_t unmatched = atomic_load(&t->unmatched);
    struct gridline_value v[] = {
        POINT_COUNT("count", atomic_load(&t->count)),
        POINT_COUNT("wall.ns", atomic_load(&t->wall_ns)),
        POINT_COUNT("cpu.ns", atomic_load(&t->cpu_ns)),
        POINT_COUNT("unmatched", unmatched),
    };
    point_write(p, GRIDLINE_INFO, v, unmatched ? 4 : 3);
}

static void destroy(struct point *p)
{
    point_fini(p);
    mem_free(p);
}

static void after_fork(struct point *p)
{
    struct gridline_timer *t = (struct gridline_timer *)p;
    atomic_store(&t->count, 0);
    atomic_store(&t->wall_ns, 0);
    atomic_store(&t->cpu_ns, 0);
    atomic_store(&t->unmatched, 0);
    struct running *r = find(t->number);
    if (r) {
        r->wall_start_ns = clock_mono_ns();
        r->cpu_start_ns = thread_cpu_ns();
    }
}

static const struct point_ops timer_ops = {.report_on_close = report,
                                           .report_if_due = point_never_due,
                                           .destroy = destroy,
                                           .after_fork = after_fork};

static struct point *create(const void *args)
{
    (void)args;
    struct gridline_timer *t = mem_try_alloc(sizeof *t);
    if (!t)
        return NULL;
    t->number = atomic_fetch_add(&last_number, 1) + 1;
    return &t->point;
}

gridline_timer *gridline_timer_get(gridline *g, const char *name)
{
    return (gridline_timer *)point_get(g, &timer_ops, name, create, NULL);
}

void gridline_timer_start(gridline_timer *t)
{
    if (!t)
        return;
    struct running *r = find(t->number);
    if (r) {
        r->depth++;
        return;
    }
    r = find(0);
    if (!r) {
        atomic_fetch_add(&t->unmatched, 1);
        return;
    }
    *r = (struct running){t->number, 1, clock_mono_ns(), thread_cpu_ns()};
}

void gridline_timer_stop(gridline_timer *t)
{
    if (!t)
        return;
    struct running *r = find(t->number);
    if (!r) {
        atomic_fetch_add(&t->unmatched, 1);
        return;
    }
    if (--r->depth > 0)
        return;
    int64_t cpu_ns = thread_cpu_ns() - r->cpu_start_ns, wall_ns = clock_mono_ns() - r->wall_start_ns;
    r->number = 0;
    atomic_fetch_add_explicit(&t->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&t->wall_ns, (uint64_t)(wall_ns > 0 ? wall_ns : 0), memory_order_relaxed);
    atomic_fetch_add_explicit(&t->cpu_ns, (uint64_t)(cpu_ns > 0 ? cpu_ns : 0), memory_order_relaxed);
}

void gridline_timer_report(gridline_timer *t)
{
    if (t)
        report(&t->point);
}
