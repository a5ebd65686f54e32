/* SPDX-License-Identifier: Apache-2.0 */
/* Which form: up to LIFE_TILE_ROWS_MAX events of the tile and of as much time before it are read and joined as
 * they are; if each lifeline fits, they are shown, else their density. Where there are more events, the density is
 * of what was derived when they were sealed (lifeline.h), and of those that are not sealed yet. */
#include "archive/tile_lifeline.h"

#include "base/mem.h"
#include "base/text.h"

#include <errno.h>

enum { READ_COLUMNS_MAX = ID_FIELDS_MAX * 2 + 2 }; /* and target */

/* ---------------------------------------------------------------- derived rows */

/* NULL: no row has a value there. */
static const struct column_summary *summary_of(const struct scan_chunk *c, const char *name)
{
    for (uint32_t i = 0; i < c->chunk->n_columns; i++)
        if (c->chunk->ids[i] < c->table->n_columns &&
            slice_eq_str(c->table->columns[c->chunk->ids[i]].name, name))
            return &c->chunk->summaries[i];
    return NULL;
}

bool derived_chunk_serves(const struct scan_chunk *c, unsigned zoom)
{
    const struct column_summary *from = summary_of(c, "serves_from"), *to = summary_of(c, "serves_to");
    return from && to && from->min.type == VALUE_UINT && to->max.type == VALUE_UINT && zoom >= from->min.u &&
           zoom <= to->max.u;
}

int derived_read(struct scan *s, const struct scan_chunk *c, struct derived_rows *out)
{
    out->table = c->table;
    return scan_read(s, BLOB_TIMES | BLOB_LEVELS | BLOB_ALL_COLUMNS, NULL, 0, &out->rows);
}

struct value derived_get(const struct derived_rows *d, const char *name, uint32_t row)
{
    for (uint32_t i = 0; i < d->rows.n_columns; i++) {
        const struct column *c = &d->rows.columns[i];
        if (c->id < d->table->n_columns && slice_eq_str(d->table->columns[c->id].name, name) &&
            column_has(c, row))
            return column_value(c, row);
    }
    return value_none();
}

bool derived_serves(const struct derived_rows *d, uint32_t row, struct slice ids, unsigned zoom)
{
    struct value from = derived_get(d, "serves_from", row), to = derived_get(d, "serves_to", row);
    struct value is = derived_get(d, "ids", row);
    return from.type == VALUE_UINT && to.type == VALUE_UINT && zoom >= from.u && zoom <= to.u &&
           is.type == VALUE_TEXT && slice_eq(value_slice(is), ids);
}

/* ---------------------------------------------------------------- events as they are */

bool life_tile_wants_event(const struct life_tile *t, struct slice event)
{
    return text_glob_any(t->j->q.event, event);
}

/* Can events of the table have the id? */
static bool has_id(const struct life_tile *t, const struct table_def *table)
{
    const struct id_declared *d = &t->ids.declared[0];
    for (uint32_t f = 0; f < d->n_fields; f++) {
        bool found = false;
        for (uint32_t i = 0; !found && i < table->n_columns; i++)
            found = slice_eq(table->columns[i].name, d->fields[f]);
        if (!found)
            return false;
    }
    return !d->events.n || text_glob(d->events, table->name);
}

static bool is_asked(const struct life_tile *t, const struct table_def *table)
{
    return !slice_starts(table->name, SLICE_LIT("lifeline.")) && has_id(t, table) &&
           life_tile_wants_event(t, table->name) && tile_may_table(t->j, table->name);
}

static bool may_see_id(const struct life_tile *t, const struct table_def *table, struct slice host)
{
    const struct id_declared *d = &t->ids.declared[0];
    for (uint32_t f = 0; f < d->n_fields; f++)
        if (!tile_may_field(t->j, table->name, host, d->fields[f]))
            return false;
    return true;
}

struct reading {
    struct life_tile *t;
    int64_t from_ns, last_ns;
};

static bool passes(void *arg, const struct rows *rows, uint32_t row, struct slice id)
{
    const struct reading *r = arg;
    const struct tile_request *q = &r->t->j->q;
    return rows->time_ns[row] >= r->from_ns && rows->time_ns[row] <= r->last_ns &&
           (q->id.n == 0 || slice_eq(q->id, id)) && tile_filter_passes(&r->t->filter, r->t->key, rows, row);
}

static int read_chunk(void *arg, struct scan *s, const struct scan_chunk *c)
{
    struct reading *r = arg;
    struct life_tile *t = r->t;
    uint16_t want[READ_COLUMNS_MAX];
    size_t n = 0;
    struct slice host = stream_key_split(c->chunk->key).host;
    if (!may_see_id(t, c->table, host))
        return 0;
    t->life.hides_targets = !tile_may_field(t->j, c->table->name, host, SLICE_LIT("target"));
    for (uint32_t i = 0; i < c->table->n_columns && n < READ_COLUMNS_MAX; i++) {
        bool is_wanted = !t->life.hides_targets && slice_eq_str(c->table->columns[i].name, "target");
        for (uint32_t f = 0; !is_wanted && f < t->ids.declared[0].n_fields; f++)
            is_wanted = slice_eq(c->table->columns[i].name, t->ids.declared[0].fields[f]);
        if (is_wanted)
            want[n++] = (uint16_t)i;
    }
    struct rows rows;
    unsigned what = BLOB_TIMES | BLOB_LEVELS | BLOB_ORIGINS | (t->j->where ? BLOB_ALL_COLUMNS : 0);
    int e = scan_read(s, what, want, n, &rows);
    if (e < 0)
        return e;
    t->key = c->chunk->key;
    tile_filter_stream(&t->filter, t->key);
    life_collect(&t->life, &t->ids, c->table, t->key, &rows);
    return t->life.lost_no_memory ? -ENOMEM : 0;
}

