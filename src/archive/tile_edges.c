/* SPDX-License-Identifier: Apache-2.0 */
/* Hops from place to place, all of the tile's time together: how many a second, errors, how long they take.
 * Of what was derived (lifeline.edge), and of events that are not sealed yet. The EDGES_MAX with most hops.
 *
 * With `by` they are of the events themselves, joined as tile_lifeline.c does. Hops that stay where they are
 * are there, too, as they tell how long a place is busy; how many ids begin at each; and up to HOPS_MAX of
 * the hops one by one: errors first, of the others every so-manieth in order of time. Of too many events
 * by=place is of what was derived, without all this; programs are not in that. */
#include "archive/tile_lifeline.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>

enum { EDGES_MAX = 1500, HOPS_MAX = 1024 };

struct edge {
    struct {
        uint32_t src, dst;
    } key;
    uint64_t count, errors;
    uint32_t number; /* in the tile; LIFE_NONE: it has no room */
    struct latency_histogram latency;
};

struct hop {
    const struct edge *edge;
    const struct life_event *end;
};

struct edges {
    struct life_tile *t;
    struct numbered nodes;
    struct map by_key;
    struct hop *hops; /* with `by` */
    size_t n_hops;
    uint32_t *firsts; /* with `by`: of each node, NUMBERED_MAX of them */
};

static struct edge *edge_of(struct edges *x, struct slice src, struct slice dst)
{
    struct edge probe;
    probe.key.src = numbered_add(&x->nodes, src);
    probe.key.dst = numbered_add(&x->nodes, dst);
    if (probe.key.src == LIFE_NONE || probe.key.dst == LIFE_NONE)
        return NULL;
    struct edge *e = map_get(&x->by_key, slice_of((const char *)&probe.key, sizeof probe.key));
    if (e)
        return e;
    e = arena_alloc(&x->t->j->arena, sizeof *e);
    if (!e)
        return NULL;
    memset(e, 0, sizeof *e);
    e->key.src = probe.key.src;
    e->key.dst = probe.key.dst;
    e->number = LIFE_NONE;
    return map_put(&x->by_key, slice_of((const char *)&e->key, sizeof e->key), e) < 0 ? NULL : e;
}

static int add_row(struct edges *x, const struct derived_rows *rows, uint32_t row)
{
    struct value src = derived_get(rows, "src", row), dst = derived_get(rows, "dst", row);
    struct value count = derived_get(rows, "count", row), errors = derived_get(rows, "errors", row),
                 latency = derived_get(rows, "latency", row);
    if (src.type != VALUE_TEXT || dst.type != VALUE_TEXT || count.type != VALUE_UINT)
        return 0;
    struct edge *e = edge_of(x, value_slice(src), value_slice(dst));
    if (!e)
        return -ENOMEM;
    e->count += count.u;
    e->errors += errors.type == VALUE_UINT ? errors.u : 0;
    if (latency.type == VALUE_BYTES && latency_histogram_add(value_slice(latency), &e->latency) < 0)
        x->t->j->w.head.lost++;
    return 0;
}

/* A tile of level L is one bin of zoom L + 4. */
static int add_rows(void *arg, struct scan *s, const struct scan_chunk *c)
{
    struct edges *x = arg;
    const struct tile_request *q = &x->t->j->q;
    struct derived_rows rows;
    if (!derived_chunk_serves(c, q->level + 4))
        return 0;
    int r = derived_read(s, c, &rows);
    for (uint32_t i = 0; r == 0 && i < rows.rows.n; i++)
        if (rows.rows.time_ns[i] >= q->from_ns && rows.rows.time_ns[i] <= q->last_ns &&
            derived_serves(&rows, i, x->t->ids.declared[0].name, q->level + 4))
            r = add_row(x, &rows, i);
    return r;
}

static bool is_hop(const struct edges *x, size_t i)
{
    const struct life_event *e = &x->t->life.events[i];
    return e->time_ns >= x->t->j->q.from_ns && e->latency_ns != LATENCY_NONE && e->host != LIFE_NONE &&
           x->t->before[i].host != LIFE_NONE;
}

static bool is_first(const struct edges *x, size_t i)
{
    const struct life_event *e = &x->t->life.events[i];
    return e->time_ns >= x->t->j->q.from_ns && e->latency_ns == LATENCY_NONE && !x->t->before[i].is_late &&
           e->host != LIFE_NONE;
}

