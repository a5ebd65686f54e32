/* SPDX-License-Identifier: Apache-2.0 */
/* How many hops of each pair ended when (64 bins of the tile's time) and had taken how long
 * (lifeline_pyramid.h); and the outliers: every error that there is room for, then the slowest, of each pair
 * and bin at least one where that fits. head.left_out counts errors that are not among them.
 *
 * A pair that is rare is kept in bins that may be wider than those here, or than the tile: it is then counted
 * where its bin begins. Errors of it are where they are. */
#include "archive/tile_lifeline.h"

#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum {
    X_BINS = 64,               /* so zoom is level + 1 */
    Y_BINS = LATENCY_BINS + 1, /* the last: without a latency */
    PAIRS_MAX = 128,
    CELLS_MAX = 3500,   /* of 11 bytes */
    OUTLIERS_MAX = 600, /* of 21 bytes and an id, in the tile */
    OUTLIERS_SEEN_MAX = 1 << 16,
    NO_LATENCY = 255 /* in the tile */
};

struct pair {
    struct {
        uint32_t from, to, is_late; /* from LIFE_NONE: not known */
    } key;
    uint32_t cells[X_BINS][Y_BINS];
    uint32_t slowest[X_BINS][PYRAMID_SLOWEST]; /* events + 1, of those collected */
};

struct outlier {
    int64_t time_ns;
    double latency_ns; /* NaN = none */
    struct slice id;
    uint32_t pair, host;
    uint8_t severity;
};

struct density {
    struct life_tile *t;
    struct numbered names, hosts; /* of the tile */
    struct map by_key;            /* of pairs: number + 1 */
    struct pair *pairs[PAIRS_MAX];
    unsigned n_pairs;
    struct outlier *outliers;
    size_t n_outliers;
    uint64_t errors; /* all there are */
    bool is_hidden;  /* there are pairs that the asker may not see */
    bool is_derived; /* there are counts of these ids: they are declared */
};

static unsigned zoom_of(const struct density *d)
{
    return d->t->j->q.level + 1;
}

/* NULL: there is no room for another, or no memory (*r). */
static struct pair *pair_of(struct density *d, struct slice from, struct slice to, bool is_late,
                            uint32_t *number, int *r)
{
    struct pair probe;
    probe.key.from = from.p ? numbered_add(&d->names, from) : LIFE_NONE;
    probe.key.to = numbered_add(&d->names, to);
    probe.key.is_late = is_late;
    struct slice key = {(const char *)&probe.key, sizeof probe.key};
    uintptr_t known = (uintptr_t)map_get(&d->by_key, key);
    if (known) {
        *number = (uint32_t)known - 1;
        return d->pairs[*number];
    }
    if (d->n_pairs == PAIRS_MAX)
        return NULL;
    struct pair *p = arena_alloc(&d->t->j->arena, sizeof *p);
    if (p) {
        memset(p, 0, sizeof *p);
        p->key.from = probe.key.from;
        p->key.to = probe.key.to;
        p->key.is_late = probe.key.is_late;
    }
    if (!p || map_put(&d->by_key, slice_of((const char *)&p->key, sizeof p->key),
                      (void *)(uintptr_t)(d->n_pairs + 1)) < 0) {
        *r = -ENOMEM;
        return NULL;
    }
    *number = d->n_pairs;
    return d->pairs[d->n_pairs++] = p;
}

static unsigned x_of(const struct density *d, int64_t time_ns)
{
    return (unsigned)((uint64_t)(time_ns - d->t->j->q.from_ns) >> (2 * zoom_of(d)));
}

