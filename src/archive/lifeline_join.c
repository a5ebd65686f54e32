/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/lifeline_join.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void life_open_fini(struct life_open *o)
{
    mem_free(o->slots);
    *o = (struct life_open){NULL, 0, 0};
}

/* ---------------------------------------------------------------- sorting */

static int compare(const void *a, const void *b)
{
    const struct life_event *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void sort_few(struct life_event *e, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct life_event x = e[i];
        size_t at = i;
        for (; at > 0 && compare(&x, &e[at - 1]) < 0; at--)
            e[at] = e[at - 1];
        e[at] = x;
    }
}

enum { BUCKETS = 1 << 12, FEW = 24 };

static unsigned bucket_of(const struct life_event *e)
{
    return (unsigned)(e->id >> 52);
}

/* Ids are hashes: their highest bits part them evenly. What is left to sort is small, unless one id has very
 * many events; qsort takes those. */
void life_sort(struct life_event *events, struct life_event *room, size_t n)
{
    size_t at[BUCKETS + 1] = {0};
    for (size_t i = 0; i < n; i++)
        at[bucket_of(&events[i]) + 1]++;
    for (size_t i = 0; i < BUCKETS; i++)
        at[i + 1] += at[i];
    for (size_t i = 0; i < n; i++)
        room[at[bucket_of(&events[i])]++] = events[i];
    memcpy(events, room, n * sizeof *events);
    for (size_t i = 0, from = 0; i < BUCKETS; from = at[i++]) {
        size_t count = at[i] - from;
        if (count <= FEW)
            sort_few(events + from, count);
        else
            qsort(events + from, count, sizeof *events, compare);
    }
}

struct timed {
    uint64_t key; /* ns since the first */
    uint32_t at;
};
_Static_assert(2 * sizeof(struct timed) <= sizeof(struct life_event),
               "two of these fit into the room of an event");

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

/* By one digit, keeping the order of those that have the same. */
static void sort_digit(const struct timed *from, struct timed *to, size_t n, unsigned shift)
{
    size_t at[DIGITS + 1] = {0};
    for (size_t i = 0; i < n; i++)
        at[(from[i].key >> shift & (DIGITS - 1)) + 1]++;
    for (size_t i = 0; i < DIGITS; i++)
        at[i + 1] += at[i];
    for (size_t i = 0; i < n; i++)
        to[at[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
}

void life_by_time(const struct life_event *events, size_t n, struct life_event *room, uint32_t *out)
{
    struct timed *a = (struct timed *)(void *)room, *b = a + n;
    int64_t first = INT64_MAX;
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++)
        first = events[i].time_ns < first ? events[i].time_ns : first;
    for (size_t i = 0; i < n; i++) {
        a[i] = (struct timed){(uint64_t)events[i].time_ns - (uint64_t)first, (uint32_t)i};
        most |= a[i].key;
    }
    for (unsigned shift = 0; shift < 64 && most >> shift; shift += DIGIT_BITS) {
        sort_digit(a, b, n, shift);
        struct timed *sorted = b;
        b = a;
        a = sorted;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = a[i].at;
}

/* ---------------------------------------------------------------- open ids */

/* Its slot, or the free one where it would be. */
static struct life_last *find(const struct life_open *o, uint64_t id)
{
    size_t at = (size_t)(id & (o->cap - 1)); /* sorting goes by the high bits: these are as good as new */
    while (o->slots[at].id && o->slots[at].id != id)
        at = (at + 1) & (o->cap - 1);
    return &o->slots[at];
}

void life_join(struct life_event *events, size_t n, const struct life_open *open, struct life_before *out)
{
    struct life_last last = {.id = 0};
    for (size_t i = 0; i < n; i++) {
        struct life_event *e = &events[i];
        if (e->id != last.id) {
            const struct life_last *known = open->cap ? find(open, e->id) : NULL;
            last = known && known->id ? *known : (struct life_last){e->id, INT64_MIN, LIFE_NONE, LIFE_NONE};
        }
        out[i] = (struct life_before){last.name, last.host, e->time_ns < last.time_ns};
        e->latency_ns = LATENCY_NONE;
        if (out[i].is_late)
            continue;
        if (last.name != LIFE_NONE)
            e->latency_ns = (uint64_t)e->time_ns - (uint64_t)last.time_ns;
        last = (struct life_last){e->id, e->time_ns, e->name, e->host};
    }
}

static int make_room(struct life_open *o, size_t more)
{
    size_t cap = o->cap ? o->cap : 64;
    while (cap / 2 < o->n + more)
        cap *= 2;
    if (cap == o->cap)
        return 0;
    struct life_open to = {.slots = mem_try_alloc(cap * sizeof *to.slots), .cap = cap, .n = o->n};
    if (!to.slots)
        return -ENOMEM;
    for (size_t i = 0; i < o->cap; i++)
        if (o->slots[i].id)
            *find(&to, o->slots[i].id) = o->slots[i];
    mem_free(o->slots);
    *o = to;
    return 0;
}

static int by_time(const void *a, const void *b)
{
    const struct life_last *x = a, *y = b;
    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

/* Keeps the newest `keep` of them, in a table as small as they need. */
static int64_t forget(struct life_open *o, size_t keep)
{
    struct life_last *all = mem_try_alloc(o->n * sizeof *all);
    if (!all)
        return -ENOMEM;
    size_t n = 0;
    for (size_t i = 0; i < o->cap; i++)
        if (o->slots[i].id)
            all[n++] = o->slots[i];
    qsort(all, n, sizeof *all, by_time);
    struct life_open to = {NULL, 0, 0};
    int r = make_room(&to, keep);
    for (size_t i = n - keep; r == 0 && i < n; i++, to.n++)
        *find(&to, all[i].id) = all[i];
    mem_free(all);
    if (r < 0)
        return r;
    mem_free(o->slots);
    *o = to;
    return (int64_t)(n - keep);
}

int64_t life_open_update(struct life_open *open, const struct life_event *events, size_t n, size_t max)
{
    size_t ids = 0;
    for (size_t i = 0; i < n; i++)
        ids += i == 0 || events[i].id != events[i - 1].id;
    int r = make_room(open, ids);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n && events[i + 1].id == events[i].id)
            continue; /* the last of each id is the newest */
        struct life_last *l = find(open, events[i].id);
        if (l->id && l->time_ns > events[i].time_ns)
            continue;
        open->n += !l->id;
        *l = (struct life_last){events[i].id, events[i].time_ns, events[i].name, events[i].host};
    }
    return open->n > max ? forget(open, max - max / 4) : 0;
}
