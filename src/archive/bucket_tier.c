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
    struct column_summary *columns;
    /* When first and last of a field were, and the rows' first and last, as far as summaries have it. */
    struct column_summary *at[2], row_at[2];
};

static int tier_sum_begin(struct bucket *b, struct tier_sum *s)
{
    size_t size = (s->table->tier.n_slots + 1) * sizeof *s->columns;
    struct column_summary **all[] = {&s->columns, &s->at[0], &s->at[1]};
    for (size_t i = 0; i < 3; i++) {
        if (!*all[i] && !(*all[i] = arena_alloc(&b->scratch, size)))
            return -ENOMEM;
        memset(*all[i], 0, size);
    }
    s->rows = 0;
    s->row_at[0] = s->row_at[1] = (struct column_summary){.count = 0};
    return 0;
}

static void tier_sum_set(struct tier_sum *s, uint16_t id, const struct column_summary *of)
{
    const struct tier_column *c = &s->table->tier.of[id];
    if (c->part == TIER_ROWS)
        s->rows = (uint64_t)of->sum;
    else if (c->part == TIER_ROW_FIRST_AT || c->part == TIER_ROW_LAST_AT)
        s->row_at[c->part - TIER_ROW_FIRST_AT] = *of;
    else if (c->part == TIER_FIRST_AT || c->part == TIER_LAST_AT)
        s->at[c->part - TIER_FIRST_AT][c->at] = *of;
    else if (c->part < TIER_FIELD_PARTS)
        tier_column_set(&s->columns[c->at], c->part, of);
}

static int tier_sum_end(struct bucket *b, const struct tier_sum *s, struct cell_stream *stream, int64_t step)
{
    struct cell *cell;
    int r = cells_get(&b->cells, stream, step, &cell);
    if (r < 0)
        return r;
    cell->rows += s->rows;
    cell->tier_ns = s->tier_ns > cell->tier_ns ? s->tier_ns : cell->tier_ns;
    for (uint32_t i = 0; i < s->table->tier.n_slots; i++) {
        uint32_t place = s->table->tier.slots[i].place;
        const struct bucket_table *asked = s->table->asked;
        if (asked->def->columns[asked->columns[place].id].type == VALUE_FLOAT)
            column_summary_to_float(&s->columns[i]);
        column_summary_merge(&cell->columns[place], &s->columns[i]);
    }
    return 0;
}

/* ---------------------------------------------------------------- by summaries */

/* Adds to when a tier's row begins when its first value was, if the summaries of the chunk have that of this
 * row: they have that of their own first row. false: they do not. */
static bool add_first_at(const struct tier_sum *s, uint32_t i)
{
    const struct column_summary *own = &s->at[0][i], *row = &s->row_at[0];
    int64_t *ns = &s->columns[i].first_ns;
    bool has_own = own->count && own->first_ns == *ns, has_row = row->count && row->first_ns == *ns;
    if (!has_own && !has_row)
        return false;
    *ns += (int64_t)(has_own ? own->first.u : row->first.u);
    return true;
}

static bool add_last_at(const struct tier_sum *s, uint32_t i)
{
    const struct column_summary *own = &s->at[1][i], *row = &s->row_at[1];
    int64_t *ns = &s->columns[i].last_ns;
    bool has_own = own->count && own->last_ns == *ns, has_row = row->count && row->last_ns == *ns;
    if (!has_own && !has_row)
        return false;
    *ns += (int64_t)(has_own ? own->last.u : row->last.u);
    return true;
}

/* 1: that is all; 0: rows have to be looked at. */
static int add_summaries(struct bucket *b, struct tier_sum *s, const struct blob_chunk *c,
                         struct cell_stream *stream)
{
    int r = tier_sum_begin(b, s);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < c->n_columns; i++)
        tier_sum_set(s, c->ids[i], &c->summaries[i]);
    for (uint32_t i = 0; i < s->table->tier.n_slots; i++)
        if ((s->columns[i].first.type && !add_first_at(s, i)) ||
            (s->columns[i].last.type && !add_last_at(s, i)))
            return 0;
    r = tier_sum_end(b, s, stream, bucket_step_of(b, c->min_ns));
    return r < 0 ? r : 1;
}

/* ---------------------------------------------------------------- by rows */

/* The columns that say when: of the rows, and of each field asked. */
struct moments {
    const struct column *row_at[2], **at[2];
};

