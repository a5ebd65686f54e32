/* SPDX-License-Identifier: Apache-2.0 */
/* Why WELCOME and ACK may say "everything up to seq" although the set of numbers held may have holes: a
 * source sends in order, and what it refused to send it dropped. Holes are therefore drops of the sender,
 * provided that (1) within a source no block is taken after one that was refused for now (is_behind), and (2)
 * a block that waits for its sync is neither acknowledged nor welcomed.
 *
 * A block that overlaps one that waits (the sender came back on a new connection) is compared with that, too:
 * its group is written after the other, and refused if the other is, so that its acknowledgement is as good.
 *
 * What is judged too old or too new (options.judge) is refused for good, and leaves a hole, too; the rest of
 * its block is taken. A sender whose clock jumps to and fro would fill the set with holes: when it is half
 * full, such numbers are put into it (`bridged`), so that they count as held; which matters only to who sends
 * the same again.
 *
 * Rejected: journalling a partly held block whole and leaving the second copies to readers. Every reader
 * would need the set of numbers to know which; written once here, the journal itself holds each triple once.
 */
#include "gateway/ingest_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "gateway/access.h"

#include <errno.h>

const char ingest_behind[] = "the journal is at its limit (journal_max) until the archive has caught up";

static uint32_t utc_s(void)
{
    return (uint32_t)(clock_utc_ns() / NS_PER_S);
}

struct ingest *ingest_create(struct ledger *ledger, struct store *store, const struct ingest_options *options)
{
    struct ingest *in = mem_try_alloc(sizeof *in);
    if (!in)
        return NULL;
    in->ledger = ledger;
    in->store = store;
    in->options = *options;
    in->checkpoint.is_wanted = true;
    ledger->now_s = utc_s();
    in->registry = registry_create();
    in->writer = block_writer_create();
    in->samples = samples_scratch_create();
    if (in->registry) {
        in->check = batch_builder_create(in->registry, options->on_batch ? 0 : BUILDER_BORROW);
        in->builder = batch_builder_create(in->registry, BUILDER_TRIM);
        in->rows = batch_builder_create(in->registry, 0);
    }
    if (!in->registry || !in->check || !in->builder || !in->rows || !in->writer || !in->samples) {
        ingest_destroy(in);
        return NULL;
    }
    return in;
}

static void clear_turn(struct turn *t)
{
    for (size_t i = 0; i < t->n; i++)
        batch_unref(t->entries[i].batch);
    t->n = t->n_samplers = t->batch_bytes = t->rows_from = 0;
    t->is_awaited = t->has_records = false;
    t->records = 0;
}

void ingest_destroy(struct ingest *in)
{
    if (!in)
        return;
    for (int i = 0; i < LEDGER_GROUPS; i++) {
        clear_turn(&in->turns[i]);
        mem_free(in->turns[i].entries);
        mem_free(in->turns[i].samplers);
    }
    sampler_new_segment(in); /* forgets the schemas of the last */
    batch_builder_destroy(in->check);
    batch_builder_destroy(in->builder);
    batch_builder_destroy(in->rows);
    block_writer_destroy(in->writer);
    samples_scratch_destroy(in->samples);
    registry_destroy(in->registry);
    strbuf_fini(&in->scratch);
    mem_free(in->verdicts);
    mem_free(in);
}

/* Tells the owner when the store's state changes. Refusals because the archive is behind are over when half
 * of the journal is free again: near the limit they come and go with every flush. */
void ingest_note_store(struct ingest *in, int r)
{
    if ((r < 0) == in->is_failing)
        return;
    if (r == 0 && in->is_behind && store_held(in->store) > store_max(in->store) / 2)
        return;
    in->is_failing = r < 0;
    in->is_behind = r == -EDQUOT;
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
    struct slice block;
    struct frame_origin origin;
    struct batch_origin head;
    uint64_t first, last;
    uint32_t count;
    struct batch *batch;        /* decoded */
    const struct event *events; /* in it; count of them */
    uint32_t from;              /* the first of these in the batch */
    struct account *account;
    uint32_t denied;  /* of count: those that were judged not to be kept */
    uint32_t bridged; /* of denied: in the account's pending set */
    bool is_new;      /* all of it is in one record: the last */
};

