/* SPDX-License-Identifier: Apache-2.0 */
/* ingest.h - from what comes to records in the journal, each event once.
 *
 * A block is checked (every byte: what is acknowledged must be readable for ever), compared with the numbers
 * held, appended, and acknowledged when its group is synced. Groups are the store's: one fills while the
 * other is written by the store's thread. ingest_commit hands over the one that fills, as soon as the other
 * is done; the owner calls it in time (ingest_delay_ms), and ingest_complete when ingest_fd is readable. A
 * block that is partly held already is written again with only the events that are missing. A group that
 * can't be written is refused as a whole, with the one that filled meanwhile: nothing of them is
 * acknowledged, and the senders send again.
 *
 * Samples (sampler.h) go the same way and are never answered: what the store does not take is dropped and
 * counted as refused. They wait up to INGEST_SAMPLES_MS (watched: INGEST_WATCHED_MS) for a group that is
 * synced anyway, so that a reading a second costs no sync of its own.
 *
 * Checkpoints: now and then, at the start of a segment, the ledger and what the owner keeps is written again,
 * a piece in each group, so that older segments are not needed at start and can give way (records.h,
 * store.h).
 *
 * No loop and no sockets here; answers go to the source. One thread. */
#ifndef GRIDLINE_GATEWAY_INGEST_H
#define GRIDLINE_GATEWAY_INGEST_H

#include "event/archived.h"
#include "event/batch.h"
#include "gateway/ledger.h"
#include "gateway/store.h"
#include "net/frame.h"
#include "net/subscribe.h"

enum {
    INGEST_DELAY_MS = 5,
    INGEST_SAMPLES_MS = 1000,
    INGEST_WATCHED_MS = 100,        /* the same while somebody waits for them */
    INGEST_GROUP_BYTES = 1 << 20,   /* a group of that size is committed at once, */
    INGEST_BATCH_BYTES = 16 << 20,  /* and one whose decoded batches hold that much */
    INGEST_GROUP_MAX = 24 << 20,    /* more is refused until the disk has caught up, */
    INGEST_BATCH_MAX = 64 << 20,    /* as is more of these */
    INGEST_ENTRIES_MAX = 128 << 10, /* and more blocks */
    INGEST_RETRY_MS = 1000,
    INGEST_STEP_BYTES = 256 << 10, /* of a checkpoint a group at least; and a quarter of the group */
    INGEST_COUNTS_S = 60           /* COUNTS of samples are journalled so often at most */
};

/* Who sent a block. Embedded in the session; after a refusal with a time to retry, blocks are left unread
 * until the one that was refused comes again: an acknowledgement covers everything before it, so none may be
 * taken out of order. */
struct ingest_source {
    void (*ack)(struct ingest_source *s, const struct frame_ack *ack);
    void (*refuse)(struct ingest_source *s, const struct frame_refuse *refuse);
    /* May it say that? A block with one event that it may not say is refused as a whole. NULL = anything. */
    bool (*may)(struct ingest_source *s, const struct event *e);
    bool may_keep;  /* it may ask the archive to keep events for longer than its rules say */
    bool is_own;    /* the gateway itself: only it gives orders to guards (access_says_orders) */
    bool is_behind; /* waits for that block: */
    struct frame_origin behind;
    uint64_t behind_seq;
};

/* What a sender is told with -EDQUOT. */
extern const char ingest_behind[];

