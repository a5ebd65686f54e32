/* SPDX-License-Identifier: Apache-2.0 */
/* tile_internal.h - what the kinds of tiles share. */
#ifndef GRIDLINE_ARCHIVE_TILE_INTERNAL_H
#define GRIDLINE_ARCHIVE_TILE_INTERNAL_H

#include "archive/lifeline_ids.h"
#include "archive/tile.h"
#include "base/arena.h"
#include "base/map.h"
#include "event/predicate.h"

/* A tile being made. */
struct tile_job {
    struct view *v;
    const struct sql_access *access; /* NULL = everything */
    struct tile_request q;
    const _Atomic bool *is_cancelled; /* NULL = never */
    int64_t until_ns;                 /* monotonic; 0 = no limit */
    struct predicate *where;          /* NULL = all */
    struct tile_writer w;
    bool has_head;   /* a part of it is not on disk yet */
    bool heads_only; /* of tile_scan: leave out what is on disk */
    struct arena arena;
    struct diag *why;
};

/* What the asker may see. */
bool tile_may_table(const struct tile_job *j, struct slice event);
bool tile_may_field(const struct tile_job *j, struct slice event, struct slice host, struct slice field);
/* All of an event, on whatever host: what is counted without them needs it. */
bool tile_may_everywhere(const struct tile_job *j, struct slice event);

/* 0, or why to stop: -ECANCELED, -ETIMEDOUT. Asked at each chunk. */
int tile_go_on(const struct tile_job *j);

/* Does the request want that stream, and may its asker see it? */
bool tile_wants(const struct tile_job *j, struct slice event, const struct stream_key_parts *parts);
/* The column by whose filter chunks without the id asked can be left out; UINT16_MAX: none, or no id asked.
 */
uint16_t tile_id_column(const struct tile_job *j, const struct table_def *table, const struct id_set *ids);

/* Chunks of a table in [from, last] that the request wants; fn may scan_read. Damage is counted in the head.
 */
typedef int tile_chunk_fn(void *arg, struct scan *s, const struct scan_chunk *c);
struct tile_scan {
    const struct table_def *table;
    int64_t from_ns, last_ns;
    bool of_derived;    /* rows that lifeline.h has made: whatever host or key */
    uint16_t id_column; /* UINT16_MAX = not asked */
    tile_chunk_fn *fn;
    /* Takes counts (scan_spec). NULL = rows are wanted. */
    int (*take_counts)(void *arg, struct counts_reader *counts, uint64_t *done);
    void *arg;
};
int tile_scan(struct tile_job *j, const struct tile_scan *s);

/* Does a scan find more rows than that? Counted by what is known of chunks, about, until there are as many.
 */
struct tile_estimate {
    int64_t from_ns, last_ns;
    uint64_t rows, max;
};
/* A tile_chunk_fn, arg a struct tile_estimate. E_LIMIT: more than max. */
int tile_estimate_chunk(void *arg, struct scan *s, const struct scan_chunk *c);

/* Rows as events, for where. */
struct tile_filter {
    struct tile_job *j;
    struct schema *schema;
    struct value *values;
    bool *is_hidden;
    struct slice host;
};
/* j->where NULL: passes all. */
int tile_filter_init(struct tile_filter *f, struct tile_job *j, const struct table_def *table);
void tile_filter_fini(struct tile_filter *f);
void tile_filter_stream(struct tile_filter *f, struct slice key);
bool tile_filter_passes(struct tile_filter *f, struct slice key, const struct rows *rows, uint32_t row);

/* "host prog name key=value,...". */
void tile_stream_name(struct strbuf *out, struct slice key);
static inline int64_t tile_bin_ns(const struct tile_job *j)
{
    return INT64_C(1) << (2 * j->q.level);
}
/* Of a time within the tile: 0 to 255. */
static inline unsigned tile_bin(const struct tile_job *j, int64_t time_ns)
{
    return (unsigned)((uint64_t)(time_ns - j->q.from_ns) >> (2 * j->q.level));
}
static inline double tile_number(struct value v)
{
    return v.type == VALUE_INT ? (double)v.i : v.type == VALUE_FLOAT ? v.f : (double)v.u;
}

int tile_series(struct tile_job *j);
int tile_points(struct tile_job *j);
int tile_lifeline(struct tile_job *j);
int tile_edges(struct tile_job *j);

#endif