static void add_cell(struct pair *p, unsigned x, unsigned y, uint64_t n)
{
    uint64_t sum = p->cells[x][y] + n;
    p->cells[x][y] = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

static int add_outlier(struct density *d, const struct outlier *o)
{
    if (d->n_outliers == OUTLIERS_SEEN_MAX)
        return 0; /* an error is counted in d->errors */
    struct outlier new = *o;
    new.id = arena_copy(&d->t->j->arena, o->id);
    if (!new.id.p)
        return -ENOMEM;
    d->outliers[d->n_outliers++] = new;
    return 0;
}

/* ---------------------------------------------------------------- of events */

static int add_event_outlier(struct density *d, uint32_t event, uint32_t pair)
{
    const struct life_events *l = &d->t->life;
    const struct life_event *e = &l->events[event];
    struct outlier o = {.time_ns = e->time_ns,
                        .latency_ns = e->latency_ns == LATENCY_NONE ? (double)NAN : (double)e->latency_ns,
                        .id = slice_of(e->text, e->text_n),
                        .pair = pair,
                        .host = numbered_add(&d->hosts, life_place_host(numbered_text(&l->places, e->host))),
                        .severity = e->level};
    return o.host == LIFE_NONE ? -ENOMEM : add_outlier(d, &o);
}

/* Keeps the slowest of the bin, slowest first. */
static void note_slow(struct pair *p, unsigned x, const struct life_event *events, uint32_t event)
{
    uint32_t at = event + 1;
    for (unsigned k = 0; k < PYRAMID_SLOWEST; k++) {
        uint32_t *is = &p->slowest[x][k];
        if (!*is || events[at - 1].latency_ns > events[*is - 1].latency_ns) {
            uint32_t next = *is;
            *is = at;
            at = next;
        }
        if (!at)
            return;
    }
}

static int add_event(struct density *d, uint32_t i)
{
    const struct life_events *l = &d->t->life;
    const struct life_event *e = &l->events[i];
    const struct life_before *b = &d->t->before[i];
    struct slice none = {NULL, 0};
    uint32_t number;
    int r = 0;
    if (e->time_ns < d->t->j->q.from_ns)
        return 0;
    d->errors += e->level <= LEVEL_ERROR;
    struct pair *p = pair_of(d, b->name == LIFE_NONE ? none : numbered_text(&l->names, b->name),
                             numbered_text(&l->names, e->name), false, &number, &r);
    if (!p) {
        d->t->j->w.head.left_out += r == 0;
        return r;
    }
    unsigned x = x_of(d, e->time_ns);
    bool has_latency = e->latency_ns != LATENCY_NONE;
    add_cell(p, x, has_latency ? latency_bin(e->latency_ns) : LATENCY_BINS, 1);
    if (e->level <= LEVEL_ERROR)
        return add_event_outlier(d, i, number);
    if (has_latency)
        note_slow(p, x, l->events, i);
    return 0;
}

static int add_events(struct density *d)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < d->t->life.n; i++)
        r = add_event(d, i);
    for (uint32_t i = 0; r == 0 && i < d->n_pairs; i++)
        for (unsigned x = 0; r == 0 && x < X_BINS; x++)
            for (unsigned k = 0; r == 0 && k < PYRAMID_SLOWEST && d->pairs[i]->slowest[x][k]; k++)
                r = add_event_outlier(d, d->pairs[i]->slowest[x][k] - 1, i);
    return r;
}

/* ---------------------------------------------------------------- of what was derived */

/* The pair of a derived row; NULL: not asked, or not to be seen, or *r. */
static struct pair *derived_pair(struct density *d, const struct derived_rows *rows, uint32_t row,
                                 uint32_t *number, int *r)
{
    struct value from = derived_get(rows, "hop_from", row), to = derived_get(rows, "hop_to", row);
    struct value late = derived_get(rows, "late", row);
    struct slice name = from.type == VALUE_TEXT ? value_slice(from) : (struct slice){NULL, 0};
    const struct tile_job *j = d->t->j;
    if (to.type != VALUE_TEXT || !life_tile_wants_event(d->t, value_slice(to)) ||
        (name.p && !life_tile_wants_event(d->t, name)))
        return NULL;
    if (!tile_may_everywhere(j, value_slice(to)) || (name.p && !tile_may_everywhere(j, name))) {
        d->is_hidden = true;
        return NULL;
    }
    return pair_of(d, name, value_slice(to), late.type == VALUE_BOOL && late.u, number, r);
}