/* Counts events that were not taken, and says so. -ESTALE: they may have been stored and forgotten. */
static void refuse_arrival(struct ingest *in, const struct arrival *a, uint32_t count, int r)
{
    bool is_never =
        r == E_LIMIT || r == E_PROTO || r == E_VERSION || r == -ESTALE || r == -EPERM || r == -EACCES;
    enum frame_refusal reason = r == E_LIMIT                  ? REFUSE_LIMIT
                                : r == -ESTALE                ? REFUSE_TOO_OLD
                                : r == -EPERM || r == -EACCES ? REFUSE_NOT_ALLOWED
                                : is_never                    ? REFUSE_MALFORMED
                                                              : REFUSE_STORAGE;
    if (!is_never && a->source && !a->source->is_own) {
        a->account->retried += count; /* its sender keeps it */
    } else {
        a->account->taken += count;
        *(r == -ESTALE ? &a->account->too_old : &a->account->refused) += count;
    }
    if (!is_never)
        ingest_note_store(in, r);
    if (a->source)
        refuse(a->source, &a->origin, a->first, a->count, reason, is_never ? 0 : INGEST_RETRY_MS,
               r == -ESTALE   ? "older than what is remembered"
               : r == -EDQUOT ? ingest_behind
               : r == -EACCES
                   ? "only who may control workers may keep events for longer than archive.keep says"
                   : err_text(r));
}

void ingest_begin(struct ingest *in)
{
    bool is_new = store_begin(in->store);
    if (store_segment(in->store) == in->segment)
        return;
    in->segment = store_segment(in->store);
    sampler_new_segment(in);
    if (is_new)
        checkpoint_begin(in);
}

int ingest_append(struct ingest *in, enum store_type type, struct slice payload)
{
    int r = store_check_room(in->store, ROOM_RECORDS);
    if (r < 0)
        return r;
    ingest_begin(in);
    r = store_append(in->store, type, payload);
    if (r == 0)
        ingest_turn(in)->has_records = true;
    return r;
}

/* Writes n events of the arrival as a block of their own. A part of a block fits a block. */
static int rewrite(struct ingest *in, const struct arrival *a, uint32_t from, uint32_t n)
{
    strbuf_reset(&in->scratch);
    int r = 0;
    for (uint32_t i = 0; i < n && r == 0; i++)
        r = block_writer_add(in->writer, &a->events[from + i]);
    struct batch_origin head = a->head;
    head.first_seq += ingest_is_none(&a->origin) ? 0 : from;
    if (r == 0)
        r = block_writer_finish(in->writer, &head, &in->scratch);
    if (r < 0)
        block_writer_reset(in->writer);
    return r;
}

struct position ingest_last_record(const struct ingest *in)
{
    return (struct position){.record = store_records(in->store) - 1};
}

/* n of its events as a record; all of them: the block as it came. */
static int append_events(struct ingest *in, struct arrival *a, uint32_t from, uint32_t n)
{
    bool is_whole = n == a->count;
    int r = is_whole ? 0 : rewrite(in, a, from, n);
    if (r == 0)
        r = ingest_append(in, STORE_BLOCK, is_whole ? a->block : strbuf_slice(&in->scratch));
    if (r < 0)
        return r;
    if (is_whole)
        a->is_new = true;
    else if (in->options.on_batch)
        ingest_queue_batch(in, batch_ref(a->batch), from, n, ingest_last_record(in));
    return 0;
}

