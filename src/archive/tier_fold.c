/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/tier_fold.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>

/* Rows [from, to) of one step. */
struct piece {
    uint32_t from, to;
    int64_t begin_ns;
};

struct folding {
    struct arena *arena;
    const struct rows *rows;
    struct piece *pieces;
    uint32_t n;
    struct column *columns; /* of the result so far */
    uint32_t n_columns;
};

/* ---------------------------------------------------------------- pieces */

static int64_t step_begin(int64_t time_ns, int64_t step_ns)
{
    int64_t over = step_ns ? time_ns % step_ns : 0;
    over = over < 0 ? over + step_ns : over;
    return time_ns < INT64_MIN + over ? INT64_MIN : time_ns - over;
}

static int cut(struct folding *f, int64_t step_ns)
{
    const struct rows *r = f->rows;
    f->pieces = arena_alloc(f->arena, (r->n + 1) * sizeof *f->pieces);
    if (!f->pieces)
        return -ENOMEM;
    for (uint32_t i = 0; i < r->n;) {
        int64_t begin = step_begin(r->time_ns[i], step_ns), length = step_ns ? step_ns : 1;
        uint32_t to = i + 1;
        while (to < r->n && (uint64_t)r->time_ns[to] - (uint64_t)begin < (uint64_t)length)
            to++;
        f->pieces[f->n++] = (struct piece){i, to, begin};
        i = to;
    }
    return 0;
}

/* ---------------------------------------------------------------- columns of the result */

static struct value *new_values(struct folding *f)
{
    struct value *v = arena_alloc(f->arena, (f->n + 1) * sizeof *v);
    if (v)
        memset(v, 0, (f->n + 1) * sizeof *v);
    return v;
}

static int set_presence(struct folding *f, const struct value *v, struct column *c)
{
    uint32_t missing = 0;
    for (uint32_t i = 0; i < f->n; i++)
        missing += v[i].type == VALUE_NONE;
    if (missing == 0)
        return 0;
    size_t size = (f->n + 63) / 64 * sizeof(uint64_t);
    uint64_t *present = arena_alloc(f->arena, size);
    if (!present)
        return -ENOMEM;
    memset(present, 0, size);
    for (uint32_t i = 0; i < f->n; i++)
        if (v[i].type)
            present[i >> 6] |= UINT64_C(1) << (i & 63);
    c->present = present;
    return 0;
}

static int set_text(struct folding *f, const struct value *v, struct column *c)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < f->n; i++)
        total += v[i].n;
    if (total > UINT32_MAX)
        return E_LIMIT;
    uint32_t *ends = arena_alloc(f->arena, (f->n + 1) * sizeof *ends), end = 0;
    char *bytes = arena_alloc(f->arena, total + 1);
    if (!ends || !bytes)
        return -ENOMEM;
    for (uint32_t i = 0; i < f->n; i++) {
        if (v[i].n)
            memcpy(bytes + end, v[i].p, v[i].n);
        end += v[i].n;
        ends[i] = end;
    }
    c->ends = ends;
    c->bytes = bytes;
    return 0;
}

static int set_numbers(struct folding *f, const struct value *v, struct column *c)
{
    uint64_t *u = arena_alloc(f->arena, (f->n + 1) * sizeof *u);
    if (!u)
        return -ENOMEM;
    for (uint32_t i = 0; i < f->n; i++)
        u[i] = v[i].u;
    c->u = u;
    return 0;
}

/* Adds the column, unless it has no value at all. There is room for it. */
static int add_column(struct folding *f, uint16_t id, uint8_t type, const struct value *v)
{
    struct column c = {.id = id, .type = type};
    bool is_any = false;
    for (uint32_t i = 0; i < f->n && !is_any; i++)
        is_any = v[i].type != VALUE_NONE;
    if (!is_any)
        return 0;
    int r = set_presence(f, v, &c);
    if (r == 0)
        r = value_is_text(type) ? set_text(f, v, &c) : set_numbers(f, v, &c);
    if (r == 0)
        f->columns[f->n_columns++] = c;
    return r;
}

static int compare_columns(const void *a, const void *b)
{
    return (int)((const struct column *)a)->id - (int)((const struct column *)b)->id;
}

