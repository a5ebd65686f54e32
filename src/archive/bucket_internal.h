/* SPDX-License-Identifier: Apache-2.0 */
/* bucket_internal.h - what the files of the fold share; nobody else includes it.
 *
 *   bucket.c        what is asked, the scans, the result
 *   bucket_plan.c   what to look at: raw rows here, a tier there
 *   bucket_chunk.c  a chunk of raw rows into cells
 *   bucket_tier.c   a chunk of a tier's rows into cells
 *   bucket_cells.c  cells
 *   bucket_where.c  the condition */
#ifndef GRIDLINE_ARCHIVE_BUCKET_INTERNAL_H
#define GRIDLINE_ARCHIVE_BUCKET_INTERNAL_H

#include "archive/bucket.h"
#include "archive/bucket_cells.h"
#include "archive/tier_columns.h"

/* A part of the range, at one resolution. */
struct bucket_part {
    int64_t from_ns, to_ns;          /* [from, to) */
    int64_t tier_ns;                 /* 0 = raw */
    struct partition_span partition; /* of a tier */
};

struct bucket_plan {
    struct bucket_part *parts; /* owned: mem_free */
    size_t n, max;
};
/* Are there tiers in the range at all? */
bool bucket_has_tiers(const struct view *v, const struct bucket_spec *spec);
/* The parts for one event name, in no order. E_PROTO: a condition, and nothing but tiers to ask. *out is
 * filled as far as it got on failure, too. */
int bucket_plan(struct view *v, const struct bucket_spec *spec, struct slice name, struct bucket_plan *out,
                struct diag *why);

/* A column that the condition is about: a name may have several, one a type. */
struct where_column {
    uint16_t id;
    struct where_test test;
};

/* An event name in the fold. */
struct fold_table {
    const struct bucket_table *asked;
    struct where_column where[VALUE_TYPES];
    uint32_t n_where;
    struct tier_columns tier; /* of the last tier's table that came */
};

struct bucket {
    struct bucket_spec spec;
    struct fold_table *tables; /* spec.n_tables of them */
    struct map by_name;
    struct fold_table *last;             /* that was asked for */
    struct where_test each[VALUE_TYPES]; /* the condition by type */
    struct cells cells;
    struct arena scratch; /* of the chunk at hand */
    uint64_t unsaid;      /* rows that go_on has not heard of */
    uint32_t chunks;      /* since it was asked last */
    struct scan_loss lost;
    const struct cell_stream *stream; /* where bucket_next is */
    const struct cell *cell;
};

/* Rows [from, to) of a chunk that are of one step. */
struct bucket_segment {
    int64_t step;
    uint32_t from, to;
};

/* The number of the step that a time is in, and when that begins. */
int64_t bucket_step_of(const struct bucket *b, int64_t time_ns);
int64_t bucket_step_begin(const struct bucket *b, int64_t step);
/* Rows of [from_ns, to_ns) step by step, steps without a row left out: n of them, in scratch. -ENOMEM. */
int bucket_segments(struct bucket *b, const struct rows *rows, const struct bucket_part *part,
                    struct bucket_segment **out, uint32_t *n);
/* Copies the last text of the column's rows before `to` into *s. E_LIMIT. */
int bucket_take_text(struct bucket *b, const struct column *c, uint32_t to, struct column_summary *s);
/* Is all of the chunk in the part, and in one step? */
bool bucket_is_in_one(const struct bucket *b, const struct blob_chunk *c, const struct bucket_part *part);

int bucket_add_chunk(struct bucket *b, struct fold_table *t, struct scan *scan, const struct blob_chunk *c,
                     const struct bucket_part *part);
int bucket_add_tier_chunk(struct bucket *b, struct fold_table *t, struct scan *scan,
                          const struct scan_chunk *sc, const struct bucket_part *part);

#endif