static int append_range(struct ingest *in, struct arrival *a, struct seq_range range)
{
    struct account *k = a->account;
    struct seq_set *pending = &k->pending[in->filling];
    /* So that settling can't fail. */
    int r = seq_set_reserve(&k->held, k->pending[0].n + k->pending[1].n + 1);
    if (r == 0)
        r = seq_set_reserve(pending, 1);
    if (r == 0)
        r = append_events(in, a, (uint32_t)(range.first - a->first),
                          (uint32_t)(range.last - range.first + 1));
    return r < 0 ? r : seq_set_add(pending, range.first, range.last);
}

/* Appends those of first..last that are not there; *fresh says how many, also on failure: those before it are
 * appended. */
static int append_missing(struct ingest *in, struct arrival *a, uint64_t first, uint64_t last,
                          uint32_t *fresh)
{
    struct seq_range gap;
    for (uint64_t from = first; account_missing(a->account, from, last, &gap); from = gap.last + 1) {
        int r = append_range(in, a, gap);
        if (r < 0)
            return r;
        *fresh += (uint32_t)(gap.last - gap.first + 1);
        if (gap.last == last)
            break;
    }
    return 0;
}

/* ---------------------------------------------------------------- what is not to be kept */

/* The first event behind `from` that is judged otherwise. */
static uint32_t run_end(const struct ingest *in, const struct arrival *a, uint32_t from)
{
    uint32_t i = from + 1;
    while (i < a->count && a->denied && in->verdicts[i] == in->verdicts[from])
        i++;
    return a->denied ? i : a->count;
}

/* in->verdicts has what becomes of each, if some are not to be kept. -ENOMEM. */
static int judge(struct ingest *in, struct arrival *a)
{
    int64_t now = clock_utc_ns();
    if (!in->options.judge || a->source->is_own)
        return 0;
    if (a->count > in->max_verdicts) {
        uint8_t *v = mem_try_resize(in->verdicts, a->count);
        if (!v)
            return -ENOMEM;
        in->verdicts = v;
        in->max_verdicts = a->count;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        enum archived_verdict v = ingest_judge(in, &a->events[i], now);
        in->verdicts[i] = a->head.keep_ns && v == ARCHIVED_TOO_OLD ? ARCHIVED_KEPT : (uint8_t)v;
        a->denied += in->verdicts[i] != ARCHIVED_KEPT;
    }
    return 0;
}

static void deny(const struct arrival *a, struct seq_range range, enum archived_verdict v)
{
    uint32_t n = (uint32_t)(range.last - range.first + 1);
    a->account->taken += n;
    *ingest_denied(a->account, v) += n;
    refuse(a->source, &a->origin, range.first, n, v == ARCHIVED_TOO_OLD ? REFUSE_TOO_OLD : REFUSE_TOO_NEW, 0,
           v == ARCHIVED_TOO_OLD ? "older than the archive keeps such events (archive.keep)"
                                 : "more than a day ahead of the gateway's clock");
}

/* Says so of each run of events that are not to be kept; but what is there, from the time when it was
 * younger, was only sent again. */
static void deny_all(struct ingest *in, const struct arrival *a)
{
    for (uint32_t i = 0, end; a->denied && i < a->count; i = end) {
        struct seq_range gap, run = {a->first + i, a->first + (end = run_end(in, a, i)) - 1};
        uint64_t there = end - i;
        if (in->verdicts[i] == ARCHIVED_KEPT)
            continue;
        if (ingest_is_none(&a->origin) || a->bridged) {
            deny(a, run, in->verdicts[i]);
            continue;
        }
        for (uint64_t from = run.first; account_missing(a->account, from, run.last, &gap);
             from = gap.last + 1) {
            deny(a, gap, in->verdicts[i]);
            there -= gap.last - gap.first + 1;
            if (gap.last == run.last)
                break;
        }
        a->account->taken += there;
        a->account->duplicate += there;
    }
}

