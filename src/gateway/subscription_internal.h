/* SPDX-License-Identifier: Apache-2.0 */
/* subscription_internal.h - what subscription.c (who, and when), selection.c (which events) and
 * subscription_queue.c (what waits) share. Nobody else includes it. */
#ifndef GRIDLINE_GATEWAY_SUBSCRIPTION_INTERNAL_H
#define GRIDLINE_GATEWAY_SUBSCRIPTION_INTERNAL_H

#include "base/arena.h"
#include "gateway/replay.h"
#include "gateway/subscription.h"

/* The same events for all who asked for the same. */
struct selection {
    struct selection *next, **at;
    struct selector *selector;
    struct access_view *view; /* NULL = everything */
    char *key; /* the texts of its spec; NULL: it remembers events, and is one subscription's */
    size_t key_n;
    struct subscription *first;
    uint32_t live[CHUNK_FORMATS]; /* subscriptions that get what comes now */
    uint32_t n_live;
    uint64_t seen, passed; /* events that came while somebody was live */
};

/* What waits: a chunk, or a gap in the journal. */
struct waiting {
    struct chunk *chunk;
    struct subscription_gap *gap;
};

struct subscription {
    struct subscriptions *all;
    struct subscriber *subscriber;
    struct subscription *next;                      /* of the subscriber */
    struct subscription *next_same, *previous_same; /* of the selection */
    struct subscription *next_ready;                /* with something to send at the next flush */
    bool is_ready;
    uint32_t id;
    struct selection *selection;
    char *texts; /* events, hosts, where: these three point into it */
    struct slice events, hosts, where;
    enum chunk_format format;
    int64_t period_ns;
    struct cursor_mark *durable; /* NULL: it is not */

    struct waiting *ring; /* cap is a power of two */
    size_t cap, head, n;
    size_t bytes, max_bytes;
    struct subscription_gap dropped; /* before what waits; lost 0 = nothing was */
    struct position position;        /* of what was given last */
    uint64_t told;                   /* the record that POSITION last said, or the subscriber knows of */
    uint64_t given, lost;
    uint64_t seen, passed;           /* while it was replaying */
    uint64_t seen_from, passed_from; /* the selection's, when it went live */

    struct replay_reader *reader; /* NULL: it is live */
    bool is_asked;
    struct position from; /* what replay gives up to here was given before */
};

struct subscriptions {
    struct subscriptions_options options;
    struct selection *selections;
    struct subscription *ready;
    struct chunk_maker *maker;
    struct replay *replay;
    size_t n;
    uint64_t settled;  /* everything up to this record was given to who is live */
    uint64_t eventful; /* the last record with events */
    int64_t told_ns;
    struct {
        uint64_t record;
        int64_t utc_ns;
    } came[256]; /* when records came: one a tick, every second one left out whenever it is full */
    size_t n_came;
    uint32_t came_every, came_skipped; /* ticks for one of them, and since the last */
    /* Work space for a batch: */
    uint32_t *index, *places;
    struct event *views;
    size_t room;
    struct arena hidden; /* values without the hidden ones */
};

/* selection.c */
struct selection *selection_acquire(struct subscriptions *all, const struct select_spec *spec,
                                    struct access_view *view, int *error, struct diag *why); /* takes view */
void selection_release(struct subscriptions *all, struct selection *s); /* if nobody has it any more */
/* The events of b that pass: places in all->places, and *views if they are not seen as they are. */
size_t selection_run(struct subscriptions *all, struct selection *s, const struct batch *b,
                     const struct event **views);

/* subscription_queue.c */
void queue_init(struct subscription *s, size_t max_bytes);
void queue_fini(struct subscription *s);
/* Takes the reference. */
void queue_chunk(struct subscription *s, struct chunk *c);
void queue_gap(struct subscription *s, const struct subscription_gap *gap); /* in the journal */
/* Events that could not even be encoded. */
void queue_lose(struct subscription *s, uint64_t n, struct position at);
void queue_push(struct subscription *s); /* sends what it can */

/* subscription.c: a durable one whose queue is full goes on from the journal. */
void subscription_fall_back(struct subscription *s);
void subscription_ask_more(struct subscription *s);

#endif
