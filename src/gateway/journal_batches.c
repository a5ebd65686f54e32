/* SPDX-License-Identifier: Apache-2.0 */
/* The state of samples is that of one segment: schemas and samplers by number. Records before the one that
 * was asked for are walked for it, and packets in them are scanned, which moves baselines as reading does.
 * Whether a packet can be read must not depend on where reading started, so both take the same way.
 *
 * Behind a lost record nothing that rolls can be trusted: the next packet would be read against a baseline
 * that is not the sender's. Such a packet says so itself by its number, most of the time; here packets with
 * ROLL are not read any more, of any sampler that was known. The same holds for a sampler of which a packet
 * with ROLL could not be read. What does not roll is safe: a row names its baseline, and of a baseline that
 * has rolled none is read. */
#include "gateway/journal_batches.h"

#include "base/mem.h"
#include "event/block.h"
#include "event/schema_bytes.h"
#include "gateway/records.h"
#include "gateway/store.h"

#include <errno.h>

enum { NUMBERS_MAX = 1 << 24 }; /* of schemas, and of samplers, in a segment */

struct known_sampler {
    struct frame_origin origin;
    struct samples_reader *reader;
    bool is_lost;      /* what was announced of it is not known: nothing can be read */
    bool is_roll_lost; /* a packet may be missing: those with ROLL can't be read */
    uint8_t host_n;
    char host[];
};

struct table {
    void **items; /* number - 1 is the index; NULL: not known */
    size_t n, cap;
};

struct journal_batches {
    struct journal *journal;
    struct journal_reader *reader;
    struct registry *registry;
    struct batch_builder *builder;
    struct samples_scratch *scratch;
    uint64_t from, done;
    uint64_t segment;     /* whose these are: */
    struct table schemas; /* struct schema, one reference each */
    struct table samplers;
    struct journal_item record; /* of samples, being given */
    struct cursor items;        /* what is left of it */
    uint32_t packets;           /* of it, so far */
    bool is_inside;
    uint64_t missing;    /* rows of the packet given last that could be read when it came, and can't now */
    struct batch *batch; /* given last */
    struct diag why;
};

static void *table_get(const struct table *t, uint32_t number)
{
    return number && number <= t->n ? t->items[number - 1] : NULL;
}

/* Returns what was there in *old. -ENOMEM, E_PROTO: a number that nobody gave. */
static int table_set(struct table *t, uint32_t number, void *item, void **old)
{
    if (number == 0 || number > NUMBERS_MAX)
        return E_PROTO;
    if (number > t->cap) {
        size_t cap = t->cap ? t->cap : 16;
        while (cap < number)
            cap *= 2;
        void **items = mem_try_resize(t->items, cap * sizeof *items);
        if (!items)
            return -ENOMEM;
        t->items = items;
        t->cap = cap;
    }
    while (t->n < number)
        t->items[t->n++] = NULL;
    *old = t->items[number - 1];
    t->items[number - 1] = item;
    return 0;
}

static void sampler_free(struct known_sampler *s)
{
    if (!s)
        return;
    samples_reader_destroy(s->reader);
    mem_free(s);
}

static void forget_segment(struct journal_batches *b)
{
    for (size_t i = 0; i < b->schemas.n; i++)
        schema_unref(b->schemas.items[i]);
    for (size_t i = 0; i < b->samplers.n; i++)
        sampler_free(b->samplers.items[i]);
    b->schemas.n = b->samplers.n = 0;
}

/* Reading starts where the segment does that has the record asked for. */
int journal_batches_open(struct journal *j, uint64_t from, struct journal_batches **out)
{
    struct journal_batches *b = mem_try_alloc(sizeof *b);
    if (!b)
        return -ENOMEM;
    struct journal_stats now;
    journal_stats(j, &now);
    b->journal = j;
    b->from = from ? from : now.first;
    b->done = b->from - 1;
    b->registry = registry_create();
    b->builder = b->registry ? batch_builder_create(b->registry, 0) : NULL;
    b->scratch = samples_scratch_create();
    uint64_t start = journal_segment_of(j, b->from);
    int r = b->builder && b->scratch ? journal_reader_open(j, start ? start : b->from, &b->reader) : -ENOMEM;
    if (r < 0) {
        journal_batches_close(b);
        return r;
    }
    *out = b;
    return 0;
}

void journal_batches_close(struct journal_batches *b)
{
    if (!b)
        return;
    forget_segment(b);
    mem_free(b->schemas.items);
    mem_free(b->samplers.items);
    batch_unref(b->batch);
    journal_reader_close(b->reader);
    batch_builder_destroy(b->builder);
    samples_scratch_destroy(b->scratch);
    registry_destroy(b->registry);
    mem_free(b);
}