/* Another id begins at e's place. A place is one of at most NUMBERED_MAX. */
static int add_first(struct edges *x, const struct life_event *e)
{
    uint32_t node = numbered_add(&x->nodes, life_place_node(numbered_text(&x->t->life.places, e->host)));
    if (node == LIFE_NONE)
        return -ENOMEM;
    x->firsts[node]++;
    return 0;
}

static int add_events(struct edges *x)
{
    const struct life_events *l = &x->t->life;
    for (size_t i = 0; i < l->n; i++) {
        const struct life_event *e = &l->events[i];
        if (x->hops && is_first(x, i) && add_first(x, e) < 0)
            return -ENOMEM;
        if (!is_hop(x, i))
            continue;
        struct slice src = life_place_node(numbered_text(&l->places, x->t->before[i].host));
        struct slice dst = life_place_node(numbered_text(&l->places, e->host));
        if (!x->hops && slice_eq(src, dst))
            continue;
        struct edge *edge = edge_of(x, src, dst);
        if (!edge)
            return -ENOMEM;
        edge->count++;
        edge->errors += e->level <= LEVEL_ERROR;
        edge->latency.n[latency_bin(e->latency_ns)]++;
        if (x->hops)
            x->hops[x->n_hops++] = (struct hop){edge, e};
    }
    return 0;
}

/* 1: done; 0: there are too many events, and a place is asked for. */
static int collect_hops(struct edges *x)
{
    struct tile_job *j = x->t->j;
    x->t->life.by_prog = slice_eq_str(j->q.by, "prog");
    int r = life_tile_fits(x->t);
    if (r == 0 &&
        (x->t->life.by_prog || j->q.host.n || j->q.key.n || j->q.event.n || j->q.id.n || j->q.where.n))
        return diag_set(
            j->why, E_LIMIT, 0,
            "too many events for programs, host, key, event, id and where: ask for a shorter time");
    if (r <= 0)
        return r;
    r = life_tile_collect_all(x->t);
    if (r == 0) {
        x->hops = mem_try_alloc((x->t->life.n + 1) * sizeof *x->hops);
        x->firsts = mem_try_alloc(NUMBERED_MAX * sizeof *x->firsts);
        if (!x->hops || !x->firsts)
            r = -ENOMEM;
        else
            memset(x->firsts, 0, NUMBERED_MAX * sizeof *x->firsts);
    }
    if (r == 0)
        r = add_events(x);
    return r == 0 ? 1 : r;
}

static int collect(struct edges *x)
{
    struct tile_job *j = x->t->j;
    if (!tile_may_everywhere(j, SLICE_LIT("lifeline.edge")))
        return -EACCES;
    struct tile_scan s = {.table = view_table(j->v, SLICE_LIT("lifeline.edge")),
                          .from_ns = j->q.from_ns,
                          .last_ns = j->q.last_ns,
                          .of_derived = true,
                          .id_column = UINT16_MAX,
                          .fn = add_rows,
                          .arg = x};
    int r = s.table ? tile_scan(j, &s) : 0;
    j->heads_only = true;
    if (r == 0)
        r = life_tile_collect(x->t, j->q.from_ns, j->q.last_ns);
    return r == 0 ? add_events(x) : r;
}

static int busiest_first(const void *a, const void *b)
{
    const struct edge *x = *(const struct edge *const *)a, *y = *(const struct edge *const *)b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->key.src != y->key.src ? (x->key.src < y->key.src ? -1 : 1) : (x->key.dst < y->key.dst ? -1 : 1);
}

static void put_edge(struct edges *x, const struct edge *e)
{
    struct tile_writer *w = &x->t->j->w;
    tile_put_uint(w, COLUMN_SRC, e->key.src);
    tile_put_uint(w, COLUMN_DST, e->key.dst);
    tile_put_uint(w, COLUMN_COUNT, e->count);
    tile_put_uint(w, COLUMN_ERRORS, e->errors);
    tile_put_float(w, COLUMN_RATE, (double)e->count / ((double)w->head.span_ns / 1e9));
    tile_put_float(w, COLUMN_P50, latency_histogram_quantile(&e->latency, 0.5) / 1e9);
    tile_put_float(w, COLUMN_P99, latency_histogram_quantile(&e->latency, 0.99) / 1e9);
}