/* Appends what is to be kept and not there. */
static int append_kept(struct ingest *in, struct arrival *a, uint32_t *fresh)
{
    const struct account *k = a->account;
    bool is_none = ingest_is_none(&a->origin);
    bool is_crowded =
        a->denied && !is_none && k->held.n + k->pending[0].n + k->pending[1].n > SEQ_SET_MAX / 2;
    int r = 0;
    for (uint32_t i = 0, end; r == 0 && i < a->count; i = end) {
        end = run_end(in, a, i);
        bool is_kept = !a->denied || in->verdicts[i] == ARCHIVED_KEPT;
        if (is_kept && is_none) {
            r = append_events(in, a, i, end - i);
            *fresh += r == 0 ? end - i : 0;
        } else if (is_kept) {
            r = append_missing(in, a, a->first + i, a->first + end - 1, fresh);
        } else if (is_crowded && a->denied < a->count) {
            r = seq_set_add(&a->account->pending[in->filling], a->first + i, a->first + end - 1);
            a->bridged += r == 0 ? end - i : 0;
        }
    }
    return r;
}

int ingest_check_room(struct ingest *in, enum store_room room)
{
    const struct turn *t = ingest_turn(in);
    bool is_full = store_filled(in->store) >= INGEST_GROUP_MAX || t->batch_bytes >= INGEST_BATCH_MAX ||
                   t->n >= INGEST_ENTRIES_MAX;
    return is_full ? -ENOBUFS : store_check_room(in->store, room);
}

bool ingest_is_writing(const struct ingest *in)
{
    return !in->is_failing;
}

bool ingest_has_room(struct ingest *in)
{
    return ingest_check_room(in, ROOM_EVENTS) == 0;
}

bool ingest_is_crowded(struct ingest *in)
{
    const struct turn *t = ingest_turn(in);
    return in->is_flying && (store_filled(in->store) >= INGEST_GROUP_MAX / 2 ||
                             t->batch_bytes >= INGEST_BATCH_MAX / 2 || t->n >= INGEST_ENTRIES_MAX / 2);
}

/* Room for one more, and for the one behind it: that of the block whose events these are. */
static int reserve_entry(struct turn *t)
{
    if (t->n + 1 < t->cap)
        return 0;
    size_t cap = t->cap ? t->cap * 2 : 64;
    struct pending *entries = mem_try_resize(t->entries, cap * sizeof *entries);
    if (!entries)
        return -ENOMEM;
    t->entries = entries;
    t->cap = cap;
    return 0;
}

/* count events of the block go in the group, where reserve_entry made room. */
static void enter_group(struct ingest *in, const struct arrival *a, struct ingest_source *source,
                        uint32_t count, uint32_t fresh)
{
    struct turn *t = ingest_turn(in);
    a->account->taken += count;
    a->account->queued += count;
    a->account->is_kept = a->account->is_kept || a->head.keep_ns;
    bool wants_batch = in->options.on_batch && a->is_new;
    t->is_awaited = true;
    t->batch_bytes += wants_batch ? a->batch->size_bytes : 0;
    t->entries[t->n++] = (struct pending){.source = source,
                                          .account = a->account,
                                          .first = a->first,
                                          .last = a->last,
                                          .is_kept = a->source && !a->source->is_own,
                                          .count = count,
                                          .fresh = fresh,
                                          .bridged = a->bridged,
                                          .batch = wants_batch ? batch_ref(a->batch) : NULL,
                                          .from = a->from,
                                          .n = a->count,
                                          .at = ingest_last_record(in)};
}

int ingest_reserve_rows(struct ingest *in)
{
    struct turn *t = ingest_turn(in);
    if (t->n_samplers < t->cap_samplers)
        return 0;
    size_t cap = t->cap_samplers ? t->cap_samplers * 2 : 64;
    struct account **samplers = mem_try_resize(t->samplers, cap * sizeof *samplers);
    if (!samplers)
        return -ENOMEM;
    t->samplers = samplers;
    t->cap_samplers = cap;
    return 0;
}

void ingest_queue_rows(struct ingest *in, struct account *a, uint32_t rows)
{
    struct turn *t = ingest_turn(in);
    if (a->pending_rows[in->filling] == 0)
        t->samplers[t->n_samplers++] = a;
    a->pending_rows[in->filling] += rows;
    a->queued += rows;
}