static int add_schema(struct journal_batches *b, const struct samples_item *item)
{
    struct cursor c = cursor_of(item->schema_bytes);
    struct schema *s;
    const struct schema *known;
    const char *what = "";
    void *old = NULL;
    int r = schema_read(&c, &s, &what);
    if (r == E_PROTO)
        return diag_set(&b->why, r, 0, "%s", what);
    if (r == 0)
        r = registry_intern(b->registry, s, &known);
    if (r < 0)
        return r;
    r = table_set(&b->schemas, item->number, schema_ref(known), &old);
    schema_unref(r < 0 ? known : old);
    return r == E_PROTO ? diag_set(&b->why, r, 0, "a schema's number out of range") : r;
}

static int add_sampler(struct journal_batches *b, const struct samples_item *item)
{
    if (item->host.n > EVENT_ORIGIN_MAX)
        return diag_set(&b->why, E_PROTO, 0, "a host's name that is too long");
    struct known_sampler *s = mem_try_alloc(sizeof *s + item->host.n);
    if (s)
        s->reader = samples_reader_create(b->registry, b->scratch);
    if (!s || !s->reader) {
        sampler_free(s);
        return -ENOMEM;
    }
    s->origin = item->origin;
    s->host_n = (uint8_t)item->host.n;
    if (item->host.n)
        memcpy(s->host, item->host.p, item->host.n);
    samples_reader_set_context(s->reader, &item->context);
    void *old = NULL;
    int r = table_set(&b->samplers, item->number, s, &old);
    sampler_free(r < 0 ? s : old);
    return r == E_PROTO ? diag_set(&b->why, r, 0, "a sampler's number out of range") : r;
}

static int add_stream(struct journal_batches *b, const struct samples_item *item)
{
    struct known_sampler *s = table_get(&b->samplers, item->number);
    struct samples_snapshot stream = item->stream;
    stream.schema = table_get(&b->schemas, item->schema);
    if (!s)
        return 0; /* its packets will be counted */
    int r = stream.schema ? samples_reader_restore(s->reader, &stream, &b->why)
                          : diag_set(&b->why, E_PROTO, 0, "the schema of a stream is missing");
    s->is_lost |= r < 0 && r != -ENOMEM;
    return r;
}

static int unreadable(struct journal_batches *b, uint64_t count, struct journal_batch *out)
{
    *out = (struct journal_batch){.kind = JOURNAL_UNREADABLE,
                                  .first = b->record.first,
                                  .last = b->record.first,
                                  .part = b->packets ? b->packets - 1 : 0,
                                  .count = count,
                                  .why = b->why.message};
    return 0;
}

static int give(struct journal_batches *b, struct journal_batch *out)
{
    *out = (struct journal_batch){
        .kind = JOURNAL_BATCH, .first = b->record.first, .last = b->record.first, .batch = b->batch};
    out->part = b->packets ? b->packets - 1 : 0;
    return 0;
}

static bool rolls(struct slice packet)
{
    return packet.n && packet.p[0] & SAMPLES_ROLL;
}

static bool is_readable(const struct known_sampler *s, struct slice packet)
{
    return s && !s->is_lost && !(s->is_roll_lost && rolls(packet));
}

/* Moves baselines, and leaves the packet's events in the builder if it is one that was asked for. */
static int take_packet(struct journal_batches *b, struct known_sampler *s, struct slice packet)
{
    struct batch_origin origin = {.epoch = s->origin.epoch};
    struct samples_count count;
    uint32_t unknown;
    memcpy(origin.producer, s->origin.producer, sizeof origin.producer);
    int r = b->record.first < b->from ? samples_reader_scan(s->reader, packet, &count, &b->why)
                                      : samples_reader_packet(s->reader, packet, slice_of(s->host, s->host_n),
                                                              b->builder, &origin, &unknown, &b->why);
    if (r < 0 && r != -ENOMEM)
        s->is_roll_lost |= rolls(packet);
    return r;
}