static bool is_in_tile(const struct density *d, int64_t time_ns)
{
    return time_ns >= d->t->j->q.from_ns && time_ns <= d->t->j->q.last_ns;
}

static int add_bin(struct density *d, const struct derived_rows *rows, uint32_t row)
{
    uint32_t number;
    int r = 0;
    struct value count = derived_get(rows, "count", row), bytes = derived_get(rows, "latency", row),
                 errors = derived_get(rows, "errors", row);
    struct pair *p = derived_pair(d, rows, row, &number, &r);
    if (!p || count.type != VALUE_UINT)
        return r;
    struct latency_histogram h = {{0}};
    if (bytes.type == VALUE_BYTES && latency_histogram_add(value_slice(bytes), &h) < 0) {
        d->t->j->w.head.lost++;
        return 0;
    }
    unsigned x = x_of(d, rows->rows.time_ns[row]);
    uint64_t with = 0;
    for (unsigned y = 0; y < LATENCY_BINS; y++) {
        with += h.n[y];
        if (h.n[y])
            add_cell(p, x, y, h.n[y]);
    }
    if (count.u > with)
        add_cell(p, x, LATENCY_BINS, count.u - with);
    d->errors += errors.type == VALUE_UINT ? errors.u : 0;
    return 0;
}

static int add_bins(void *arg, struct scan *s, const struct scan_chunk *c)
{
    struct density *d = arg;
    struct derived_rows rows;
    if (!derived_chunk_serves(c, zoom_of(d)))
        return 0;
    int r = derived_read(s, c, &rows);
    for (uint32_t i = 0; r == 0 && i < rows.rows.n; i++)
        if (is_in_tile(d, rows.rows.time_ns[i]) &&
            derived_serves(&rows, i, d->t->ids.declared[0].name, zoom_of(d))) {
            d->is_derived = true;
            r = add_bin(d, &rows, i);
        }
    return r;
}

static int add_derived_outlier(struct density *d, const struct derived_rows *rows, uint32_t row)
{
    struct value id = derived_get(rows, "id", row), latency = derived_get(rows, "latency_ns", row),
                 host = derived_get(rows, "on_host", row);
    struct outlier o = {.time_ns = rows->rows.time_ns[row], .severity = rows->rows.level[row]};
    int r = 0;
    if (id.type != VALUE_TEXT || !derived_pair(d, rows, row, &o.pair, &r))
        return r;
    o.id = value_slice(id);
    o.latency_ns = latency.type == VALUE_UINT ? (double)latency.u : (double)NAN;
    o.host = numbered_add(&d->hosts, host.type == VALUE_TEXT ? value_slice(host) : SLICE_LIT(""));
    return o.host == LIFE_NONE ? -ENOMEM : add_outlier(d, &o);
}

/* The key of outliers is the coarsest zoom that they serve. */
static bool key_serves(struct slice key, unsigned zoom)
{
    struct slice fields = stream_key_split(key).fields, field;
    struct value v;
    while (stream_key_next(&fields, &field, &v))
        if (slice_eq_str(field, "zoom") && v.type == VALUE_UINT)
            return v.u >= zoom;
    return false;
}

static int add_outliers(void *arg, struct scan *s, const struct scan_chunk *c)
{
    struct density *d = arg;
    struct derived_rows rows;
    if (!key_serves(c->chunk->key, zoom_of(d)))
        return 0;
    int r = derived_read(s, c, &rows);
    for (uint32_t i = 0; r == 0 && i < rows.rows.n; i++) {
        struct value ids = derived_get(&rows, "ids", i);
        if (is_in_tile(d, rows.rows.time_ns[i]) && ids.type == VALUE_TEXT &&
            slice_eq(value_slice(ids), d->t->ids.declared[0].name))
            r = add_derived_outlier(d, &rows, i);
    }
    return r;
}

static int scan_derived(struct density *d, const char *name, tile_chunk_fn *fn)
{
    const struct tile_request *q = &d->t->j->q;
    struct tile_scan s = {.table = view_table(d->t->j->v, slice_str(name)),
                          .from_ns = q->from_ns,
                          .last_ns = q->last_ns,
                          .of_derived = true,
                          .id_column = UINT16_MAX,
                          .fn = fn,
                          .arg = d};
    return s.table ? tile_scan(d->t->j, &s) : 0;
}

