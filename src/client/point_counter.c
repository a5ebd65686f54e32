/* SPDX-License-Identifier: Apache-2.0 */
/* Counters and their thresholds.
 *
 * An add is one atomic fetch-and-add. Its result and the amount say from where to where this add moved the
 * count; the moves of all threads together are one unbroken path, so that each crossing of a limit lies in
 * exactly one move, and the thread that made it writes the event: one event a crossing, however many threads
 * add.
 *
 * Events: NAME {count int}, when asked and on close, even if 0; NAME.threshold {count int: after the add,
 * limit int, direction text: up (count was below limit and no longer is) or down}. A child starts at 0 after
 * fork: what was counted before is in the parent's report. */
#include "client/point.h"

#include "base/mem.h"
#include "event/limits.h"

#include <errno.h>
#include <stdatomic.h>

enum { LIMITS_MAX = 16 };

struct threshold {
    struct threshold *next; /* fixed once it is in the list */
    int64_t limit;
};

struct gridline_counter {
    struct point point;
    _Atomic int64_t count;
    _Atomic(struct threshold *) thresholds; /* only ever grows */
};

static void report(struct point *p)
{
    struct gridline_counter *c = (struct gridline_counter *)p;
    struct gridline_value v = POINT_INT("count", atomic_load_explicit(&c->count, memory_order_relaxed));
    point_write(p, GRIDLINE_INFO, &v, 1);
}

static void destroy(struct point *p)
{
    struct gridline_counter *c = (struct gridline_counter *)p;
    for (struct threshold *t = atomic_load(&c->thresholds), *next; t; t = next) {
        next = t->next;
        mem_free(t);
    }
    point_fini(p);
    mem_free(c);
}

static void after_fork(struct point *p)
{
    atomic_store(&((struct gridline_counter *)p)->count, 0);
}

static const struct point_ops counter_ops = {.report_on_close = report,
                                             .report_if_due = point_never_due,
                                             .destroy = destroy,
                                             .after_fork = after_fork};

static struct point *create(const void *args)
{
    (void)args;
    struct gridline_counter *c = mem_try_alloc(sizeof *c);
    return c ? &c->point : NULL;
}

gridline_counter *gridline_counter_get(gridline *g, const char *name)
{
    return (gridline_counter *)point_get(g, &counter_ops, name, create, NULL);
}

static void write_crossing(gridline_counter *c, int64_t count, int64_t limit, const char *direction)
{
    static const char suffix[] = ".threshold";
    char event[EVENT_NAME_MAX + 1];
    size_t n = strlen(c->point.name); /* gridline_counter_threshold has checked that it fits */
    memcpy(event, c->point.name, n);
    memcpy(event + n, suffix, sizeof suffix);
    struct gridline_value v[] = {POINT_INT("count", count), POINT_INT("limit", limit),
                                 POINT_TEXT("direction", direction, strlen(direction))};
    int saved_errno = errno;
    (void)gridline_write_values(c->point.g, 0, GRIDLINE_NOTICE, event, v, 3); /* a failure is counted there */
    errno = saved_errno;
}

void gridline_counter_add(gridline_counter *c, int64_t n)
{
    if (!c)
        return;
    int64_t before = atomic_fetch_add_explicit(&c->count, n, memory_order_relaxed);
    int64_t after = (int64_t)((uint64_t)before + (uint64_t)n); /* wraps, as the atomic does */
    for (struct threshold *t = atomic_load_explicit(&c->thresholds, memory_order_acquire); t; t = t->next) {
        if (before < t->limit && after >= t->limit)
            write_crossing(c, after, t->limit, "up");
        else if (before >= t->limit && after < t->limit)
            write_crossing(c, after, t->limit, "down");
    }
}

void gridline_counter_report(gridline_counter *c)
{
    if (c)
        report(&c->point);
}

/* A limit that is there already is not added again. -ENOSPC: there are LIMITS_MAX. */
static int add_limit(gridline_counter *c, struct threshold *t)
{
    t->next = atomic_load(&c->thresholds);
    do {
        unsigned n = 0;
        for (struct threshold *u = t->next; u; u = u->next, n++)
            if (u->limit == t->limit)
                return -EEXIST;
        if (n >= LIMITS_MAX)
            return -ENOSPC;
    } while (!atomic_compare_exchange_weak(&c->thresholds, &t->next, t));
    return 0;
}

int gridline_counter_threshold(gridline_counter *c, int64_t limit)
{
    if (!c)
        return 0;
    if (strlen(c->point.name) + strlen(".threshold") > EVENT_NAME_MAX)
        return -ENAMETOOLONG;
    int saved_errno = errno;
    struct threshold *t = mem_try_alloc(sizeof *t);
    errno = saved_errno;
    if (!t)
        return -ENOMEM;
    t->limit = limit;
    int r = add_limit(c, t);
    if (r < 0)
        mem_free(t);
    return r == -EEXIST ? 0 : r;
}
