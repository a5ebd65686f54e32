/* SPDX-License-Identifier: Apache-2.0 */
/* The two calls behind GRIDLINE_EVENT. What is common is here, in a straight line without a locked
 * instruction: the level is on, this thread has its ring, no event is half written, there is room, nothing is
 * due. The rest is in ring.c. See ring.h for the record and for how signal handlers fit in.
 *
 * Measured here: 12 of about 21 ns are the clock. */
#include "client/handle.h"
#include "client/site.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)

static const struct gridline_slot nothing;

static struct gridline_slot slot_of(struct record *record, struct ring *r, const struct gridline_site *site)
{
    if (!record)
        return nothing;
    record->site = site_number(site);
    return (struct gridline_slot){(char *)record + RECORD_HEAD, r};
}

/* A site's first pass; a thread's first event; a signal handler inside an event. */
static __attribute__((noinline)) struct gridline_slot begin_slow(struct gridline *g,
                                                                 struct gridline_site *site, size_t size)
{
    if (!site_is_registered(site) && !site_register(site)) {
        if (g) /* without a number it can't be written */
            atomic_fetch_add_explicit(&g->dropped[DROP_MEMORY], 1, memory_order_relaxed);
        return nothing;
    }
    if (!g || !(__atomic_load_n(&site->on, __ATOMIC_ACQUIRE) & g->bit))
        return nothing;
    struct ring *r;
    struct record *record = ring_reserve(g, size + RECORD_HEAD, &r);
    return slot_of(record, r, site);
}

static __attribute__((noinline)) struct gridline_slot
no_room(struct ring *r, const struct gridline_site *site, size_t size, uint64_t now)
{
    return slot_of(ring_reserve_slow(r, size + RECORD_HEAD, now), r, site);
}

struct gridline_slot gridline_begin(gridline *g, struct gridline_site *site, size_t size)
{
    /* acquire: with the bit comes the number */
    if (GRIDLINE_UNLIKELY(!g || !(__atomic_load_n(&site->on, __ATOMIC_ACQUIRE) & g->bit)))
        return begin_slow(g, site, size);
    struct ring *r = ring_of(g);
    if (GRIDLINE_UNLIKELY(!r || atomic_load_explicit(&r->nest, memory_order_relaxed) != RING_IDLE))
        return begin_slow(g, site, size);
    atomic_store_explicit(&r->nest, RING_WRITING, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);

    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed), next = head + size + RECORD_HEAD;
    uint64_t now = ticks_now(r->tsc);
    if (GRIDLINE_UNLIKELY(next > r->limit || now >= r->due))
        return no_room(r, site, size, now);
    struct record *record = ring_at(r, head);
    record->ticks = now;
    record->site = site_number(site);
    record->size = (uint32_t)(size + RECORD_HEAD);
    r->next = next;
    return (struct gridline_slot){(char *)(record + 1), r};
}

void gridline_end(struct gridline_slot slot)
{
    struct ring *r = slot.ring;
    atomic_store_explicit(&r->head, r->next, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    if (LIKELY(atomic_load_explicit(&r->nest, memory_order_relaxed) == RING_WRITING))
        atomic_store_explicit(&r->nest, RING_IDLE, memory_order_relaxed);
    else
        ring_end_slow(r);
}
