/* SPDX-License-Identifier: Apache-2.0 */
/* Why WELCOME and ACK may say "everything up to seq" although the set of numbers held may have holes: a
 * source sends in order, and what it refused to send it dropped. Holes are therefore drops of the sender,
 * provided that (1) within a source no block is taken after one that was refused for now (is_behind), and (2)
 * a block that waits for its sync is neither acknowledged nor welcomed. A block that overlaps one of the
 * group (the sender came back on a new connection) ends the group first, so that it is compared with what is
 * really held.
 *
 * Rejected: journalling a partly held block whole and leaving the second copies to readers. Every reader
 * would need the set of numbers to know which; written once here, the journal itself holds each triple once.
 */
#include "gateway/ingest.h"

#include "base/mem.h"
#include "event/block.h"

#include <errno.h>

/* A block in the group. */
struct pending {
    struct ingest_source *source; /* NULL: gone, or wants no answer */
    struct account *account;      /* stays while it has something queued */
    uint64_t first, last;         /* as sent; 0, 0 without origin */
    uint32_t count, fresh;        /* events; of these new ones, appended */
    struct batch *batch;          /* for on_batch; NULL when nobody asks */
};

struct ingest {
    struct ledger *ledger;
    struct store *store;
    struct ingest_options options;
    struct registry *registry;
    struct batch_builder *check;   /* for blocks */
    struct batch_builder *builder; /* for lines */
    struct block_writer *writer;
    struct strbuf scratch;
    struct pending *group;
    size_t n, cap;
    size_t bytes;
    size_t batch_bytes; /* memory of the group's batches */
    bool is_dirty;      /* something was appended since the last commit */
    bool is_awaited;    /* some of it is not samples */
    bool is_failing;
};

struct ingest *ingest_create(struct ledger *ledger, struct store *store, const struct ingest_options *options)
{
    struct ingest *in = mem_try_alloc(sizeof *in);
    if (!in)
        return NULL;
    in->ledger = ledger;
    in->store = store;
    in->options = *options;
    in->registry = registry_create();
    in->writer = block_writer_create();
    if (in->registry) {
        in->check = batch_builder_create(in->registry, options->on_batch ? 0 : BUILDER_BORROW);
        in->builder = batch_builder_create(in->registry, 0);
    }
    if (!in->registry || !in->check || !in->builder || !in->writer) {
        ingest_destroy(in);
        return NULL;
    }
    return in;
}

static void clear_group(struct ingest *in)
{
    for (size_t i = 0; i < in->n; i++)
        batch_unref(in->group[i].batch);
    in->n = in->bytes = in->batch_bytes = 0;
    in->is_dirty = in->is_awaited = false;
}

void ingest_destroy(struct ingest *in)
{
    if (!in)
        return;
    clear_group(in);
    mem_free(in->group);
    batch_builder_destroy(in->check);
    batch_builder_destroy(in->builder);
    block_writer_destroy(in->writer);
    registry_destroy(in->registry);
    strbuf_fini(&in->scratch);
    mem_free(in);
}

static struct frame_origin origin_of(const struct batch_origin *o)
{
    struct frame_origin f = {.epoch = o->epoch};
    memcpy(f.producer, o->producer, sizeof f.producer);
    return f;
}

static bool is_none(const struct frame_origin *o)
{
    static const struct frame_origin none;
    return memcmp(o->producer, none.producer, sizeof none.producer) == 0;
}

/* Enters first..last; those that are new count. Only samples have so many gaps that some must be joined. */
static int restore_range(struct account *a, uint64_t first, uint64_t last)
{
    uint64_t before = seq_set_count(&a->held);
    int r = seq_set_add(&a->held, first, last);
    if (r == E_LIMIT) {
        uint64_t joined = seq_set_join_lowest(&a->held);
        a->skipped += joined;
        before += joined;
        r = seq_set_add(&a->held, first, last);
    }
    if (r < 0)
        return r;
    uint64_t n = seq_set_count(&a->held) - before;
    a->taken += n;
    a->passed += n;
    return 0;
}

