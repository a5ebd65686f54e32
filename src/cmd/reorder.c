/* SPDX-License-Identifier: Apache-2.0 */
/* A heap by (time, number): number counts arrivals. Batches stand in a list in the order in which they came:
 * those whose wait is over are at its front. The latest time in one of them is the limit up to which
 * everything is given, so that what came early is not held up by what comes later and is earlier, again and
 * again. */
#include "cmd/reorder.h"

#include "base/mem.h"

#include <errno.h>

enum { RUN_MAX = 1024, FIRST_CAP = 1024 };

struct held {
    struct held *next, *previous; /* in the order in which they came */
    struct batch *batch;
    int64_t came_ns, latest_ns;
    size_t left; /* events that are not given */
};

struct entry {
    int64_t time_ns; /* where it stands; the event's, unless that can't be */
    uint64_t number;
    struct held *held;
    const struct event *event;
};

struct reorder {
    int64_t wait_ns;
    size_t max_bytes, bytes;
    struct entry *heap;
    size_t n, cap;
    struct held *first, *last;
    uint64_t number;
    int64_t limit_ns; /* what stands up to here has waited long enough */
    int64_t given_ns; /* the latest time given; of a clock that is ahead, when it came */
    struct reorder_counts counts;
    struct event run[RUN_MAX];
    struct held *done[RUN_MAX]; /* whose events they are */
};

struct reorder *reorder_create(int64_t wait_ns, size_t max_bytes)
{
    struct reorder *r = mem_try_alloc(sizeof *r);
    if (!r)
        return NULL;
    r->wait_ns = wait_ns;
    r->max_bytes = max_bytes;
    r->limit_ns = r->given_ns = INT64_MIN;
    return r;
}

void reorder_destroy(struct reorder *r)
{
    if (!r)
        return;
    for (struct held *h = r->first, *next; h; h = next) {
        next = h->next;
        batch_unref(h->batch);
        mem_free(h);
    }
    mem_free(r->heap);
    mem_free(r);
}

static bool is_before(const struct entry *a, const struct entry *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->number < b->number;
}

static void push(struct reorder *r, struct entry e)
{
    size_t i = r->n++;
    for (; i > 0 && is_before(&e, &r->heap[(i - 1) / 2]); i = (i - 1) / 2)
        r->heap[i] = r->heap[(i - 1) / 2];
    r->heap[i] = e;
}

static struct entry pop(struct reorder *r)
{
    struct entry top = r->heap[0], moved = r->heap[--r->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < r->n; i = child) {
        if (child + 1 < r->n && is_before(&r->heap[child + 1], &r->heap[child]))
            child++;
        if (!is_before(&r->heap[child], &moved))
            break;
        r->heap[i] = r->heap[child];
    }
    r->heap[i] = moved;
    return top;
}

static int make_room(struct reorder *r, size_t more)
{
    size_t cap = r->cap ? r->cap : FIRST_CAP;
    while (cap < r->n + more)
        cap *= 2;
    if (cap == r->cap)
        return 0;
    struct entry *heap = mem_try_resize(r->heap, cap * sizeof *heap);
    if (!heap)
        return -ENOMEM;
    r->heap = heap;
    r->cap = cap;
    return 0;
}

static size_t bytes_of(const struct held *h)
{
    return h->batch->size_bytes + h->batch->n * sizeof(struct entry) + sizeof *h;
}

static void append(struct reorder *r, struct held *h)
{
    h->previous = r->last;
    if (r->last)
        r->last->next = h;
    else
        r->first = h;
    r->last = h;
    r->bytes += bytes_of(h);
}

/* One more event of it is given: it goes with its last. */
static void release(struct reorder *r, struct held *h)
{
    if (--h->left)
        return;
    if (h->previous)
        h->previous->next = h->next;
    else
        r->first = h->next;
    if (h->next)
        h->next->previous = h->previous;
    else
        r->last = h->previous;
    r->bytes -= bytes_of(h);
    batch_unref(h->batch);
    mem_free(h);
}

int reorder_add(struct reorder *r, struct batch *b, size_t first, int64_t now_ns, int64_t utc_ns)
{
    if (first >= b->n)
        return 0;
    struct held *h = mem_try_alloc(sizeof *h);
    if (!h || make_room(r, b->n - first) < 0) {
        mem_free(h);
        return -ENOMEM;
    }
    *h =
        (struct held){.batch = batch_ref(b), .came_ns = now_ns, .latest_ns = INT64_MIN, .left = b->n - first};
    for (size_t i = first; i < b->n; i++) {
        const struct event *e = &b->events[i];
        int64_t at_ns = e->time_ns > utc_ns + REORDER_AHEAD_NS ? utc_ns : e->time_ns;
        push(r, (struct entry){at_ns, r->number++, h, e});
        h->latest_ns = at_ns > h->latest_ns ? at_ns : h->latest_ns;
    }
    append(r, h);
    return 0;
}

static int64_t limit_at(const struct reorder *r, int64_t now_ns)
{
    int64_t limit_ns = INT64_MIN;
    if (now_ns == INT64_MAX)
        return INT64_MAX;
    for (const struct held *h = r->first; h && now_ns - h->came_ns >= r->wait_ns; h = h->next)
        limit_ns = h->latest_ns > limit_ns ? h->latest_ns : limit_ns;
    return limit_ns;
}

static bool is_due(const struct reorder *r)
{
    return r->n && (r->heap[0].time_ns <= r->limit_ns || r->bytes > r->max_bytes);
}

/* As many as make a run. */
static size_t take(struct reorder *r)
{
    size_t n = 0;
    while (n < RUN_MAX && is_due(r)) {
        r->counts.hurried += r->heap[0].time_ns > r->limit_ns;
        struct entry e = pop(r);
        r->counts.late += e.event->time_ns < r->given_ns;
        r->given_ns = e.time_ns > r->given_ns ? e.time_ns : r->given_ns;
        r->run[n] = *e.event;
        r->done[n++] = e.held;
    }
    return n;
}

int reorder_run(struct reorder *r, int64_t now_ns, reorder_sink sink, void *arg)
{
    r->limit_ns = limit_at(r, now_ns);
    for (size_t n; (n = take(r)) > 0;) {
        const struct batch view = {
            .events = r->run, .n = n, .origin = {.clock = {.bound_ns = CLOCK_BOUND_UNKNOWN}}};
        int result = sink(arg, &view);
        r->counts.given += n;
        for (size_t i = 0; i < n; i++)
            release(r, r->done[i]);
        if (result < 0)
            return result;
    }
    return 0;
}

int64_t reorder_due_ns(const struct reorder *r)
{
    return r->first ? r->first->came_ns + r->wait_ns : INT64_MAX;
}

void reorder_counts(const struct reorder *r, struct reorder_counts *out)
{
    *out = r->counts;
}
