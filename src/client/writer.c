/* SPDX-License-Identifier: Apache-2.0 */
/* The writer thread: empties the rings every 20 ms, or as soon as one is half full. Threads wake it by an
 * eventfd, and only when it sleeps, so that waking costs them a system call at most once a round. All signals
 * are blocked in it: the program's handlers run on the program's threads. */
#include "client/handle.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { ROUND_MS = 20 };

void writer_wake(struct gridline *g)
{
    /* both sides exchange: either we see it asleep, or it sees what we have published when it looks before it
     * sleeps */
    if (!atomic_exchange_explicit(&g->is_asleep, false, memory_order_acq_rel))
        return;
    int saved = errno;
    uint64_t one = 1;
    (void)!write(g->wake_fd, &one, sizeof one); /* full means that it is awake */
    errno = saved;
}

static bool some_ring_is_full(const struct gridline *g)
{
    struct ring *r = atomic_load_explicit(&g->rings, memory_order_acquire);
    for (; r; r = atomic_load_explicit(&r->link, memory_order_relaxed))
        if (atomic_load_explicit(&r->head, memory_order_relaxed) -
                atomic_load_explicit(&r->tail, memory_order_relaxed) >
            (r->mask + 1) / 2)
            return true;
    return false;
}

/* Sleeps until woken, until a destination's descriptor is ready, or for ms. fds are taken under the lock. */
static void writer_sleep(struct gridline *g, struct pollfd *fds, nfds_t n, int ms)
{
    (void)atomic_exchange_explicit(&g->is_asleep, true, memory_order_acq_rel);
    if (!some_ring_is_full(g) && !atomic_load(&g->must_stop))
        (void)poll(fds, n, ms); /* whatever it says, the next round looks at everything */
    atomic_store_explicit(&g->is_asleep, false, memory_order_relaxed);
    uint64_t count;
    if (fds[0].revents & POLLIN)
        (void)!read(g->wake_fd, &count, sizeof count); /* only to empty it */
}

static nfds_t collect_fds(const struct gridline *g, struct pollfd fds[DESTS_MAX + 1])
{
    nfds_t n = 1;
    fds[0] = (struct pollfd){.fd = g->wake_fd, .events = POLLIN};
    for (size_t i = 0; i < g->n_dests; i++) {
        const struct dest *d = g->dests[i];
        short events = 0;
        int fd = d->ops->wait_fd ? d->ops->wait_fd(d, &events) : -1;
        if (fd >= 0 && events)
            fds[n++] = (struct pollfd){.fd = fd, .events = events};
    }
    return n;
}

static void *run(void *arg)
{
    struct gridline *g = arg;
    struct pollfd fds[DESTS_MAX + 1];
    while (!atomic_load(&g->must_stop)) {
        serve_points(g);
        (void)pthread_mutex_lock(&g->lock);
        int wait = serve_locked(g, false);
        nfds_t n = collect_fds(g, fds);
        (void)pthread_mutex_unlock(&g->lock);
        writer_sleep(g, fds, n, wait >= 0 && wait < ROUND_MS ? wait : ROUND_MS);
    }
    if (atomic_exchange(&g->writer_end, WRITER_ENDED) == WRITER_ABANDONED)
        handle_finish(g);
    return NULL;
}

int writer_start(struct gridline *g)
{
    if (g->wake_fd < 0)
        g->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (g->wake_fd < 0)
        return -errno;
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before); /* the new thread inherits it */
    atomic_store(&g->has_writer, true);
    atomic_store(&g->writer_end, WRITER_RUNS);
    int r = -pthread_create(&g->writer, NULL, run, g);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r < 0)
        atomic_store(&g->has_writer, false);
    else
        (void)pthread_setname_np(g->writer, "gridline"); /* only for people who look */
    return r;
}

bool writer_stop(struct gridline *g, int timeout_ms)
{
    if (!atomic_load(&g->has_writer))
        return true;
    atomic_store(&g->must_stop, true);
    atomic_store(&g->is_asleep, true);
    writer_wake(g);
    int64_t until = clock_utc_ns() + timeout_ms * INT64_C(1000000);
    struct timespec t = {.tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S};
    if (pthread_timedjoin_np(g->writer, NULL, &t) != 0)
        return false;
    atomic_store(&g->has_writer, false);
    return true;
}

bool writer_abandon(struct gridline *g)
{
    pthread_t writer = g->writer; /* g may be gone after the exchange */
    if (atomic_exchange(&g->writer_end, WRITER_ABANDONED) == WRITER_ENDED) {
        (void)pthread_join(writer, NULL); /* just now */
        return false;
    }
    (void)pthread_detach(writer);
    return true;
}
