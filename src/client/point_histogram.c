/* SPDX-License-Identifier: Apache-2.0 */
/* Paradyn's time histograms as points: time_histogram.h does the work.
 *
 * Event: NAME {start.ns int: UTC, when the first bucket begins; width.s float; n int: how many buckets have
 * begun; buckets text}, when asked and on close. buckets is the n values, oldest first, separated by commas,
 * each as the shortest decimal that reads back to the same double (num.h): one field, because an event may
 * have no more than 256, and nothing is lost. A value that is not finite can't be added; how many there were
 * is the field not_finite (int), present when it is not 0. Buckets are not reset by a report. A child starts
 * an empty histogram at the fork. */
#include "client/point.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/strbuf.h"
#include "client/time_histogram.h"

#include <math.h>
#include <stdatomic.h>

struct gridline_histogram {
    struct point point;
    struct time_histogram *times;
    int64_t start_mono_ns, start_utc_ns; /* the same instant by two clocks */
    _Atomic uint64_t not_finite;
    double buckets[TIME_BUCKETS_MAX]; /* room for report, which one thread at a time is in */
    atomic_flag reporting;
};

struct shape {
    unsigned buckets;
    double width_s;
};

static void print_buckets(struct strbuf *out, const double *v, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        char *to = strbuf_room(out, NUM_TEXT_MAX + 1);
        if (!to)
            return;
        size_t len = 0;
        if (i > 0)
            to[len++] = ',';
        strbuf_advance(out, len + num_print_float(to + len, v[i]));
    }
}

static void report(struct point *p)
{
    struct gridline_histogram *h = (struct gridline_histogram *)p;
    if (atomic_flag_test_and_set(&h->reporting))
        return; /* another thread is writing the same */
    struct strbuf text = {0};
    int64_t width_ns;
    unsigned n = time_histogram_read(h->times, clock_mono_ns() - h->start_mono_ns, h->buckets, &width_ns);
    print_buckets(&text, h->buckets, n);
    uint64_t not_finite = atomic_load(&h->not_finite);
    struct gridline_value v[5] = {
        POINT_INT("start.ns", h->start_utc_ns),
        POINT_FLOAT("width.s", (double)width_ns / (double)NS_PER_S),
        POINT_COUNT("n", n),
    };
    size_t fields = 3;
    if (!strbuf_failed(&text)) /* no memory: the field is missing, and that is seen */
        v[fields++] = POINT_TEXT("buckets", text.p, text.n);
    if (not_finite > 0)
        v[fields++] = POINT_COUNT("not_finite", not_finite);
    point_write(p, GRIDLINE_INFO, v, fields);
    strbuf_fini(&text);
    atomic_flag_clear(&h->reporting);
}

static void destroy(struct point *p)
{
    time_histogram_destroy(((struct gridline_histogram *)p)->times);
    point_fini(p);
    mem_free(p);
}

static void begin(struct gridline_histogram *h)
{
    h->start_mono_ns = clock_mono_ns();
    h->start_utc_ns = clock_utc_ns();
    atomic_store(&h->not_finite, 0);
    atomic_flag_clear(&h->reporting);
}

static void after_fork(struct point *p)
{
    struct gridline_histogram *h = (struct gridline_histogram *)p;
    time_histogram_clear(h->times);
    begin(h);
}

static const struct point_ops histogram_ops = {.report_on_close = report,
                                               .report_if_due = point_never_due,
                                               .destroy = destroy,
                                               .after_fork = after_fork};

static struct point *create(const void *args)
{
    const struct shape *shape = args;
    double width_ns = rint(shape->width_s * (double)NS_PER_S);
    if (!(width_ns >= 1 && width_ns < 9e18))
        return NULL;
    struct gridline_histogram *h = mem_try_alloc(sizeof *h);
    if (!h)
        return NULL;
    h->times = time_histogram_create(shape->buckets, (int64_t)width_ns);
    if (!h->times) {
        mem_free(h);
        return NULL;
    }
    begin(h);
    return &h->point;
}

gridline_histogram *gridline_histogram_get(gridline *g, const char *name, unsigned buckets,
                                           double first_width_s)
{
    struct shape shape = {buckets, first_width_s};
    return (gridline_histogram *)point_get(g, &histogram_ops, name, create, &shape);
}

void gridline_histogram_add(gridline_histogram *h, double value)
{
    if (!h)
        return;
    if (!isfinite(value)) {
        atomic_fetch_add_explicit(&h->not_finite, 1, memory_order_relaxed);
        return;
    }
    time_histogram_add(h->times, clock_mono_ns() - h->start_mono_ns, value);
}

void gridline_histogram_report(gridline_histogram *h)
{
    if (h)
        report(&h->point);
}