void ingest_queue_batch(struct ingest *in, struct batch *b, uint32_t from, uint32_t n, struct position at)
{
    struct turn *t = ingest_turn(in);
    if (reserve_entry(t) < 0) { /* it is in the journal all the same */
        batch_unref(b);
        return;
    }
    t->batch_bytes += b->size_bytes;
    t->entries[t->n++] = (struct pending){.batch = b, .from = from, .n = n, .at = at};
}

bool ingest_queue_packet(struct ingest *in, uint32_t from, uint32_t n, const struct batch_origin *origin,
                         struct position at)
{
    struct turn *t = ingest_turn(in);
    if (reserve_entry(t) < 0)
        return false;
    t->entries[t->n++] =
        (struct pending){.from = from, .n = n, .at = at, .origin = *origin, .is_samples = true};
    if (batch_builder_full(in->rows))
        ingest_finish_rows(in);
    return true;
}

void ingest_finish_rows(struct ingest *in)
{
    struct turn *t = ingest_turn(in);
    struct batch *b = batch_builder_finish(in->rows, NULL);
    for (size_t i = t->rows_from; i < t->n && b; i++)
        if (t->entries[i].is_samples)
            t->entries[i].batch =
                batch_ref(b); /* without memory nobody is told; it is in the journal all the same */
    t->rows_from = t->n;
    t->batch_bytes += b ? b->size_bytes : 0;
    batch_unref(b);
}

void ingest_commit_if_full(struct ingest *in)
{
    if (store_filled(in->store) >= INGEST_GROUP_BYTES || ingest_turn(in)->batch_bytes >= INGEST_BATCH_BYTES)
        ingest_commit(in);
}

/* Are these of an account that was forgotten by age, perhaps? Nothing else is known of it, and they are from
 * before the last such account was heard of. */
static bool may_be_forgotten(const struct ingest *in, const struct arrival *a)
{
    if (!in->ledger->forgotten_s || a->account->passed || a->account->queued)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->events[i].time_ns / NS_PER_S <= in->ledger->forgotten_s)
            return true;
    return false;
}

/* Appends a block whose content is good. Where the store gives way in the middle of a block that is written
 * in pieces, the pieces stay and the block is refused: when it comes again they are held. */
static void take(struct ingest *in, struct arrival *a)
{
    uint32_t fresh = 0;
    int r = ingest_check_room(in, ROOM_EVENTS);
    if (r == 0)
        r = reserve_entry(ingest_turn(in));
    if (r == 0)
        r = append_kept(in, a, &fresh);
    if (r == 0) {
        if (a->denied < a->count)
            enter_group(in, a, a->source, a->count - a->denied, fresh);
        deny_all(in, a);
    } else {
        if (fresh || a->bridged)
            enter_group(in, a, NULL, fresh, fresh);
        refuse_arrival(in, a, a->count - fresh, r);
    }
    ingest_commit_if_full(in);
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
    if (ingest_is_none(&a->origin))
        return true;
    return a->origin.epoch && a->first && a->count && a->first <= UINT64_MAX - (a->count - 1);
}

static bool may_say(struct ingest_source *s, const struct event *e)
{
    return (s->is_own || !access_says_orders(e, 1)) && (!s->may || s->may(s, e));
}

static bool may_say_all(const struct arrival *a)
{
    if (!a->source->is_own && access_says_orders(a->events, a->count))
        return false;
    for (uint32_t i = 0; a->source->may && i < a->count; i++)
        if (!a->source->may(a->source, &a->events[i]))
            return false;
    return true;
}

