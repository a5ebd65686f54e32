/* SPDX-License-Identifier: Apache-2.0 */
/* Summary points.
 *
 * What is added since the last report is a set: buckets (log_histogram.h), sum, min, max. There are two,
 * behind a phaser: threads add to one while the other is reported and emptied. So each add is in exactly one
 * report, whole: count, sum, min, max and quantiles of a report speak of the same adds, and the counts of all
 * reports together are the number of adds. When a thread is preempted in the middle of an add, the report
 * waits for the next occasion, nobody waits for the report.
 *
 * Memory: 2 x 256 KiB of address space a point, of which only the pages are touched that hold buckets in use:
 * values of one sign within a factor of 10^19 lie on one page.
 *
 * Event: NAME {count int, sum min max mean p50 p95 p99 float}, of the adds since the report before; none when
 * there were none. NaNs are in none of them: their number is the field nan (int), present when it is not 0. A
 * child starts empty after fork: what was added before is in the parent's report. */
#include "client/point.h"

#include "base/clock.h"
#include "base/mem.h"
#include "client/log_histogram.h"
#include "client/phaser.h"

#include <math.h>

struct set {
    _Atomic double sum, min, max;
    _Atomic uint64_t nan;
    _Atomic uint64_t buckets[LOG_BUCKETS];
};

struct gridline_summary {
    struct point point;
    struct phaser phaser;
    int64_t interval_ns; /* 0 = only on close and when asked */
    int64_t due_ns;      /* monotonic; used by report_if_due alone */
    atomic_flag busy;    /* someone reports: the phaser's one reader */
    bool is_flipped;     /* the set that is not active is still to be reported; guarded by busy */
    struct set sets[2];
};

struct report {
    uint64_t count, nan;
    double sum, min, max;
    double quantiles[3];
};

static const double quantiles[] = {0.50, 0.95, 0.99};

static void clear_head(struct set *s)
{
    atomic_store_explicit(&s->sum, 0, memory_order_relaxed);
    atomic_store_explicit(&s->min, INFINITY, memory_order_relaxed);
    atomic_store_explicit(&s->max, -INFINITY, memory_order_relaxed);
    atomic_store_explicit(&s->nan, 0, memory_order_relaxed);
}

static double between(double low, double v, double high)
{
    return v < low ? low : v > high ? high : v;
}

/* Reads and empties a set that nobody else uses. */
static void take(struct set *s, struct report *r)
{
    *r = (struct report){.nan = atomic_load(&s->nan),
                         .sum = atomic_load(&s->sum),
                         .min = atomic_load(&s->min),
                         .max = atomic_load(&s->max)};
    clear_head(s);
    if (r->min > r->max)
        return;
    unsigned first = log_bucket_of(r->min), last = log_bucket_of(r->max);
    for (unsigned i = first; i <= last; i++)
        r->count += atomic_load_explicit(&s->buckets[i], memory_order_relaxed);
    log_quantiles(s->buckets, first, last, r->count, quantiles, 3, r->quantiles);
    for (unsigned i = 0; i < 3; i++)
        r->quantiles[i] = between(r->min, r->quantiles[i], r->max);
    for (unsigned i = first; i <= last; i++) /* looks before it writes: most pages stay untouched */
        if (atomic_load_explicit(&s->buckets[i], memory_order_relaxed) != 0)
            atomic_store_explicit(&s->buckets[i], 0, memory_order_relaxed);
}

static void write_report(const struct gridline_summary *s, const struct report *r)
{
    struct gridline_value v[9] = {POINT_COUNT("count", r->count)};
    size_t n = 1;
    if (r->count > 0) {
        v[n++] = POINT_FLOAT("sum", r->sum);
        v[n++] = POINT_FLOAT("min", r->min);
        v[n++] = POINT_FLOAT("max", r->max);
        v[n++] = POINT_FLOAT("mean", r->sum / (double)r->count);
        v[n++] = POINT_FLOAT("p50", r->quantiles[0]);
        v[n++] = POINT_FLOAT("p95", r->quantiles[1]);
        v[n++] = POINT_FLOAT("p99", r->quantiles[2]);
    }
    if (r->nan > 0)
        v[n++] = POINT_COUNT("nan", r->nan);
    point_write(&s->point, GRIDLINE_INFO, v, n);
}

/* Reports one set: the one left over from before if there is one, else what was added until now. force:
 * nobody else can be in it. False when it must be tried again. */
