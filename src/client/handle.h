/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h - struct gridline and who touches what of it.
 *
 * Three parties: the program's threads, which only ever touch their own rings and a few atomics here; whoever
 * drains (the writer thread, or a caller), under `lock`; and open, close and fork, under the process-wide
 * lock (process.h) first and `lock` second. */
#ifndef GRIDLINE_CLIENT_HANDLE_H
#define GRIDLINE_CLIENT_HANDLE_H

#include "base/arena.h"
#include "client/activate.h"
#include "client/client.h"
#include "client/drain.h"
#include "client/ring.h"

#include <pthread.h>

enum { DESTS_MAX = 8 };
enum { WRITER_RUNS, WRITER_ENDED, WRITER_ABANDONED };

struct gridline {
    /* what the fast path reads; fixed while the handle is open */
    uint32_t bit; /* in struct gridline_site.on: 1 << slot */
    uint32_t slot;
    uint64_t gen; /* no other handle of this process has had it */
    unsigned flags;
    size_t ring_bytes;

    struct ring *_Atomic rings; /* pushed by any thread, removed by the drainer */
    /* dropped before there was a ring to count it in */
    _Atomic uint64_t dropped[DROP_REASONS];

    /* the writer thread, writer.c */
    _Atomic bool has_writer; /* somebody empties the rings: threads need not */
    _Atomic bool is_asleep;
    _Atomic bool must_stop;
    int wake_fd; /* eventfd; -1 = none */
    pthread_t writer;
    _Atomic int writer_end; /* who is last, its thread or close, frees the handle */

    pthread_mutex_t points_lock; /* find and add */
    struct point *_Atomic points;
    _Atomic bool points_busy; /* somebody is asking them whether they are due */
    _Atomic bool is_ending;   /* they have made their last reports */

    pthread_mutex_t lock; /* guards the rest */
    struct arena
        names; /* host, prog, constant fields; also earlier ones, which a destination may still know */
    struct slice host, prog; /* NUL-terminated too */
    struct dest_env env;
    struct dest *dests[DESTS_MAX];
    size_t n_dests;
    struct drain drain;
    struct watch watch;
};

/* This thread's ring for g, if it has one; else NULL. */
static inline struct ring *ring_of(const struct gridline *g)
{
    const struct thread_slot *slot = &ring_thread->at[g->slot];
    if (GRIDLINE_UNLIKELY(atomic_load_explicit(&slot->gen, memory_order_relaxed) != g->gen))
        return NULL;
    atomic_signal_fence(memory_order_seq_cst);
    return atomic_load_explicit(&slot->ring, memory_order_relaxed);
}

/* How long a call of the library's own may leave events lying about: see gridline.h. */
enum { SERVE_EVERY_MS = 1000, SERVE_RETRY_MS = 10 };

/* serve.c: what has to be done now and then, by whoever is at hand: empty the rings, move the destinations
 * along, look at the control file. The lock is held. Returns in how many ms to come again, -1 = no need. */
int serve_locked(struct gridline *g, bool flush);
/* The same by a thread of the program in the middle of its own work; keeps errno. Does nothing if that could
 * be a signal handler, or somebody else is at it. r is this thread's ring; if it is full, that counts for
 * GRIDLINE_MANUAL. */
void serve_inline(struct gridline *g, struct ring *r, bool is_full);
/* Asks the points for reports that are due. No lock is held. */
void serve_points(struct gridline *g);
/* Is this perhaps a signal handler? See serve.c. */
bool serve_in_handler(void);

/* serve_locked where SIGPIPE and SIGXFSZ must not reach the program. */
int serve_quietly(struct gridline *g, bool flush);

/* handle.c, for process.c */
void handle_after_fork(struct gridline *g);
void handle_at_exit(struct gridline *g);
/* For writer.c: says goodbye and frees a handle that nobody else knows any more. */
void handle_finish(struct gridline *g);
/* The ledger as destination i sees it. The lock is held. */
void handle_stats(struct gridline *g, size_t i, struct gridline_stats *out);

/* writer.c: the lock is held by the caller of start, and not by the caller of stop. */
int writer_start(struct gridline *g);
bool writer_stop(struct gridline *g, int timeout_ms); /* false: it hangs in write(2) */
/* Leaves the handle to a writer that hangs: it frees it if it ever comes back. False: it has ended meanwhile.
 */
bool writer_abandon(struct gridline *g);
void writer_wake(struct gridline *g); /* signal-safe */

/* dest.c: one destination; or several, separated by blanks, into the handle. -EINVAL for what is no
 * destination. */
int dest_open(struct slice url, const struct dest_env *env, struct dest **out);
int dest_open_list(struct gridline *g, struct slice urls);
/* Makes d one of the handle's. Takes d, also on failure (-ENOSPC). The lock is held, or g is not open yet. */
int dest_adopt(struct gridline *g, struct dest *d);

#endif