/* Who made rows of a tier, and what level they have, is not kept. */
static int finish(struct folding *f, struct rows *out)
{
    int64_t *times = arena_alloc(f->arena, (f->n + 1) * sizeof *times);
    uint8_t *levels = arena_alloc(f->arena, f->n + 1);
    uint64_t *seqs = arena_alloc(f->arena, (f->n + 1) * sizeof *seqs);
    uint16_t *origins = arena_alloc(f->arena, (f->n + 1) * sizeof *origins);
    struct row_origin *nobody = arena_alloc(f->arena, sizeof *nobody);
    if (!times || !levels || !seqs || !origins || !nobody)
        return -ENOMEM;
    memset(nobody, 0, sizeof *nobody);
    memset(seqs, 0, f->n * sizeof *seqs);
    memset(origins, 0, f->n * sizeof *origins);
    memset(levels, LEVEL_INFO, f->n);
    for (uint32_t i = 0; i < f->n; i++)
        times[i] = f->pieces[i].begin_ns;
    qsort(f->columns, f->n_columns, sizeof *f->columns, compare_columns);
    *out = (struct rows){.n = f->n,
                         .n_columns = f->n_columns,
                         .time_ns = times,
                         .level = levels,
                         .seq = seqs,
                         .origin = origins,
                         .origins = nobody,
                         .n_origins = 1,
                         .columns = f->columns};
    return 0;
}

/* ---------------------------------------------------------------- of rows as they were measured */

/* Adds the column of that part; E_LIMIT: the table has no room for it. */
static int add_part(struct folding *f, struct tier_table *t, const struct field *field, enum tier_part part,
                    const struct value *v)
{
    struct field column;
    uint16_t id;
    if (!tier_column_of(field, part, &column))
        return 0;
    int r = tier_table_id(t, &column, &id);
    return r < 0 ? r : add_column(f, id, column.type, v);
}

/* When, if that is not when the first (last) row of the piece was. */
static struct value at_value(const struct folding *f, const struct piece *p, int64_t time_ns, bool is_first)
{
    if (time_ns == f->rows->time_ns[is_first ? p->from : p->to - 1])
        return value_none();
    return value_uint((uint64_t)time_ns - (uint64_t)p->begin_ns);
}

static struct value part_value(const struct folding *f, const struct piece *p, const struct column_summary *s,
                               enum tier_part part)
{
    switch (part) {
    case TIER_COUNT:
        return value_uint(s->count);
    case TIER_NANS:
        return s->nans ? value_uint(s->nans) : value_none();
    case TIER_MIN:
        return s->min;
    case TIER_MAX:
        return s->max;
    case TIER_SUM:
        return s->min.type ? value_float(s->sum) : value_none();
    case TIER_FIRST:
        return s->first;
    case TIER_LAST:
        return s->last;
    default:
        return at_value(f, p, part == TIER_FIRST_AT ? s->first_ns : s->last_ns, part == TIER_FIRST_AT);
    }
}

static void take_last_text(const struct column *c, const struct piece *p, struct column_summary *s)
{
    uint32_t row = p->to - 1;
    while (!column_has(c, row))
        row--;
    s->last = column_value(c, row);
}

static int fold_column(struct folding *f, const struct column *c, const struct field *field,
                       struct tier_table *t, uint64_t *left_out)
{
    struct column_summary *all = arena_alloc(f->arena, (f->n + 1) * sizeof *all);
    struct value *v = new_values(f);
    uint64_t values = 0;
    if (!all || !v)
        return -ENOMEM;
    for (uint32_t i = 0; i < f->n; i++) {
        column_summarise(f->rows, c, f->pieces[i].from, f->pieces[i].to, &all[i]);
        if (all[i].count && value_is_text(c->type))
            take_last_text(c, &f->pieces[i], &all[i]);
        values += all[i].count;
    }
    for (int part = 0; part < TIER_FIELD_PARTS; part++) {
        for (uint32_t i = 0; i < f->n; i++)
            v[i] = all[i].count ? part_value(f, &f->pieces[i], &all[i], (enum tier_part)part) : value_none();
        int r = add_part(f, t, field, (enum tier_part)part, v);
        if (r == E_LIMIT)
            *left_out += part == 0 ? values : 0;
        if (r < 0 && r != E_LIMIT)
            return r;
    }
    return 0;
}

static int fold_heads(struct folding *f, struct tier_table *t)
{
    struct value *v = new_values(f);
    int r = v ? 0 : -ENOMEM;
    for (int part = TIER_ROWS; r == 0 && part <= TIER_ROW_LAST_AT; part++) {
        for (uint32_t i = 0; i < f->n; i++) {
            const struct piece *p = &f->pieces[i];
            uint32_t row = part == TIER_ROW_FIRST_AT ? p->from : p->to - 1;
            v[i] = value_uint(part == TIER_ROWS ? p->to - p->from
                                                : (uint64_t)f->rows->time_ns[row] - (uint64_t)p->begin_ns);
        }
        r = add_part(f, t, NULL, (enum tier_part)part, v);
    }
    return r;
}