static int restore_block(struct ledger *ledger, struct slice block)
{
    if (block_check(block) != (int64_t)block.n)
        return 0; /* not ours: nothing but checked blocks was appended */
    struct batch_origin o = block_origin(block);
    struct frame_origin origin = origin_of(&o);
    struct account *a = ledger_account(ledger, &origin);
    uint32_t n = block_count(block);
    if (!a)
        return -ENOMEM;
    if (!is_none(&origin))
        return restore_range(a, o.first_seq, o.first_seq + n - 1);
    a->taken += n;
    a->passed += n;
    return 0;
}

int ingest_restore(void *ledger, const struct journal_item *item)
{
    if (item->kind != JOURNAL_RECORD)
        return 0;
    if (item->type == STORE_BLOCK)
        return restore_block(ledger, item->payload);
    struct frame_counts counts;
    if (item->type != STORE_COUNTS || frame_get_counts(item->payload, &counts) < 0)
        return 0;
    struct account *a = ledger_account(ledger, &counts.origin);
    return a ? account_set_counts(a, item->payload, &counts) : -ENOMEM;
}

/* Tells the owner when the store's state changes. */
static void note_store(struct ingest *in, int r)
{
    if ((r < 0) == in->is_failing)
        return;
    in->is_failing = r < 0;
    if (in->options.on_store)
        in->options.on_store(in->options.arg, r);
}

static void refuse(struct ingest_source *source, const struct frame_origin *origin, uint64_t first,
                   uint32_t count, enum frame_refusal reason, uint32_t retry_ms, const char *text)
{
    struct frame_refuse f = {
        .origin = *origin, .first_seq = first, .count = count, .reason = (uint16_t)reason};
    f.retry_ms = retry_ms;
    f.text = slice_str(text);
    if (retry_ms) {
        source->is_behind = true;
        source->behind = *origin;
        source->behind_seq = first;
    }
    source->refuse(source, &f);
}

/* What a block is, once its bytes have been found good. */
struct arrival {
    struct ingest_source *source; /* NULL: wants no answer */
    bool is_samples;
    struct slice block;
    struct frame_origin origin;
    struct batch_origin head;
    uint64_t first, last;
    uint32_t count;
    struct batch *batch;        /* decoded */
    const struct event *events; /* in it; count of them */
    struct account *account;
};

/* Counts events that were not taken, and says so. */
static void refuse_arrival(struct ingest *in, const struct arrival *a, uint32_t count, int r)
{
    bool is_never = r == E_LIMIT || r == E_PROTO || r == E_VERSION;
    enum frame_refusal reason = r == E_LIMIT ? REFUSE_LIMIT : is_never ? REFUSE_MALFORMED : REFUSE_STORAGE;
    a->account->taken += count;
    a->account->refused += count;
    if (!is_never)
        note_store(in, r);
    if (a->source)
        refuse(a->source, &a->origin, a->first, a->count, reason, is_never ? 0 : INGEST_RETRY_MS,
               err_text(r));
}

static int append(struct ingest *in, enum store_type type, struct slice payload)
{
    int r = store_append(in->store, type, payload);
    if (r < 0)
        return r;
    in->bytes += payload.n;
    in->is_dirty = true;
    return 0;
}

/* Writes events first..last of the arrival as a block of their own. A part of a block fits a block. */
static int rewrite(struct ingest *in, const struct arrival *a, struct seq_range range)
{
    strbuf_reset(&in->scratch);
    int r = 0;
    for (uint64_t i = range.first - a->first; i <= range.last - a->first && r == 0; i++)
        r = block_writer_add(in->writer, &a->events[i]);
    struct batch_origin head = a->head;
    head.first_seq = range.first;
    if (r == 0)
        r = block_writer_finish(in->writer, &head, &in->scratch);
    if (r < 0)
        block_writer_reset(in->writer);
    return r;
}

/* Room for a range more. A producer of samples may live for months and loses some whenever a connection
 * breaks; its oldest gaps are joined, since nobody sends samples again. */
static void join_gaps(struct account *k)
{
    while (k->held.n > 1 && k->held.n + k->pending.n >= SEQ_SET_MAX)
        k->skipped += seq_set_join_lowest(&k->held);
}

