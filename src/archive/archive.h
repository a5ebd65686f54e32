/* SPDX-License-Identifier: Apache-2.0 */
/* archive.h - every event a row, every event name a table, on disk.
 *
 * Batches are appended to heads, the newest rows of each stream in memory (head.h), and sealed from there
 * into blobs of partitions (partition.h): all heads at once, when they hold options.head_bytes or the oldest
 * row is options.flush_ns old. What is in heads only is not lost by a crash: it is read again from its source
 * (the gateway's journal, an imported file), from archive_cursor on. A row is visible to queries as soon as
 * its record is appended.
 *
 * Threads: one writer calls everything of the first part; any number of readers take views (view.h).
 *
 * Order of a flush: partitions commit one by one, each with its mark (source, record), and what is in them
 * gives way in the heads; then the catalogue, with the cursor. Whatever a crash leaves undone of that is done
 * again by reading the source from its cursor: rows that a partition's mark covers are left out. */
#ifndef GRIDLINE_ARCHIVE_ARCHIVE_H
#define GRIDLINE_ARCHIVE_ARCHIVE_H

#include "archive/catalog.h"
#include "archive/partition.h"
#include "event/batch.h"
#include "event/stream_key.h"

#define ARCHIVE_PARTITION_NS (INT64_C(86400) * 1000000000)
/* A time so far ahead of ours is no time: it would make partitions for ever. */
#define ARCHIVE_AHEAD_NS (INT64_C(86400) * 1000000000)

struct archive_options {
    const char *dir;      /* made where it is not there */
    int64_t partition_ns; /* 0 = a day */
    size_t head_bytes;    /* 0 = 24 MiB */
    int64_t flush_ns;     /* 0 = 10 minutes */
    uint32_t streams_max; /* of one producer: beyond it rows go to an overflow stream. 0 = 10,000 */
    const char *ids;      /* declarations of ids (lifeline_ids.h); NULL = "id" */
    int zstd_level;       /* 0 = the default */
};

/* What has become of rows: taken = kept + too_old + too_new + refused + again. */
struct archive_counts {
    uint64_t taken;
    uint64_t kept;     /* in heads or on disk */
    uint64_t again;    /* read again, and already there */
    uint64_t too_old;  /* older than anything that is kept */
    uint64_t too_new;  /* further ahead of now than ARCHIVE_AHEAD_NS */
    uint64_t refused;  /* limits of a table: not even the overflow stream could take it */
    uint64_t overflow; /* of kept: those in overflow streams */
    uint64_t shed;     /* of kept: rows of partitions that gave way to a full disk or to the size limit */
    uint64_t damaged;  /* of kept: rows known to be lost by damage */
    uint64_t flushes, blobs, bytes; /* written */
    size_t head_rows, head_bytes, streams;
};

struct archive;
/* Recovers by itself what a crash has left. *why says what is wrong. */
int archive_open(const struct archive_options *o, struct archive **out, struct diag *why);
void archive_close(struct archive *a); /* NULL is fine; heads are not flushed */

/* Rows of producers with more than options.streams_max streams go to one overflow stream a (host, prog,
 * name), whose key has `overflow` = true and no other field; their key fields are columns of its rows.
 *
 * Events of a batch with origin.keep_ns are taken however old they are, and stay until then: their event name
 * is kept in the partitions they come into (partition_keep).
 *
 * A record of a source, whole: all its batches one after the other, then archive_done. Records come in order;
 * those up to archive_cursor need not come again. -ENOMEM, -ENOSPC, -EIO: nothing is lost; the same batch
 * comes again, later. Cost: a look-up a stream and run, 8 bytes a value. */
int archive_append(struct archive *a, const struct archive_source *s, uint64_t record, const struct batch *b);
/* The same of some of its events: places in index. */
int archive_append_some(struct archive *a, const struct archive_source *s, uint64_t record,
                        const struct batch *b, const uint32_t *index, size_t n);
int archive_done(struct archive *a, const struct archive_source *s, uint64_t record);
/* Records first..last of the source, or count events of them, can't be read, and why: a row of the archive's
 * own table `archive.lost`, dated when it was found. Errors as archive_append: nothing is kept, and it comes again. */
struct archive_loss {
    uint64_t first, last;
    uint64_t count; /* events; 0 = all of these records, nobody knows how many */
    struct slice why;
};
int archive_lost(struct archive *a, const struct archive_source *s, const struct archive_loss *loss);
/* The sums of that table: events, and records of which the events are not known. */
int archive_lost_sums(struct archive *a, uint64_t *events, uint64_t *records);

/* Flushes if it is time to. now: monotonic. -ESTALE: as archive_flush; -ENOSPC and others: it is tried again
 * by itself in a while. */