int tier_fold_rows(const struct rows *rows, const struct table_def *table, int64_t step_ns,
                   struct tier_table *t, struct arena *arena, struct rows *out, uint64_t *left_out)
{
    struct folding f = {.arena = arena, .rows = rows};
    f.columns = arena_alloc(arena, ((size_t)rows->n_columns * TIER_FIELD_PARTS + 4) * sizeof *f.columns);
    int r = f.columns ? cut(&f, step_ns) : -ENOMEM;
    if (r == 0)
        r = fold_heads(&f, t);
    for (uint32_t i = 0; r == 0 && i < rows->n_columns; i++)
        r = fold_column(&f, &rows->columns[i], &table->columns[rows->columns[i].id], t, left_out);
    return r < 0 ? r : finish(&f, out);
}

/* ---------------------------------------------------------------- of a tier's rows */

/* Columns of the rows at hand, by what they are. */
struct tier_view {
    const struct tier_table *table;
    enum tier_part *parts;          /* of each column of the rows */
    uint8_t *types;                 /* of the field that it is of */
    const struct column *row_at[2]; /* of the rows: first_at, last_at; NULL: there is none */
    int64_t *ends[2];               /* of each piece: its first and last raw row */
};

static bool is_less(struct value a, struct value b)
{
    if (a.type == VALUE_INT)
        return a.i < b.i;
    return a.type == VALUE_FLOAT ? a.f < b.f : a.u < b.u;
}

static int64_t moment(const struct rows *r, const struct column *own, const struct column *row_at,
                      uint32_t row)
{
    const struct column *at = own && column_has(own, row)         ? own
                              : row_at && column_has(row_at, row) ? row_at
                                                                  : NULL;
    return r->time_ns[row] + (at ? (int64_t)at->u[row] : 0);
}

/* The column of the same field that has that part; NULL: there is none. */
static const struct column *companion(const struct folding *f, const struct tier_view *v, uint32_t of,
                                      enum tier_part part)
{
    const struct field *columns = v->table->def.columns;
    for (uint32_t i = 0; i < f->rows->n_columns; i++)
        if (v->parts[i] == part && v->types[i] == v->types[of] &&
            slice_eq(columns[f->rows->columns[i].id].name, columns[f->rows->columns[of].id].name))
            return &f->rows->columns[i];
    return NULL;
}

static int classify(struct folding *f, struct tier_view *v)
{
    uint32_t n = f->rows->n_columns;
    v->parts = arena_alloc(f->arena, (n + 1) * sizeof *v->parts);
    v->types = arena_alloc(f->arena, n + 1);
    if (!v->parts || !v->types)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        v->types[i] = VALUE_NONE;
        v->parts[i] = tier_part_of(&v->table->def.columns[f->rows->columns[i].id], &v->types[i]);
        if (v->parts[i] == TIER_ROW_FIRST_AT || v->parts[i] == TIER_ROW_LAST_AT)
            v->row_at[v->parts[i] - TIER_ROW_FIRST_AT] = &f->rows->columns[i];
    }
    return 0;
}

/* When the first and the last raw row of each piece were. */
static int find_ends(struct folding *f, struct tier_view *v)
{
    for (int k = 0; k < 2; k++) {
        v->ends[k] = arena_alloc(f->arena, (f->n + 1) * sizeof *v->ends[k]);
        if (!v->ends[k])
            return -ENOMEM;
        for (uint32_t i = 0; i < f->n; i++)
            for (uint32_t row = f->pieces[i].from; row < f->pieces[i].to; row++) {
                int64_t at = moment(f->rows, NULL, v->row_at[k], row);
                if (row == f->pieces[i].from || (k == 0 ? at < v->ends[k][i] : at > v->ends[k][i]))
                    v->ends[k][i] = at;
            }
    }
    return 0;
}

static int fold_row_at(struct folding *f, const struct tier_view *v, const struct column *c, int k)
{
    struct value *values = new_values(f);
    if (!values)
        return -ENOMEM;
    for (uint32_t i = 0; i < f->n; i++)
        values[i] = value_uint((uint64_t)v->ends[k][i] - (uint64_t)f->pieces[i].begin_ns);
    return add_column(f, c->id, c->type, values);
}

