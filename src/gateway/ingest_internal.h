/* SPDX-License-Identifier: Apache-2.0 */
/* ingest_internal.h - what ingest.c, sampler.c, checkpoint.c and restore.c share. Nobody else includes it. */
#ifndef GRIDLINE_GATEWAY_INGEST_INTERNAL_H
#define GRIDLINE_GATEWAY_INGEST_INTERNAL_H

#include "event/block.h"
#include "event/samples.h"
#include "gateway/ingest.h"
#include "gateway/records.h"

/* A block in a group, or a batch of samples that somebody wants. */
struct pending {
    struct ingest_source *source; /* NULL: gone, or wants no answer */
    struct account *account;      /* stays while it has something queued; NULL: only the batch */
    uint64_t first, last;         /* as sent; 0, 0 without origin */
    bool is_kept;                 /* by its sender until it is acknowledged: what fails here comes again */
    uint32_t count, fresh;        /* events; of these new ones, appended */
    uint32_t bridged;             /* beside these: numbers of refused ones that count as held (ledger.h) */
    struct batch *batch;          /* for on_batch; NULL when nobody asks */
    uint32_t from, n;             /* which of its events: those that are new */
    struct position at;           /* where they are; the record counts from 0 in its group */
    struct batch_origin origin;   /* of samples, whose batch has many */
    bool is_samples;
};

/* What the store's group of the same turn means. */
struct turn {
    struct pending *entries;
    size_t n, cap;
    struct account **samplers; /* accounts of class samples with pending_rows of this turn */
    size_t n_samplers, cap_samplers;
    size_t batch_bytes; /* memory of the batches */
    size_t rows_from;   /* the first entry whose rows have no batch yet, or the next one */
    bool is_awaited;    /* some of it is not samples */
    bool has_records;   /* there is something in the store's group */
    uint32_t records;   /* how many, once it is handed over */
};

/* A checkpoint on its way. */
struct checkpoint {
    bool is_wanted; /* begin one with the next segment, whatever the size of the last */
    bool is_active;
    bool has_owner; /* the owner's part is not complete */
    bool is_asking; /* the owner writes its part: that is inside of a commit */
    uint64_t id, owner_from;
    uint64_t began; /* store_written when it, or the last one, began */
    uint64_t bytes; /* of it so far, or of the last one */
};

struct ingest {
    struct ledger *ledger;
    struct store *store;
    struct ingest_options options;
    struct registry *registry;
    struct batch_builder *check;   /* for blocks */
    struct batch_builder *builder; /* for lines */
    struct batch_builder *rows; /* of samples, of many packets: those of this turn that have no batch yet */
    struct block_writer *writer;
    struct strbuf scratch;
    uint8_t *verdicts; /* enum archived_verdict, of the events of the block at hand */
    size_t max_verdicts;
    struct turn turns[LEDGER_GROUPS];
    int filling;       /* the turn whose group fills; the other one's is being written, if one is */
    bool is_flying;    /* one is */
    bool wants_commit; /* as soon as that is done */
    bool is_failing;   /* the store refuses; is_behind: as the archive is */
    bool is_behind;
    bool is_watched;
    uint64_t forced; /* by this process, as it was said last */
    struct checkpoint checkpoint;
    /* Samples (sampler.c): */
    struct samples_scratch *samples;
    uint32_t packet_record, packets; /* in the group: the record of the last packet; packets in it */
    uint32_t segment;                /* what the next three are of */
    uint32_t n_samplers;             /* numbers given */
    uint32_t n_schemas;
    struct map schemas; /* struct schema * -> struct announced_schema */
};

static inline struct turn *ingest_turn(struct ingest *in)
{
    return &in->turns[in->filling];
}

/* Before what is appended: the group has begun, perhaps with a new segment and a checkpoint. */
void ingest_begin(struct ingest *in);
int ingest_append(struct ingest *in, enum store_type type, struct slice payload);
/* Tells the owner when the store's state changes. */
void ingest_note_store(struct ingest *in, int r);
/* Is there room for more in memory (-ENOBUFS), and in the journal (-EDQUOT)? */
int ingest_check_room(struct ingest *in, enum store_room room);
/* rows of the account, which has class samples, wait now; reserve made room for it (-ENOMEM). */
int ingest_reserve_rows(struct ingest *in);
void ingest_queue_rows(struct ingest *in, struct account *a, uint32_t rows);
/* The same of n events in in->rows, a packet's. false: no memory; nobody is told of them. */
bool ingest_queue_packet(struct ingest *in, uint32_t from, uint32_t n, const struct batch_origin *origin,
                         struct position at);
/* What is in in->rows becomes a batch. */
void ingest_finish_rows(struct ingest *in);
/* Keeps n events of b for on_batch, from number `from` on. Takes the reference, also on failure: then nobody
 * is told of them. */
void ingest_queue_batch(struct ingest *in, struct batch *b, uint32_t from, uint32_t n, struct position at);
/* Where the record is that was appended last: in the group. */
struct position ingest_last_record(const struct ingest *in);
void ingest_commit_if_full(struct ingest *in);
/* What becomes of that event, which has come now. */
static inline enum archived_verdict ingest_judge(const struct ingest *in, const struct event *e,
                                                 int64_t now_ns)
{
    return in->options.judge ? in->options.judge(in->options.arg, e, now_ns) : ARCHIVED_KEPT;
}
static inline uint64_t *ingest_denied(struct account *a, enum archived_verdict v)
{
    return v == ARCHIVED_TOO_OLD ? &a->too_old : &a->too_new;
}

/* sampler.c: a new segment; numbers start again. */
void sampler_new_segment(struct ingest *in);

/* checkpoint.c */
void checkpoint_begin(struct ingest *in);  /* with a new segment, if one is due */
void checkpoint_step(struct ingest *in);   /* before a group is handed over */
void checkpoint_abort(struct ingest *in);  /* a group failed */
void checkpoint_totals(struct ingest *in); /* they have changed */

static inline bool ingest_is_none(const struct frame_origin *o)
{
    static const struct frame_origin none;
    return memcmp(o->producer, none.producer, sizeof none.producer) == 0;
}

static inline struct frame_origin ingest_origin(const struct batch_origin *o)
{
    struct frame_origin f = {.epoch = o->epoch};
    memcpy(f.producer, o->producer, sizeof f.producer);
    return f;
}

#endif
