/* SPDX-License-Identifier: Apache-2.0 */
/* Events as points: every one while they fit into the tile; else of each stream and bin how many there are,
 * and the worst of them with its id, so that an error is seen however many there are beside it.
 *
 * Of more than DENSE_ROWS only what is needed is read: of chunks that have counts in bins that are as fine as
 * these only those (blob_counts.h); of a chunk that is within one bin and of one level nothing but that, of
 * others times and levels, and ids only where a warning or worse is the worst of its bin. Which way a chunk
 * is counted can't be seen: the worst of a bin is the first of the worst level. */
#include "archive/blob_counts.h"
#include "archive/tile_internal.h"

#include "base/mem.h"
#include "base/text.h"

#include <errno.h>

enum {
    POINTS_MAX = 2500,
    DENSE_ROWS = 1 << 17,
    ROWS_MAX = 512,
    POINT_BYTES = 15 /* and the id */,
    ID_COLUMNS_MAX = ID_FIELDS_MAX * 2
};

struct point {
    int64_t time_ns;
    struct slice id;
    uint64_t count; /* 0 = nothing */
    unsigned row;
    uint8_t severity;
};

struct points {
    struct tile_job *j;
    struct id_set ids;
    const struct table_def *table; /* being scanned */
    struct tile_filter filter;
    struct map by_key; /* of streams: number + 1 */
    struct slice keys[ROWS_MAX];
    struct point *cells[ROWS_MAX]; /* TILE_BINS each */
    unsigned n_rows;
    struct point exact[POINTS_MAX];
    size_t n; /* all there are */
    bool is_dense;
    struct strbuf scratch;
};

/* ROWS_MAX: there is no room for another. */
static unsigned row_of(struct points *p, struct slice key)
{
    uintptr_t known = (uintptr_t)map_get(&p->by_key, key);
    if (known)
        return (unsigned)known - 1;
    if (p->n_rows == ROWS_MAX)
        return ROWS_MAX;
    struct point *cells = arena_alloc(&p->j->arena, TILE_BINS * sizeof *cells);
    struct slice copy = arena_copy(&p->j->arena, key);
    if (!cells || !copy.p || map_put(&p->by_key, copy, (void *)(uintptr_t)(p->n_rows + 1)) < 0)
        return ROWS_MAX;
    for (unsigned i = 0; i < TILE_BINS; i++)
        cells[i] = (struct point){.row = p->n_rows};
    p->keys[p->n_rows] = copy;
    p->cells[p->n_rows] = cells;
    return p->n_rows++;
}

/* Is a to be shown rather than b? */
static bool is_worse(const struct point *a, const struct point *b)
{
    return b->count == 0 || a->severity < b->severity ||
           (a->severity == b->severity && a->time_ns < b->time_ns);
}

static void add_point(struct points *p, const struct point *new)
{
    struct point *cell = &p->cells[new->row][tile_bin(p->j, new->time_ns)], point = *new;
    bool is_worst = is_worse(new, cell);
    if (p->n < POINTS_MAX || is_worst)
        point.id = arena_copy(&p->j->arena, new->id); /* "" if there is no memory for it */
    if (p->n < POINTS_MAX)
        p->exact[p->n] = point;
    p->n++;
    point.count = cell->count + 1;
    if (is_worst)
        *cell = point;
    else
        cell->count++;
}

/* Columns whose values are asked. */
static size_t wanted_columns(const struct points *p, uint16_t out[ID_COLUMNS_MAX])
{
    size_t n = 0;
    for (uint32_t i = 0; i < p->table->n_columns && n < ID_COLUMNS_MAX; i++)
        for (uint32_t f = 0; f < p->ids.declared[0].n_fields; f++)
            if (slice_eq(p->table->columns[i].name, p->ids.declared[0].fields[f])) {
                out[n++] = (uint16_t)i;
                break;
            }
    return n;
}

static bool may_see_id(const struct points *p, struct slice host)
{
    for (uint32_t f = 0; f < p->ids.declared[0].n_fields; f++)
        if (!tile_may_field(p->j, p->table->name, host, p->ids.declared[0].fields[f]))
            return false;
    return true;
}

static bool is_in_tile(const struct points *p, int64_t time_ns)
{
    return time_ns >= p->j->q.from_ns && time_ns <= p->j->q.last_ns;
}

