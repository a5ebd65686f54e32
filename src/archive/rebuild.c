/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild.c - see rebuild.h: the rows of each stream, the gaps between them, and what was in these.
 *
 * Rows of the streams asked are all in memory while they are given. They are read some periods beyond the
 * range, so that gaps at its ends have neighbours, too: by REACH of its length, or a minute. */
#include "archive/rebuild.h"

#include "archive/rebuild_fit.h"
#include "archive/rebuild_seqs.h"
#include "archive/rows_join.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>

enum { BYTES_MAX = 128 << 20, REACH = 8 };
#define REACH_NS INT64_C(60000000000)

/* Chunks of one stream, until all are read; then rows. */
struct part {
    struct rows rows; /* a copy */
    struct part *next;
};

struct stream {
    struct slice key;
    struct part *parts, **end;
    size_t n_parts;
    struct rows rows;
    int64_t period_ns; /* 0: not known */
    struct stream *next;
};

struct rebuild {
    struct rebuild_spec spec;
    const struct table_def *table;
    struct arena arena;
    struct map by_key;
    struct stream *streams, **end;
    struct seqs seqs;
    uint16_t *ids; /* of all columns: themselves */
    struct scan_loss lost;
    size_t bytes_max;
    /* Where rebuild_next is: */
    struct stream *at;
    uint32_t row;
    uint64_t gap_n, gap_at; /* rows to be rebuilt before `row`; how many were given */
    bool is_gap_known;
    struct value *values;
    double *errors;
};

void rebuild_destroy(struct rebuild *b)
{
    if (!b)
        return;
    seqs_fini(&b->seqs);
    map_fini(&b->by_key);
    arena_fini(&b->arena);
    mem_free(b);
}

size_t rebuild_bytes(const struct rebuild *b)
{
    return b->arena.total + b->seqs.bytes;
}

struct scan_loss rebuild_damaged(const struct rebuild *b)
{
    return b->lost;
}

/* ---------------------------------------------------------------- rows */

static int get_stream(struct rebuild *b, struct slice key, struct stream **out)
{
    struct stream *s = map_get(&b->by_key, key);
    if (!s) {
        s = arena_alloc(&b->arena, sizeof *s);
        struct slice copy = arena_copy(&b->arena, key);
        if (!s || !copy.p)
            return -ENOMEM;
        *s = (struct stream){.key = copy};
        s->end = &s->parts;
        if (map_put(&b->by_key, s->key, s) < 0)
            return -ENOMEM;
        *b->end = s;
        b->end = &s->next;
    }
    *out = s;
    return 0;
}

/* A copy of the chunk's rows, made by joining it with nothing. */
static int keep_chunk(struct rebuild *b, struct scan *scan, const struct scan_chunk *sc)
{
    struct stream *s;
    struct rows_part one = {.ids = b->ids};
    uint32_t doubled;
    int r = scan_read(scan, BLOB_TIMES | BLOB_ORIGINS | BLOB_LEVELS | BLOB_ALL_COLUMNS, NULL, 0, &one.rows);
    if (r < 0)
        return r == E_DAMAGE ? 0 : r;
    r = get_stream(b, sc->chunk->key, &s);
    if (r < 0)
        return r;
    struct part *p = arena_alloc(&b->arena, sizeof *p);
    r = p ? rows_join(&one, 1, &b->arena, &p->rows, &doubled) : -ENOMEM;
    if (r < 0)
        return r;
    p->next = NULL;
    *s->end = p;
    s->end = &p->next;
    s->n_parts++;
    return b->arena.total > b->bytes_max ? E_LIMIT : 0;
}

/* How far beyond the range neighbours are looked for. */
static int64_t reach_of(const struct rebuild_spec *spec)
{
    uint64_t length = (uint64_t)spec->to_ns - (uint64_t)spec->from_ns;
    return length / REACH > (uint64_t)REACH_NS ? (int64_t)(length / REACH) : REACH_NS;
}

