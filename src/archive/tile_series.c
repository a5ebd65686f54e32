/* SPDX-License-Identifier: Apache-2.0 */
/* A field of the streams of one event name: M4, the first, least, greatest and last value of each bin, which
 * is all that a line of one pixel a bin can show. */
#include "archive/bucket.h"
#include "archive/tile_internal.h"

#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>

enum {
    SERIES_MAX = 128,  /* streams of one tile */
    COLUMNS_MAX = 4,   /* types that one field can have */
    CELL_BYTES = 42,   /* of a bin in the tile */
    COARSE_FACTOR = 4, /* where it would be too large */
};

struct cell {
    double first, min, max, last;
    int64_t first_ns, last_ns;
    uint64_t count; /* 0 = nothing */
};

struct series {
    struct tile_job *j;
    const struct table_def *table;
    struct bucket_column columns[COLUMNS_MAX];
    uint32_t n_columns;
    struct {
        struct slice key;
        struct cell *cells; /* TILE_BINS */
    } streams[SERIES_MAX];
    unsigned n_streams;
};

static void cell_add(struct cell *to, const struct cell *c)
{
    if (to->count == 0) {
        *to = *c;
        return;
    }
    if (c->first_ns < to->first_ns) {
        to->first = c->first;
        to->first_ns = c->first_ns;
    }
    if (c->last_ns >= to->last_ns) {
        to->last = c->last;
        to->last_ns = c->last_ns;
    }
    to->min = fmin(to->min, c->min); /* NaN: the other */
    to->max = fmax(to->max, c->max);
    to->count += c->count;
}

static double number_or_nan(struct value v)
{
    return v.type == VALUE_NONE ? (double)NAN : tile_number(v);
}

static struct cell cell_of(const struct column_summary *s)
{
    return (struct cell){.first = number_or_nan(s->first),
                         .min = number_or_nan(s->min),
                         .max = number_or_nan(s->max),
                         .last = number_or_nan(s->last),
                         .first_ns = s->first_ns,
                         .last_ns = s->last_ns,
                         .count = s->count};
}

static int find_columns(struct series *s)
{
    const struct tile_request *q = &s->j->q;
    bool is_there = false;
    for (uint32_t i = 0; i < s->table->n_columns && s->n_columns < COLUMNS_MAX; i++) {
        const struct field *f = &s->table->columns[i];
        if (!slice_eq(f->name, q->field))
            continue;
        is_there = true;
        if (!value_is_text(f->type) && f->role != ROLE_KEY)
            s->columns[s->n_columns++] = (struct bucket_column){.id = (uint16_t)i};
    }
    if (s->n_columns)
        return 0;
    return diag_set(s->j->why, is_there ? E_PROTO : -ENOENT, 0,
                    is_there ? "'%.*s' is not a number" : "there is no field '%.*s'",
                    (int)(q->field.n < 128 ? q->field.n : 128), q->field.p);
}

static bool wants(void *arg, struct slice key, const struct stream_key_parts *parts)
{
    const struct series *s = arg;
    (void)key;
    return tile_wants(s->j, s->table->name, parts) &&
           tile_may_field(s->j, s->table->name, parts->host, s->j->q.field);
}

static int go_on(void *arg, uint64_t rows)
{
    (void)rows;
    return tile_go_on(((const struct series *)arg)->j);
}

/* The stream's cells. NULL: no memory, or (counted) there are too many streams. */
static struct cell *stream_cells(struct series *s, struct slice key, int *r)
{
    if (s->n_streams && slice_eq(s->streams[s->n_streams - 1].key, key))
        return s->streams[s->n_streams - 1].cells;
    if (s->n_streams == SERIES_MAX)
        return NULL;
    struct cell *cells = arena_alloc(&s->j->arena, TILE_BINS * sizeof *cells);
    struct slice copy = arena_copy(&s->j->arena, key);
    if (!cells || !copy.p) {
        *r = -ENOMEM;
        return NULL;
    }
    memset(cells, 0, TILE_BINS * sizeof *cells);
    s->streams[s->n_streams].key = copy;
    s->streams[s->n_streams++].cells = cells;
    return cells;
}

