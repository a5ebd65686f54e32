/* SPDX-License-Identifier: Apache-2.0 */
/* What a handle needs done now and then, and when a thread of the program may do it.
 *
 * Writing out allocates and takes locks, so it must not happen in a signal handler, and GRIDLINE_EVENT may be
 * called in one. There is no asking "am I in a handler?", but this can be known: a handler runs with its own
 * signal blocked (unless it was installed with SA_NODEFER) or on the alternate stack. So a thread that has a
 * signal blocked for which there is a handler, or is on the alternate stack, or lives in a process that has a
 * handler with SA_NODEFER that would run on this very stack, leaves its events in the ring: for a thread that
 * is not (another one's call empties all rings), for gridline_flush and gridline_poll, which are never called
 * in a handler, or for close. It costs some 70 system calls, 5 us, each time half a ring has been filled. */
#include "client/handle.h"
#include "client/quiet.h"

#include <errno.h>
#include <signal.h>

enum { BLOCK_AGE_MS = 100 };

/* has_other_stack: the thread has an alternate stack and is not on it, so whatever runs there does not run
 * now. */
static bool handler_may_run(const sigset_t *blocked, bool has_other_stack, int signo)
{
    struct sigaction a;
    if (sigaction(signo, NULL, &a) < 0 || a.sa_handler == SIG_DFL || a.sa_handler == SIG_IGN)
        return false;
    if (has_other_stack && (a.sa_flags & SA_ONSTACK))
        return false;
    return (a.sa_flags & SA_NODEFER) || sigismember(blocked, signo) == 1;
}

bool serve_in_handler(void)
{
    stack_t stack;
    sigset_t blocked;
    if (sigaltstack(NULL, &stack) < 0 || (stack.ss_flags & SS_ONSTACK))
        return true;
    if (pthread_sigmask(SIG_SETMASK, NULL, &blocked) != 0)
        return true;
    bool has_other_stack = !(stack.ss_flags & SS_DISABLE);
    for (int i = 1; i < NSIG; i++)
        if (handler_may_run(&blocked, has_other_stack, i))
            return true;
    return false;
}

void serve_points(struct gridline *g)
{
    struct point *p = atomic_load_explicit(&g->points, memory_order_acquire);
    if (!p || atomic_exchange_explicit(&g->points_busy, true, memory_order_acquire))
        return;
    int64_t now = clock_mono_ns();
    for (; p; p = atomic_load_explicit(&p->next, memory_order_acquire))
        p->ops->report_if_due(p, now);
    atomic_store_explicit(&g->points_busy, false, memory_order_release);
}

static int pump_all(struct gridline *g, int64_t now)
{
    int soonest = -1;
    for (size_t i = 0; i < g->n_dests; i++) {
        struct dest *d = g->dests[i];
        int wait = d->ops->pump ? d->ops->pump(d, now) : -1;
        if (wait >= 0 && (soonest < 0 || wait < soonest))
            soonest = wait;
    }
    return soonest;
}

static bool block_is_old(const struct gridline *g, int64_t now)
{
    return now - g->drain.block_since_ns >= BLOCK_AGE_MS * INT64_C(1000000);
}

int serve_locked(struct gridline *g, bool flush)
{
    int64_t now = clock_mono_ns();
    activate_look(g, now);
    drain_rings(g);
    drain_report(g, now);
    if (flush || block_is_old(g, now))
        drain_flush(g);
    return pump_all(g, now);
}

int serve_quietly(struct gridline *g, bool flush)
{
    struct quiet q;
    quiet_begin(&q);
    int wait = serve_locked(g, flush);
    quiet_end(&q);
    return wait;
}

/* After fork the writer is gone with the other threads; the first who comes starts it anew. */
static void restart_writer(struct gridline *g)
{
    if ((g->flags & GRIDLINE_THREAD) && !atomic_load(&g->has_writer) && !atomic_load(&g->must_stop))
        (void)writer_start(g); /* if it can't be: callers do the writing, and try again in a second */
}

/* What is due, by this thread, if nobody else is at it. False: this may be a signal handler, nothing was
 * done. (Trying a lock is one compare-and-exchange on Linux, so that may come first, and spares the question
 * when it is busy.) */
static bool serve_now(struct gridline *g, bool is_full, bool may_be_handler)
{
    if (pthread_mutex_trylock(&g->lock) != 0)
        return true;
    bool is_safe = !may_be_handler || !serve_in_handler();
    if (is_safe) {
        restart_writer(g);
        if (!is_full && (g->flags & GRIDLINE_MANUAL))
            activate_look(g, clock_mono_ns());
        else if (!atomic_load_explicit(&g->has_writer, memory_order_relaxed))
            (void)serve_quietly(g, true); /* comes again by itself */
    }
    (void)pthread_mutex_unlock(&g->lock);
    if (is_safe)
        serve_points(g);
    return is_safe;
}

static uint64_t ticks_in(uint64_t ms)
{
    return ticks_now(ticks_are_tsc) + ms * ticks_per_ms();
}

void serve_inline(struct gridline *g, struct ring *r, bool is_full)
{
    int saved = errno;
    if (!serve_now(g, is_full, true))
        r->due = r->retry = ticks_in(SERVE_RETRY_MS);
    else if (atomic_load_explicit(&g->has_writer, memory_order_relaxed))
        r->due = UINT64_MAX;
    else
        r->due = ticks_in(SERVE_EVERY_MS);
    errno = saved;
}

void gridline_poll(gridline *g)
{
    if (!g)
        return;
    int saved = errno;
    (void)serve_now(g, false, false); /* not a handler, says gridline.h */
    errno = saved;
}
