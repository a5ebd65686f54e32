/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint begins with a segment and goes on piece by piece, a piece in each group that is handed over,
 * so that the loop does not stop for it: with 100,000 workers it is tens of megabytes. Meanwhile accounts
 * change. That is no harm: what a piece says of an account is all that is known at that place of the journal,
 * and what follows in the journal is added to it. An account that is new since the beginning needs no piece,
 * as all of it follows.
 *
 * How often: when four times the size of the last one has been written since it began, but only with a
 * segment. So checkpoints take at most a fifth of the journal, and what is read at start is bounded by their
 * size and that of a segment, not by the journal's. */
#include "gateway/ingest_internal.h"

#include "base/clock.h"

#include <errno.h>

enum { CHECKPOINT_SHARE = 4 };

static bool is_due(const struct ingest *in)
{
    const struct checkpoint *k = &in->checkpoint;
    if (k->is_active)
        return false;
    return k->is_wanted || store_written(in->store) - k->began >= CHECKPOINT_SHARE * k->bytes;
}

static struct record_checkpoint totals(const struct ingest *in, enum checkpoint_kind kind)
{
    return (struct record_checkpoint){.kind = (uint8_t)kind,
                                      .forgotten = in->ledger->forgotten,
                                      .forced = in->ledger->forced,
                                      .forgotten_s = in->ledger->forgotten_s};
}

static int append(struct ingest *in, const struct record_checkpoint *c)
{
    struct strbuf out = {0};
    record_put_checkpoint(&out, c);
    int r = strbuf_failed(&out) ? -ENOMEM : ingest_append(in, STORE_CHECKPOINT, strbuf_slice(&out));
    strbuf_fini(&out);
    return r;
}

void checkpoint_totals(struct ingest *in)
{
    const struct record_checkpoint c = totals(in, CHECKPOINT_TOTALS);
    (void)append(in, &c); /* else the next checkpoint has them */
}

void checkpoint_begin(struct ingest *in)
{
    struct checkpoint *k = &in->checkpoint;
    if (!is_due(in))
        return;
    ledger_expire(in->ledger, LEDGER_KEEP_S);
    if (ledger_walk(in->ledger) < 0)
        return; /* with the next segment */
    struct record_checkpoint begin = totals(in, CHECKPOINT_BEGIN);
    begin.id = (uint64_t)clock_utc_ns();
    if (append(in, &begin) < 0) {
        ledger_walk_end(in->ledger);
        return;
    }
    store_begin_checkpoint(in->store);
    *k = (struct checkpoint){.is_active = true,
                             .has_owner = in->options.on_checkpoint != NULL,
                             .id = begin.id,
                             .began = store_written(in->store)};
}

/* Accounts, as many as are worth a record. False: there are no more. */
static bool write_accounts(struct ingest *in)
{
    strbuf_reset(&in->scratch);
    record_put_checkpoint(&in->scratch, &(struct record_checkpoint){.kind = CHECKPOINT_ACCOUNTS});
    struct account *a = NULL;
    while (in->scratch.n < STORE_ADDED_MAX && (a = ledger_walk_next(in->ledger))) {
        if (a->pins)
            (void)ledger_account(in->ledger, &a->origin); /* its sampler is there: it is not quiet */
        account_put(&in->scratch, a);
    }
    if (strbuf_failed(&in->scratch) || ingest_append(in, STORE_CHECKPOINT, strbuf_slice(&in->scratch)) < 0) {
        checkpoint_abort(in);
        return false;
    }
    return a != NULL;
}

static void end(struct ingest *in)
{
    if (append(in, &(struct record_checkpoint){.kind = CHECKPOINT_END, .id = in->checkpoint.id}) < 0) {
        checkpoint_abort(in);
        return;
    }
    store_end_checkpoint(in->store);
    ledger_walk_end(in->ledger);
    in->checkpoint.is_active = false;
}

void checkpoint_step(struct ingest *in)
{
    struct checkpoint *k = &in->checkpoint;
    if (!k->is_active)
        return;
    size_t before = store_filled(in->store), share = before / CHECKPOINT_SHARE;
    size_t limit = before + (share > INGEST_STEP_BYTES ? share : INGEST_STEP_BYTES);
    while (k->has_owner && k->is_active && store_filled(in->store) < limit) {
        uint64_t from = k->owner_from;
        k->is_asking = true;
        k->owner_from = in->options.on_checkpoint(in->options.arg, from);
        k->is_asking = false;
        k->has_owner = k->owner_from != 0;
        if (k->owner_from == from && k->has_owner)
            break; /* there was no room, or no memory: in the next group */
    }
    bool has_more = true;
    while (!k->has_owner && has_more && k->is_active && store_filled(in->store) < limit)
        has_more = write_accounts(in);
    if (k->is_active)
        k->bytes += store_filled(in->store) - before;
    if (k->is_active && !k->has_owner && !has_more)
        end(in);
}

void checkpoint_abort(struct ingest *in)
{
    ledger_walk_end(in->ledger);
    in->checkpoint.is_active = false;
    in->checkpoint.is_wanted = true;
}