int archive_tick(struct archive *a, int64_t now_ns, int64_t utc_ns);
/* The next archive_tick flushes, unless a flush failed a moment ago: the source can't keep more. */
void archive_hurry(struct archive *a);
/* Seals all heads: on disk when it returns 0. Not in the middle of a record: -EBUSY. -ENOSPC: nothing has
 * changed; make room (retain.h), or later. -ESTALE: after an I/O error nobody knows what is on disk, or a
 * damaged partition was made again (catalog_trouble_at has more); so the heads were emptied: every source has
 * to be read again from archive_cursor on. */
int archive_flush(struct archive *a);
/* Up to this record of the source everything is on disk. */
uint64_t archive_cursor(const struct archive *a, const struct archive_source *s);
void archive_counts(const struct archive *a, struct archive_counts *out);
struct catalog *archive_catalog(struct archive *a); /* the writer's */
/* As catalog_set_baseline and catalog_remove_baseline; on disk, and seen by views from now on, when it
 * returns 0.
 */
int archive_set_baseline(struct archive *a, const struct baseline *b);
int archive_remove_baseline(struct archive *a, struct slice name);
/* The class of a field by hand (event/class.h), for what is kept already, too; on disk when it returns 0. -ENOENT: no such
 * event or field. */
int archive_set_class(struct archive *a, struct slice event, struct slice field, uint8_t class);
/* Any thread: what is known of the class of a field, and a number that changes when any class does. */
bool archive_get_class(struct archive *a, struct slice event, struct slice field, struct class_state *out);
uint64_t archive_classes_generation(struct archive *a);
const char *archive_dir(const struct archive *a);
/* The writer's connection to that partition, made or opened; borrowed. NULL: *r says why. For whoever else
 * writes on the writer's thread: tiers, merging, retention. archive_forget closes it, before it is unlinked.
 */
struct partition *archive_partition(struct archive *a, const struct partition_span *span, int *r);
void archive_forget(struct archive *a, const struct partition_span *span);
/* The catalogue's baselines, or what it says is gone, have changed and are committed: views see it from now
 * on. */
void archive_baselines_changed(struct archive *a);
/* Blobs of a generation beyond this must not be merged, as a view that is in use does not see all of them. */
uint64_t archive_merge_limit(struct archive *a);
/* Rows that are gone from what is kept: with a partition that gave way, or by damage. */
void archive_count_shed(struct archive *a, uint64_t rows);
void archive_count_damaged(struct archive *a, uint64_t rows);
/* Up to this time nothing is kept any more: older rows are refused as too old. */
void archive_set_floor(struct archive *a, int64_t time_ns);
/* What was received up to this time (UTC) has been appended. When that is more than a moment ago, answers say
 * so: views have the time (view_behind). Never called: nobody waits for anything. */
void archive_set_caught_up(struct archive *a, int64_t utc_ns);
/* Rows older than rules (retain.h) keep them are refused as too old, too; borrowed. For who writes without a
 * gateway, which refuses them before they come here. NULL = none. */
struct retain_rules;
void archive_set_rules(struct archive *a, const struct retain_rules *rules);
/* Is it too old by these, as of the last tick? */
bool archive_is_too_old(const struct archive *a, const struct event *e);
int64_t archive_floor(const struct archive *a);
/* Who has overflow streams: for each producer with such rows since the start. */
void archive_each_overflow(struct archive *a,
                           void (*fn)(void *arg, const uint8_t producer[16], uint32_t streams, uint64_t rows),
                           void *arg);

/* Rows that are made of others and kept beside them (lifelines: lifeline.h). On the writer's thread, at each
 * flush, before blobs are made: for each partition `rows` once for every chunk, of one stream; then `derive`
 * until it gives no more; `end` last. Derived rows are appended to heads of their own, become blobs of the
 * same partition, and so are in its commit, under the same marks: what is read again after a crash is derived
 * again, and only that. They are not shown in their turn, and not counted as taken. */
struct archive_derive_ops {
    /* table, key and rows stay as they are until `end`. */
    void (*rows)(void *arg, const struct table_def *table, struct slice key, const struct rows *rows);
    /* 1: *out is a batch, an owned reference; all its events have a time of this partition; ask again. 0: no
     * more. -ENOMEM: there is a flush without what is missing, which the deriver counts. */
    int (*derive)(void *arg, struct batch **out);
    /* is_done false: the flush of this partition has failed, nothing of it is kept; the same rows are shown
     * again by the next. */
    void (*end)(void *arg, bool is_done);
    void *arg;
};
/* ops is copied. At most one; NULL = none. */
void archive_on_flush(struct archive *a, const struct archive_derive_ops *ops);

#endif