static int fold(struct series *s)
{
    const struct tile_request *q = &s->j->q;
    const struct bucket_table table = {.def = s->table, .columns = s->columns, .n_columns = s->n_columns};
    struct bucket_spec spec = {.tables = &table,
                               .n_tables = 1,
                               .from_ns = q->from_ns,
                               .to_ns = q->last_ns + 1,
                               .step_ns = tile_bin_ns(s->j),
                               .tier_ns = tile_bin_ns(s->j),
                               .wants = wants,
                               .go_on = go_on,
                               .arg = s};
    struct bucket *b = NULL;
    struct bucket_row row;
    struct slice last = {NULL, 0};
    int r = bucket_fold(s->j->v, &spec, &b, s->j->why);
    while (r == 0 && bucket_next(b, &row)) {
        struct cell *cells = stream_cells(s, row.key, &r);
        if (!cells) {
            s->j->w.head.left_out += !last.p || !slice_eq(last, row.key); /* streams */
            last = row.key;
            continue;
        }
        for (uint32_t c = 0; c < s->n_columns; c++) {
            struct cell cell = cell_of(&row.columns[c]);
            if (cell.count && row.time_ns >= q->from_ns)
                cell_add(&cells[tile_bin(s->j, row.time_ns)], &cell);
        }
    }
    if (b) {
        struct scan_loss loss = bucket_damaged(b);
        s->j->w.head.lost += loss.rows + loss.chunks + loss.blobs;
    }
    bucket_destroy(b);
    return r;
}

static size_t count_cells(const struct series *s)
{
    size_t n = 0;
    for (unsigned i = 0; i < s->n_streams; i++)
        for (unsigned b = 0; b < TILE_BINS; b++)
            n += s->streams[i].cells[b].count > 0;
    return n;
}

/* Makes bins wider until the tile is small enough: each into the first of those it is with. */
static unsigned make_coarse(struct series *s)
{
    unsigned wide = 1;
    while (count_cells(s) * CELL_BYTES > TILE_BYTES_MAX && wide < TILE_BINS) {
        wide *= COARSE_FACTOR;
        for (unsigned i = 0; i < s->n_streams; i++) {
            struct cell *cells = s->streams[i].cells;
            for (unsigned b = 0; b < TILE_BINS; b++) {
                struct cell c = cells[b];
                cells[b].count = 0;
                if (c.count)
                    cell_add(&cells[b - b % wide], &c);
            }
        }
    }
    return wide;
}

static void put(struct series *s)
{
    struct tile_writer *w = &s->j->w;
    unsigned wide = make_coarse(s);
    w->head.kind = TILE_SERIES;
    w->head.flags |= wide > 1 ? TILE_COARSE : 0;
    static const enum tile_column all[] = {COLUMN_STREAM, COLUMN_ROW, COLUMN_T,    COLUMN_FIRST,
                                           COLUMN_MIN,    COLUMN_MAX, COLUMN_LAST, COLUMN_COUNT};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tile_declare(w, all[i]);
    tile_put_uint(w, COLUMN_BIN_NS, (uint64_t)tile_bin_ns(s->j) * wide);
    struct strbuf name = {0};
    for (unsigned i = 0; i < s->n_streams; i++) {
        strbuf_reset(&name);
        tile_stream_name(&name, s->streams[i].key);
        tile_put_text(w, COLUMN_STREAM, strbuf_slice(&name));
        for (unsigned b = 0; b < TILE_BINS; b++) {
            const struct cell *c = &s->streams[i].cells[b];
            if (!c->count)
                continue;
            tile_put_uint(w, COLUMN_ROW, i);
            tile_put_uint(w, COLUMN_T, tile_time(&w->head, s->j->q.from_ns + tile_bin_ns(s->j) * b));
            tile_put_float(w, COLUMN_FIRST, c->first);
            tile_put_float(w, COLUMN_MIN, c->min);
            tile_put_float(w, COLUMN_MAX, c->max);
            tile_put_float(w, COLUMN_LAST, c->last);
            tile_put_uint(w, COLUMN_COUNT, c->count);
        }
    }
    strbuf_fini(&name);
}

int tile_series(struct tile_job *j)
{
    const struct table_def *table = tile_may_table(j, j->q.name) ? view_table(j->v, j->q.name) : NULL;
    if (!table)
        return diag_set(j->why, -ENOENT, 0, "there is no event '%.*s'",
                        (int)(j->q.name.n < 128 ? j->q.name.n : 128), j->q.name.p);
    struct series *s = mem_try_alloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    s->j = j;
    s->table = table;
    int r = find_columns(s);
    if (r == 0)
        r = fold(s);
    if (r == 0)
        put(s);
    mem_free(s);
    return r;
}