static int add_chunk(void *arg, struct scan *s, const struct scan_chunk *c)
{
    struct points *p = arg;
    uint16_t want[ID_COLUMNS_MAX];
    struct rows rows;
    size_t n_want = wanted_columns(p, want);
    unsigned what = BLOB_TIMES | BLOB_LEVELS | (p->j->where ? BLOB_ALL_COLUMNS : 0);
    int r = scan_read(s, what, want, n_want, &rows);
    if (r < 0)
        return r;
    struct slice key = c->chunk->key;
    struct id_place places[ID_DECLARED_MAX];
    bool has_id =
        may_see_id(p, stream_key_split(key).host) && id_places(&p->ids, c->table, key, &rows, places);
    unsigned row = row_of(p, key);
    tile_filter_stream(&p->filter, key);
    for (uint32_t i = 0; i < rows.n; i++) {
        struct point point = {.time_ns = rows.time_ns[i],
                              .id = SLICE_LIT(""),
                              .count = 1,
                              .row = row,
                              .severity = rows.level[i]};
        if (!is_in_tile(p, point.time_ns))
            continue;
        if (has_id && id_text(&places[0], i, &p->scratch, &point.id) != 1)
            point.id = SLICE_LIT("");
        if ((p->j->q.id.n && !slice_eq(point.id, p->j->q.id)) ||
            !tile_filter_passes(&p->filter, key, &rows, i))
            continue;
        if (row == ROWS_MAX)
            p->j->w.head.left_out++;
        else
            add_point(p, &point);
    }
    return 0;
}

/* Several at once. */
static void add_cell(struct points *p, struct point *cell, const struct point *new)
{
    uint64_t count = cell->count + new->count;
    if (is_worse(new, cell)) {
        cell->time_ns = new->time_ns;
        cell->severity = new->severity;
        cell->id = new->id;
    }
    cell->count = count;
    p->n += new->count;
}

/* All of the chunk's rows are in one bin, and none is worse than the others: they are counted as they are. */
static bool add_at_once(struct points *p, struct point *cells, const struct blob_chunk *c,
                        const struct rows *levels)
{
    if (!is_in_tile(p, c->min_ns) || !is_in_tile(p, c->max_ns) ||
        tile_bin(p->j, c->min_ns) != tile_bin(p->j, c->max_ns) || levels->level[0] <= LEVEL_WARNING)
        return false;
    for (uint32_t i = 1; i < levels->n; i++)
        if (levels->level[i] != levels->level[0])
            return false;
    struct point new = {.time_ns = c->min_ns, .count = levels->n, .severity = levels->level[0]};
    add_cell(p, &cells[tile_bin(p->j, c->min_ns)], &new);
    return true;
}

/* Counts rows. true: some are warnings or worse that are the worst of their bin, so that their ids are asked.
 */
static bool count_rows(struct points *p, struct point *cells, const struct rows *rows)
{
    bool asks_ids = false;
    for (uint32_t i = 0; i < rows->n; i++) {
        if (!is_in_tile(p, rows->time_ns[i]))
            continue;
        struct point *cell = &cells[tile_bin(p->j, rows->time_ns[i])];
        struct point new = {
            .time_ns = rows->time_ns[i], .count = cell->count, .row = cell->row, .severity = rows->level[i]};
        if (is_worse(&new, cell)) {
            *cell = new;
            asks_ids |= rows->level[i] <= LEVEL_WARNING;
        }
        cell->count++;
        p->n++;
    }
    return asks_ids;
}

/* The ids of those that count_rows has found to be the worst. */
static int add_ids(struct points *p, struct point *cells, struct scan *s, const struct scan_chunk *c)
{
    uint16_t want[ID_COLUMNS_MAX];
    struct rows rows;
    size_t n_want = wanted_columns(p, want);
    int r = scan_read(s, BLOB_TIMES | BLOB_LEVELS, want, n_want, &rows);
    struct id_place places[ID_DECLARED_MAX];
    if (r < 0 || !id_places(&p->ids, c->table, c->chunk->key, &rows, places))
        return r;
    for (uint32_t i = 0; i < rows.n; i++) {
        struct slice id;
        if (rows.level[i] > LEVEL_WARNING || !is_in_tile(p, rows.time_ns[i]))
            continue;
        struct point *cell = &cells[tile_bin(p->j, rows.time_ns[i])];
        if (cell->severity != rows.level[i] || cell->time_ns != rows.time_ns[i] || cell->id.p)
            continue;
        if (id_text(&places[0], i, &p->scratch, &id) != 1)
            id = SLICE_LIT("");
        cell->id = arena_copy(&p->j->arena, id); /* none if there is no memory for it */
    }
    return 0;
}