struct ingest_options {
    /* Called with each batch once it is in the journal, in order, and where it is; NULL = not. on_group comes
     * behind those that were synced together, with the last record of that group. */
    void (*on_batch)(void *arg, const struct batch *b, struct position at);
    void (*on_group)(void *arg, uint64_t last);
    /* Is it to be kept by who reads the journal? What is not is refused for good, with that reason; the other
     * events of its block are taken. NULL = everything is. */
    enum archived_verdict (*judge)(void *arg, const struct event *e, int64_t now_ns);
    /* Called when the store begins to refuse (r < 0; -EDQUOT: as the archive is behind) and when it takes
     * again (r == 0). */
    void (*on_store)(void *arg, int r);
    /* So many records gave way at max_bytes before every cursor had passed them. Called each time; NULL =
     * not. */
    void (*on_forced)(void *arg, uint64_t records);
    /* A group is written, or has failed: who held back while ingest_is_crowded may go on. NULL = not. */
    void (*on_room)(void *arg);
    /* At start: the owner's records (ingest_record), in order, and what the journal has lost. A negative
     * result ends the start. NULL = not. */
    int (*on_restore)(void *arg, const struct journal_item *item);
    /* A checkpoint: the owner writes (ingest_record) what it keeps, from `from` on, about INGEST_STEP_BYTES
     * of it, and returns where to go on (`from` when there was no room for any), or 0 when that was all. It
     * begins with 0. NULL = it keeps nothing. */
    uint64_t (*on_checkpoint)(void *arg, uint64_t from);
    void *arg;
};

struct ingest;
/* Borrows ledger and store. NULL: no memory. */
struct ingest *ingest_create(struct ledger *ledger, struct store *store,
                             const struct ingest_options *options);
void ingest_destroy(struct ingest *in); /* NULL is fine; what is not committed is forgotten */
/* Once, before anything else: makes ledger (which is empty) and owner as they were, from the journal. */
int ingest_restore(struct ingest *in);

/* A BATCH's payload: 0, and the answer goes to source, now or at the commit. E_PROTO, E_DAMAGE, E_LIMIT,
 * E_VERSION: what it is can't be told, so the connection can't go on. -ENOMEM. */
int ingest_block(struct ingest *in, struct ingest_source *source, struct slice block);
/* Events without origin, from a decoder that filled ingest_builder: journalled or counted as refused, not
 * answered; each by itself is refused if source may not say it. -ENOMEM: they are gone. */
struct batch_builder *ingest_builder(struct ingest *in);
void ingest_note_trimmed(struct ingest *in, struct batch_trimmed trimmed); /* for the ledger */
int ingest_built(struct ingest *in, struct ingest_source *source);
/* A record of the owner's own, of a type that on_restore knows. -ENOBUFS, E_LIMIT, -ENOMEM: it is not
 * journalled; what was lost with a group that failed is made good by the next checkpoint. */
int ingest_record(struct ingest *in, enum store_type type, struct slice payload);
/* The sender's ledger. */
void ingest_counts(struct ingest *in, struct slice payload, const struct frame_counts *counts);
/* The sender said goodbye after its COUNTS. */
void ingest_end_epoch(struct ingest *in, const struct frame_origin *origin);
/* False: the last group could not be written. */
bool ingest_is_writing(const struct ingest *in);
/* False: a block would be refused for now. */
bool ingest_has_room(struct ingest *in);
/* A group is being written and the next is half full: whoever can keep what comes should, until on_room. */
bool ingest_is_crowded(struct ingest *in);
/* All of this origin up to the result is held. */
uint64_t ingest_held(struct ingest *in, const struct frame_origin *origin);
/* How many of these numbers are really there: the others were dropped by the sender, or refused for good. */
uint64_t ingest_held_count(const struct ingest *in, const struct frame_origin *origin);

/* The last record of the journal that is settled. */
uint64_t ingest_settled(const struct ingest *in);

bool ingest_is_pending(const struct ingest *in);
/* Does somebody wait for samples? Then they do not wait so long. */
void ingest_set_watched(struct ingest *in, bool is_watched);
/* In how many ms at most, counted from what came first, ingest_commit must be called; -1: nothing waits. */
int ingest_delay_ms(const struct ingest *in);
/* Hands the group over, now or when the one before it is done. */
void ingest_commit(struct ingest *in);
/* Readable: ingest_complete has something to do. */
int ingest_fd(const struct ingest *in);
/* If the group that was handed over is done: settles and answers. */
void ingest_complete(struct ingest *in);
/* Commits everything and waits for it: at the end, and in tests. */
void ingest_drain(struct ingest *in);
/* The source goes away: its blocks stay in their groups, without an answer. */
void ingest_forget(struct ingest *in, const struct ingest_source *source);

#endif
