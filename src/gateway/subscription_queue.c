/* SPDX-License-Identifier: Apache-2.0 */
/* What is dropped is dropped from the front: a slow consumer gets what is new, and is told before it how much
 * is missing. */
#include "gateway/subscription_internal.h"

#include "base/mem.h"

enum { RING_MIN = 16, EARLY_BYTES = 256 << 10 /* sent before the flush */ };

void queue_init(struct subscription *s, size_t max_bytes)
{
    s->max_bytes = max_bytes;
}

static struct waiting *front(struct subscription *s)
{
    return &s->ring[s->head & (s->cap - 1)];
}

static size_t cost(const struct waiting *w)
{
    return w->chunk ? sizeof *w->chunk + w->chunk->data.n : sizeof *w->gap;
}

static struct waiting take_front(struct subscription *s)
{
    struct waiting w = *front(s);
    s->head++;
    s->n--;
    s->bytes -= cost(&w);
    return w;
}

static void note_dropped(struct subscription *s, uint64_t n, struct position last)
{
    if (s->dropped.lost == 0)
        s->dropped = (struct subscription_gap){.reason = GAP_SLOW, .from = s->position};
    s->dropped.lost += n;
    s->dropped.to = last;
    s->lost += n;
}

static void drop_front(struct subscription *s)
{
    struct waiting w = take_front(s);
    if (w.chunk)
        note_dropped(s, w.chunk->count, w.chunk->last);
    else /* the journal's gap is in this one, whose events are more than we know of */
        note_dropped(s, w.gap->lost ? w.gap->lost : 1, w.gap->to);
    chunk_unref(w.chunk);
    mem_free(w.gap);
}

/* Without a word: they will come from the journal. */
static void clear(struct subscription *s)
{
    while (s->n) {
        struct waiting w = take_front(s);
        chunk_unref(w.chunk);
        mem_free(w.gap);
    }
}

void queue_fini(struct subscription *s)
{
    if (s->ring)
        clear(s);
    mem_free(s->ring);
    s->ring = NULL;
    s->cap = 0;
}

static bool grow(struct subscription *s)
{
    size_t cap = s->cap ? s->cap * 2 : RING_MIN;
    struct waiting *ring = mem_try_alloc(cap * sizeof *ring);
    if (!ring)
        return false;
    for (size_t i = 0; i < s->n; i++)
        ring[i] = s->ring[(s->head + i) & (s->cap - 1)];
    mem_free(s->ring);
    s->ring = ring;
    s->cap = cap;
    s->head = 0;
    return true;
}

static void make_ready(struct subscription *s)
{
    if (s->is_ready)
        return;
    s->is_ready = true;
    s->next_ready = s->all->ready;
    s->all->ready = s;
}

/* false: w is still the caller's. */
static bool put(struct subscription *s, struct waiting w)
{
    if (s->n == s->cap && !grow(s))
        return false;
    s->ring[(s->head + s->n++) & (s->cap - 1)] = w;
    s->bytes += cost(&w);
    make_ready(s);
    return true;
}

void queue_chunk(struct subscription *s, struct chunk *c)
{
    struct waiting w = {.chunk = c};
    if (s->bytes > EARLY_BYTES && !s->reader)
        queue_push(s);
    bool is_full = s->n && s->bytes + cost(&w) > s->max_bytes;
    if (is_full && s->durable && !s->reader) {
        chunk_unref(c);
        clear(s);
        subscription_fall_back(s);
        return;
    }
    while (s->n && !s->reader && s->bytes + cost(&w) > s->max_bytes)
        drop_front(s);
    if (!put(s, w)) {
        note_dropped(s, c->count,
                     c->last); /* no memory; it is the last, and the gap is told first: the sum is right */
        chunk_unref(c);
    }
}

void queue_gap(struct subscription *s, const struct subscription_gap *gap)
{
    struct waiting w = {.gap = mem_try_alloc(sizeof *w.gap)};
    if (w.gap)
        *w.gap = *gap;
    if (!w.gap || !put(s, w)) {
        note_dropped(s, gap->lost ? gap->lost : 1, gap->to); /* told all the same, if not how */
        mem_free(w.gap);
    }
}

void queue_lose(struct subscription *s, uint64_t n, struct position at)
{
    note_dropped(s, n, at);
    make_ready(s);
}

static void give_front(struct subscription *s)
{
    const struct subscriber_ops *ops = s->subscriber->ops;
    struct waiting w = take_front(s);
    if (w.gap) {
        ops->gap(s->subscriber, s->id, w.gap);
        s->position = w.gap->to.record ? w.gap->to : s->position;
    } else {
        ops->events(s->subscriber, s->id, w.chunk);
        s->given += w.chunk->count;
        s->position = w.chunk->last;
    }
    s->told = s->position.record;
    chunk_unref(w.chunk);
    mem_free(w.gap);
}

void queue_push(struct subscription *s)
{
    struct subscriber *to = s->subscriber;
    bool is_writable;
    while ((is_writable = to->ops->is_writable(to)) && (s->n || s->dropped.lost)) {
        if (s->dropped.lost) {
            struct subscription_gap gap = s->dropped;
            s->dropped = (struct subscription_gap){0};
            to->ops->gap(to, s->id, &gap);
            continue;
        }
        while (s->n && to->ops->is_writable(to))
            give_front(s);
        if (to->ops->flush)
            to->ops->flush(to);
    }
    if (to->ops->flush)
        to->ops->flush(to);
    if (s->reader && is_writable)
        subscription_ask_more(s);
}
