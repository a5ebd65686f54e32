/* SPDX-License-Identifier: Apache-2.0 */
/* Slice by slice: some entries of the index, then one pass over the archive's rows of their times, then the
 * batches in the order of the entries. */
#include "cmd/refill.h"

#include "archive/extract.h"
#include "archive/view.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { SLICE_ENTRIES = 256, SLICE_EVENTS = 16384, CACHE_BYTES = 16 << 20 };

/* An event of the slice that the archive has. */
struct hit {
    uint32_t entry;
    uint32_t at; /* in the batch of all hits */
    uint64_t seq;
    struct batch_clock clock;
};

struct refill {
    struct replay_refill ops;
    struct archive *archive;
    struct refill_index *index;
    struct view_reader *reader; /* made by the first pass */
    struct registry *registry;
    struct batch_builder *builder;
};

struct refill_reader {
    struct refill *refill;
    uint64_t record, last; /* entries from part `part` of record on, up to last */
    uint32_t part;
    struct position behind; /* what is before it is not wanted */
    bool is_over;
    struct refill_entry entries[SLICE_ENTRIES];
    size_t n_entries, at; /* of the slice; given up to at */
    const struct refill_entry *sorted[SLICE_ENTRIES];
    struct hit *hits; /* by entry and number */
    size_t n_hits, cap_hits, at_hit;
    struct batch *found;      /* their events */
    struct replay_item ready; /* made, and given next; batch NULL = none */
    struct replay_item lost;  /* a gap to be told before what follows; last 0 = none */
};

/* ---------------------------------------------------------------- a slice */

static int compare_origin(const struct refill_entry *e, const struct batch_origin *o)
{
    int order = memcmp(e->producer, o->producer, sizeof e->producer);
    return order ? order : (e->epoch > o->epoch) - (e->epoch < o->epoch);
}

static int by_origin(const void *a, const void *b)
{
    const struct refill_entry *x = *(const struct refill_entry *const *)a,
                              *y = *(const struct refill_entry *const *)b;
    struct batch_origin o = {.epoch = y->epoch};
    memcpy(o.producer, y->producer, sizeof o.producer);
    int order = compare_origin(x, &o);
    return order ? order : (x->first_seq > y->first_seq) - (x->first_seq < y->first_seq);
}

static int by_place(const void *a, const void *b)
{
    const struct hit *x = a, *y = b;
    if (x->entry != y->entry)
        return x->entry > y->entry ? 1 : -1;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

/* The entry that has this number; NULL: none of the slice. */
static const struct refill_entry *entry_with(const struct refill_reader *r, const struct batch_origin *o,
                                             uint64_t seq)
{
    size_t low = 0, high = r->n_entries; /* those before low begin at seq or before it */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_origin(r->sorted[middle], o);
        if (order < 0 || (order == 0 && r->sorted[middle]->first_seq <= seq))
            low = middle + 1;
        else
            high = middle;
    }
    const struct refill_entry *e = low ? r->sorted[low - 1] : NULL;
    return e && compare_origin(e, o) == 0 && seq >= e->first_seq && seq - e->first_seq < e->count ? e : NULL;
}

static int keep_event(struct batch_builder *b, const struct event *e)
{
    struct event_head head = {.time_ns = e->time_ns, .host = e->host, .prog = e->prog, .level = e->level};
    return batch_builder_add_known(b, &head, e->schema, e->values, NULL);
}

