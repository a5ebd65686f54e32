/* SPDX-License-Identifier: Apache-2.0 */
/* ingest.h - from blocks as they come to blocks in the journal, each event once.
 *
 * A block is checked (every byte: what is acknowledged must be readable for ever), compared with the numbers
 * held, appended, and acknowledged when its group is synced. ingest_commit ends a group; the owner calls it
 * in time (ingest_delay_ms). A block that is partly held already is
 * written again with only the events that are missing. A failed commit refuses the whole group: nothing of it
 * is acknowledged, and the senders send again.
 *
 * Samples go the same way and are never answered: what the store does not take is dropped and counted as
 * refused. They wait up to INGEST_SAMPLES_MS for a group that is synced anyway, so that a reading a second
 * costs no sync of its own.
 *
 * No loop and no sockets here; answers go to the source. One thread. */
#ifndef GRIDLINE_GATEWAY_INGEST_H
#define GRIDLINE_GATEWAY_INGEST_H

#include "event/batch.h"
#include "gateway/ledger.h"
#include "gateway/store.h"
#include "net/frame.h"

enum {
    INGEST_DELAY_MS = 5,
    INGEST_SAMPLES_MS = 1000,
    INGEST_GROUP_BYTES = 1 << 20,  /* a group of that size is committed at once, */
    INGEST_BATCH_BYTES = 16 << 20, /* and one whose decoded batches hold that much */
    INGEST_RETRY_MS = 1000
};

/* Who sent a block. Embedded in the session; after a refusal with a time to retry, blocks are left unread
 * until the one that was refused comes again: an acknowledgement covers everything before it, so none may be
 * taken out of order. */
struct ingest_source {
    void (*ack)(struct ingest_source *s, const struct frame_ack *ack);
    void (*refuse)(struct ingest_source *s, const struct frame_refuse *refuse);
    bool is_behind; /* waits for that block: */
    struct frame_origin behind;
    uint64_t behind_seq;
};

struct ingest_options {
    /* Called with each batch once it is in the journal, in order; NULL = not. */
    void (*on_batch)(void *arg, const struct batch *b);
    /* Called when the store begins to refuse (r < 0) and when it takes again (r == 0). */
    void (*on_store)(void *arg, int r);
    void *arg;
};

struct ingest;
/* Borrows ledger and store. NULL: no memory. */
struct ingest *ingest_create(struct ledger *ledger, struct store *store,
                             const struct ingest_options *options);
void ingest_destroy(struct ingest *in); /* NULL is fine; a group that is not committed is forgotten */

/* For store_open: enters a record of the journal in the ledger (arg). */
int ingest_restore(void *ledger, const struct journal_item *item);

/* A BATCH's payload: 0, and the answer goes to source, now or at the commit. E_PROTO, E_DAMAGE, E_LIMIT,
 * E_VERSION: what it is can't be told, so the connection can't go on. -ENOMEM. */
int ingest_block(struct ingest *in, struct ingest_source *source, struct slice block);
/* Events without origin, from a decoder that filled ingest_builder: journalled or counted as refused, not
 * answered. -ENOMEM: they are gone. */
struct batch_builder *ingest_builder(struct ingest *in);
int ingest_built(struct ingest *in);
/* Samples of that origin that samples_reader_packet left in ingest_builder, and how many it could not read.
 * -ENOMEM: they are gone and could not be counted. */
int ingest_samples(struct ingest *in, const struct batch_origin *origin, uint32_t unknown);
/* The sender's ledger. */
void ingest_counts(struct ingest *in, struct slice payload, const struct frame_counts *counts);
/* A record of the gateway's own: kept, restored by the owner. -ENOSPC, -ENOMEM: it is not kept. */
int ingest_record(struct ingest *in, enum store_type type, struct slice payload);
/* The sender said goodbye after its COUNTS. */
void ingest_end_epoch(struct ingest *in, const struct frame_origin *origin);
/* All of this origin up to the result is held. */
uint64_t ingest_held(struct ingest *in, const struct frame_origin *origin);

bool ingest_is_pending(const struct ingest *in);
/* In how many ms at most, counted from what came first, the group must be committed; -1: nothing waits. */
int ingest_delay_ms(const struct ingest *in);
void ingest_commit(struct ingest *in);
/* The source goes away: its blocks stay in the group, without an answer. */
void ingest_forget(struct ingest *in, const struct ingest_source *source);

#endif