/* Nothing was counted here: either no event of these ids is sealed, or the ids are not declared. Then those of the
 * tile's own time are joined, if they are not too many for that: what is there is never left out in silence. */
static int add_uncounted(struct density *d)
{
    const struct tile_request *q = &d->t->j->q;
    uint64_t all, fresh;
    int r = life_tile_count(d->t, q->from_ns, q->last_ns, UINT64_MAX - 1, &all);
    d->t->j->heads_only = true;
    if (r == 0)
        r = life_tile_count(d->t, q->from_ns, q->last_ns, UINT64_MAX - 1, &fresh);
    d->t->j->heads_only = r == 0 && all == fresh;
    if (r == 0 && all > fresh && all > LIFE_TILE_ROWS_MAX)
        return diag_set(d->t->j->why, E_LIMIT, 0,
                        "too many events for ids that are not declared (archive.ids): ask for a shorter time");
    if (r == 0)
        r = life_tile_collect(d->t, q->from_ns, q->last_ns);
    return r == 0 ? add_events(d) : r;
}

static int add_derived(struct density *d)
{
    int r = scan_derived(d, "lifeline.pair", add_bins);
    if (r == 0 && !d->is_derived)
        return add_uncounted(d);
    if (r == 0)
        r = scan_derived(d, "lifeline.outlier", add_outliers);
    d->t->j->heads_only = true;
    if (r == 0)
        r = life_tile_collect(d->t, d->t->j->q.from_ns, d->t->j->q.last_ns);
    if (r == 0)
        r = add_events(d);
    if (r == 0 && d->is_hidden && d->n_pairs == 0)
        r = diag_set(d->t->j->why, -EACCES, 0,
                     "so many events are counted for all hosts together, which you may not see: "
                     "ask for a shorter time");
    return r;
}

/* ---------------------------------------------------------------- into the tile */

static size_t count_cells(const struct density *d)
{
    size_t n = 0;
    for (unsigned i = 0; i < d->n_pairs; i++)
        for (unsigned x = 0; x < X_BINS; x++)
            for (unsigned y = 0; y < Y_BINS; y++)
                n += d->pairs[i]->cells[x][y] > 0;
    return n;
}

static unsigned make_coarse(struct density *d)
{
    unsigned wide = 1;
    while (count_cells(d) > CELLS_MAX && wide < X_BINS) {
        wide *= 4;
        for (unsigned i = 0; i < d->n_pairs; i++)
            for (unsigned x = 0; x < X_BINS; x++)
                for (unsigned y = 0; y < Y_BINS; y++) {
                    uint32_t n = d->pairs[i]->cells[x][y];
                    d->pairs[i]->cells[x][y] = 0;
                    add_cell(d->pairs[i], x - x % wide, y, n);
                }
    }
    return wide;
}

static void put_cells(struct density *d, unsigned wide)
{
    struct tile_writer *w = &d->t->j->w;
    int64_t bin_ns = INT64_C(1) << (2 * zoom_of(d));
    tile_put_uint(w, COLUMN_BIN_NS, (uint64_t)bin_ns * wide);
    for (unsigned i = 0; i < d->n_pairs; i++) {
        const struct pair *p = d->pairs[i];
        tile_put_uint(w, COLUMN_PAIR_FROM, p->key.from == LIFE_NONE ? UINT16_MAX : p->key.from);
        tile_put_uint(w, COLUMN_PAIR_TO, p->key.to);
        tile_put_uint(w, COLUMN_PAIR_LATE, p->key.is_late);
        for (unsigned x = 0; x < X_BINS; x++)
            for (unsigned y = 0; y < Y_BINS; y++) {
                if (!p->cells[x][y])
                    continue;
                tile_put_uint(w, COLUMN_PAIR, i);
                tile_put_uint(w, COLUMN_T, tile_time(&w->head, d->t->j->q.from_ns + bin_ns * x));
                tile_put_uint(w, COLUMN_LATENCY_BIN, y < LATENCY_BINS ? y : NO_LATENCY);
                tile_put_uint(w, COLUMN_COUNT, p->cells[x][y]);
            }
    }
}