/* The events in the builder; those that are not there are given after them. */
static int give_packet(struct journal_batches *b, uint32_t rows, struct journal_batch *out)
{
    size_t n = batch_builder_count(b->builder);
    b->batch = batch_builder_finish(b->builder, NULL);
    if (n && !b->batch) { /* the baselines have moved: it can't be read again */
        (void)diag_set(&b->why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
        return unreadable(b, n > rows ? n : rows, out);
    }
    b->missing = rows > n ? rows - n : 0;
    return n ? give(b, out) : 1;
}

/* 0: *out has it; 1: nothing to be given; or -ENOMEM. */
static int read_packet(struct journal_batches *b, const struct samples_item *item, struct journal_batch *out)
{
    struct known_sampler *s = table_get(&b->samplers, item->number);
    int r = is_readable(s, item->packet) ? take_packet(b, s, item->packet)
                                         : diag_set(&b->why, E_PROTO, 0, "what these samples need is lost");
    if (r == -ENOMEM)
        return r;
    if (b->record.first < b->from)
        return 1;
    return r < 0 ? unreadable(b, item->rows, out) : give_packet(b, item->rows, out);
}

static int give_missing(struct journal_batches *b, struct journal_batch *out)
{
    uint64_t count = b->missing;
    b->missing = 0;
    (void)diag_set(&b->why, E_PROTO, 0, "a stream of these samples is lost");
    return unreadable(b, count, out);
}

/* The next of the record of samples that is at hand: as read_packet, and the end of it is 1, too. */
static int next_inside(struct journal_batches *b, struct journal_batch *out)
{
    struct cursor before = b->items;
    struct samples_item item;
    int r = record_next_item(&b->items, &item);
    if (r <= 0) {
        b->is_inside = false;
        b->done = b->record.first < b->from ? b->done : b->record.first;
        (void)diag_set(&b->why, E_PROTO, 0, "a record of samples is malformed");
        return r == 0 || b->record.first < b->from ? 1 : unreadable(b, 0, out);
    }
    if (item.kind == SAMPLES_PACKET) {
        b->packets++;
        r = read_packet(b, &item, out);
        b->packets -= r == -ENOMEM;
    }
    if (item.kind == SAMPLES_SCHEMA)
        r = add_schema(b, &item);
    else if (item.kind == SAMPLES_SAMPLER)
        r = add_sampler(b, &item);
    else if (item.kind != SAMPLES_PACKET)
        r = add_stream(b, &item);
    if (r == -ENOMEM)
        b->items = before; /* again, next time */
    if (item.kind == SAMPLES_PACKET || r == -ENOMEM)
        return r;
    return r < 0 && b->record.first >= b->from ? unreadable(b, 0, out) : 1;
}

static int read_block(struct journal_batches *b, struct journal_batch *out)
{
    struct slice block = b->record.payload;
    bool is_block = block.n && block_check(block) == (int64_t)block.n;
    int r = is_block ? block_decode(block, b->builder, &b->why)
                     : diag_set(&b->why, E_PROTO, 0, "it holds no whole block");
    if (r == 0)
        b->batch = batch_builder_finish(b->builder, NULL);
    if (r == -ENOMEM || (r == 0 && !b->batch))
        (void)diag_set(&b->why, r, 0, "%s", err_text(-ENOMEM));
    b->done = b->record.first;
    return r == 0 && b->batch ? give(b, out) : unreadable(b, is_block ? block_count(block) : 0, out);
}

/* Records are lost in front of this one. */
static void lose(struct journal_batches *b)
{
    for (size_t i = 0; i < b->samplers.n; i++) {
        struct known_sampler *s = b->samplers.items[i];
        if (s)
            s->is_roll_lost = true;
    }
}

static int give_gap(struct journal_batches *b, const struct journal_item *gap, struct journal_batch *out)
{
    lose(b);
    if (gap->last < b->from)
        return 1;
    *out = (struct journal_batch){.kind = JOURNAL_LOST,
                                  .first = gap->first < b->from ? b->from : gap->first,
                                  .last = gap->last,
                                  .reason = gap->reason};
    b->done = gap->last;
    return 0;
}

/* The next record: as read_packet, and E_NODATA and others. */
static int next_record(struct journal_batches *b, struct journal_batch *out)
{
    int r = journal_reader_next(b->reader, &b->record);
    if (r < 0)
        return r;
    if (b->record.kind == JOURNAL_GAP)
        return give_gap(b, &b->record, out);
    if (b->record.segment != b->segment) {
        forget_segment(b);
        b->segment = b->record.segment;
    }
    if (b->record.type == STORE_SAMPLES) {
        b->items = cursor_of(b->record.payload);
        b->packets = 0;
        b->is_inside = true;
        return 1;
    }
    b->packets = 0;
    if (b->record.first < b->from)
        return 1;
    if (b->record.type == STORE_BLOCK)
        return read_block(b, out);
    b->done = b->record.first;
    return 1;
}

int journal_batches_next(struct journal_batches *b, struct journal_batch *out)
{
    int r = 1;
    batch_unref(b->batch);
    b->batch = NULL;
    while (r == 1)
        r = b->missing ? give_missing(b, out) : b->is_inside ? next_inside(b, out) : next_record(b, out);
    return r;
}

uint64_t journal_batches_done(const struct journal_batches *b)
{
    return b->done;
}
