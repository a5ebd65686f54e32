/* SPDX-License-Identifier: Apache-2.0 */
/* Adding must not wait for someone who folds. So there are two copies of the buckets behind a phaser: whoever
 * folds prepares the other, empty copy with a larger width, sends the writers there, and then pours the old
 * copy's buckets into it. If a writer is preempted inside the old copy, pouring is left to the next fold or
 * read: until then the histogram is the sum of both copies, and reading adds them up.
 *
 * A writer whose time lies behind the last bucket folds, unless another thread is at it or the other copy has
 * not been emptied yet; it looks again a few times and then adds to the last bucket. That misplaces a value
 * by the few nanoseconds that the fold takes, and never loses one.
 *
 * An invariant that everything rests on: each value is in exactly one cell of one copy. */
#include "client/time_histogram.h"

#include "base/mem.h"
#include "client/phaser.h"

#include <sched.h>

enum { FOLD_TRIES = 64, SHIFT_MAX = 62 };

struct copy {
    _Atomic unsigned shift; /* a bucket is width_ns << shift wide; changed only while nobody is in the copy */
    _Atomic double *cells;
};

struct time_histogram {
    struct phaser phaser;
    struct copy copies[2];
    atomic_flag busy; /* someone folds or reads: what is done as the phaser's one reader */
    bool has_rest;    /* the copy that is not active holds values to pour; guarded by busy */
    unsigned n;
    int64_t width_ns;
    _Atomic double cells[]; /* 2 * n */
};

struct time_histogram *time_histogram_create(unsigned buckets, int64_t width_ns)
{
    if (buckets < TIME_BUCKETS_MIN || buckets > TIME_BUCKETS_MAX || width_ns <= 0)
        return NULL;
    struct time_histogram *h = mem_try_alloc(sizeof *h + 2 * buckets * sizeof h->cells[0]);
    if (!h)
        return NULL;
    h->n = buckets;
    h->width_ns = width_ns;
    h->copies[0].cells = h->cells;
    h->copies[1].cells = h->cells + buckets;
    atomic_flag_clear(&h->busy);
    return h;
}

void time_histogram_destroy(struct time_histogram *h)
{
    mem_free(h);
}

void time_histogram_clear(struct time_histogram *h)
{
    h->phaser = (struct phaser){0};
    h->has_rest = false;
    atomic_flag_clear(&h->busy);
    for (unsigned i = 0; i < 2; i++)
        atomic_store(&h->copies[i].shift, 0);
    for (unsigned i = 0; i < 2 * h->n; i++)
        atomic_store(&h->cells[i], 0);
}

/* How often the first width must be doubled for at_ns to lie in one of the buckets. */
static unsigned shift_for(const struct time_histogram *h, int64_t at_ns)
{
    unsigned shift = 0;
    while (shift < SHIFT_MAX && (at_ns / h->width_ns) >> shift >= h->n)
        shift++;
    return shift;
}

/* If the copy that is not active still holds values and its writers have left, moves them to the active one.
 */
static void pour_rest(struct time_histogram *h)
{
    unsigned active = phaser_active(&h->phaser), other = 1 - active;
    if (!h->has_rest || !phaser_is_drained(&h->phaser, other))
        return;
    struct copy *from = &h->copies[other], *to = &h->copies[active];
    unsigned steps = atomic_load(&to->shift) - atomic_load(&from->shift);
    for (unsigned i = 0; i < h->n; i++) {
        double v = atomic_load_explicit(&from->cells[i], memory_order_relaxed);
        if (v == 0)
            continue;
        atomic_add_double(&to->cells[(uint64_t)i >> steps], v);
        atomic_store_explicit(&from->cells[i], 0, memory_order_relaxed);
    }
    h->has_rest = false;
}

/* Makes the buckets wide enough for at_ns; false when that can't be done just now. */
static bool fold(struct time_histogram *h, int64_t at_ns)
{
    if (atomic_flag_test_and_set(&h->busy))
        return false;
    pour_rest(h);
    unsigned active = phaser_active(&h->phaser), shift = shift_for(h, at_ns);
    bool done = atomic_load(&h->copies[active].shift) >= shift;
    if (!done && !h->has_rest) {
        atomic_store(&h->copies[1 - active].shift, shift);
        (void)phaser_flip(&h->phaser); /* what it returns is `active` */
        h->has_rest = true;
        pour_rest(h);
        done = true;
    }
    atomic_flag_clear(&h->busy);
    return done;
}

/* False when at_ns is behind the last bucket and the value must be placed (not `last_resort`). */
static bool try_add(struct time_histogram *h, int64_t at_ns, double value, bool last_resort)
{
    unsigned i = phaser_enter(&h->phaser);
    struct copy *c = &h->copies[i];
    int64_t at = (at_ns / h->width_ns) >> atomic_load_explicit(&c->shift, memory_order_relaxed);
    bool fits = at < (int64_t)h->n;
    if (fits || last_resort)
        atomic_add_double(&c->cells[fits ? at : h->n - 1], value);
    phaser_leave(&h->phaser, i);
    return fits || last_resort;
}

void time_histogram_add(struct time_histogram *h, int64_t at_ns, double value)
{
    if (at_ns < 0)
        at_ns = 0;
    for (unsigned tries = 0; !try_add(h, at_ns, value, tries == FOLD_TRIES); tries++)
        (void)fold(h, at_ns); /* tried again; the last try does without */
}

unsigned time_histogram_read(struct time_histogram *h, int64_t at_ns, double *out, int64_t *width_ns)
{
    if (at_ns < 0)
        at_ns = 0;
    (void)fold(h, at_ns); /* so that the present is in it; if that can't be just now, its end is in the past */
    while (atomic_flag_test_and_set(&h->busy)) /* by a fold or another reader: a microsecond of work */
        (void)sched_yield();                   /* always succeeds on Linux */
    pour_rest(h);
    unsigned active = phaser_active(&h->phaser);
    struct copy *c = &h->copies[active], *rest = &h->copies[1 - active];
    unsigned shift = atomic_load(&c->shift);
    for (unsigned i = 0; i < h->n; i++)
        out[i] = atomic_load_explicit(&c->cells[i], memory_order_relaxed);
    unsigned steps = h->has_rest ? shift - atomic_load(&rest->shift) : 0;
    for (unsigned i = 0; h->has_rest && i < h->n; i++)
        out[(uint64_t)i >> steps] += atomic_load_explicit(&rest->cells[i], memory_order_relaxed);
    atomic_flag_clear(&h->busy);
    *width_ns = h->width_ns << shift;
    int64_t begun = ((at_ns / h->width_ns) >> shift) + 1;
    return begun < (int64_t)h->n ? (unsigned)begun : h->n;
}
