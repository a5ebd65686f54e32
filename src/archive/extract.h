/* SPDX-License-Identifier: Apache-2.0 */
/* extract.h - events out of a view, as they went in: export, and whoever reads an archive as a stream.
 *
 * In order of time over all streams, with bounded memory: time is cut into windows whose rows fit, by what
 * the directories of blobs say; a window's chunks are decoded and merged. A chunk that reaches over several
 * windows is decoded in each.
 *
 *     r = extract_open(view, &spec, &x);
 *     while ((r = extract_next(x, &batch)) > 0) ...
 *     extract_close(x);
 *
 * One thread, the view's. */
#ifndef GRIDLINE_ARCHIVE_EXTRACT_H
#define GRIDLINE_ARCHIVE_EXTRACT_H

#include "archive/sql.h"
#include "event/select.h"

enum { EXTRACT_WINDOW_BYTES = 32 << 20 };

struct extract_spec {
    int64_t from_ns, to_ns;          /* both are in */
    struct selector *selector;       /* which events; borrowed. NULL = all */
    const struct sql_access *access; /* what may be seen: fields that may not are left out. NULL = all */
    /* Batches carry producer, epoch, first number and clock. Those of one producer then stand together within
     * a window: the order of time is that of windows. Without, batches have no origin and all is in order. */
    bool with_origins;
    size_t window_bytes; /* memory of a window; 0 = EXTRACT_WINDOW_BYTES */
    /* Which tables; NULL = all. And: go on? Asked before each chunk; what is negative ends it. NULL = always.
     */
    bool (*wants)(void *arg, const struct table_def *t);
    int (*check)(void *arg);
    void *arg;
};

struct extract;
/* Borrows the view. -ENOMEM. */
int extract_open(struct view *v, const struct extract_spec *spec, struct extract **out);
void extract_close(struct extract *x); /* NULL is fine */
/* 1 with the next events, borrowed until the next call; 0 at the end; -ENOMEM, -EIO... What is damaged is
 * left out and counted. Events that come at one and the same nanosecond are in no order. */
int extract_next(struct extract *x, const struct batch **out);
struct scan_loss extract_damaged(const struct extract *x);
/* Is the stream one that the archive makes of others (archive_append_derived)? Its rows are no events. */
bool extract_is_derived(const struct view *v, const struct stream_key_parts *parts);
/* How far it has come: up to this time everything has been given. For progress. */
int64_t extract_at_ns(const struct extract *x);

#endif
