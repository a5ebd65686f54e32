/* SPDX-License-Identifier: Apache-2.0 */
/* A chunk of raw rows into cells. What its summaries answer, they answer; of the rest the columns that are
 * asked are decoded, rows are cut into steps by binary search, and each piece of a column is summarised. */
#include "archive/bucket_internal.h"

#include <errno.h>

int64_t bucket_step_of(const struct bucket *b, int64_t time_ns)
{
    int64_t step = b->spec.step_ns;
    if (step == 0)
        return 0;
    return time_ns / step - (time_ns % step < 0);
}

int64_t bucket_step_begin(const struct bucket *b, int64_t step)
{
    int64_t begin;
    if (b->spec.step_ns == 0)
        return b->spec.from_ns;
    if (__builtin_mul_overflow(step, b->spec.step_ns, &begin))
        return step < 0 ? INT64_MIN : INT64_MAX;
    return begin;
}

/* The first row from i on whose time is not below; near ones are found in a few looks. */
static uint32_t lower_bound(const int64_t *times, uint32_t i, uint32_t n, int64_t at)
{
    uint32_t lo = i, reach = 1;
    while (reach < n - lo && times[lo + reach - 1] < at) {
        lo += reach;
        reach *= 2;
    }
    uint32_t hi = reach < n - lo ? lo + reach : n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (times[mid] < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int bucket_segments(struct bucket *b, const struct rows *rows, const struct bucket_part *part,
                    struct bucket_segment **out, uint32_t *n)
{
    uint32_t i = lower_bound(rows->time_ns, 0, rows->n, part->from_ns), count = 0;
    uint32_t end = lower_bound(rows->time_ns, i, rows->n, part->to_ns);
    if (i == end) {
        *n = 0;
        return 0;
    }
    int64_t first = bucket_step_of(b, rows->time_ns[i]), last = bucket_step_of(b, rows->time_ns[end - 1]);
    uint64_t most = (uint64_t)last - (uint64_t)first + 1;
    most = most && most < end - i ? most : end - i;
    struct bucket_segment *s = arena_alloc(&b->scratch, most * sizeof *s);
    if (!s)
        return -ENOMEM;
    while (i < end) {
        int64_t step = bucket_step_of(b, rows->time_ns[i]);
        uint32_t to = step == last ? end : lower_bound(rows->time_ns, i, end, bucket_step_begin(b, step + 1));
        s[count++] = (struct bucket_segment){step, i, to};
        i = to;
    }
    *out = s;
    *n = count;
    return 0;
}

bool bucket_is_in_one(const struct bucket *b, const struct blob_chunk *c, const struct bucket_part *part)
{
    return c->min_ns >= part->from_ns && c->max_ns < part->to_ns &&
           bucket_step_of(b, c->min_ns) == bucket_step_of(b, c->max_ns);
}

/* ---------------------------------------------------------------- what is to be done */

/* A column that is asked and that the chunk has. */
struct column_work {
    uint32_t at;                 /* of the spec's columns */
    uint32_t place;              /* of the chunk's */
    bool is_read;                /* it has to be decoded; else its summary is the answer */
    const struct column *column; /* decoded; NULL: it has no values after all */
    uint64_t *pass;              /* rows that count; NULL: all that have a value */
};

struct chunk_work {
    const struct fold_table *table;
    const struct blob_chunk *chunk;
    struct column_work *columns;
    uint32_t n;
    bool is_in_one;   /* step */
    bool reads_where; /* which rows pass is to be found out by looking at them */
    bool reads_rows;  /* something has to be decoded */
    bool counts_rows; /* by looking at them, too; else the chunk says how many */
    uint64_t *pass;   /* rows that pass; NULL: all */
    struct rows rows;
};

static const struct column_summary *find_summary(const struct blob_chunk *c, uint16_t id)
{
    uint32_t lo = 0, hi = c->n_columns;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (c->ids[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < c->n_columns && c->ids[lo] == id ? &c->summaries[lo] : NULL;
}

/* Do the chunk's rows pass the condition? */
static enum where_answer ask_where(const struct bucket *b, const struct fold_table *t,
                                   const struct blob_chunk *c)
{
    enum where_answer all = WHERE_NONE;
    if (!b->spec.where || b->spec.is_each)
        return WHERE_ALL;
    for (uint32_t i = 0; i < t->n_where; i++) {
        const struct column_summary *s = find_summary(c, t->where[i].id);
        enum where_answer one = s ? where_test_summary(&t->where[i].test, s) : WHERE_NONE;
        if (one == WHERE_ALL && s->count == c->n_rows)
            return WHERE_ALL;
        if (one != WHERE_NONE)
            all = WHERE_SOME;
    }
    return all;
}

/* Whether a column of the chunk counts at all, and whether it has to be decoded. */
static bool plan_column(const struct bucket *b, const struct chunk_work *w, struct column_work *c)
{
    const struct column_summary *s = &w->chunk->summaries[c->place];
    const struct bucket_column *asked = &w->table->asked->columns[c->at];
    uint8_t type = w->table->asked->def->columns[asked->id].type;
    enum where_answer answer = WHERE_ALL;
    if (b->spec.is_each)
        answer = where_test_summary(&b->each[type], s);
    c->is_read =
        !w->is_in_one || w->reads_where || answer == WHERE_SOME || (asked->wants_text && value_is_text(type));
    return answer != WHERE_NONE;
}

/* Both lists of columns are in order of ids. */
static int plan(struct bucket *b, struct chunk_work *w)
{
    const struct blob_chunk *c = w->chunk;
    w->columns = arena_alloc(&b->scratch, (w->table->asked->n_columns + 1) * sizeof *w->columns);
    if (!w->columns)
        return -ENOMEM;
    for (uint32_t at = 0, place = 0; at < w->table->asked->n_columns && place < c->n_columns;) {
        uint16_t asked = w->table->asked->columns[at].id, has = c->ids[place];
        if (asked == has) {
            w->columns[w->n] = (struct column_work){.at = at, .place = place};
            w->n += plan_column(b, w, &w->columns[w->n]);
        }
        at += asked <= has;
        place += has <= asked;
    }
    for (uint32_t i = 0; i < w->n; i++)
        w->reads_rows = w->reads_rows || w->columns[i].is_read;
    return 0;
}

/* ---------------------------------------------------------------- by summaries */

static int add_summaries(struct bucket *b, const struct chunk_work *w, struct cell_stream *stream)
{
    struct cell *cell = NULL;
    int r = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        const struct column_work *c = &w->columns[i];
        if (c->is_read)
            continue;
        if (!cell && (r = cells_get(&b->cells, stream, bucket_step_of(b, w->chunk->min_ns), &cell)) < 0)
            return r;
        column_summary_merge(&cell->columns[c->at], &w->chunk->summaries[c->place]);
    }
    return 0;
}

/* Rows count once, whatever columns are asked. */
static int add_rows(struct bucket *b, const struct chunk_work *w, struct cell_stream *stream)
{
    struct cell *cell;
    if (b->spec.is_each)
        return 0;
    int r = cells_get(&b->cells, stream, bucket_step_of(b, w->chunk->min_ns), &cell);
    if (r == 0)
        cell->rows += w->chunk->n_rows;
    return r;
}

/* ---------------------------------------------------------------- by rows */

static const struct column *find_column(const struct rows *r, uint16_t id)
{
    for (uint32_t i = 0; i < r->n_columns && r->columns[i].id <= id; i++)
        if (r->columns[i].id == id)
            return &r->columns[i];
    return NULL;
}

static uint64_t *bits(struct bucket *b, uint32_t n)
{
    return arena_alloc(&b->scratch, (n + 63) / 64 * sizeof(uint64_t));
}

/* The columns to decode, ascending: those asked, and those of the condition. want has room for all. */
static size_t list_wanted(const struct chunk_work *w, uint16_t *want)
{
    size_t n = 0;
    uint32_t i = 0, k = 0, n_where = w->reads_where ? w->table->n_where : 0;
    while (i < w->n || k < n_where) {
        if (i < w->n && !w->columns[i].is_read) {
            i++;
            continue;
        }
        uint32_t asked = i < w->n ? w->chunk->ids[w->columns[i].place] : UINT32_MAX;
        uint32_t where = k < n_where ? w->table->where[k].id : UINT32_MAX;
        want[n++] = (uint16_t)(asked < where ? asked : where);
        i += asked <= where;
        k += where <= asked;
    }
    return n;
}

/* Which rows pass, where that is asked of rows. */
static int test_rows(struct bucket *b, struct chunk_work *w)
{
    uint32_t n = w->rows.n;
    uint64_t *one = bits(b, n);
    if (!(w->pass = bits(b, n)) || !one)
        return -ENOMEM;
    memset(w->pass, 0, (n + 63) / 64 * sizeof *w->pass);
    for (uint32_t i = 0; i < w->table->n_where; i++) {
        const struct column *c = find_column(&w->rows, w->table->where[i].id);
        if (!c)
            continue;
        where_test_rows(&w->table->where[i].test, c, n, one);
        for (uint32_t k = 0; k < (n + 63) / 64; k++)
            w->pass[k] |= one[k];
    }
    return 0;
}

/* Finds the column, and which of its rows count. */
static int test_column(struct bucket *b, const struct chunk_work *w, struct column_work *work)
{
    const struct column *c = find_column(&w->rows, w->table->asked->columns[work->at].id);
    work->column = c;
    if (!c || (!b->spec.is_each && !w->pass))
        return 0;
    if (!(work->pass = bits(b, w->rows.n)))
        return -ENOMEM;
    if (b->spec.is_each) {
        where_test_rows(&b->each[c->type], c, w->rows.n, work->pass);
        return 0;
    }
    for (uint32_t k = 0; k < (w->rows.n + 63) / 64; k++)
        work->pass[k] = c->present ? w->pass[k] & c->present[k] : w->pass[k];
    return 0;
}

static uint64_t count_bits(const uint64_t *bits, uint32_t from, uint32_t to)
{
    uint64_t n = 0;
    for (uint32_t i = from; i < to;) {
        uint32_t in_word = 64 - (i & 63), m = to - i < in_word ? to - i : in_word;
        uint64_t word = bits[i >> 6] >> (i & 63);
        n += (uint64_t)__builtin_popcountll(m == 64 ? word : word & ((UINT64_C(1) << m) - 1));
        i += m;
    }
    return n;
}

int bucket_take_text(struct bucket *b, const struct column *c, uint32_t to, struct column_summary *s)
{
    uint32_t row = to - 1;
    while (!column_has(c, row))
        row--;
    struct value v = column_value(c, row);
    struct slice copy = cells_copy(&b->cells, value_slice(v));
    if (!copy.p)
        return E_LIMIT;
    s->last = (struct value){.p = copy.p, .n = v.n, .type = v.type};
    return 0;
}

static int add_column(struct bucket *b, const struct chunk_work *w, const struct column_work *work,
                      struct cell_stream *stream, const struct bucket_segment *seg)
{
    struct column_summary s;
    struct cell *cell;
    struct column c = *work->column;
    if (work->pass)
        c.present = work->pass;
    column_summarise(&w->rows, &c, seg->from, seg->to, &s);
    if (s.count == 0)
        return 0;
    int r = cells_get(&b->cells, stream, seg->step, &cell);
    if (r == 0 && value_is_text(c.type) && w->table->asked->columns[work->at].wants_text &&
        s.last_ns >= cell->columns[work->at].last_ns)
        r = bucket_take_text(b, &c, seg->to, &s);
    if (r == 0)
        column_summary_merge(&cell->columns[work->at], &s);
    return r;
}

static int add_segment(struct bucket *b, const struct chunk_work *w, struct cell_stream *stream,
                       const struct bucket_segment *seg)
{
    uint64_t rows = w->pass ? count_bits(w->pass, seg->from, seg->to) : seg->to - seg->from;
    struct cell *cell;
    int r = 0;
    if (rows == 0)
        return 0;
    if (w->counts_rows) {
        if ((r = cells_get(&b->cells, stream, seg->step, &cell)) < 0)
            return r;
        cell->rows += rows;
    }
    for (uint32_t i = 0; r == 0 && i < w->n; i++)
        if (w->columns[i].is_read && w->columns[i].column)
            r = add_column(b, w, &w->columns[i], stream, seg);
    return r;
}

static int add_by_rows(struct bucket *b, struct scan *scan, struct chunk_work *w, struct cell_stream *stream,
                       const struct bucket_part *part)
{
    struct bucket_segment *segments = NULL;
    uint32_t n = 0;
    uint16_t *want = arena_alloc(&b->scratch, (w->n + VALUE_TYPES) * sizeof *want);
    if (!want)
        return -ENOMEM;
    int r = scan_read(scan, BLOB_TIMES, want, list_wanted(w, want), &w->rows);
    if (r < 0)
        return r == E_DAMAGE ? 0 : r;
    if (w->reads_where && (r = test_rows(b, w)) < 0)
        return r;
    for (uint32_t i = 0; i < w->n; i++)
        if (w->columns[i].is_read && (r = test_column(b, w, &w->columns[i])) < 0)
            return r;
    if ((r = bucket_segments(b, &w->rows, part, &segments, &n)) < 0)
        return r;
    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = add_segment(b, w, stream, &segments[i]);
    return r;
}

int bucket_add_chunk(struct bucket *b, struct fold_table *t, struct scan *scan, const struct blob_chunk *c,
                     const struct bucket_part *part)
{
    struct chunk_work w = {.table = t, .chunk = c};
    struct cell_stream *stream;
    enum where_answer answer = ask_where(b, t, c);
    if (answer == WHERE_NONE || c->max_ns < part->from_ns || c->min_ns >= part->to_ns)
        return 0;
    w.is_in_one = bucket_is_in_one(b, c, part);
    w.reads_where = answer == WHERE_SOME;
    w.counts_rows = !b->spec.is_each && (!w.is_in_one || w.reads_where);
    w.reads_rows = w.counts_rows;
    arena_reset(&b->scratch);
    int r = plan(b, &w);
    if (r < 0 || (w.n == 0 && b->spec.is_each))
        return r;
    if ((r = cells_stream(&b->cells, c->key, t, t->asked->n_columns, &stream)) < 0)
        return r;
    if (!w.counts_rows && (r = add_rows(b, &w, stream)) < 0)
        return r;
    if ((r = add_summaries(b, &w, stream)) < 0)
        return r;
    return w.reads_rows ? add_by_rows(b, scan, &w, stream, part) : 0;
}
