/* SPDX-License-Identifier: Apache-2.0 */
/* Ledger and owner as they were, from the records since the newest checkpoint. Blocks are idempotent: a
 * number that is held is not counted again. Packets are not, but each is in the journal once, and an account
 * in a checkpoint counts exactly the packets before it: it replaces what was added up so far. */
#include "gateway/ingest_internal.h"

#include "base/mem.h"

#include <errno.h>

struct restoring {
    struct ingest *in;
    uint64_t segment;             /* whose samplers these are, */
    struct frame_origin *origins; /* by number - 1; all zero: not known */
    size_t n, cap;
};

static int restore_block(struct ledger *l, struct slice block)
{
    if (block.n == 0 || block_check(block) != (int64_t)block.n)
        return 0; /* not ours: nothing but checked blocks was appended */
    struct batch_origin o = block_origin(block);
    struct frame_origin origin = ingest_origin(&o);
    uint32_t n = block_count(block);
    if (!ingest_is_none(&origin) && (!o.first_seq || !n || o.first_seq > UINT64_MAX - (n - 1)))
        return 0; /* the same */
    struct account *a = ledger_account(l, &origin);
    if (!a)
        return -ENOMEM;
    if (!account_set_class(a, CLASS_EVENTS))
        return 0; /* the same: such a block is refused */
    if (account_has_origin(a)) {
        uint64_t before = seq_set_count(&a->held), bridged = 0, highest = seq_set_max(&a->held);
        int r = seq_set_add(&a->held, o.first_seq, o.first_seq + n - 1);
        if (r == E_LIMIT &&
            o.first_seq > highest) { /* too many holes of what was refused: as append_kept does */
            bridged = o.first_seq - highest - 1;
            r = seq_set_add(&a->held, highest + 1, o.first_seq + n - 1);
        }
        if (r < 0)
            return r == E_LIMIT ? 0 : r; /* the same */
        n = (uint32_t)(seq_set_count(&a->held) - before - bridged);
        a->bridged += bridged;
    }
    a->is_kept = a->is_kept || o.keep_ns;
    a->taken += n;
    a->passed += n;
    return 0;
}

static int restore_counts(struct ledger *l, struct slice payload)
{
    struct frame_counts counts;
    if (frame_get_counts(payload, &counts) < 0)
        return 0;
    struct account *a = ledger_account(l, &counts.origin);
    int r = a ? account_set_counts(a, payload, &counts) : -ENOMEM;
    return r < 0 ? r : 0;
}

static int restore_checkpoint(struct ledger *l, struct slice payload)
{
    struct record_checkpoint k;
    if (record_get_checkpoint(payload, &k) < 0)
        return 0;
    if (k.kind == CHECKPOINT_BEGIN || k.kind == CHECKPOINT_TOTALS) {
        l->forgotten = k.forgotten;
        l->forced = k.forced;
        l->forgotten_s = k.forgotten_s;
    }
    struct cursor c = cursor_of(k.accounts);
    int r;
    while ((r = ledger_get_account(l, &c)) > 0)
        ;
    return r == E_PROTO ? 0 : r;
}

static int add_sampler(struct restoring *x, const struct samples_item *item)
{
    if (item->number > x->cap) {
        size_t cap = x->cap ? x->cap * 2 : 64;
        struct frame_origin *origins =
            item->number > cap ? NULL : mem_try_resize(x->origins, cap * sizeof *origins);
        if (!origins)
            return item->number > cap ? 0 : -ENOMEM; /* behind damage: its packets are not counted */
        x->origins = origins;
        x->cap = cap;
    }
    while (x->n < item->number)
        x->origins[x->n++] = (struct frame_origin){0};
    x->origins[item->number - 1] = item->origin;
    return 0;
}

static int restore_packet(struct restoring *x, const struct samples_item *item)
{
    struct samples_count count;
    if (item->number > x->n || ingest_is_none(&x->origins[item->number - 1]) ||
        samples_packet_count(item->packet, &count) < 0 || item->rows > count.rows)
        return 0;
    struct account *a = ledger_account(x->in->ledger, &x->origins[item->number - 1]);
    if (!a)
        return -ENOMEM;
    if (!account_set_class(a, CLASS_SAMPLES))
        return 0;
    uint64_t last = count.first_seq + count.rows - 1;
    a->taken += count.rows;
    a->passed += item->rows;
    a->no_schema += count.rows - item->rows;
    a->highest = last > a->highest ? last : a->highest;
    return 0;
}

static int restore_samples(struct restoring *x, const struct journal_item *record)
{
    struct cursor c = cursor_of(record->payload);
    struct samples_item item;
    int r = 0;
    if (record->segment != x->segment) {
        x->segment = record->segment;
        x->n = 0;
    }
    while (r == 0 && record_next_item(&c, &item) > 0) {
        if (item.kind == SAMPLES_SAMPLER)
            r = add_sampler(x, &item);
        else if (item.kind == SAMPLES_PACKET)
            r = restore_packet(x, &item);
    }
    return r;
}

static int on_record(void *arg, const struct journal_item *item)
{
    struct restoring *x = arg;
    struct ingest *in = x->in;
    if (item->kind == JOURNAL_RECORD && item->type == STORE_BLOCK)
        return restore_block(in->ledger, item->payload);
    if (item->kind == JOURNAL_RECORD && item->type == STORE_COUNTS)
        return restore_counts(in->ledger, item->payload);
    if (item->kind == JOURNAL_RECORD && item->type == STORE_SAMPLES)
        return restore_samples(x, item);
    if (item->kind == JOURNAL_RECORD && item->type == STORE_CHECKPOINT)
        return restore_checkpoint(in->ledger, item->payload);
    return in->options.on_restore ? in->options.on_restore(in->options.arg, item) : 0;
}

int ingest_restore(struct ingest *in)
{
    struct restoring x = {.in = in};
    int r = store_restore(in->store, on_record, &x);
    mem_free(x.origins);
    return r;
}
