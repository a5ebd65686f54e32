/* SPDX-License-Identifier: Apache-2.0 */
/* A chunk of a tier's rows into cells: each row is a fold already (tier_columns.h), so that summaries of a
 * tier's columns are put together to summaries of fields. */
#include "archive/bucket_internal.h"

#include <errno.h>

/* Which of the tier's columns are whose; found out anew where another table comes. */
static int learn_table(struct bucket *b, struct fold_table *t, const struct table_def *tier)
{
    if (tier_columns_are_of(&t->tier, tier))
        return 0;
    uint32_t n = t->asked->n_columns;
    uint16_t *ids = arena_alloc(&b->scratch, (n + 1) * sizeof *ids);
    if (!ids)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        ids[i] = t->asked->columns[i].id;
    tier_columns_fini(&t->tier);
    return tier_columns_init(&t->tier, tier, t->asked->def, ids, n);
}

static bool is_wanted(const struct fold_table *t, uint16_t id)
{
    return t->tier.of[id].part != TIER_OTHER;
}

/* A step's worth of a tier's rows of one stream, as summaries of the fields asked. */
struct tier_sum {
    const struct fold_table *table;
    int64_t tier_ns;
    uint64_t rows;
    struct column_summary at[2]; /* of the columns first_at and last_at */
    struct column_summary *columns;
};

static int tier_sum_begin(struct bucket *b, struct tier_sum *s)
{
    size_t size = (s->table->asked->n_columns + 1) * sizeof *s->columns;
    s->rows = 0;
    s->at[0] = s->at[1] = (struct column_summary){.count = 0};
    if (!s->columns && !(s->columns = arena_alloc(&b->scratch, size)))
        return -ENOMEM;
    memset(s->columns, 0, size);
    return 0;
}

static void tier_sum_set(struct tier_sum *s, uint16_t id, const struct column_summary *of)
{
    const struct tier_column *c = &s->table->tier.of[id];
    if (c->part == TIER_ROWS)
        s->rows = (uint64_t)of->sum;
    else if (c->part == TIER_FIRST_AT || c->part == TIER_LAST_AT)
        s->at[c->part - TIER_FIRST_AT] = *of;
    else if (c->part < TIER_FIELD_PARTS)
        tier_column_set(&s->columns[c->at], c->part, of, s->tier_ns);
}

/* Where two rows have the same step, theirs is the first value whose first raw row was earlier. */
static void set_moments(const struct tier_sum *s, struct column_summary *c)
{
    const struct column_summary *first = &s->at[0], *last = &s->at[1];
    if (first->count && c->first_ns == first->first_ns)
        c->first_ns += (int64_t)first->first.u;
    if (last->count && c->last_ns == last->last_ns + s->tier_ns - 1)
        c->last_ns = last->last_ns + (int64_t)last->last.u;
}

static int tier_sum_end(struct bucket *b, const struct tier_sum *s, struct cell_stream *stream, int64_t step)
{
    struct cell *cell;
    int r = cells_get(&b->cells, stream, step, &cell);
    if (r < 0)
        return r;
    cell->rows += s->rows;
    cell->tier_ns = s->tier_ns > cell->tier_ns ? s->tier_ns : cell->tier_ns;
    for (uint32_t i = 0; i < stream->n_columns; i++) {
        set_moments(s, &s->columns[i]);
        column_summary_merge(&cell->columns[i], &s->columns[i]);
    }
    return 0;
}

static int add_summaries(struct bucket *b, struct tier_sum *s, const struct blob_chunk *c,
                         struct cell_stream *stream)
{
    int r = tier_sum_begin(b, s);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < c->n_columns; i++)
        tier_sum_set(s, c->ids[i], &c->summaries[i]);
    return tier_sum_end(b, s, stream, bucket_step_of(b, c->min_ns));
}

static int add_segment(struct bucket *b, struct tier_sum *s, const struct rows *rows,
                       const struct bucket_segment *seg, struct cell_stream *stream)
{
    int r = tier_sum_begin(b, s);
    for (uint32_t i = 0; r == 0 && i < rows->n_columns; i++) {
        const struct column *c = &rows->columns[i];
        struct column_summary of;
        column_summarise(rows, c, seg->from, seg->to, &of);
        if (of.count && value_is_text(c->type))
            r = bucket_take_text(b, c, seg->to, &of);
        if (r == 0 && of.count)
            tier_sum_set(s, c->id, &of);
    }
    return r < 0 ? r : tier_sum_end(b, s, stream, seg->step);
}

static int add_by_rows(struct bucket *b, struct tier_sum *s, struct scan *scan, const struct blob_chunk *c,
                       struct cell_stream *stream, const struct bucket_part *part)
{
    struct bucket_segment *segments = NULL;
    uint32_t n = 0, n_want = 0;
    struct rows rows;
    uint16_t *want = arena_alloc(&b->scratch, (c->n_columns + 1) * sizeof *want);
    if (!want)
        return -ENOMEM;
    for (uint32_t i = 0; i < c->n_columns; i++)
        if (is_wanted(s->table, c->ids[i]))
            want[n_want++] = c->ids[i];
    int r = scan_read(scan, BLOB_TIMES, want, n_want, &rows);
    if (r < 0)
        return r == E_DAMAGE ? 0 : r;
    r = bucket_segments(b, &rows, part, &segments, &n);
    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = add_segment(b, s, &rows, &segments[i], stream);
    return r;
}

/* Is a column of text asked whose values are to be seen? */
static bool wants_text(const struct fold_table *t, const struct blob_chunk *c)
{
    for (uint32_t i = 0; i < c->n_columns; i++) {
        const struct tier_column *of = &t->tier.of[c->ids[i]];
        if (of->part == TIER_LAST && t->asked->columns[of->at].wants_text &&
            value_is_text(t->asked->def->columns[t->asked->columns[of->at].id].type))
            return true;
    }
    return false;
}

int bucket_add_tier_chunk(struct bucket *b, struct fold_table *t, struct scan *scan,
                          const struct scan_chunk *sc, const struct bucket_part *part)
{
    const struct blob_chunk *c = sc->chunk;
    struct tier_sum sum = {.table = t, .tier_ns = part->tier_ns};
    struct cell_stream *stream;
    if (c->max_ns < part->from_ns || c->min_ns >= part->to_ns)
        return 0;
    arena_reset(&b->scratch);
    int r = learn_table(b, t, sc->table);
    if (r == 0)
        r = cells_stream(&b->cells, c->key, t, t->asked->n_columns, &stream);
    if (r < 0)
        return r;
    if (bucket_is_in_one(b, c, part) && !wants_text(t, c))
        return add_summaries(b, &sum, c, stream);
    return add_by_rows(b, &sum, scan, c, stream, part);
}