int ingest_block(struct ingest *in, struct ingest_source *source, struct slice payload)
{
    int64_t n = block_check(payload);
    if (n <= 0)
        return n < 0 ? (int)n : E_PROTO;
    struct arrival a = {.source = source, .block = slice_of(payload.p, (size_t)n)};
    a.head = block_origin(a.block);
    a.origin = ingest_origin(&a.head);
    a.count = block_count(a.block);
    a.first = a.head.first_seq;
    a.last = ingest_is_none(&a.origin) ? a.first : a.first + a.count - 1;
    if (!has_good_numbers(&a))
        return E_PROTO;
    a.account = ledger_account(in->ledger, &a.origin);
    if (!a.account)
        return -ENOMEM;
    if (!is_in_turn(source, &a)) {
        a.account->retried += a.count; /* comes again behind the one that was turned back */
        return 0;
    }
    int r = block_decode(a.block, in->check, NULL);
    a.batch = batch_builder_finish(in->check, NULL);
    if (r == 0 && !a.batch)
        r = -ENOMEM;
    a.events = a.batch ? a.batch->events : NULL;
    if (r == 0 && !may_say_all(&a))
        r = -EPERM;
    if (r == 0 && !account_set_class(a.account, CLASS_EVENTS))
        r = E_PROTO; /* samples have that origin */
    if (r == 0 && a.head.keep_ns && !source->may_keep)
        r = -EACCES;
    if (r == 0 && !ingest_is_none(&a.origin) && !a.head.keep_ns && may_be_forgotten(in, &a))
        r = -ESTALE;
    if (r == 0)
        r = judge(in, &a);
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
        r = ingest_check_room(in, ROOM_EVENTS);
    if (r == 0)
        r = reserve_entry(ingest_turn(in));
    if (r == 0)
        r = ingest_append(in, STORE_BLOCK, strbuf_slice(&in->scratch));
    a->is_new = r == 0;
    if (r == 0) {
        enter_group(in, a, NULL, a->count, a->count);
    } else {
        a->account->taken += a->count;
        a->account->refused += a->count;
        ingest_note_store(in, r);
    }
    ingest_commit_if_full(in);
}

void ingest_note_trimmed(struct ingest *in, struct batch_trimmed trimmed)
{
    in->ledger->trimmed.events += trimmed.events;
    in->ledger->trimmed.fields += trimmed.fields;
}

int ingest_built(struct ingest *in, struct ingest_source *source)
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
    a.batch = b;
    int64_t now = clock_utc_ns();
    for (uint32_t i = 0; i < b->n;) {
        enum archived_verdict v = ingest_judge(in, &b->events[i], now);
        int r = v == ARCHIVED_KEPT && may_say(source, &b->events[i])
                    ? block_writer_add(in->writer, &b->events[i])
                    : -EACCES;
        bool is_lost = r < 0 && (r != E_LIMIT || block_writer_count(in->writer) == 0); /* or no memory */
        if (r == 0 && ++i < b->n)
            continue;
        take_lines(in, &a); /* those before it */
        if (is_lost) {
            a.account->taken++;
            ++*(v == ARCHIVED_KEPT ? &a.account->refused : ingest_denied(a.account, v));
            i++;
        }
        a.from = i;
    }
    batch_unref(b);
    return 0;
}

int ingest_record(struct ingest *in, enum store_type type, struct slice payload)
{
    int r = ingest_append(in, type, payload);
    if (r == 0)
        ingest_turn(in)->is_awaited = true;
    if (!in->checkpoint.is_asking)
        ingest_commit_if_full(in);
    return r;
}

/* Those of samples change with every packet and are good for little after a restart. */
static bool is_worth_a_record(struct account *a, const struct frame_counts *counts)
{
    uint32_t now_s = (uint32_t)(clock_mono_ns() / NS_PER_S) + 1;
    if (counts->class == CLASS_SAMPLES && !counts->is_final && a->counted_s &&
        now_s - a->counted_s < INGEST_COUNTS_S)
        return false;
    a->counted_s = now_s;
    return true;
}

