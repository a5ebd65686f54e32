/* SPDX-License-Identifier: Apache-2.0 */
/* A chunk of a tier's rows into cells: each row is a fold already (tier_columns.h), so that summaries of a
 * tier's columns are put together to summaries of fields. */
#include "archive/bucket_internal.h"

#include <errno.h>

/* Which of the tier's columns are whose; made anew where another table comes. */
static int learn_table(struct bucket *b, const struct table_def *tier)
{
    if (tier == b->tier_table)
        return 0;
    uint16_t *ids = arena_alloc(&b->scratch, (b->spec.n_columns + 1) * sizeof *ids);
    if (!ids)
        return -ENOMEM;
    for (uint32_t i = 0; i < b->spec.n_columns; i++)
        ids[i] = b->spec.columns[i].id;
    tier_columns_fini(&b->tier);
    b->tier_table = NULL;
    int r = tier_columns_init(&b->tier, tier, b->table, ids, b->spec.n_columns);
    if (r == 0)
        b->tier_table = tier;
    return r;
}

/* A step's worth of a tier's rows, as summaries of the fields asked. */
struct tier_sum {
    uint64_t rows;
    struct column_summary *columns;
};

static int tier_sum_begin(struct bucket *b, struct tier_sum *t)
{
    size_t size = (b->spec.n_columns + 1) * sizeof *t->columns;
    *t = (struct tier_sum){.columns = arena_alloc(&b->scratch, size)};
    if (!t->columns)
        return -ENOMEM;
    memset(t->columns, 0, size);
    return 0;
}

static void tier_sum_set(const struct bucket *b, struct tier_sum *t, uint16_t id,
                         const struct column_summary *s, int64_t tier_ns)
{
    const struct tier_column *c = &b->tier.of[id];
    if (c->part == TIER_ROWS)
        t->rows = (uint64_t)s->sum;
    else if (c->part < TIER_PARTS)
        tier_column_set(&t->columns[c->at], c->part, s, tier_ns);
}

static int tier_sum_end(struct bucket *b, struct tier_sum *t, struct cell_stream *stream, int64_t step,
                        int64_t tier_ns)
{
    struct cell *cell;
    int r = cells_get(&b->cells, stream, step, &cell);
    if (r < 0)
        return r;
    cell->rows += t->rows;
    cell->tier_ns = tier_ns > cell->tier_ns ? tier_ns : cell->tier_ns;
    for (uint32_t i = 0; i < b->spec.n_columns; i++)
        column_summary_merge(&cell->columns[i], &t->columns[i]);
    return 0;
}

static bool is_wanted(const struct bucket *b, uint16_t id)
{
    const struct tier_column *c = &b->tier.of[id];
    return c->part == TIER_ROWS || c->part < TIER_PARTS;
}

static int add_summaries(struct bucket *b, const struct blob_chunk *c, struct cell_stream *stream,
                         const struct bucket_part *part)
{
    struct tier_sum t;
    int r = tier_sum_begin(b, &t);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < c->n_columns; i++)
        if (is_wanted(b, c->ids[i]))
            tier_sum_set(b, &t, c->ids[i], &c->summaries[i], part->tier_ns);
    return tier_sum_end(b, &t, stream, bucket_step_of(b, c->min_ns), part->tier_ns);
}

static int add_segment(struct bucket *b, const struct rows *rows, const struct bucket_segment *seg,
                       struct cell_stream *stream, int64_t tier_ns)
{
    struct tier_sum t;
    int r = tier_sum_begin(b, &t);
    for (uint32_t i = 0; r == 0 && i < rows->n_columns; i++) {
        const struct column *c = &rows->columns[i];
        struct column_summary s;
        column_summarise(rows, c, seg->from, seg->to, &s);
        if (s.count && value_is_text(c->type))
            r = bucket_take_text(b, c, seg->to, &s);
        if (r == 0 && s.count)
            tier_sum_set(b, &t, c->id, &s, tier_ns);
    }
    return r < 0 ? r : tier_sum_end(b, &t, stream, seg->step, tier_ns);
}

static int add_by_rows(struct bucket *b, struct scan *scan, const struct blob_chunk *c,
                       struct cell_stream *stream, const struct bucket_part *part)
{
    struct bucket_segment *segments = NULL;
    uint32_t n = 0, n_want = 0;
    struct rows rows;
    uint16_t *want = arena_alloc(&b->scratch, (c->n_columns + 1) * sizeof *want);
    if (!want)
        return -ENOMEM;
    for (uint32_t i = 0; i < c->n_columns; i++)
        if (is_wanted(b, c->ids[i]))
            want[n_want++] = c->ids[i];
    int r = scan_read(scan, BLOB_TIMES, want, n_want, &rows);
    if (r < 0)
        return r == E_DAMAGE ? 0 : r;
    r = bucket_segments(b, &rows, part, &segments, &n);
    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = add_segment(b, &rows, &segments[i], stream, part->tier_ns);
    return r;
}

/* Is a column of text asked whose values are to be seen? */
static bool wants_text(const struct bucket *b, const struct blob_chunk *c)
{
    for (uint32_t i = 0; i < c->n_columns; i++) {
        const struct tier_column *t = &b->tier.of[c->ids[i]];
        if (t->part == TIER_LAST && b->spec.columns[t->at].wants_text)
            return true;
    }
    return false;
}

int bucket_add_tier_chunk(struct bucket *b, struct scan *scan, const struct scan_chunk *sc,
                          const struct bucket_part *part)
{
    const struct blob_chunk *c = sc->chunk;
    struct cell_stream *stream;
    if (c->max_ns < part->from_ns || c->min_ns >= part->to_ns)
        return 0;
    arena_reset(&b->scratch);
    int r = learn_table(b, sc->table);
    if (r == 0)
        r = cells_stream(&b->cells, c->key, &stream);
    if (r < 0)
        return r;
    if (bucket_is_in_one(b, c, part) && !wants_text(b, c))
        return add_summaries(b, c, stream, part);
    return add_by_rows(b, scan, c, stream, part);
}
