/* SPDX-License-Identifier: Apache-2.0 */
/* view.h - an archive as it is at one moment, for reading: what is on disk and the newest rows in memory
 * alike, each row once. Taken in microseconds, on any thread; then belongs to the thread that took it. It
 * sees whole records only, and holds nobody up; what it has open stays readable although retention unlinks
 * it.
 *
 * A scan gives the chunks of one event name that may have rows of interest; each is decoded only if asked
 * (scan_read), and only the columns asked. Chunks of one stream come in order of where they are kept, not of
 * time, and may overlap.
 *
 *     struct scan_spec spec = {.name = name, .from_ns = from, .to_ns = to};
 *     int r = scan_open(view, &spec, &scan);
 *     while ((r = scan_next(scan, &chunk)) > 0)
 *         if (... chunk.summaries do not answer it ...)
 *             r = scan_read(scan, BLOB_TIMES, want, n, &rows); */
#ifndef GRIDLINE_ARCHIVE_VIEW_H
#define GRIDLINE_ARCHIVE_VIEW_H

#include "archive/archive.h"
#include "archive/unflushed.h"

struct view_reader; /* a thread's connections and caches; views are taken by it */
/* Of an archive in this process, or (a NULL) of the folder dir, whoever writes it, without what is in that
 * one's memory. */
int view_reader_create(struct archive *a, const char *dir, size_t cache_bytes, struct view_reader **out,
                       struct diag *why);
void view_reader_destroy(struct view_reader *r); /* NULL is fine; after its views */

struct view;
int view_take(struct view_reader *r, struct view **out);
/* The same with the newest rows of these tables only: others must not be scanned. Costs what these have. */
int view_take_of(struct view_reader *r, const struct slice *names, size_t n, struct view **out);
void view_release(struct view *v); /* NULL is fine */

/* The tables there are, by fields (fields.h), as of the view, in order of their names; borrowed from the view. */
size_t view_tables(const struct view *v);
const struct table_def *view_table_at(const struct view *v, size_t i);
const struct table_def *view_table(const struct view *v, struct slice name); /* NULL: none */
/* The same as they are stored: a column for each name and type. */
const struct table_def *view_stored_table_at(const struct view *v, size_t i);
const struct table_def *view_stored_table(const struct view *v, struct slice name);
size_t view_baselines(const struct view *v);
struct baseline view_baseline_at(const struct view *v, size_t i);
/* The span of every partition, oldest first. */
size_t view_partitions(const struct view *v);
struct partition_span view_partition_at(const struct view *v, size_t i);

/* What is known of rows that the view does not have (missing.h): deleted by retention; in the memory of
 * another process that writes the folder; received after this time and not appended yet (UTC, 0 = none). */
size_t view_gone(const struct view *v);
struct deleted view_gone_at(const struct view *v, size_t i);
size_t view_unflushed(const struct view *v);
struct unflushed view_unflushed_at(const struct view *v, size_t i);
int64_t view_behind(const struct view *v);

struct counts_reader;
struct scan_spec {
    struct slice name;                 /* event name; "" = all of them, blob by blob */
    int64_t from_ns, to_ns;            /* both ends are in */
    int64_t step_ns;                   /* 0: raw rows; else the partitions of that tier (and no heads) */
    const struct partition_span *only; /* one partition (and no heads); NULL = all */
    bool heads_only;                   /* leave out what is on disk */
    bool is_stored;                    /* columns as they are stored, one a type; else one a field (fields.h) */
    /* Which streams: false, leave it out. NULL = all. parts: of the key, good for the call. Asked once a
     * stream and blob; also decides what an asker may see. */
    bool (*wants)(void *arg, struct slice key, const struct stream_key_parts *parts);
    /* Which chunks, by what is known of them: false, leave it out. NULL = all. */
    bool (*may_have)(void *arg, const struct table_def *table, const struct blob_chunk *chunk);
    void *arg;
    /* Chunks in which no row can have that text in that column are left out (column UINT16_MAX: not asked).
     */
    uint16_t id_column;
    struct slice id;
    /* Takes what is counted of a blob's rows (blob_counts.h), before anything else is read of it, and sets
     * the bits in done, of the directory's order, of chunks that need not be given. NULL = not asked; of one
     * event name only. An error ends the scan. */
    int (*take_counts)(void *arg, struct counts_reader *counts, uint64_t *done);
};

struct scan_chunk {
    const struct blob_chunk *chunk; /* of a head, too: made up, with summaries; good until the next */
    const struct table_def *table;  /* the view's, whose ids are those of the columns here; a tier's own */
    bool is_head;
    uint64_t place; /* which chunk it is: the same in every scan of the view, a hash of where it is kept */
};

struct scan;
int scan_open(struct view *v, const struct scan_spec *spec, struct scan **out); /* borrows spec's slices */
void scan_close(struct scan *s);                                                /* NULL is fine */
/* 1, or 0 at the end, or an error. What is damaged is left out and counted (scan_damaged). */
int scan_next(struct scan *s, struct scan_chunk *out);
/* Rows of the chunk given last: as blob_chunk_read; good until the next scan_next. Companions of fields (fields.h) can be
 * wanted, too. Rows outside of [from_ns, to_ns] are there, too. E_DAMAGE: it was counted, go on with the next. */
int scan_read(struct scan *s, unsigned what, const uint16_t *want, size_t n_want, struct rows *out);
/* Rows known to be lost to this scan; chunks of which not even that is known. */
struct scan_loss {
    uint64_t rows, chunks, blobs;
};
struct scan_loss scan_damaged(const struct scan *s);

#endif