static int add_dense(void *arg, struct scan *s, const struct scan_chunk *c)
{
    struct points *p = arg;
    struct rows rows;
    struct slice key = c->chunk->key;
    unsigned row = row_of(p, key);
    int r = scan_read(s, BLOB_LEVELS, NULL, 0, &rows);
    if (r == 0 && row < ROWS_MAX && add_at_once(p, p->cells[row], c->chunk, &rows))
        return 0;
    if (r == 0)
        r = scan_read(s, BLOB_TIMES | BLOB_LEVELS, NULL, 0, &rows);
    if (r < 0)
        return r;
    if (row == ROWS_MAX) {
        for (uint32_t i = 0; i < rows.n; i++)
            p->j->w.head.left_out += is_in_tile(p, rows.time_ns[i]);
        return 0;
    }
    bool asks_ids = count_rows(p, p->cells[row], &rows);
    return asks_ids && may_see_id(p, stream_key_split(key).host) ? add_ids(p, p->cells[row], s, c) : 0;
}

/* A chunk's counts, whose bins are as fine as the tile's. */
static void add_bins(struct points *p, const struct counts_chunk *chunk)
{
    struct cursor c = cursor_of(chunk->bins);
    struct counts_bin bin = {0};
    unsigned row = ROWS_MAX;
    bool is_known = false, may_id = false;
    while (counts_next_bin(chunk, &c, &bin)) {
        if (!is_in_tile(p, bin.from_ns))
            continue;
        if (!is_known) {
            row = row_of(p, chunk->key);
            may_id = may_see_id(p, stream_key_split(chunk->key).host);
            is_known = true;
        }
        if (row == ROWS_MAX) {
            p->j->w.head.left_out += bin.count;
            continue;
        }
        struct point *cell = &p->cells[row][tile_bin(p->j, bin.from_ns)];
        struct point new = {.time_ns = bin.worst_ns, .count = bin.count, .severity = bin.level};
        if (may_id && bin.id.n && is_worse(&new, cell))
            new.id = arena_copy(&p->j->arena, bin.id); /* none if there is no memory for it */
        add_cell(p, cell, &new);
    }
}

/* What is too coarse, or has no counts, is left to add_dense; so is all behind what can't be read. */
static int add_counts(void *arg, struct counts_reader *counts, uint64_t *done)
{
    struct points *p = arg;
    struct counts_chunk c;
    int r;
    for (uint32_t i = 0; (r = counts_next(counts, &c)) > 0; i++) {
        if (!c.rows)
            continue;
        bool is_outside = c.last_ns < p->j->q.from_ns || c.from_ns > p->j->q.last_ns;
        if (!is_outside && c.zoom > p->j->q.level)
            continue;
        struct stream_key_parts parts = stream_key_split(c.key);
        if (!is_outside && tile_wants(p->j, p->table->name, &parts))
            add_bins(p, &c);
        done[i / 64] |= UINT64_C(1) << i % 64;
    }
    return r == -ENOMEM ? r : 0;
}

static void put_point(struct points *p, const struct point *point, int64_t time_ns)
{
    struct tile_writer *w = &p->j->w;
    tile_put_uint(w, COLUMN_ROW, point->row);
    tile_put_uint(w, COLUMN_T, tile_time(&w->head, time_ns));
    tile_put_uint(w, COLUMN_COUNT, point->count);
    tile_put_uint(w, COLUMN_SEVERITY, point->severity);
    tile_put_text(w, COLUMN_ID, point->id.p ? point->id : SLICE_LIT(""));
}

static size_t cells_bytes(const struct points *p)
{
    size_t n = 0;
    for (unsigned i = 0; i < p->n_rows; i++)
        for (unsigned b = 0; b < TILE_BINS; b++)
            n += p->cells[i][b].count ? POINT_BYTES + p->cells[i][b].id.n : 0;
    return n;
}