static int read_rows(struct rebuild *b, struct view *v)
{
    int64_t reach = reach_of(&b->spec);
    struct scan_spec spec = {.name = b->spec.name,
                             .from_ns =
                                 b->spec.from_ns > INT64_MIN + reach ? b->spec.from_ns - reach : INT64_MIN,
                             .to_ns = b->spec.to_ns < INT64_MAX - reach ? b->spec.to_ns + reach : INT64_MAX,
                             .wants = b->spec.wants,
                             .arg = b->spec.arg,
                             .id_column = UINT16_MAX};
    struct scan *scan;
    struct scan_chunk chunk;
    int r = scan_open(v, &spec, &scan);
    if (r < 0)
        return r;
    while ((r = scan_next(scan, &chunk)) > 0) {
        r = keep_chunk(b, scan, &chunk);
        if (r == 0 && b->spec.go_on)
            r = b->spec.go_on(b->spec.arg, chunk.chunk->n_rows);
        if (r < 0)
            break;
    }
    b->lost = scan_damaged(scan);
    scan_close(scan);
    return r;
}

static int join_stream(struct rebuild *b, struct stream *s)
{
    struct rows_part *parts = arena_alloc(&b->arena, s->n_parts * sizeof *parts);
    uint32_t doubled;
    size_t n = 0;
    if (!parts)
        return -ENOMEM;
    for (const struct part *p = s->parts; p; p = p->next)
        parts[n++] = (struct rows_part){p->rows, b->ids};
    return rows_join(parts, n, &b->arena, &s->rows, &doubled);
}

/* ---------------------------------------------------------------- gaps */

static int compare_int64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool is_same_maker(const struct rows *r, uint32_t a, uint32_t b)
{
    const struct row_origin *x = &r->origins[r->origin[a]], *y = &r->origins[r->origin[b]];
    return x->epoch == y->epoch && memcmp(x->producer, y->producer, sizeof x->producer) == 0;
}

static int find_period(struct rebuild *b, struct stream *s)
{
    const struct rows *r = &s->rows;
    s->period_ns = b->spec.step_ns;
    if (s->period_ns || r->n < 3)
        return 0;
    int64_t *all = mem_try_alloc(r->n * sizeof *all);
    size_t n = 0;
    if (!all)
        return -ENOMEM;
    for (uint32_t i = 1; i < r->n; i++)
        if (is_same_maker(r, i - 1, i) && r->time_ns[i] > r->time_ns[i - 1])
            all[n++] = r->time_ns[i] - r->time_ns[i - 1];
    qsort(all, n, sizeof *all, compare_int64);
    s->period_ns = n > 1 ? all[n / 2] : 0;
    mem_free(all);
    return 0;
}

/* How many rows would fit between row - 1 and row; 0: it is no gap. */
static uint64_t gap_of(const struct stream *s, uint32_t row)
{
    const struct rows *r = &s->rows;
    if (row == 0 || row >= r->n || s->period_ns == 0 || !is_same_maker(r, row - 1, row) ||
        r->seq[row - 1] == 0 || r->seq[row] <= r->seq[row - 1] + 1)
        return 0;
    uint64_t apart = (uint64_t)(r->time_ns[row] - r->time_ns[row - 1]), period = (uint64_t)s->period_ns;
    uint64_t n = (apart + period / 2) / period;
    return n > 1 && n - 1 <= REBUILD_GAP_MAX ? n - 1 : 0;
}

static int want_seqs(struct rebuild *b, const struct stream *s)
{
    const struct rows *r = &s->rows;
    int e = 0;
    for (uint32_t i = 1; e == 0 && i < r->n; i++)
        if (gap_of(s, i) && r->time_ns[i] >= b->spec.from_ns && r->time_ns[i - 1] < b->spec.to_ns)
            e = seqs_want(&b->seqs, &r->origins[r->origin[i]], r->seq[i - 1], r->seq[i],
                          r->time_ns[i - 1] - s->period_ns, r->time_ns[i] + s->period_ns);
    return e;
}