void ingest_counts(struct ingest *in, struct slice payload, const struct frame_counts *counts)
{
    struct account *a = ledger_account(in->ledger, &counts->origin);
    if (!a || account_set_counts(a, payload, counts) <= 0 || !is_worth_a_record(a, counts))
        return;
    (void)ingest_record(in, STORE_COUNTS, payload); /* the copy in memory is good until the next start */
}

/* Journalled as a piece of a checkpoint: an account that replaces what was known of it. */
void ingest_end_epoch(struct ingest *in, const struct frame_origin *origin)
{
    struct account *a = ledger_account(in->ledger, origin);
    if (!a || a->is_closed)
        return;
    a->is_closed = true;
    strbuf_reset(&in->scratch);
    record_put_checkpoint(&in->scratch, &(struct record_checkpoint){.kind = CHECKPOINT_ACCOUNTS});
    account_put(&in->scratch, a);
    if (!strbuf_failed(&in->scratch))
        (void)ingest_record(in, STORE_CHECKPOINT, strbuf_slice(&in->scratch)); /* as above */
}

uint64_t ingest_held(struct ingest *in, const struct frame_origin *origin)
{
    const struct account *a = ledger_account(in->ledger, origin);
    return a && a->class == CLASS_EVENTS && !ingest_is_none(origin) ? seq_set_max(&a->held) : 0;
}

uint64_t ingest_held_count(const struct ingest *in, const struct frame_origin *origin)
{
    const struct account *a = ledger_find(in->ledger, origin);
    return a && a->class == CLASS_EVENTS && !ingest_is_none(origin) ? seq_set_count(&a->held) - a->bridged
                                                                    : 0;
}

uint64_t ingest_settled(const struct ingest *in)
{
    struct store_stats now;
    store_stats(in->store, &now);
    return now.last;
}

bool ingest_is_pending(const struct ingest *in)
{
    const struct turn *t = &in->turns[in->filling];
    return t->n || t->has_records || in->checkpoint.is_active;
}

int ingest_delay_ms(const struct ingest *in)
{
    if (!ingest_is_pending(in))
        return -1;
    if (in->turns[in->filling].is_awaited)
        return INGEST_DELAY_MS;
    return in->is_watched ? INGEST_WATCHED_MS : INGEST_SAMPLES_MS;
}

void ingest_set_watched(struct ingest *in, bool is_watched)
{
    in->is_watched = is_watched;
}

/* What the account has in this turn's group is in the journal now. */
static void settle_pending(struct account *a, int turn)
{
    struct seq_set *pending = &a->pending[turn];
    for (size_t i = 0; i < pending->n; i++)
        (void)seq_set_add(&a->held, pending->ranges[i].first, pending->ranges[i].last); /* reserved */
    seq_set_fini(pending);
}

static void settle_entry(struct pending *p, int turn, int r)
{
    struct account *a = p->account;
    if (!a)
        return;
    a->queued -= p->count;
    if (r < 0) {
        if (p->is_kept) {
            a->taken -= p->count;
            a->retried += p->count;
        } else {
            a->refused += p->count;
        }
        seq_set_fini(&a->pending[turn]);
    } else {
        a->passed += p->fresh;
        a->bridged += p->bridged;
        a->duplicate += p->count - p->fresh;
        settle_pending(a, turn);
    }
}

static void settle_samples(struct account *a, int turn, int r)
{
    uint64_t rows = a->pending_rows[turn];
    a->pending_rows[turn] = 0;
    a->queued -= rows;
    *(r < 0 ? &a->refused : &a->passed) += rows;
}

static void answer(const struct turn *t, size_t i, int r)
{
    const struct pending *p = &t->entries[i];
    if (!p->source)
        return;
    if (r < 0) {
        if (!p->source->is_behind)
            refuse(p->source, &p->account->origin, p->first, p->count, REFUSE_STORAGE, INGEST_RETRY_MS,
                   err_text(r));
        return;
    }
    const struct pending *next = i + 1 < t->n ? p + 1 : NULL;
    if (next && next->source == p->source && next->account == p->account && p->last <= next->last)
        return; /* its acknowledgement covers this one */
    p->source->ack(p->source, &(struct frame_ack){p->account->origin, p->last});
}