static int append_range(struct ingest *in, const struct arrival *a, struct seq_range range)
{
    struct account *k = a->account;
    bool is_whole = range.first == a->first && range.last == a->last;
    if (a->is_samples)
        join_gaps(k);
    int r = seq_set_reserve(&k->held, k->pending.n + 1); /* so that the commit can't fail there */
    if (r == 0)
        r = seq_set_reserve(&k->pending, 1);
    if (r == 0 && !is_whole)
        r = rewrite(in, a, range);
    if (r == 0)
        r = append(in, STORE_BLOCK, is_whole ? a->block : strbuf_slice(&in->scratch));
    if (r == 0)
        r = seq_set_add(&k->pending, range.first, range.last);
    return r;
}

/* Appends the events that are not held; *fresh says how many, also on failure: those before it are appended.
 */
static int append_missing(struct ingest *in, const struct arrival *a, uint32_t *fresh)
{
    struct seq_range gap;
    for (uint64_t from = a->first; seq_set_missing(&a->account->held, from, a->last, &gap);
         from = gap.last + 1) {
        int r = append_range(in, a, gap);
        if (r < 0)
            return r;
        *fresh += (uint32_t)(gap.last - gap.first + 1);
        if (gap.last == a->last)
            break;
    }
    return 0;
}

static int reserve_group(struct ingest *in)
{
    if (in->n < in->cap)
        return 0;
    size_t cap = in->cap ? in->cap * 2 : 64;
    struct pending *group = mem_try_resize(in->group, cap * sizeof *group);
    if (!group)
        return -ENOMEM;
    in->group = group;
    in->cap = cap;
    return 0;
}

/* count events of the block go in the group, where reserve_group made room. */
static void enter_group(struct ingest *in, const struct arrival *a, struct ingest_source *source,
                        uint32_t count, uint32_t fresh)
{
    a->account->taken += count;
    a->account->queued += count;
    bool wants_batch = in->options.on_batch && fresh && a->batch;
    in->is_awaited |= !a->is_samples;
    in->batch_bytes += wants_batch ? a->batch->size_bytes : 0;
    in->group[in->n++] = (struct pending){.source = source,
                                          .account = a->account,
                                          .first = a->first,
                                          .last = a->last,
                                          .count = count,
                                          .fresh = fresh,
                                          .batch = wants_batch ? batch_ref(a->batch) : NULL};
}

static void commit_if_full(struct ingest *in)
{
    if (in->bytes >= INGEST_GROUP_BYTES || in->batch_bytes >= INGEST_BATCH_BYTES)
        ingest_commit(in);
}

/* Appends a block whose content is good. Where the store gives way in the middle of a block that is written
 * in pieces, the pieces stay and the block is refused: when it comes again they are held. */
static void take(struct ingest *in, struct arrival *a)
{
    if (!is_none(&a->origin) && seq_set_touches(&a->account->pending, a->first, a->last))
        ingest_commit(in);
    uint32_t fresh = 0;
    int r = reserve_group(in);
    if (r == 0 && is_none(&a->origin)) {
        r = append(in, STORE_BLOCK, a->block);
        fresh = r == 0 ? a->count : 0;
    } else if (r == 0) {
        r = append_missing(in, a, &fresh);
    }
    if (r == 0) {
        enter_group(in, a, a->source, a->count, fresh);
    } else {
        if (fresh)
            enter_group(in, a, NULL, fresh, fresh);
        refuse_arrival(in, a, a->count - fresh, r);
    }
    commit_if_full(in);
}

/* After a refusal for now: is this the block that was refused, or one before it? */
static bool is_in_turn(struct ingest_source *s, const struct arrival *a)
{
    if (s->is_behind && frame_same_origin(&s->behind, &a->origin) && a->first <= s->behind_seq)
        s->is_behind = false;
    return !s->is_behind;
}

static bool has_good_numbers(const struct arrival *a)
{
    if (is_none(&a->origin))
        return true;
    return a->origin.epoch && a->first && a->count && a->first <= UINT64_MAX - (a->count - 1);
}