static int prepare(struct rebuild *b, struct view *v)
{
    int r = read_rows(b, v);
    for (struct stream *s = b->streams; r == 0 && s; s = s->next) {
        r = join_stream(b, s);
        if (r == 0)
            r = find_period(b, s);
        if (r == 0)
            r = want_seqs(b, s);
    }
    if (r == 0 && b->arena.total > b->bytes_max)
        r = E_LIMIT;
    return r < 0 ? r : seqs_read(&b->seqs, v, b->bytes_max, b->spec.go_on, b->spec.arg, &b->lost);
}

int rebuild_run(struct view *v, const struct rebuild_spec *spec, struct rebuild **out, struct diag *why)
{
    struct rebuild *b = mem_try_alloc(sizeof *b);
    if (!b)
        return -ENOMEM;
    b->spec = *spec;
    b->table = view_table(v, spec->name);
    b->end = &b->streams;
    b->bytes_max = spec->bytes_max ? spec->bytes_max : BYTES_MAX;
    uint32_t n = b->table ? b->table->n_columns : 0;
    b->ids = arena_alloc(&b->arena, (n + 1) * sizeof *b->ids);
    b->values = arena_alloc(&b->arena, (n + 1) * sizeof *b->values);
    b->errors = arena_alloc(&b->arena, (n + 1) * sizeof *b->errors);
    int r = b->ids && b->values && b->errors ? 0 : -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < n; i++)
        b->ids[i] = (uint16_t)i;
    if (r == 0 && b->table && spec->from_ns < spec->to_ns)
        r = prepare(b, v);
    if (r < 0) {
        rebuild_destroy(b);
        return r == E_LIMIT
                   ? diag_set(why, r, 0,
                              "more rows than fit in memory: ask for a shorter time or fewer streams")
                   : r;
    }
    b->at = b->streams;
    *out = b;
    return 0;
}

/* ---------------------------------------------------------------- estimates */

static bool get_number(const struct column *c, uint32_t row, double *out)
{
    if (!column_has(c, row))
        return false;
    *out = c->type == VALUE_INT ? (double)c->i[row] : c->type == VALUE_FLOAT ? c->f[row] : (double)c->u[row];
    return isfinite(*out);
}

/* Up to REBUILD_NEIGHBOURS rows on either side of the gap before `row` that have a number, with times from
 * `at`. */
static size_t neighbours(const struct stream *s, const struct column *c, uint32_t row, int64_t at,
                         struct fit_point *points)
{
    const struct rows *r = &s->rows;
    size_t n = 0;
    double scale = (double)s->period_ns;
    for (uint32_t i = row, before = 0; i-- > 0 && before < REBUILD_NEIGHBOURS && is_same_maker(r, i, row);)
        if (get_number(c, i, &points[n].y)) {
            points[n++].x = (double)(r->time_ns[i] - at) / scale;
            before++;
        }
    for (uint32_t i = row, after = 0; i < r->n && after < REBUILD_NEIGHBOURS && is_same_maker(r, i, row); i++)
        if (get_number(c, i, &points[n].y)) {
            points[n++].x = (double)(r->time_ns[i] - at) / scale;
            after++;
        }
    return n;
}

/* A number of the column's type. */
static struct value number_of(uint8_t type, double y)
{
    if (type == VALUE_FLOAT)
        return value_float(y);
    y = nearbyint(y);
    if (type == VALUE_INT)
        return value_int(y >= 0x1p63 ? INT64_MAX : y < -0x1p63 ? INT64_MIN : (int64_t)y);
    return value_uint(y >= 0x1p64 ? UINT64_MAX : y <= 0 ? 0 : (uint64_t)y);
}

/* A counter goes up from one side of the gap to the other; false: it does not, so it was reset. */
static bool bound_counter(const struct column *c, uint32_t row, struct fit *f)
{
    double low, high;
    if (!get_number(c, row - 1, &low) || !get_number(c, row, &high) || high < low)
        return false;
    f->y = f->y < low ? low : f->y > high ? high : f->y;
    f->error = f->error > high - low ? high - low : f->error; /* NaN stays */
    return true;
}