static int take_events(struct refill_reader *r, const struct batch *b)
{
    int result = 0;
    for (size_t i = 0; i < b->n && b->origin.first_seq && result == 0; i++) {
        uint64_t seq = b->origin.first_seq + i;
        const struct refill_entry *e = entry_with(r, &b->origin, seq);
        if (!e)
            continue;
        if (r->n_hits == r->cap_hits) {
            size_t cap = r->cap_hits ? r->cap_hits * 2 : 1024;
            struct hit *hits = mem_try_resize(r->hits, cap * sizeof *hits);
            if (!hits)
                return -ENOMEM;
            r->hits = hits;
            r->cap_hits = cap;
        }
        r->hits[r->n_hits] = (struct hit){.entry = (uint32_t)(e - r->entries),
                                          .at = (uint32_t)batch_builder_count(r->refill->builder),
                                          .seq = seq,
                                          .clock = b->origin.clock};
        result = keep_event(r->refill->builder, &b->events[i]);
        r->n_hits += result == 0;
    }
    return result;
}

/* All rows of the slice's times, of which those with its numbers are kept. */
static int scan_archive(struct refill_reader *r, int64_t min_ns, int64_t max_ns)
{
    struct refill *f = r->refill;
    struct view *view = NULL;
    struct extract *x = NULL;
    const struct batch *b;
    const struct extract_spec spec = {.from_ns = min_ns, .to_ns = max_ns, .with_origins = true};
    int e = f->reader ? 0 : view_reader_create(f->archive, NULL, CACHE_BYTES, &f->reader, NULL);
    if (e == 0)
        e = view_take(f->reader, &view);
    if (e == 0)
        e = extract_open(view, &spec, &x);
    while (e >= 0 && (e = extract_next(x, &b)) > 0)
        e = take_events(r, b);
    extract_close(x);
    view_release(view);
    return e;
}

static void find_events(struct refill_reader *r)
{
    int64_t min_ns = INT64_MAX, max_ns = INT64_MIN;
    for (size_t i = 0; i < r->n_entries; i++) {
        const struct refill_entry *e = &r->entries[i];
        r->sorted[i] = e;
        if (e->count == 0 || e->first_seq == 0)
            continue;
        min_ns = e->min_ns < min_ns ? e->min_ns : min_ns;
        max_ns = e->max_ns > max_ns ? e->max_ns : max_ns;
    }
    qsort(r->sorted, r->n_entries, sizeof *r->sorted, by_origin);
    r->n_hits = r->at_hit = 0;
    if (min_ns <= max_ns)
        (void)scan_archive(r, min_ns, max_ns); /* what could not be read is told as lost */
    if (r->n_hits)
        qsort(r->hits, r->n_hits, sizeof *r->hits, by_place);
    batch_unref(r->found);
    r->found = batch_builder_finish(r->refill->builder, NULL);
    if (!r->found)
        r->n_hits = 0;
}

static void add_lost(struct refill_reader *r, uint64_t first, uint64_t last, uint64_t count)
{
    bool is_known = count && (r->lost.last == 0 || r->lost.count);
    r->lost.first = r->lost.last ? r->lost.first : first;
    r->lost.last = last;
    r->lost.count = is_known ? r->lost.count + count : 0;
}

/* The next slice: 1; 0: there is none. Records that the index does not know are lost. */
static int next_slice(struct refill_reader *r)
{
    uint64_t covered;
    int n =
        refill_index_read(r->refill->index, r->record, r->part, r->last, &covered, r->entries, SLICE_ENTRIES);
    if (n < 0 || covered > r->last) {
        add_lost(r, r->record, r->last, 0);
        return 0;
    }
    if (covered > r->record) {
        add_lost(r, r->record, covered - 1, 0);
        r->record = covered;
        r->part = 0;
        r->n_entries = 0;
        return 1;
    }
    uint64_t events = 0;
    for (r->n_entries = 0; r->n_entries < (size_t)n && (r->n_entries == 0 || events < SLICE_EVENTS);)
        events += r->entries[r->n_entries++].count;
    if (r->n_entries == 0)
        return 0;
    r->record = r->entries[r->n_entries - 1].record;
    r->part = r->entries[r->n_entries - 1].part + 1;
    find_events(r);
    return 1;
}

/* ---------------------------------------------------------------- items */