static size_t exact_bytes(const struct points *p)
{
    size_t n = !p->is_dense && p->n <= POINTS_MAX ? 0 : SIZE_MAX;
    for (size_t i = 0; n < SIZE_MAX && i < p->n; i++)
        n += POINT_BYTES + p->exact[i].id.n;
    return n;
}

static unsigned make_coarse(struct points *p)
{
    unsigned wide = 1;
    while (cells_bytes(p) > TILE_BYTES_MAX && wide < TILE_BINS) {
        wide *= 4;
        for (unsigned i = 0; i < p->n_rows; i++)
            for (unsigned b = 0; b < TILE_BINS; b++) {
                struct point c = p->cells[i][b], *to = &p->cells[i][b - b % wide];
                p->cells[i][b].count = 0;
                if (!c.count)
                    continue;
                uint64_t count = to->count + c.count;
                if (is_worse(&c, to))
                    *to = c;
                to->count = count;
            }
    }
    return wide;
}

static void put(struct points *p)
{
    struct tile_writer *w = &p->j->w;
    static const enum tile_column all[] = {COLUMN_STREAM, COLUMN_ROW,      COLUMN_T,
                                           COLUMN_COUNT,  COLUMN_SEVERITY, COLUMN_ID};
    w->head.kind = TILE_POINTS;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tile_declare(w, all[i]);
    for (unsigned i = 0; i < p->n_rows; i++) {
        strbuf_reset(&p->scratch);
        tile_stream_name(&p->scratch, p->keys[i]);
        tile_put_text(w, COLUMN_STREAM, strbuf_slice(&p->scratch));
    }
    if (exact_bytes(p) <= TILE_BYTES_MAX) {
        tile_put_uint(w, COLUMN_BIN_NS, 0); /* none: every event by itself */
        for (size_t i = 0; i < p->n; i++)
            put_point(p, &p->exact[i], p->exact[i].time_ns);
        return;
    }
    unsigned wide = make_coarse(p);
    w->head.flags |= wide > 1 ? TILE_COARSE : 0;
    tile_put_uint(w, COLUMN_BIN_NS, (uint64_t)tile_bin_ns(p->j) * wide);
    for (unsigned i = 0; i < p->n_rows; i++)
        for (unsigned b = 0; b < TILE_BINS; b++)
            if (p->cells[i][b].count)
                put_point(p, &p->cells[i][b], p->j->q.from_ns + tile_bin_ns(p->j) * b);
}

static int scan_tables(struct points *p, tile_chunk_fn *fn, void *arg)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < view_tables(p->j->v); i++) {
        p->table = view_table_at(p->j->v, i);
        if (!text_glob(p->j->q.name, p->table->name) || !tile_may_table(p->j, p->table->name))
            continue;
        r = tile_filter_init(&p->filter, p->j, p->table);
        struct tile_scan s = {.table = p->table,
                              .from_ns = p->j->q.from_ns,
                              .last_ns = p->j->q.last_ns,
                              .id_column = tile_id_column(p->j, p->table, &p->ids),
                              .fn = fn,
                              .take_counts = fn == add_dense ? add_counts : NULL,
                              .arg = arg};
        if (r == 0)
            r = tile_scan(p->j, &s);
        tile_filter_fini(&p->filter);
    }
    return r;
}

/* A condition is asked of each row, so each is read. */
static int collect(struct points *p)
{
    struct tile_job *j = p->j;
    struct tile_estimate estimate = {j->q.from_ns, j->q.last_ns, 0, DENSE_ROWS};
    if (!j->where && !j->q.id.n) {
        int r = scan_tables(p, tile_estimate_chunk, &estimate);
        p->is_dense = estimate.rows > estimate.max;
        j->w.head.lost = 0; /* it is counted when it is read */
        if (r < 0 && !p->is_dense)
            return r;
    }
    return scan_tables(p, p->is_dense ? add_dense : add_chunk, p);
}

int tile_points(struct tile_job *j)
{
    struct points *p = mem_try_alloc(sizeof *p);
    if (!p)
        return -ENOMEM;
    p->j = j;
    int r = id_set_parse(NULL, &p->ids, j->why);
    if (r == 0)
        r = collect(p);
    if (r == 0)
        put(p);
    if (r == 0 && strbuf_failed(&p->scratch))
        r = -ENOMEM;
    map_fini(&p->by_key);
    strbuf_fini(&p->scratch);
    id_set_fini(&p->ids);
    mem_free(p);
    return r;
}