int ingest_block(struct ingest *in, struct ingest_source *source, struct slice payload)
{
    int64_t n = block_check(payload);
    if (n <= 0)
        return n < 0 ? (int)n : E_PROTO;
    struct arrival a = {.source = source, .block = slice_of(payload.p, (size_t)n)};
    a.head = block_origin(a.block);
    a.origin = origin_of(&a.head);
    a.count = block_count(a.block);
    a.first = a.head.first_seq;
    a.last = is_none(&a.origin) ? a.first : a.first + a.count - 1;
    if (!has_good_numbers(&a))
        return E_PROTO;
    a.account = ledger_account(in->ledger, &a.origin);
    if (!a.account)
        return -ENOMEM;
    if (!is_in_turn(source, &a)) {
        a.account->taken += a.count;
        a.account->refused += a.count;
        return 0;
    }
    int r = block_decode(a.block, in->check, NULL);
    a.batch = batch_builder_finish(in->check, NULL);
    if (r == 0 && !a.batch)
        r = -ENOMEM;
    a.events = a.batch ? a.batch->events : NULL;
    if (r < 0)
        refuse_arrival(in, &a, a.count, r);
    else
        take(in, &a);
    batch_unref(a.batch);
    return 0;
}

struct batch_builder *ingest_builder(struct ingest *in)
{
    return in->builder;
}

/* Ends the block in the writer and puts it in the group. */
static void take_lines(struct ingest *in, struct arrival *a)
{
    a->count = (uint32_t)block_writer_count(in->writer);
    if (a->count == 0)
        return;
    strbuf_reset(&in->scratch);
    int r = block_writer_finish(in->writer, NULL, &in->scratch);
    if (r < 0)
        block_writer_reset(in->writer);
    if (r == 0)
        r = reserve_group(in);
    if (r == 0)
        r = append(in, STORE_BLOCK, strbuf_slice(&in->scratch));
    if (r == 0) {
        enter_group(in, a, NULL, a->count, a->count);
    } else {
        a->account->taken += a->count;
        a->account->refused += a->count;
        note_store(in, r);
    }
    commit_if_full(in);
}

int ingest_built(struct ingest *in)
{
    static const struct frame_origin none;
    size_t n = batch_builder_count(in->builder);
    if (n == 0)
        return 0;
    struct arrival a = {.account = ledger_account(in->ledger, &none)};
    struct batch *b = batch_builder_finish(in->builder, NULL);
    if (!a.account || !b) {
        batch_unref(b);
        return -ENOMEM;
    }
    for (size_t i = 0; i < b->n;) {
        int r = block_writer_add(in->writer, &b->events[i]);
        if (r < 0 &&
            (r != E_LIMIT || block_writer_count(in->writer) == 0)) { /* no memory: this one is lost */
            a.account->taken++;
            a.account->refused++;
            r = 0;
        }
        if (r == 0 && ++i < b->n)
            continue;
        a.batch = i == b->n ? b : NULL;
        take_lines(in, &a);
    }
    batch_unref(b);
    return 0;
}

/* n samples from `from` on are in the writer: ends their block and takes it. */
static void take_samples(struct ingest *in, struct account *k, struct batch *b, size_t from, size_t n)
{
    struct arrival a = {.is_samples = true,
                        .origin = k->origin,
                        .head = b->origin,
                        .first = b->origin.first_seq + from,
                        .last = b->origin.first_seq + from + n - 1,
                        .count = (uint32_t)n,
                        .batch = from + n == b->n ? b : NULL, /* once, with its last block */
                        .events = b->events + from,
                        .account = k};
    a.head.first_seq = a.first;
    strbuf_reset(&in->scratch);
    int r = block_writer_finish(in->writer, &a.head, &in->scratch);
    if (r < 0) {
        block_writer_reset(in->writer);
        refuse_arrival(in, &a, a.count, r);
        return;
    }
    a.block = strbuf_slice(&in->scratch);
    take(in, &a);
}

