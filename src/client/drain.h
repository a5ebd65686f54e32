/* SPDX-License-Identifier: Apache-2.0 */
/* drain.h - takes events out of the rings, makes blocks of them and gives these to the destinations. All
 * calls under the handle's lock.
 *
 * Ledger: taken = in_block + handed over (each destination answers for those) + dropped, and what is still in
 * rings. */
#ifndef GRIDLINE_CLIENT_DRAIN_H
#define GRIDLINE_CLIENT_DRAIN_H

#include "base/strbuf.h"
#include "client/dest.h"
#include "client/global.h"
#include "client/ticks.h"
#include "event/schema.h"

struct block_writer;
struct gridline;
struct site_plan;

struct drain {
    struct block_writer *writer;
    struct registry *registry; /* schemas of events that describe themselves */
    struct strbuf out;         /* the block being handed over */
    struct tick_map clock; /* to global time */
    struct global global;
    uint64_t next_seq;
    uint64_t in_block;        /* events in the unfinished block */
    int64_t block_since_ns;   /* CLOCK_MONOTONIC, when the oldest event of the block was added */
    struct site_plan **plans; /* by site number; NULL = not met yet */
    size_t n_plans;
    struct named_value *consts; /* fields of every event; their text is the handle's */
    size_t n_consts;
    uint64_t dropped[DROP_REASONS];  /* here, and in rings that are gone */
    uint64_t reported[DROP_REASONS]; /* of all drops, those that an event has told of */
    uint64_t own_reports;            /* events written by the last report: they may be dropped themselves */
    int64_t report_at_ns;
    /* work space of one event */
    struct value values[EVENT_FIELDS_MAX];
    struct named_value named[EVENT_FIELDS_MAX];
    uint16_t index[EVENT_FIELDS_MAX];
};

int drain_init(struct drain *d);
void drain_fini(struct drain *d);
/* The constant fields have changed. */
void drain_forget_plans(struct drain *d);
/* In the child after fork: what is in the block is the parent's. */
void drain_after_fork(struct drain *d);

/* Empties all rings into blocks. Frees the rings of threads that have ended. */
void drain_rings(struct gridline *g);
/* Hands the unfinished block over. */
void drain_flush(struct gridline *g);
/* Writes gridline.dropped events for drops since the last time, at most one a second and reason. */
void drain_report(struct gridline *g, int64_t now_mono_ns);
uint64_t drain_in_block(const struct drain *d);
/* All drops that no destination answers for. */
void drain_dropped(struct gridline *g, uint64_t out[DROP_REASONS]);

#endif