/* Errors, the worst first; then by latency. */
static int outliers_first(const void *a, const void *b)
{
    const struct outlier *x = a, *y = b;
    bool ex = x->severity <= LEVEL_ERROR, ey = y->severity <= LEVEL_ERROR;
    if (ex != ey)
        return ex ? -1 : 1;
    if (ex && x->severity != y->severity)
        return x->severity < y->severity ? -1 : 1;
    double lx = isnan(x->latency_ns) ? -1 : x->latency_ns, ly = isnan(y->latency_ns) ? -1 : y->latency_ns;
    if (lx != ly)
        return lx > ly ? -1 : 1;
    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static void put_outliers(struct density *d)
{
    struct tile_writer *w = &d->t->j->w;
    uint64_t errors = 0;
    qsort(d->outliers, d->n_outliers, sizeof *d->outliers, outliers_first);
    for (size_t i = 0; i < d->n_outliers && i < OUTLIERS_MAX; i++) {
        const struct outlier *o = &d->outliers[i];
        tile_put_uint(w, COLUMN_OUTLIER_PAIR, o->pair);
        tile_put_uint(w, COLUMN_OUTLIER_T, tile_time(&w->head, o->time_ns));
        tile_put_float(w, COLUMN_OUTLIER_LATENCY, o->latency_ns);
        tile_put_uint(w, COLUMN_OUTLIER_SEVERITY, o->severity);
        tile_put_uint(w, COLUMN_OUTLIER_HOST, o->host);
        tile_put_text(w, COLUMN_OUTLIER_ID, o->id);
        errors += o->severity <= LEVEL_ERROR;
    }
    w->head.left_out += d->errors > errors ? d->errors - errors : 0;
}

static void put(struct density *d)
{
    static const enum tile_column all[] = {COLUMN_EVENT,
                                           COLUMN_HOST,
                                           COLUMN_PAIR_FROM,
                                           COLUMN_PAIR_TO,
                                           COLUMN_PAIR_LATE,
                                           COLUMN_PAIR,
                                           COLUMN_T,
                                           COLUMN_LATENCY_BIN,
                                           COLUMN_COUNT,
                                           COLUMN_OUTLIER_PAIR,
                                           COLUMN_OUTLIER_T,
                                           COLUMN_OUTLIER_LATENCY,
                                           COLUMN_OUTLIER_SEVERITY,
                                           COLUMN_OUTLIER_HOST,
                                           COLUMN_OUTLIER_ID};
    struct tile_writer *w = &d->t->j->w;
    w->head.kind = TILE_LIFELINE_DENSITY;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tile_declare(w, all[i]);
    unsigned wide = make_coarse(d);
    w->head.flags |= wide > 1 ? TILE_COARSE : 0;
    put_cells(d, wide);
    put_outliers(d);
    for (uint32_t i = 0; i < d->names.n; i++)
        tile_put_text(w, COLUMN_EVENT, numbered_text(&d->names, i));
    for (uint32_t i = 0; i < d->hosts.n; i++)
        tile_put_text(w, COLUMN_HOST, numbered_text(&d->hosts, i));
}

int tile_density_put(struct life_tile *t, bool of_events)
{
    struct density *d = mem_try_alloc(sizeof *d);
    if (!d)
        return -ENOMEM;
    d->t = t;
    d->outliers = mem_try_alloc(OUTLIERS_SEEN_MAX * sizeof *d->outliers);
    int r = d->outliers ? 0 : -ENOMEM;
    if (r == 0)
        r = of_events ? add_events(d) : add_derived(d);
    if (r == 0)
        put(d);
    map_fini(&d->by_key);
    numbered_fini(&d->names);
    numbered_fini(&d->hosts);
    mem_free(d->outliers);
    mem_free(d);
    return r;
}
