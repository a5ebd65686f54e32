/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.h - what this gateway has seen of each (producer, epoch), and which sequence numbers it holds.
 *
 * Per account, always: taken = passed + duplicate + refused + too_old + too_new + no_schema + queued. Taken is what
 * came in by a BATCH or as samples, counted each time it comes; passed is in the journal; queued waits for
 * its sync; refused was not stored and will not come again; too_old is older than the archive keeps it, or may have
 * been stored and forgotten; too_new is further ahead than the archive takes it;
 * no_schema are samples of a stream that was not announced. Events that were turned back for now, which their
 * sender keeps and sends again, are retried: they were not taken and are in no other sum.
 *
 * Of events the numbers held are kept, as a set of ranges: that is how the second copy is known. Samples are
 * never sent again and each packet comes once (a connection, or the window of its datagrams), so there the
 * highest number is enough: what did not come is lost = highest - taken.
 *
 * Accounts are made again at start from the newest checkpoint and what follows it in the journal. What was
 * refused, too_old, too_new, duplicate or no_schema since that checkpoint is not known any more then; of samples it is
 * counted as lost. (Checkpoints of versions before `retried` have it in refused.)
 *
 * Bounded: accounts that were quiet for LEDGER_KEEP_S are forgotten, and past LEDGER_MAX the one that was
 * quiet longest. What the sender of such an account sends again would be stored twice. Of the first kind it
 * is known until when they were heard of (forgotten_s), so events from before are refused as too_old;
 * `forgotten` counts both. Events without origin (bare lines) have one account, all zero. */
#ifndef GRIDLINE_GATEWAY_LEDGER_H
#define GRIDLINE_GATEWAY_LEDGER_H

#include "base/map.h"
#include "base/strbuf.h"
#include "event/batch.h"
#include "gateway/dedup.h"
#include "net/frame.h"

enum { LEDGER_MAX = 1 << 19, LEDGER_KEEP_S = 7 * 24 * 3600, LEDGER_GROUPS = 2 };

struct account {
    struct frame_origin origin; /* the map's key */
    struct account *newer, *older;
    uint64_t taken, passed, duplicate, refused, too_old, too_new, no_schema, queued;
    uint64_t retried; /* since the gateway runs */
    union {
        struct {                                   /* events */
            struct seq_set held;                   /* in the journal, synced */
            struct seq_set pending[LEDGER_GROUPS]; /* in one of the two groups (ingest.c) */
            uint64_t bridged; /* numbers in held that were refused for good: for want of room for holes */
        };
        struct { /* samples */
            uint64_t highest;
            uint64_t pending_rows[LEDGER_GROUPS]; /* queued is their sum */
        };
    };
    char *counts; /* the payload of the sender's last COUNTS; NULL = none yet */
    uint32_t counts_n;
    uint32_t counted_s; /* when COUNTS were journalled, by a clock of the owner; 0 = not yet */
    uint32_t active_s;  /* when it was asked for last, UTC; as ledger.now_s */
    uint32_t pins;      /* who has a pointer to it: it is not forgotten */
    uint32_t walk_at;   /* its place in the walk */
    uint8_t class;      /* enum frame_class */
    bool is_closed;     /* the sender said that the epoch is over */
    bool is_kept; /* it had events that the archive keeps: it is not forgotten by age, as it may be sent again
                   */
    uint64_t told;          /* taken, when it was last told as an event */
};

struct ledger {
    struct map accounts;
    struct account *newest, *oldest;
    uint32_t max;   /* accounts; 0 = LEDGER_MAX */
    uint32_t now_s; /* UTC, set by the owner now and then */
    uint64_t forgotten;
    uint32_t forgotten_s;  /* the latest time, UTC, that an account forgotten by age was heard of; 0 = none */
    struct batch_trimmed trimmed; /* events of texts that were taken without fields over a limit, since start */
    uint64_t forced;       /* records of the journal that gave way before every cursor had passed them */
    struct account **walk; /* those that were there when it began; NULL: forgotten, or no walk */
    size_t n_walk, walked;
};

void ledger_fini(struct ledger *l);
/* NULL: there is none. */
struct account *ledger_find(const struct ledger *l, const struct frame_origin *origin);
/* Finds or makes the account and makes it the newest. NULL: no memory. Valid until the next call that makes
 * one, unless it has something queued or is pinned. */
struct account *ledger_account(struct ledger *l, const struct frame_origin *origin);
/* Forgets accounts that were quiet for so long. */
void ledger_expire(struct ledger *l, uint32_t keep_s);

/* A walk visits every account that is there now, whatever happens to the ledger meanwhile: begin (-ENOMEM),
 * then next until NULL. One at a time. */
int ledger_walk(struct ledger *l);
struct account *ledger_walk_next(struct ledger *l);
void ledger_walk_end(struct ledger *l);

/* An account as bytes, for a checkpoint; what is queued counts as passed, since it is in the journal before.
 */
void account_put(struct strbuf *out, const struct account *a);
/* The next of such bytes replaces the account of its origin: 1; 0 at the end; E_PROTO, -ENOMEM: nothing has
 * changed. */
int ledger_get_account(struct ledger *l, struct cursor *c);

/* Is it of this class from now on? An account that was used keeps its class. */
bool account_set_class(struct account *a, enum frame_class class);
/* Keeps the sender's counts; payload is what frame_get_counts took. Older ones than those kept (COUNTS are
 * cumulative, connections can overtake each other) are left out, and those of the other class. 1: kept; 0:
 * left out; -ENOMEM. */
int account_set_counts(struct account *a, struct slice payload, const struct frame_counts *counts);
static inline struct slice account_counts(const struct account *a)
{
    return slice_of(a->counts ? a->counts : "", a->counts_n);
}
bool account_has_origin(const struct account *a);
/* Events: the first run of first..last that is neither held nor pending; false when all are. */
bool account_missing(const struct account *a, uint64_t first, uint64_t last, struct seq_range *out);
/* The largest number that came and was passed (events) or taken (samples). */
uint64_t account_highest(const struct account *a);
/* Samples that did not come. */
uint64_t account_lost(const struct account *a);
bool account_check(const struct account *a);
/* As one JSON object, accounts in no order. */
void ledger_print(const struct ledger *l, struct strbuf *out);
/* The name of a drop reason, or "reason_N". */
void ledger_print_reason(struct strbuf *out, unsigned reason);

#endif