/* What two rows have of something that does not go by time. */
static struct value combine(enum tier_part part, struct value a, struct value b)
{
    if (a.type == VALUE_NONE)
        return b;
    if (part == TIER_MIN)
        return is_less(b, a) ? b : a;
    if (part == TIER_MAX)
        return is_less(a, b) ? b : a;
    return part == TIER_SUM ? value_float(a.f + b.f) : value_uint(a.u + b.u);
}

static int fold_part(struct folding *f, const struct column *c, enum tier_part part)
{
    struct value *v = new_values(f);
    if (!v)
        return -ENOMEM;
    for (uint32_t i = 0; i < f->n; i++)
        for (uint32_t row = f->pieces[i].from; row < f->pieces[i].to; row++)
            if (column_has(c, row))
                v[i] = combine(part, v[i], column_value(c, row));
    return add_column(f, c->id, c->type, v);
}

/* first (k 0) or last (k 1) of a field, and when it was where that is not when the piece's was. at_id: the
 * column for that; UINT16_MAX: the table has none. */
static int fold_end(struct folding *f, const struct tier_view *v, uint32_t of, int k, uint16_t at_id)
{
    const struct column *c = &f->rows->columns[of];
    const struct column *own = companion(f, v, of, k == 0 ? TIER_FIRST_AT : TIER_LAST_AT);
    struct value *values = new_values(f), *ats = new_values(f);
    if (!values || !ats)
        return -ENOMEM;
    for (uint32_t i = 0; i < f->n; i++) {
        int64_t so_far = 0;
        for (uint32_t row = f->pieces[i].from; row < f->pieces[i].to; row++) {
            if (!column_has(c, row))
                continue;
            int64_t at = moment(f->rows, own, v->row_at[k], row);
            if (values[i].type != VALUE_NONE && (k == 0 ? at >= so_far : at < so_far))
                continue;
            values[i] = column_value(c, row);
            so_far = at;
        }
        if (values[i].type != VALUE_NONE && so_far != v->ends[k][i])
            ats[i] = value_uint((uint64_t)so_far - (uint64_t)f->pieces[i].begin_ns);
    }
    int r = add_column(f, c->id, c->type, values);
    return r < 0 || at_id == UINT16_MAX ? r : add_column(f, at_id, VALUE_UINT, ats);
}

/* The number of the column that says when: made if there is none. */
static int at_column(struct tier_table *t, uint16_t of, uint8_t type, int k, uint16_t *id)
{
    struct field field = {.name = t->def.columns[of].name, .type = type}, column;
    (void)tier_column_of(&field, k == 0 ? TIER_FIRST_AT : TIER_LAST_AT,
                         &column); /* all that have an end have it */
    int r = tier_table_id(t, &column, id);
    if (r == E_LIMIT) {
        *id = UINT16_MAX; /* no room to tell: it is taken for the row's */
        return 0;
    }
    return r;
}

static int fold_again(struct folding *f, struct tier_table *t, const struct tier_view *v, uint32_t i)
{
    const struct column *c = &f->rows->columns[i];
    uint16_t at_id;
    switch (v->parts[i]) {
    case TIER_FIRST:
    case TIER_LAST: {
        int k = v->parts[i] == TIER_LAST, r = at_column(t, c->id, v->types[i], k, &at_id);
        return r < 0 ? r : fold_end(f, v, i, k, at_id);
    }
    case TIER_FIRST_AT:
    case TIER_LAST_AT:
    case TIER_OTHER:
        return 0; /* with first and last */
    case TIER_ROW_FIRST_AT:
    case TIER_ROW_LAST_AT:
        return fold_row_at(f, v, c, v->parts[i] == TIER_ROW_LAST_AT);
    default:
        return fold_part(f, c, v->parts[i]);
    }
}

int tier_fold_again(const struct rows *rows, struct tier_table *t, int64_t step_ns, struct arena *arena,
                    struct rows *out)
{
    struct folding f = {.arena = arena, .rows = rows};
    struct tier_view v = {.table = t};
    f.columns = arena_alloc(arena, (2 * (size_t)rows->n_columns + 1) * sizeof *f.columns);
    int r = f.columns ? cut(&f, step_ns) : -ENOMEM;
    if (r == 0)
        r = classify(&f, &v);
    if (r == 0)
        r = find_ends(&f, &v);
    for (uint32_t i = 0; r == 0 && i < rows->n_columns; i++)
        r = fold_again(&f, t, &v, i);
    return r < 0 ? r : finish(&f, out);
}