static int find_moments(struct bucket *b, const struct tier_sum *s, const struct rows *rows,
                        struct moments *m)
{
    size_t size = (s->table->tier.n_slots + 1) * sizeof(void *);
    *m = (struct moments){.at = {arena_alloc(&b->scratch, size), arena_alloc(&b->scratch, size)}};
    if (!m->at[0] || !m->at[1])
        return -ENOMEM;
    memset(m->at[0], 0, size);
    memset(m->at[1], 0, size);
    for (uint32_t i = 0; i < rows->n_columns; i++) {
        const struct tier_column *c = &s->table->tier.of[rows->columns[i].id];
        if (c->part == TIER_ROW_FIRST_AT || c->part == TIER_ROW_LAST_AT)
            m->row_at[c->part - TIER_ROW_FIRST_AT] = &rows->columns[i];
        else if (c->part == TIER_FIRST_AT || c->part == TIER_LAST_AT)
            m->at[c->part - TIER_FIRST_AT][c->at] = &rows->columns[i];
    }
    return 0;
}

/* When the first (k 0) or last value of field `at` in that row was. */
static int64_t moment_of(const struct moments *m, int k, uint32_t at, uint32_t row)
{
    const struct column *own = m->at[k][at], *all = m->row_at[k];
    if (own && column_has(own, row))
        return (int64_t)own->u[row];
    return all && column_has(all, row) ? (int64_t)all->u[row] : 0;
}

static int add_column(struct bucket *b, struct tier_sum *s, const struct rows *rows, const struct column *c,
                      const struct bucket_segment *seg, const struct moments *m)
{
    const struct tier_column *t = &s->table->tier.of[c->id];
    struct column_summary of;
    int r = 0;
    column_summarise(rows, c, seg->from, seg->to, &of);
    if (of.count == 0)
        return 0;
    if (value_is_text(c->type))
        r = bucket_take_text(b, c, seg->to, &of);
    tier_sum_set(s, c->id, &of);
    uint32_t row = t->part == TIER_FIRST ? seg->from : seg->to - 1;
    while (!column_has(c, row))
        row += t->part == TIER_FIRST ? 1 : UINT32_MAX;
    if (t->part == TIER_FIRST)
        s->columns[t->at].first_ns += moment_of(m, 0, t->at, row);
    else if (t->part == TIER_LAST)
        s->columns[t->at].last_ns += moment_of(m, 1, t->at, row);
    return r;
}

static int add_by_rows(struct bucket *b, struct tier_sum *s, struct scan *scan, const struct blob_chunk *c,
                       struct cell_stream *stream, const struct bucket_part *part)
{
    struct bucket_segment *segments = NULL;
    uint32_t n = 0, n_want = 0;
    struct rows rows;
    struct moments m;
    uint16_t *want = arena_alloc(&b->scratch, (c->n_columns + 1) * sizeof *want);
    if (!want)
        return -ENOMEM;
    for (uint32_t i = 0; i < c->n_columns; i++)
        if (is_wanted(s->table, c->ids[i]))
            want[n_want++] = c->ids[i];
    int r = scan_read(scan, BLOB_TIMES, want, n_want, &rows);
    if (r < 0)
        return r == E_DAMAGE ? 0 : r;
    r = find_moments(b, s, &rows, &m);
    if (r == 0)
        r = bucket_segments(b, &rows, part, &segments, &n);
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        r = tier_sum_begin(b, s);
        for (uint32_t k = 0; r == 0 && k < rows.n_columns; k++)
            r = add_column(b, s, &rows, &rows.columns[k], &segments[i], &m);
        if (r == 0)
            r = tier_sum_end(b, s, stream, segments[i].step);
    }
    return r;
}

/* Is a column of text asked whose values are to be seen? */
static bool wants_text(const struct fold_table *t, const struct blob_chunk *c)
{
    for (uint32_t i = 0; i < c->n_columns; i++) {
        const struct tier_column *of = &t->tier.of[c->ids[i]];
        if (of->part == TIER_LAST && value_is_text(t->tier.slots[of->at].type) &&
            t->asked->columns[t->tier.slots[of->at].place].wants_text)
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
        r = add_summaries(b, &sum, c, stream);
    if (r == 0)
        r = add_by_rows(b, &sum, scan, c, stream, part);
    return r < 0 ? r : 0;
}
