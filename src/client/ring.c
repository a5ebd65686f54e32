/* SPDX-License-Identifier: Apache-2.0 */
/* Making rings, and everything about reserving that is not the fast path. Memory is mapped, not malloc'ed: a
 * signal handler may be the first to write an event on its thread. */
#include "client/ring.h"

#include "client/handle.h"
#include "client/process.h"
#include "event/limits.h"

#include <signal.h>
#include <sys/mman.h>

/* No event within the model's limits makes a longer record: its size counts 8 bytes a field. */
enum { RECORD_MAX = EVENT_SIZE_MAX + RECORD_HEAD };
enum { PAGE = 4096 };

_Static_assert(sizeof(struct ring) * 2 <= PAGE, "both ring heads fit in the first page");
_Static_assert(sizeof(struct record) == RECORD_HEAD, "as ring.h says");

static struct thread nobody; /* generations count from 1, so none of its slots ever matches */
_Thread_local struct thread *ring_thread = &nobody;

static void *map(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Called by the thread library at the end of a thread. A handle that is being closed frees its rings itself:
 * then it is in no slot any more. */
void ring_thread_ends(void *arg)
{
    struct thread *t = arg;
    ring_thread = &nobody; /* destructors that run later may write events: they start afresh */
    process_lock();
    for (unsigned i = 1; i < HANDLES; i++) {
        struct gridline *g = process_handle(i);
        if (g && t->at[i].gen == g->gen)
            atomic_store_explicit(&t->at[i].ring->is_finished, true, memory_order_release);
    }
    process_unlock();
    (void)munmap(t, sizeof *t);
}

static void ring_init(struct ring *r, struct gridline *g, char *data, size_t size)
{
    r->g = g;
    r->gen = g->gen;
    r->tsc = ticks_are_tsc;
    r->data = data;
    r->mask = size - 1;
    r->due = UINT64_MAX;
}

/* One mapping: a page with both heads, the ring, the second ring. */
static struct ring *ring_map(struct gridline *g)
{
    size_t total = PAGE + g->ring_bytes + RING_SECOND;
    char *p = map(total);
    if (!p)
        return NULL;
    struct ring *r = (struct ring *)p, *second = r + 1;
    ring_init(r, g, p + PAGE, g->ring_bytes);
    ring_init(second, g, p + PAGE + g->ring_bytes, RING_SECOND);
    second->is_second = true;
    r->second = second;
    r->mapped = total;
    if (!atomic_load_explicit(&g->has_writer, memory_order_relaxed))
        r->due = 0; /* the first event finds out what there is to do */
    return r;
}

void ring_unmap(struct ring *r)
{
    (void)munmap(r, r->mapped);
}

static void push(struct gridline *g, struct ring *r)
{
    struct ring *first = atomic_load_explicit(&g->rings, memory_order_relaxed);
    do
        atomic_store_explicit(&r->link, first, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&g->rings, &first, r, memory_order_release,
                                                  memory_order_relaxed));
}

static struct thread *thread_make(void)
{
    struct thread *t = map(sizeof *t);
    if (t && process_watch_thread(t) < 0) {
        (void)munmap(t, sizeof *t);
        return NULL;
    }
    return t;
}

/* With all signals blocked, so that a handler can't come between. */
static struct ring *ring_make(struct gridline *g)
{
    if (ring_thread == &nobody) {
        struct thread *t = thread_make();
        if (!t)
            return NULL;
        ring_thread = t;
    }
    struct ring *r = ring_of(g);
    if (r)
        return r; /* a handler has made it */
    r = ring_map(g);
    if (!r)
        return NULL;
    struct thread_slot *slot = &ring_thread->at[g->slot];
    atomic_store_explicit(&slot->ring, r, memory_order_relaxed);
    atomic_store_explicit(&slot->gen, g->gen, memory_order_relaxed);
    push(g, r);
    return r;
}

struct ring *ring_get(struct gridline *g)
{
    struct ring *r = ring_of(g);
    if (r)
        return r;
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before); /* neither can fail with these arguments */
    r = ring_make(g);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r;
}

/* The place for size bytes: behind head, or at the start of the buffer where they don't fit before its end.
 * Sets how far the fast path may go from there. */