static void estimate(const struct rebuild *b, const struct column *c, uint32_t row, int64_t at,
                     struct value *v, double *error)
{
    const struct field *field = &b->table->columns[c->id];
    struct fit_point points[2 * REBUILD_NEIGHBOURS];
    bool is_number = !value_is_text(c->type) && c->type != VALUE_BOOL && field->kind != KIND_STATE;
    if (!is_number) {
        struct value before = column_value(c, row - 1);
        *v = value_eq(before, column_value(c, row)) ? before : value_none();
        return;
    }
    size_t n = neighbours(b->at, c, row, at, points);
    if (n < 2)
        return;
    struct fit f = fit_line(points, n);
    if (field->kind == KIND_COUNTER && !bound_counter(c, row, &f))
        return;
    *v = number_of(c->type, f.y);
    *error = f.error;
}

/* ---------------------------------------------------------------- giving */

static void clear(struct rebuild *b)
{
    for (uint32_t i = 0; i < b->table->n_columns; i++) {
        b->values[i] = value_none();
        b->errors[i] = (double)NAN;
    }
}

static void give_measured(struct rebuild *b, struct rebuild_row *out)
{
    const struct rows *r = &b->at->rows;
    clear(b);
    for (uint32_t i = 0; i < r->n_columns; i++)
        b->values[r->columns[i].id] = column_value(&r->columns[i], b->row);
    *out = (struct rebuild_row){
        .key = b->at->key, .time_ns = r->time_ns[b->row], .table = b->table, .values = b->values};
    b->row++;
    b->is_gap_known = false;
}

static void give_rebuilt(struct rebuild *b, int64_t at, struct rebuild_row *out)
{
    const struct rows *r = &b->at->rows;
    clear(b);
    for (uint32_t i = 0; i < r->n_columns; i++) {
        uint16_t id = r->columns[i].id;
        estimate(b, &r->columns[i], b->row, at, &b->values[id], &b->errors[id]);
    }
    *out = (struct rebuild_row){.key = b->at->key,
                                .time_ns = at,
                                .is_rebuilt = true,
                                .table = b->table,
                                .values = b->values,
                                .errors = b->errors};
}

/* How many rows are to be made before b->row: as many as there is room for and numbers are missing. */
static void find_gap(struct rebuild *b)
{
    const struct rows *r = &b->at->rows;
    b->gap_at = 0;
    b->is_gap_known = true;
    b->gap_n = gap_of(b->at, b->row);
    if (b->gap_n == 0)
        return;
    uint64_t lost =
        seqs_missing(&b->seqs, &r->origins[r->origin[b->row]], r->seq[b->row - 1], r->seq[b->row]);
    b->gap_n = lost < b->gap_n ? lost : b->gap_n;
}

static bool is_asked(const struct rebuild *b, int64_t time_ns)
{
    return time_ns >= b->spec.from_ns && time_ns < b->spec.to_ns;
}

bool rebuild_next(struct rebuild *b, struct rebuild_row *out)
{
    while (b->at) {
        const struct rows *r = &b->at->rows;
        if (b->row >= r->n) {
            b->at = b->at->next;
            b->row = 0;
            b->is_gap_known = false;
            continue;
        }
        if (!b->is_gap_known)
            find_gap(b);
        if (b->gap_at < b->gap_n) {
            int64_t before = r->time_ns[b->row - 1], apart = r->time_ns[b->row] - before;
            int64_t at = before + (int64_t)((double)apart * (double)++b->gap_at / (double)(b->gap_n + 1));
            if (!is_asked(b, at))
                continue;
            give_rebuilt(b, at, out);
            return true;
        }
        if (is_asked(b, r->time_ns[b->row])) {
            give_measured(b, out);
            return true;
        }
        b->row++;
        b->is_gap_known = false;
    }
    return false;
}
