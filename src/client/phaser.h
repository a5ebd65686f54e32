/* SPDX-License-Identifier: Apache-2.0 */
/* phaser.h - two copies of something that many threads add to and one reader empties; nobody waits.
 *
 * A writer enters the active copy, adds to it with relaxed atomics, and leaves. The reader flips the active
 * copy and owns the other one as soon as its writers have left: everything added to it is then there, and
 * nothing is added any more. A reader that finds a writer still inside (preempted there) comes back later; it
 * never needs to wait, and a writer only repeats a step when a flip falls between two of its instructions.
 * (HdrHistogram's WriterReaderPhaser is the same idea.)
 *
 * Why it holds: a writer announces itself (writers[i]++) and then looks at active again; the reader changes
 * active and then looks at writers[i]. With sequential consistency at least one of them sees the other.
 *
 * A zeroed struct is ready. One reader at a time: the caller sees to that. Cost of enter and leave: two
 * atomic adds, about 10 ns. */
#ifndef GRIDLINE_CLIENT_PHASER_H
#define GRIDLINE_CLIENT_PHASER_H

#include <stdatomic.h>
#include <stdbool.h>

struct phaser {
    _Atomic unsigned active;     /* 0 or 1: the copy that writers use */
    _Atomic unsigned writers[2]; /* how many are inside each */
};

/* Which copy to use. */
static inline unsigned phaser_enter(struct phaser *p)
{
    for (;;) {
        unsigned i = atomic_load(&p->active);
        atomic_fetch_add(&p->writers[i], 1);
        if (atomic_load(&p->active) == i)
            return i;
        atomic_fetch_sub(&p->writers[i], 1);
    }
}

static inline void phaser_leave(struct phaser *p, unsigned i)
{
    atomic_fetch_sub(&p->writers[i], 1);
}

static inline unsigned phaser_active(struct phaser *p)
{
    return atomic_load(&p->active);
}

/* Sends later writers to the other copy, which must be empty; returns the one they leave. */
static inline unsigned phaser_flip(struct phaser *p)
{
    unsigned old = atomic_load(&p->active);
    atomic_store(&p->active, 1 - old);
    return old;
}

/* Has everyone left copy i, which is not the active one? Looks for about a microsecond: an add takes a few
 * ns. */
static inline bool phaser_is_drained(struct phaser *p, unsigned i)
{
    for (int tries = 0; tries < 200; tries++)
        if (atomic_load(&p->writers[i]) == 0)
            return true;
    return false;
}

/* There is no fetch_add for doubles. */
static inline void atomic_add_double(_Atomic double *to, double v)
{
    double old = atomic_load_explicit(to, memory_order_relaxed);
    while (
        !atomic_compare_exchange_weak_explicit(to, &old, old + v, memory_order_relaxed, memory_order_relaxed))
        ;
}

#endif