static bool find_room(struct ring *r, size_t size, uint64_t *at)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed), cap = r->mask + 1;
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    uint64_t left = ring_to_end(r, head), start = size <= left ? head : head + left;
    if (start + size > tail + cap)
        return false;
    if (start != head && left >= RECORD_HEAD)
        *ring_at(r, head) = (struct record){0, RECORD_PAD, (uint32_t)left};
    uint64_t end = start + ring_to_end(r, start), full = tail + cap, half = tail + cap / 2;
    r->limit = end < full ? end : full;
    if (start + size <= half && half < r->limit)
        r->limit = half;
    *at = start;
    return true;
}

static bool is_past_half(const struct ring *r, uint64_t end)
{
    return end - atomic_load_explicit(&r->tail, memory_order_relaxed) > (r->mask + 1) / 2;
}

/* A plain count will do: until nest is back, handlers that interrupt us count in the second ring. */
static struct record *give_up(struct ring *r, enum drop_reason reason)
{
    uint64_t n = atomic_load_explicit(&r->dropped[reason], memory_order_relaxed);
    atomic_store_explicit(&r->dropped[reason], n + 1, memory_order_relaxed);
    bool serve = atomic_load_explicit(&r->nest, memory_order_relaxed) == RING_THEN_SERVE;
    atomic_store_explicit(&r->nest, RING_IDLE, memory_order_relaxed);
    if (serve)
        serve_inline(r->g, r, false);
    return NULL;
}

/* Who will make room, and when? The writer thread, if there is one: wake it. Else this thread, once the event
 * that it is about to write is whole. */
static void ask_for_room(struct ring *r)
{
    struct gridline *g = r->g;
    if (atomic_load_explicit(&g->has_writer, memory_order_relaxed))
        writer_wake(g);
    else if (!r->is_second && !(g->flags & GRIDLINE_MANUAL))
        atomic_store_explicit(&r->nest, RING_THEN_SERVE, memory_order_relaxed);
}

/* While the ring is full every event comes here: one look, no locked instruction. */
static void wake_if_asleep(struct gridline *g)
{
    if (atomic_load_explicit(&g->is_asleep, memory_order_relaxed))
        writer_wake(g);
}

struct record *ring_reserve_slow(struct ring *r, size_t size, uint64_t now)
{
    uint64_t at;
    if (size > RECORD_MAX)
        return give_up(r, DROP_TOO_LARGE);
    if (now >= r->due)
        atomic_store_explicit(&r->nest, RING_THEN_SERVE, memory_order_relaxed);
    bool has_room = find_room(r, size, &at);
    if (!has_room && !r->is_second && now >= r->retry &&
        !atomic_load_explicit(&r->g->has_writer, memory_order_relaxed)) {
        serve_inline(r->g, r, true);
        has_room = find_room(r, size, &at);
    }
    if (!has_room) {
        wake_if_asleep(r->g);
        return give_up(r, DROP_RING_FULL);
    }
    if (is_past_half(r, at + size))
        ask_for_room(r);
    struct record *record = ring_at(r, at);
    record->ticks = now;
    record->size = (uint32_t)size;
    r->next = at + size;
    return record;
}

void ring_end_slow(struct ring *r)
{
    atomic_store_explicit(&r->nest, RING_IDLE, memory_order_relaxed);
    serve_inline(r->g, r, false);
}

/* This thread's ring, or its second if an event is half written in the first; marked as being written to. */
static struct ring *ring_enter(struct gridline *g)
{
    struct ring *r = ring_get(g);
    if (!r) {
        atomic_fetch_add_explicit(&g->dropped[DROP_MEMORY], 1, memory_order_relaxed);
        return NULL;
    }
    if (atomic_load_explicit(&r->nest, memory_order_relaxed) != RING_IDLE)
        r = r->second;
    if (atomic_load_explicit(&r->nest, memory_order_relaxed) != RING_IDLE) {
        atomic_fetch_add_explicit(&r->dropped[DROP_NESTED], 1, memory_order_relaxed);
        return NULL;
    }
    atomic_store_explicit(&r->nest, RING_WRITING, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    return r;
}

struct record *ring_reserve(struct gridline *g, size_t size, struct ring **out)
{
    struct ring *r = ring_enter(g);
    *out = r;
    return r ? ring_reserve_slow(r, size, ticks_now(r->tsc)) : NULL;
}

uint64_t ring_count(const struct ring *r)
{
    uint64_t at = atomic_load_explicit(&r->tail, memory_order_relaxed), n = 0;
    uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    while (at < head) {
        uint64_t left = ring_to_end(r, at);
        if (left < RECORD_HEAD) {
            at += left;
            continue;
        }
        const struct record *record = ring_at(r, at);
        n += record->site != RECORD_PAD;
        at += record->size;
    }
    return n;
}
