/* SPDX-License-Identifier: Apache-2.0 */
/* lifeline.h - hops of lifelines, counted as rows are sealed: what tiles of many lifelines are made of.
 *
 * The events of one id (lifeline_ids.h) in order of time are its lifeline; two that follow each other are a
 * hop: a pair of event names and a latency. At each flush a lifeline joins the events of the flush with the
 * last event that it remembers of each id, and derives rows (archive_derive_ops) that are kept as any others,
 * in the partition and the commit of the event that ends the hop, and counted there once:
 *
 *   lifeline.pair     per pair and bin of time (a pyramid: lifeline_pyramid.h): how many, errors, a histogram
 *                     of latencies. hop_from is missing for the first event of an id. Each event that has an
 *                     id is counted once by the bins that serve one zoom.
 *   lifeline.edge     the same per pair of places (the key field target, or the host), of hops between two.
 *   lifeline.outlier  the slowest hops and the errors of each pair, with id, host and time.
 *   lifeline.lost     what is not in those: rows only where there is something.
 *
 * An event that is older than the last one known of its id when it comes is late: it is counted as such
 * (late = true, without hop_from), and the hop that it would have divided stays as it is. Left out and
 * counted are ids longer than ID_TEXT_MAX. When more than options.open_max ids are open, those whose last
 * event is oldest are forgotten, and counted; after a restart all are: their next event is a first one. What
 * is exact in any case is what is made of the rows themselves (tile.h).
 *
 * On the archive's writer thread. Memory during a flush: about 140 bytes an event with an id; always: 48 to
 * 96 an open id. */
#ifndef GRIDLINE_ARCHIVE_LIFELINE_H
#define GRIDLINE_ARCHIVE_LIFELINE_H

#include "archive/archive.h"
#include "archive/lifeline_ids.h"

struct lifeline_options {
    const char *ids;      /* declarations; NULL = "id" */
    int64_t partition_ns; /* as archive_options; 0 = a day */
    size_t open_max;      /* ids remembered from flush to flush; 0 = 262,144 */
};

struct lifeline_counts {
    uint64_t events; /* seen with an id, once a declaration: = hops + firsts + late */
    uint64_t hops;
    uint64_t firsts;    /* of an id that was not known */
    uint64_t late;      /* older than the last known of their id */
    uint64_t too_long;  /* not in events: the id is */
    uint64_t no_memory; /* not in events */
    uint64_t forgotten; /* ids that were open */
    uint64_t derived;   /* rows made */
    size_t open;        /* ids remembered */
};

struct lifeline;
/* *why says what is wrong with ids. E_PROTO, E_LIMIT, -ENOMEM. */
int lifeline_create(const struct lifeline_options *o, struct lifeline **out, struct diag *why);
void lifeline_destroy(struct lifeline *l); /* NULL is fine */
/* The same, and a derives by it from now on; destroy it after a is closed. */
int lifeline_follow(struct archive *a, const struct lifeline_options *o, struct lifeline **out,
                    struct diag *why);
/* For archive_on_flush; arg is l. */
struct archive_derive_ops lifeline_ops(struct lifeline *l);
void lifeline_counts(const struct lifeline *l, struct lifeline_counts *out);
/* Fields that chunks should be looked up by (blob_options); borrowed. */
const char *const *lifeline_id_fields(const struct lifeline *l, size_t *n);

#endif
