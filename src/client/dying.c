/* SPDX-License-Identifier: Apache-2.0 */
/* A handler may have interrupted anything: malloc, or this library. The first is why memory comes from a
 * reserve. For the second the handle's lock is only tried: its holder may be the thread that we interrupted,
 * which will never let go; then the time runs out and the events stay where they are. (pthread_mutex_trylock
 * is not on POSIX's list of calls for handlers; on Linux it is one compare-and-exchange.) */
#include "client/dying.h"

#include "base/clock.h"
#include "base/mem.h"
#include "client/handle.h"

#include <time.h>

static bool is_empty(const struct ring *r)
{
    return atomic_load(&r->head) == atomic_load(&r->tail);
}

/* Has what this thread wrote been given to the destinations? The lock is held. */
static bool is_taken(struct gridline *g)
{
    const struct ring *r = ring_get(g);
    return !r || (is_empty(r) && is_empty(r->second) && drain_in_block(&g->drain) == 0);
}

void dying_flush(gridline *g, bool may_encode, int timeout_ms)
{
    bool has_writer = atomic_load(&g->has_writer);
    if (!may_encode && !has_writer)
        return;
    mem_last_words();
    int64_t deadline = clock_mono_ns() + timeout_ms * (NS_PER_S / 1000);
    do {
        if (pthread_mutex_trylock(&g->lock) == 0) {
            if (may_encode)
                (void)serve_quietly(g, true); /* when to come again does not matter any more */
            bool done = is_taken(g);
            (void)pthread_mutex_unlock(&g->lock); /* can't fail: it is ours */
            if (done)
                return;
        }
        if (has_writer)
            writer_wake(g);
        (void)nanosleep(&(struct timespec){0, 1000000},
                        NULL); /* shorter when interrupted, which does no harm */
    } while (clock_mono_ns() < deadline);
}
