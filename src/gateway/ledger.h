/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.h - what this gateway has seen of each (producer, epoch), and which sequence numbers it holds.
 *
 * Per account, always: taken = passed + duplicate + refused + no_schema + queued. Taken is what came in by a
 * BATCH or as SAMPLES, counted each time it comes; passed is in the journal; queued is in the group that
 * waits for its sync; no_schema are samples of a stream that was not announced. Accounts are made again from
 * the journal at start: passed, the numbers held and the sender's last COUNTS are then as before; duplicate
 * and refused start at 0 (they are of this run).
 *
 * Bounded: past LEDGER_MAX accounts the one that was quiet longest is forgotten. What its sender then sends
 * again would be stored twice; `forgotten` counts them. Events without origin (bare lines) have one account,
 * all zero. */
#ifndef GRIDLINE_GATEWAY_LEDGER_H
#define GRIDLINE_GATEWAY_LEDGER_H

#include "base/map.h"
#include "base/strbuf.h"
#include "gateway/dedup.h"
#include "net/frame.h"

enum { LEDGER_MAX = 65536 };

struct account {
    struct frame_origin origin; /* the map's key */
    struct account *newer, *older;
    uint8_t class; /* enum frame_class */
    uint64_t taken, passed, duplicate, refused, no_schema, queued;
    struct seq_set held;    /* in the journal, synced */
    uint64_t skipped;       /* numbers in held that never came: the gaps of samples that had to be joined */
    struct seq_set pending; /* in the group */
    struct strbuf counts;   /* the payload of the sender's last COUNTS; empty = none yet */
    bool is_closed;         /* the sender said that the epoch is over */
    uint64_t told;          /* taken, when it was last told as an event */
};

struct ledger {
    struct map accounts;
    struct account *newest, *oldest;
    uint64_t forgotten;
};

void ledger_fini(struct ledger *l);
/* Finds or makes the account and makes it the newest. NULL: no memory. Valid until the next call that makes
 * one, unless it has something pending: such accounts stay. */
struct account *ledger_account(struct ledger *l, const struct frame_origin *origin);
/* Keeps the sender's counts; payload is what frame_get_counts took. Older ones than those kept (COUNTS are
 * cumulative, connections can overtake each other) are left out. -ENOMEM. */
int account_set_counts(struct account *a, struct slice payload, const struct frame_counts *counts);
bool account_has_origin(const struct account *a);
bool account_check(const struct account *a);
/* As one JSON object, accounts in no order. */
void ledger_print(const struct ledger *l, struct strbuf *out);
/* The name of a drop reason, or "reason_N". */
void ledger_print_reason(struct strbuf *out, unsigned reason);

#endif