int ingest_samples(struct ingest *in, const struct batch_origin *origin, uint32_t unknown)
{
    struct frame_origin o = origin_of(origin);
    struct account *k = ledger_account(in->ledger, &o);
    size_t n = batch_builder_count(in->builder);
    struct batch *b = batch_builder_finish(in->builder, origin);
    if (!k) {
        batch_unref(b);
        return -ENOMEM;
    }
    k->class = CLASS_SAMPLES;
    k->taken += unknown;
    k->no_schema += unknown;
    size_t lost = b ? 0 : n;
    for (size_t from = 0; b && from < b->n;) {
        size_t count = 0;
        while (from + count < b->n && block_writer_add(in->writer, &b->events[from + count]) == 0)
            count++;
        if (count)
            take_samples(in, k, b, from, count);
        lost += count == 0; /* there was no memory for that one */
        from += count ? count : 1;
    }
    k->taken += lost;
    k->refused += lost;
    batch_unref(b);
    return 0;
}

void ingest_counts(struct ingest *in, struct slice payload, const struct frame_counts *counts)
{
    struct account *a = ledger_account(in->ledger, &counts->origin);
    if (!a || account_set_counts(a, payload, counts) < 0)
        return;
    (void)append(in, STORE_COUNTS, payload); /* the copy in memory is good until the next start */
    in->is_awaited = true;
}

int ingest_record(struct ingest *in, enum store_type type, struct slice payload)
{
    in->is_awaited = true;
    return append(in, type, payload);
}

void ingest_end_epoch(struct ingest *in, const struct frame_origin *origin)
{
    struct account *a = ledger_account(in->ledger, origin);
    if (a)
        a->is_closed = true;
}

uint64_t ingest_held(struct ingest *in, const struct frame_origin *origin)
{
    const struct account *a = ledger_account(in->ledger, origin);
    return a && !is_none(origin) ? seq_set_max(&a->held) : 0;
}

bool ingest_is_pending(const struct ingest *in)
{
    return in->n || in->is_dirty;
}

int ingest_delay_ms(const struct ingest *in)
{
    if (!ingest_is_pending(in))
        return -1;
    return in->is_awaited ? INGEST_DELAY_MS : INGEST_SAMPLES_MS;
}

static void settle_passed(struct pending *p)
{
    struct account *a = p->account;
    a->queued -= p->count;
    a->passed += p->fresh;
    a->duplicate += p->count - p->fresh;
    for (size_t i = 0; i < a->pending.n; i++)
        (void)seq_set_add(&a->held, a->pending.ranges[i].first, a->pending.ranges[i].last); /* reserved */
    seq_set_clear(&a->pending);
}

static void settle_refused(struct pending *p)
{
    p->account->queued -= p->count;
    p->account->refused += p->count;
    seq_set_clear(&p->account->pending);
}

static void answer(const struct ingest *in, size_t i, int r)
{
    const struct pending *p = &in->group[i];
    if (!p->source)
        return;
    if (r < 0) {
        if (!p->source->is_behind)
            refuse(p->source, &p->account->origin, p->first, p->count, REFUSE_STORAGE, INGEST_RETRY_MS,
                   err_text(r));
        return;
    }
    const struct pending *next = i + 1 < in->n ? p + 1 : NULL;
    if (next && next->source == p->source && next->account == p->account && p->last <= next->last)
        return; /* its acknowledgement covers this one */
    p->source->ack(p->source, &(struct frame_ack){p->account->origin, p->last});
}

void ingest_commit(struct ingest *in)
{
    if (!ingest_is_pending(in))
        return;
    int r = in->is_dirty ? store_commit(in->store) : 0;
    if (in->is_dirty)
        note_store(in, r);
    for (size_t i = 0; i < in->n; i++)
        (r == 0 ? settle_passed : settle_refused)(&in->group[i]);
    for (size_t i = 0; i < in->n; i++) {
        if (r == 0 && in->group[i].batch)
            in->options.on_batch(in->options.arg, in->group[i].batch);
        answer(in, i, r);
    }
    clear_group(in);
}

void ingest_forget(struct ingest *in, const struct ingest_source *source)
{
    for (size_t i = 0; i < in->n; i++)
        if (in->group[i].source == source)
            in->group[i].source = NULL;
}