static int by_time(const void *a, const void *b)
{
    const struct life_event *x = ((const struct hop *)a)->end, *y = ((const struct hop *)b)->end;
    return x->time_ns != y->time_ns ? (x->time_ns < y->time_ns ? -1 : 1) : x->order < y->order ? -1 : 1;
}

static void put_hop(struct edges *x, const struct hop *h)
{
    struct tile_writer *w = &x->t->j->w;
    if (h->edge->number == LIFE_NONE)
        return;
    tile_put_uint(w, COLUMN_HOP_EDGE, h->edge->number);
    tile_put_uint(w, COLUMN_HOP_T, tile_time(&w->head, h->end->time_ns));
    tile_put_float(w, COLUMN_HOP_LATENCY, (double)h->end->latency_ns / 1e9);
    tile_put_uint(w, COLUMN_HOP_SEVERITY, h->end->level);
}

/* Errors while they fit in half of the room; of the others so many that the rest is full. */
static void put_hops(struct edges *x)
{
    size_t errors = 0, errors_put = 0, others_put = 0, others = 0;
    for (size_t i = 0; i < x->n_hops; i++)
        errors += x->hops[i].end->level <= LEVEL_ERROR;
    size_t errors_max = errors < HOPS_MAX / 2 ? errors : HOPS_MAX / 2, all = x->n_hops - errors;
    size_t others_max = all < HOPS_MAX - errors_max ? all : HOPS_MAX - errors_max;
    qsort(x->hops, x->n_hops, sizeof *x->hops, by_time);
    for (size_t i = 0; i < x->n_hops; i++) {
        bool is_error = x->hops[i].end->level <= LEVEL_ERROR;
        if (is_error ? errors_put < errors_max : others++ * others_max / all >= others_put) {
            put_hop(x, &x->hops[i]);
            *(is_error ? &errors_put : &others_put) += 1;
        }
    }
}

static int put(struct edges *x)
{
    static const enum tile_column all[] = {COLUMN_NODE,   COLUMN_SRC,  COLUMN_DST, COLUMN_COUNT,
                                           COLUMN_ERRORS, COLUMN_RATE, COLUMN_P50, COLUMN_P99};
    static const enum tile_column of_hops[] = {COLUMN_HOP_EDGE, COLUMN_HOP_T, COLUMN_HOP_LATENCY,
                                               COLUMN_HOP_SEVERITY, COLUMN_NODE_FIRST};
    struct tile_writer *w = &x->t->j->w;
    struct edge **list = mem_try_alloc((x->by_key.n + 1) * sizeof(struct edge *));
    size_t n = 0;
    void *v;
    if (!list)
        return -ENOMEM;
    for (size_t i = 0; map_next(&x->by_key, &i, &v);)
        list[n++] = v;
    qsort(list, n, sizeof(struct edge *), busiest_first);
    w->head.kind = TILE_EDGES;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tile_declare(w, all[i]);
    for (size_t i = 0; i < n && i < EDGES_MAX; i++) {
        list[i]->number = (uint32_t)i;
        put_edge(x, list[i]);
    }
    for (size_t i = 0; x->hops && i < sizeof of_hops / sizeof *of_hops; i++)
        tile_declare(w, of_hops[i]);
    if (x->hops)
        put_hops(x);
    w->head.left_out += n > EDGES_MAX ? n - EDGES_MAX : 0;
    for (uint32_t i = 0; i < x->nodes.n; i++)
        tile_put_text(w, COLUMN_NODE, numbered_text(&x->nodes, i));
    for (uint32_t i = 0; x->firsts && i < x->nodes.n; i++)
        tile_put_uint(w, COLUMN_NODE_FIRST, x->firsts[i]);
    mem_free(list);
    return 0;
}

int tile_edges(struct tile_job *j)
{
    struct life_tile t = {.j = j};
    struct edges x = {.t = &t};
    int r = life_tile_init(&t, j);
    if (r == 0 && j->q.by.n)
        r = collect_hops(&x);
    if (r == 0)
        r = collect(&x);
    if (r >= 0)
        r = put(&x);
    mem_free(x.hops);
    mem_free(x.firsts);
    map_fini(&x.by_key);
    numbered_fini(&x.nodes);
    life_tile_fini(&t);
    return r;
}