static int scan_tables(struct life_tile *t, int64_t from_ns, int64_t last_ns, tile_chunk_fn *fn, void *arg)
{
    int e = 0;
    for (size_t i = 0; e == 0 && i < view_tables(t->j->v); i++) {
        const struct table_def *table = view_table_at(t->j->v, i);
        if (!is_asked(t, table))
            continue;
        e = tile_filter_init(&t->filter, t->j, table);
        struct tile_scan s = {.table = table,
                              .from_ns = from_ns,
                              .last_ns = last_ns,
                              .id_column = tile_id_column(t->j, table, &t->ids),
                              .fn = fn,
                              .arg = arg};
        if (e == 0)
            e = tile_scan(t->j, &s);
        tile_filter_fini(&t->filter);
    }
    return e;
}

int life_tile_collect(struct life_tile *t, int64_t from_ns, int64_t last_ns)
{
    struct reading r = {.t = t, .from_ns = from_ns, .last_ns = last_ns};
    t->life.copies = true;
    t->life.passes = passes;
    t->life.passes_arg = &r;
    int e = scan_tables(t, from_ns, last_ns, read_chunk, &r);
    if (e < 0)
        return e;
    size_t n = t->life.n;
    struct life_event *room = mem_try_alloc((n + 1) * sizeof *room);
    t->before = mem_try_alloc((n + 1) * sizeof *t->before);
    if (room && t->before) {
        const struct life_open none = {NULL, 0, 0};
        life_sort(t->life.events, room, n);
        life_join(t->life.events, n, &none, t->before);
    }
    mem_free(room);
    return room && t->before ? 0 : -ENOMEM;
}

static int64_t begin_of(const struct life_tile *t)
{
    return t->j->q.from_ns - (INT64_C(1) << (2 * t->j->q.level + 8));
}

int life_tile_count(struct life_tile *t, int64_t from_ns, int64_t last_ns, uint64_t max, uint64_t *rows)
{
    struct tile_estimate estimate = {from_ns, last_ns, 0, max};
    int r = scan_tables(t, from_ns, last_ns, tile_estimate_chunk, &estimate);
    t->j->w.head.lost = 0; /* it is counted when it is read */
    *rows = estimate.rows;
    return estimate.rows > max ? 0 : r;
}

int life_tile_fits(struct life_tile *t)
{
    uint64_t rows;
    int r = life_tile_count(t, begin_of(t), t->j->q.last_ns, LIFE_TILE_ROWS_MAX, &rows);
    return r < 0 ? r : rows <= LIFE_TILE_ROWS_MAX;
}

int life_tile_collect_all(struct life_tile *t)
{
    return life_tile_collect(t, begin_of(t), t->j->q.last_ns);
}

/* ---------------------------------------------------------------- which form */

static int make(struct life_tile *t)
{
    const struct tile_request *q = &t->j->q;
    int r = life_tile_fits(t);
    if (r < 0)
        return r;
    if (r == 0) {
        if (q->ask == ASK_LIFELINE_EXACT)
            return diag_set(t->j->why, E_LIMIT, 0,
                            "too many events for each lifeline: ask for a shorter time");
        if (q->host.n || q->key.n || q->where.n || q->id.n)
            return diag_set(t->j->why, E_LIMIT, 0,
                            "too many events for host, key, id and where: ask for a shorter time");
        return tile_density_put(t, false);
    }
    r = life_tile_collect_all(t);
    if (r == 0 && q->ask != ASK_LIFELINE_DENSITY)
        r = tile_exact_put(t, q->ask == ASK_LIFELINE_EXACT);
    return r == 0 ? tile_density_put(t, true) : r < 0 ? r : 0;
}

int life_tile_init(struct life_tile *t, struct tile_job *j)
{
    struct strbuf name = {0};
    *t = (struct life_tile){.j = j};
    strbuf_add_slice(&name, j->q.name);
    int r = strbuf_failed(&name) ? -ENOMEM : id_set_parse(name.p, &t->ids, j->why);
    strbuf_fini(&name);
    if (r == 0 && t->ids.n != 1)
        r = diag_set(j->why, E_PROTO, 0, "a tile is of one declaration of ids");
    return r;
}

void life_tile_fini(struct life_tile *t)
{
    life_events_fini(&t->life);
    mem_free(t->before);
    id_set_fini(&t->ids);
}

int tile_lifeline(struct tile_job *j)
{
    struct life_tile t;
    int r = life_tile_init(&t, j);
    if (r == 0)
        r = make(&t);
    life_tile_fini(&t);
    return r;
}