/* first: the number of the group's first record. */
static void give_batch(const struct ingest *in, const struct pending *p, uint64_t first)
{
    const struct batch *b = p->batch;
    struct position at = p->at;
    at.record += first;
    if (p->from == 0 && p->n == b->n && !p->is_samples) {
        in->options.on_batch(in->options.arg, b, at);
        return;
    }
    struct batch view = {
        .origin = p->is_samples ? p->origin : b->origin, .events = b->events + p->from, .n = p->n};
    if (!p->is_samples && view.origin.first_seq)
        view.origin.first_seq += p->from;
    in->options.on_batch(in->options.arg, &view, at);
}

/* All sums are right before anybody is told. */
static void settle(struct ingest *in, int turn, int r)
{
    struct turn *t = &in->turns[turn];
    for (size_t i = 0; i < t->n; i++)
        settle_entry(&t->entries[i], turn, r);
    for (size_t i = 0; i < t->n_samplers; i++)
        settle_samples(t->samplers[i], turn, r);
    struct store_stats now;
    store_stats(in->store, &now);
    for (size_t i = 0; i < t->n; i++) {
        if (r == 0 && t->entries[i].batch)
            give_batch(in, &t->entries[i], now.last - t->records + 1);
        answer(t, i, r);
    }
    if (r == 0 && t->records && in->options.on_group)
        in->options.on_group(in->options.arg, now.last);
    clear_turn(t);
}

void ingest_commit(struct ingest *in)
{
    if (!ingest_is_pending(in))
        return;
    if (in->is_flying) {
        in->wants_commit = true;
        return;
    }
    in->wants_commit = false;
    in->ledger->now_s = utc_s();
    checkpoint_step(in);
    if (!ingest_turn(in)->has_records) { /* nothing but what was there before */
        settle(in, in->filling, 0);
        return;
    }
    ingest_finish_rows(in);
    ingest_turn(in)->records = store_records(in->store);
    in->packet_record = 0;
    store_commit(in->store);
    in->is_flying = true;
    in->filling ^= 1;
}

int ingest_fd(const struct ingest *in)
{
    return store_fd(in->store);
}

static void note_forced(struct ingest *in)
{
    struct store_stats now;
    store_stats(in->store, &now);
    uint64_t more = now.forced - in->forced;
    if (more == 0)
        return;
    in->forced = now.forced;
    in->ledger->forced += more;
    checkpoint_totals(in);
    if (in->options.on_forced)
        in->options.on_forced(in->options.arg, more);
}

static void complete(struct ingest *in, int r)
{
    ingest_note_store(in, r);
    settle(in, in->filling ^ 1, r); /* is_flying, still: what an answer sets off must not turn the groups */
    if (r < 0) {                    /* the store has forgotten it, too */
        ingest_finish_rows(in);
        in->packet_record = 0;
        settle(in, in->filling, r);
        checkpoint_abort(in);
    }
    in->is_flying = false;
    note_forced(in);
    if (in->wants_commit || in->checkpoint.is_active)
        ingest_commit(in);
    else
        ingest_commit_if_full(in);
    if (in->options.on_room)
        in->options.on_room(in->options.arg);
}

void ingest_complete(struct ingest *in)
{
    int r;
    if (store_poll(in->store, &r))
        complete(in, r);
}

void ingest_drain(struct ingest *in)
{
    while (in->is_flying || ingest_is_pending(in)) {
        ingest_commit(in);
        if (in->is_flying)
            complete(in, store_wait(in->store));
    }
}

void ingest_forget(struct ingest *in, const struct ingest_source *source)
{
    for (int turn = 0; turn < LEDGER_GROUPS; turn++)
        for (size_t i = 0; i < in->turns[turn].n; i++)
            if (in->turns[turn].entries[i].source == source)
                in->turns[turn].entries[i].source = NULL;
}