/* The events of entry number r->at that were found, as its batch; NULL: none. */
static struct batch *batch_of(struct refill_reader *r, uint32_t *n)
{
    const struct refill_entry *e = &r->entries[r->at];
    struct batch_origin origin = {.epoch = e->epoch, .first_seq = e->first_seq};
    memcpy(origin.producer, e->producer, sizeof origin.producer);
    int result = 0;
    for (; r->at_hit < r->n_hits && r->hits[r->at_hit].entry == r->at && result == 0; r->at_hit++) {
        const struct hit *h = &r->hits[r->at_hit];
        origin.clock = h->clock;
        origin.first_seq = *n ? origin.first_seq : h->seq;
        result = keep_event(r->refill->builder, &r->found->events[h->at]);
        *n += result == 0;
    }
    return batch_builder_finish(r->refill->builder, &origin);
}

static void *reader_open(void *arg, uint64_t first, uint64_t last, struct position behind)
{
    struct refill_reader *r = mem_try_alloc(sizeof *r);
    if (!r)
        return NULL;
    r->refill = arg;
    r->record = first;
    r->last = last;
    r->behind = behind;
    r->part = behind.record == first ? behind.part : 0;
    return r;
}

static void reader_close(void *reader)
{
    struct refill_reader *r = reader;
    if (!r)
        return;
    batch_unref(r->ready.batch);
    batch_unref(r->found);
    mem_free(r->hits);
    mem_free(r);
}

/* A gap comes behind all batches of its last record, as its position is the record's end; and before those of
 * the next. */
static bool reader_next(void *reader, struct replay_item *out)
{
    struct refill_reader *r = reader;
    while (!r->ready.batch) {
        if (r->at == r->n_entries && r->is_over)
            break;
        if (r->at == r->n_entries) {
            r->at = 0;
            r->is_over = next_slice(r) == 0;
            r->n_entries = r->is_over ? 0 : r->n_entries;
            continue;
        }
        const struct refill_entry *e = &r->entries[r->at];
        struct replay_item before = r->lost;
        uint32_t n = 0;
        struct batch *b = batch_of(r, &n);
        r->at++;
        n = b ? n : 0;
        bool is_turn = b && before.last && before.last < e->record;
        if (is_turn)
            r->lost = (struct replay_item){.last = 0};
        bool is_begun = e->record == r->behind.record && e->part == r->behind.part;
        uint32_t missing = e->count - n, had = is_begun ? r->behind.event : 0;
        if (missing > had || e->count == 0)
            add_lost(r, e->record, e->record, missing > had ? missing - had : 0);
        if (b)
            r->ready = (struct replay_item){.batch = b,
                                            .at = {.record = e->record, .part = e->part},
                                            .first = e->record,
                                            .last = e->record};
        if (is_turn) {
            *out = before;
            return true;
        }
    }
    struct replay_item *next = r->ready.batch ? &r->ready : &r->lost;
    *out = *next;
    *next = (struct replay_item){.last = 0};
    return out->last != 0;
}

/* ---------------------------------------------------------------- all of it */

struct refill *refill_create(struct archive *a, struct refill_index *index)
{
    struct refill *r = mem_try_alloc(sizeof *r);
    if (!r)
        return NULL;
    r->archive = a;
    r->index = index;
    r->registry = registry_create();
    r->builder = r->registry ? batch_builder_create(r->registry, 0) : NULL;
    r->ops = (struct replay_refill){reader_open, reader_next, reader_close, r};
    if (r->builder) {
        batch_builder_limit(r->builder, SIZE_MAX, SIZE_MAX);
        return r;
    }
    refill_destroy(r);
    return NULL;
}

void refill_destroy(struct refill *r)
{
    if (!r)
        return;
    view_reader_destroy(r->reader);
    batch_builder_destroy(r->builder);
    registry_destroy(r->registry);
    mem_free(r);
}

const struct replay_refill *refill_ops(const struct refill *r)
{
    return &r->ops;
}