static bool report_once(struct gridline_summary *s, bool force)
{
    if (!s->is_flipped)
        (void)phaser_flip(&s->phaser); /* what it returns is the set that is not active now */
    s->is_flipped = true;
    unsigned i = 1 - phaser_active(&s->phaser);
    if (!phaser_is_drained(&s->phaser, i) && !force)
        return false;
    struct report r;
    take(&s->sets[i], &r);
    s->is_flipped = false;
    if (r.count > 0 || r.nan > 0)
        write_report(s, &r);
    return true;
}

/* Everything added so far. What another thread is at reporting, or has not finished adding, comes in the
 * next. */
static bool report_now(struct gridline_summary *s)
{
    if (atomic_flag_test_and_set(&s->busy))
        return false;
    bool was_flipped = s->is_flipped, done = report_once(s, false);
    if (done && was_flipped)
        done = report_once(s, false);
    atomic_flag_clear(&s->busy);
    return done;
}

static void report_on_close(struct point *p)
{
    struct gridline_summary *s = (struct gridline_summary *)p;
    if (s->is_flipped)
        (void)report_once(s, true); /* forced: always done */
    (void)report_once(s, true);
}

static void report_if_due(struct point *p, int64_t now_mono_ns)
{
    struct gridline_summary *s = (struct gridline_summary *)p;
    if (s->interval_ns == 0 || now_mono_ns < s->due_ns)
        return;
    if (!report_now(s))
        return; /* and again the next time */
    int64_t late_ns = now_mono_ns - s->due_ns;
    s->due_ns = late_ns < s->interval_ns ? s->due_ns + s->interval_ns : now_mono_ns + s->interval_ns;
}

static void destroy(struct point *p)
{
    point_fini(p);
    mem_free(p);
}

static void after_fork(struct point *p)
{
    struct gridline_summary *s = (struct gridline_summary *)p;
    struct report unused;
    for (unsigned i = 0; i < 2; i++) {
        take(&s->sets[i], &unused);
        for (unsigned j = 0; j < LOG_BUCKETS;
             j++) /* an add cut in two by the fork may lie outside min..max */
            if (atomic_load_explicit(&s->sets[i].buckets[j], memory_order_relaxed) != 0)
                atomic_store_explicit(&s->sets[i].buckets[j], 0, memory_order_relaxed);
    }
    s->phaser = (struct phaser){0};
    s->is_flipped = false;
    atomic_flag_clear(&s->busy);
}

static const struct point_ops summary_ops = {.report_on_close = report_on_close,
                                             .report_if_due = report_if_due,
                                             .destroy = destroy,
                                             .after_fork = after_fork};

static struct point *create(const void *args)
{
    double interval_s = *(const double *)args;
    if (!(interval_s >= 0 && interval_s < 1e9))
        return NULL;
    struct gridline_summary *s = mem_try_alloc(sizeof *s);
    if (!s)
        return NULL;
    clear_head(&s->sets[0]);
    clear_head(&s->sets[1]);
    atomic_flag_clear(&s->busy);
    s->interval_ns = (int64_t)(interval_s * (double)NS_PER_S);
    s->due_ns = clock_mono_ns() + s->interval_ns;
    return &s->point;
}

gridline_summary *gridline_summary_get(gridline *g, const char *name, double interval_s)
{
    return (gridline_summary *)point_get(g, &summary_ops, name, create, &interval_s);
}

static void lower(_Atomic double *to, double v)
{
    double old = atomic_load_explicit(to, memory_order_relaxed);
    while (v < old &&
           !atomic_compare_exchange_weak_explicit(to, &old, v, memory_order_relaxed, memory_order_relaxed))
        ;
}

static void lift(_Atomic double *to, double v)
{
    double old = atomic_load_explicit(to, memory_order_relaxed);
    while (v > old &&
           !atomic_compare_exchange_weak_explicit(to, &old, v, memory_order_relaxed, memory_order_relaxed))
        ;
}

void gridline_summary_add(gridline_summary *s, double value)
{
    if (!s)
        return;
    unsigned i = phaser_enter(&s->phaser);
    struct set *set = &s->sets[i];
    if (isnan(value)) {
        atomic_fetch_add_explicit(&set->nan, 1, memory_order_relaxed);
    } else {
        atomic_add_double(&set->sum, value);
        lower(&set->min, value);
        lift(&set->max, value);
        atomic_fetch_add_explicit(&set->buckets[log_bucket_of(value)], 1, memory_order_relaxed);
    }
    phaser_leave(&s->phaser, i);
}

void gridline_summary_report(gridline_summary *s)
{
    if (s)
        (void)report_now(s); /* what could not be reported now comes with the next report */
}
