/* SPDX-License-Identifier: Apache-2.0 */
/* A flush: `rows` collects the events that have an id; the first `derive` sorts and joins them, groups the
 * hops by pair and by edge, and makes all batches, which it gives one by one; `end` remembers the last event
 * of each id. Until then nothing has changed that a second try would see.
 *
 * The derived rows have neither host nor an origin; their prog is "archive", their key zoom: so those of one
 * zoom are neighbours, and the few zooms that a reader needs are read alone. Of outliers zoom is the coarsest
 * that they serve.
 *
 * Names and places are numbered once and for all, up to NAMES_MAX each; beyond that a place is not known ("")
 * and an event of a further name counts as no_memory: the archive's limits on tables and streams are below.
 */
#include "archive/lifeline.h"

#include "archive/lifeline_collect.h"
#include "archive/lifeline_join.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>

enum { OPEN_MAX = 1 << 18, GROUPS_RECENT = 256 };
#define FROM_LATE (LIFE_NONE - 1) /* instead of a name: it came late */

/* ---------------------------------------------------------------- tables */

#define FIELD(z, t, r, k, u, h)                                                                     \
    {                                                                                               \
        .name = {z, sizeof z - 1}, .unit = {u, sizeof u - 1}, .help = {h, sizeof h - 1}, .type = t, \
        .role = r, .kind = k                                                                        \
    }
#define FIELD_ZOOM FIELD("zoom", VALUE_UINT, ROLE_KEY, KIND_UNKNOWN, "", "bins are 4^zoom ns")
#define FIELD_IDS  FIELD("ids", VALUE_TEXT, ROLE_VALUE, KIND_TEXT, "", "the declaration of the id")
#define FIELD_FROM \
    FIELD("hop_from", VALUE_TEXT, ROLE_VALUE, KIND_TEXT, "", "event before; missing: none is known")
#define FIELD_TO   FIELD("hop_to", VALUE_TEXT, ROLE_VALUE, KIND_TEXT, "", "event that ends the hop")
#define FIELD_LATE FIELD("late", VALUE_BOOL, ROLE_VALUE, KIND_STATE, "", "came after a later event of its id")
#define FIELDS_BIN                                                                                    \
    FIELD("serves_from", VALUE_UINT, ROLE_VALUE, KIND_UNKNOWN, "", "the finest zoom that it is for"), \
        FIELD("serves_to", VALUE_UINT, ROLE_VALUE, KIND_UNKNOWN, "", "the coarsest"),                 \
        FIELD("count", VALUE_UINT, ROLE_VALUE, KIND_GAUGE, "", "hops that end in the bin"),           \
        FIELD("errors", VALUE_UINT, ROLE_VALUE, KIND_GAUGE, "", "of them: level error and above"),    \
        FIELD("latency", VALUE_BYTES, ROLE_VALUE, KIND_UNKNOWN, "", "histogram: docs/tiles.md")

static const struct field pair_fields[] = {FIELD_ZOOM, FIELD_IDS,  FIELD_FROM,
                                           FIELD_TO,   FIELD_LATE, FIELDS_BIN};
enum { PAIR_FIELDS = sizeof pair_fields / sizeof *pair_fields };

static const struct field edge_fields[] = {
    FIELD_ZOOM, FIELD_IDS, FIELD("src", VALUE_TEXT, ROLE_VALUE, KIND_TEXT, "", "where the hop begins"),
    FIELD("dst", VALUE_TEXT, ROLE_VALUE, KIND_TEXT, "", "where it ends"), FIELDS_BIN};
enum { EDGE_FIELDS = sizeof edge_fields / sizeof *edge_fields };

static const struct field outlier_fields[] = {
    FIELD_ZOOM,
    FIELD_IDS,
    FIELD_FROM,
    FIELD_TO,
    FIELD_LATE,
    FIELD("id", VALUE_TEXT, ROLE_VALUE, KIND_TEXT, "", "the id"),
    FIELD("latency_ns", VALUE_UINT, ROLE_VALUE, KIND_GAUGE, "ns", "of the hop; missing: it has none"),
    FIELD("on_host", VALUE_TEXT, ROLE_VALUE, KIND_TEXT, "", "host of the event that ends it"),
    FIELD("slow", VALUE_BOOL, ROLE_VALUE, KIND_STATE, "", "one of the slowest; else an error"),
};
enum { OUTLIER_FIELDS = sizeof outlier_fields / sizeof *outlier_fields };

static const struct field lost_fields[] = {
    FIELD("too_long", VALUE_UINT, ROLE_VALUE, KIND_GAUGE, "", "events whose id is too long"),
    FIELD("no_memory", VALUE_UINT, ROLE_VALUE, KIND_GAUGE, "", "events that there was no memory for"),
    FIELD("forgotten", VALUE_UINT, ROLE_VALUE, KIND_GAUGE, "", "open ids that gave way to newer ones"),
};
enum { LOST_FIELDS = sizeof lost_fields / sizeof *lost_fields };

static const struct derived_table {
    struct slice name;
    const struct field *fields;
    size_t n;
} tables[] = {
    {{"lifeline.pair", 13}, pair_fields, PAIR_FIELDS},
    {{"lifeline.edge", 13}, edge_fields, EDGE_FIELDS},
    {{"lifeline.outlier", 16}, outlier_fields, OUTLIER_FIELDS},
    {{"lifeline.lost", 13}, lost_fields, LOST_FIELDS},
};
enum { TABLE_PAIR, TABLE_EDGE, TABLE_OUTLIER, TABLE_LOST, TABLES };

/* ---------------------------------------------------------------- the whole */

struct lost {
    uint64_t too_long, no_memory, forgotten;
};

struct lifeline {
    struct id_set ids;
    int64_t partition_ns;
    size_t open_max;
    struct life_open open;
    struct lifeline_counts counts; /* of flushes that are done */
    struct schema *schemas[TABLES];
    struct registry *registry;
    struct batch_builder *builder;

    struct lost unsaid; /* of flushes before, not in a row yet */

    /* Of this flush. */
    struct life_events flush;
    bool is_derived, is_failed;
    struct batch **batches;
    size_t n_batches, max_batches, given;
    uint64_t rows;
};

static void drop_batches(struct lifeline *l)
{
    for (size_t i = l->given; i < l->n_batches; i++)
        batch_unref(l->batches[i]);
    l->n_batches = l->given = 0;
    l->rows = 0;
}

static void drop_flush(struct lifeline *l)
{
    drop_batches(l);
    life_events_reset(&l->flush); /* a flush of a day ago need not hold memory now */
    l->is_derived = l->is_failed = false;
}

static void take_rows(void *arg, const struct table_def *table, struct slice key, const struct rows *rows)
{
    struct lifeline *l = arg;
    life_collect(&l->flush, &l->ids, table, key, rows);
}

/* ---------------------------------------------------------------- rows out */

static int finish_batch(struct lifeline *l)
{
    if (batch_builder_count(l->builder) == 0)
        return 0;
    if (l->n_batches == l->max_batches) {
        size_t max = l->max_batches ? 2 * l->max_batches : 16;
        struct batch **p = mem_try_resize(l->batches, max * sizeof(struct batch *));
        if (!p)
            return -ENOMEM;
        l->batches = p;
        l->max_batches = max;
    }
    struct batch *b = batch_builder_finish(l->builder, &(struct batch_origin){.epoch = 0});
    if (!b)
        return -ENOMEM;
    l->batches[l->n_batches++] = b;
    return 0;
}

static int add_row(struct lifeline *l, int table, int64_t time_ns, uint8_t level, const struct value *values)
{
    struct event_head head = {
        .time_ns = time_ns, .host = {"", 0}, .prog = SLICE_LIT("archive"), .level = level};
    int r = batch_builder_add_known(l->builder, &head, l->schemas[table], values, NULL);
    l->rows += r == 0;
    return r == 0 && batch_builder_full(l->builder) ? finish_batch(l) : r;
}

/* A pair of event names, or of places, of one declaration: what a pyramid is of. */
struct group {
    struct {
        uint32_t declared, from, to;
    } key;
    uint32_t n, at; /* hops, and where they are: the first */
};

struct deriving {
    struct lifeline *l;
    int table;                  /* TABLE_PAIR, TABLE_EDGE */
    struct life_before *before; /* of each event */
    struct group **group_of;    /* of each event; NULL = none */
    uint32_t *by_time;          /* numbers of events */
    struct pyramid_hop *hops;   /* by group, by time */
    uint16_t *scratch;
    struct map groups; /* by key */
    struct group *recent[GROUPS_RECENT];
    struct arena arena;
    const struct group *group; /* whose pyramid is being built */
    struct strbuf bytes;
    int r;
};

static void put_bin(void *arg, const struct pyramid_bin *b)
{
    struct deriving *d = arg;
    const struct group *g = d->group;
    struct lifeline *l = d->l;
    if (d->r < 0)
        return;
    strbuf_reset(&d->bytes);
    latency_histogram_put(b->latency, &d->bytes);
    if (strbuf_failed(&d->bytes)) {
        d->r = -ENOMEM;
        return;
    }
    struct value ids = value_text(l->ids.declared[g->key.declared].name), none = value_none();
    struct value bin[] = {value_uint(b->serves_from), value_uint(b->serves_to), value_uint(b->count),
                          value_uint(b->errors), value_bytes(strbuf_slice(&d->bytes))};
    struct value values[PAIR_FIELDS] = {value_uint(b->zoom), ids};
    size_t at = 2;
    if (d->table == TABLE_EDGE) {
        values[at++] = value_text(life_place_node(numbered_text(&l->flush.places, g->key.from)));
        values[at++] = value_text(life_place_node(numbered_text(&l->flush.places, g->key.to)));
    } else {
        bool is_late = g->key.from == FROM_LATE;
        values[at++] = is_late || g->key.from == LIFE_NONE
                           ? none
                           : value_text(numbered_text(&l->flush.names, g->key.from));
        values[at++] = value_text(numbered_text(&l->flush.names, g->key.to));
        values[at++] = is_late ? value_bool(true) : none;
    }
    memcpy(&values[at], bin, sizeof bin);
    d->r = add_row(l, d->table, b->from_ns, LEVEL_INFO, values);
}

static void put_outlier(void *arg, const struct pyramid_outlier *o)
{
    struct deriving *d = arg;
    const struct group *g = d->group;
    struct lifeline *l = d->l;
    const struct life_event *e = &l->flush.events[o->hop->ref];
    struct value none = value_none();
    if (d->r < 0)
        return;
    bool is_late = g->key.from == FROM_LATE;
    const struct value values[OUTLIER_FIELDS] = {
        value_uint(o->serves_to),
        value_text(l->ids.declared[g->key.declared].name),
        is_late || g->key.from == LIFE_NONE ? none : value_text(numbered_text(&l->flush.names, g->key.from)),
        value_text(numbered_text(&l->flush.names, g->key.to)),
        is_late ? value_bool(true) : none,
        value_text(slice_of(e->text, e->text_n)),
        e->latency_ns == LATENCY_NONE ? none : value_uint(e->latency_ns),
        value_text(life_place_host(numbered_text(&l->flush.places, e->host))),
        value_bool(o->is_slow),
    };
    d->r = add_row(l, TABLE_OUTLIER, e->time_ns, e->level, values);
}

/* ---------------------------------------------------------------- groups */

static struct group *make_group(struct deriving *d, const struct group *new)
{
    struct group *g = arena_alloc(&d->arena, sizeof *g);
    if (!g)
        return NULL;
    *g = *new;
    return map_put(&d->groups, slice_of((const char *)&g->key, sizeof g->key), g) < 0 ? NULL : g;
}

/* There are few, and they come again and again: most are found where they were last time. */
static struct group *find_group(struct deriving *d, uint32_t declared, uint32_t from, uint32_t to)
{
    struct group probe = {.key = {declared, from, to}};
    struct group **recent = &d->recent[(from * 31 + to + declared * 7) % GROUPS_RECENT];
    if (*recent && memcmp(&(*recent)->key, &probe.key, sizeof probe.key) == 0)
        return *recent;
    struct group *g = map_get(&d->groups, slice_of((const char *)&probe.key, sizeof probe.key));
    if (!g)
        g = make_group(d, &probe);
    return *recent = g;
}

/* The pair that event i ends. */
static struct group *pair_of(struct deriving *d, size_t i)
{
    const struct life_event *e = &d->l->flush.events[i];
    const struct life_before *b = &d->before[i];
    return find_group(d, e->declared, b->is_late ? FROM_LATE : b->name, e->name);
}

/* Is it a hop from one known place to another? */
static bool is_edge(const struct deriving *d, size_t i)
{
    const struct life_event *e = &d->l->flush.events[i];
    if (e->latency_ns == LATENCY_NONE || e->host == LIFE_NONE || d->before[i].host == LIFE_NONE ||
        e->host == d->before[i].host)
        return false;
    return !slice_eq(life_place_node(numbered_text(&d->l->flush.places, e->host)),
                     life_place_node(numbered_text(&d->l->flush.places, d->before[i].host)));
}

static int find_groups(struct deriving *d)
{
    for (size_t i = 0; i < d->l->flush.n; i++) {
        const struct life_event *e = &d->l->flush.events[i];
        d->group_of[i] = NULL;
        if (d->table == TABLE_EDGE && !is_edge(d, i))
            continue;
        struct group *g =
            d->table == TABLE_EDGE ? find_group(d, e->declared, d->before[i].host, e->host) : pair_of(d, i);
        if (!g)
            return -ENOMEM;
        d->group_of[i] = g;
        g->n++;
    }
    return 0;
}

/* Puts hops beside those of their group, in order of time. */
static void place_hops(struct deriving *d)
{
    uint32_t at = 0;
    void *v;
    for (size_t i = 0; map_next(&d->groups, &i, &v);) {
        struct group *g = v;
        g->at = at;
        at += g->n;
        g->n = 0;
    }
    for (size_t k = 0; k < d->l->flush.n; k++) {
        uint32_t i = d->by_time[k];
        const struct life_event *e = &d->l->flush.events[i];
        struct group *g = d->group_of[i];
        if (g)
            d->hops[g->at + g->n++] = (struct pyramid_hop){e->time_ns, e->latency_ns, i, e->level};
    }
}

static int derive_table(struct deriving *d, int table)
{
    d->table = table;
    int r = find_groups(d);
    if (r < 0)
        return r;
    place_hops(d);
    struct pyramid_out out = {put_bin, table == TABLE_PAIR ? put_outlier : NULL, d};
    void *v;
    for (size_t i = 0; d->r == 0 && map_next(&d->groups, &i, &v);) {
        const struct group *g = d->group = v;
        pyramid_build(d->hops + g->at, g->n, d->l->partition_ns, d->scratch, &out);
    }
    map_fini(&d->groups);
    d->groups = (struct map){NULL, 0, 0};
    memset(d->recent, 0, sizeof d->recent);
    arena_reset(&d->arena);
    return d->r;
}

static int derive_lost(struct lifeline *l)
{
    struct lost all = {l->unsaid.too_long + l->flush.lost_too_long,
                       l->unsaid.no_memory + l->flush.lost_no_memory, l->unsaid.forgotten};
    if (!all.too_long && !all.no_memory && !all.forgotten)
        return 0;
    int64_t newest = INT64_MIN;
    for (size_t i = 0; i < l->flush.n; i++)
        newest = l->flush.events[i].time_ns > newest ? l->flush.events[i].time_ns : newest;
    const struct value values[LOST_FIELDS] = {value_uint(all.too_long), value_uint(all.no_memory),
                                              value_uint(all.forgotten)};
    return add_row(l, TABLE_LOST, newest, LEVEL_WARNING, values);
}

static int derive_all(struct lifeline *l)
{
    struct deriving d = {.l = l,
                         .before = mem_try_alloc(l->flush.n * sizeof *d.before),
                         .group_of = mem_try_alloc(l->flush.n * sizeof *d.group_of),
                         .by_time = mem_try_alloc(l->flush.n * sizeof *d.by_time),
                         .hops = mem_try_alloc(l->flush.n * sizeof *d.hops),
                         .scratch = mem_try_alloc(l->flush.n * sizeof *d.scratch)};
    struct life_event *room = mem_try_alloc(l->flush.n * sizeof *room);
    int r = d.before && d.group_of && d.by_time && d.hops && d.scratch && room ? 0 : -ENOMEM;
    if (r == 0) {
        life_sort(l->flush.events, room, l->flush.n);
        life_join(l->flush.events, l->flush.n, &l->open, d.before);
        life_by_time(l->flush.events, l->flush.n, room, d.by_time);
        for (size_t i = 0; i < l->flush.n; i++)
            l->flush.events[i].order = d.before[i].is_late ? FROM_LATE : d.before[i].name;
        r = derive_table(&d, TABLE_PAIR);
    }
    if (r == 0)
        r = derive_table(&d, TABLE_EDGE);
    if (r == 0)
        r = derive_lost(l);
    if (r == 0)
        r = finish_batch(l);
    map_fini(&d.groups);
    arena_fini(&d.arena);
    strbuf_fini(&d.bytes);
    mem_free(d.before);
    mem_free(d.group_of);
    mem_free(d.by_time);
    mem_free(d.hops);
    mem_free(d.scratch);
    mem_free(room);
    return r;
}

static int derive(void *arg, struct batch **out)
{
    struct lifeline *l = arg;
    if (!l->is_derived && l->flush.n) {
        l->is_derived = true;
        if (derive_all(l) < 0) {
            batch_builder_cut(l->builder, 0);
            drop_batches(l);
            l->flush.lost_no_memory += l->flush.n;
            l->flush.n = 0;
            l->is_failed = true;
            return -ENOMEM;
        }
    }
    if (l->given == l->n_batches)
        return 0;
    *out = l->batches[l->given++];
    return 1;
}

/* ---------------------------------------------------------------- the end of a flush */

static void count_events(struct lifeline *l)
{
    l->counts.events += l->flush.n;
    l->counts.derived += l->rows;
    l->counts.too_long += l->flush.lost_too_long;
    l->counts.no_memory += l->flush.lost_no_memory;
    for (size_t i = 0; i < l->flush.n; i++) {
        uint32_t from = l->flush.events[i].order; /* as derive_all left it */
        l->counts.late += from == FROM_LATE;
        l->counts.firsts += from == LIFE_NONE;
        l->counts.hops += from != FROM_LATE && from != LIFE_NONE;
    }
}

static int64_t forget_all(struct lifeline *l)
{
    int64_t n = (int64_t)l->open.n;
    life_open_fini(&l->open);
    return n;
}

static void end_flush(void *arg, bool is_done)
{
    struct lifeline *l = arg;
    if (!is_done) {
        drop_flush(l);
        return;
    }
    bool is_said = l->flush.n > 0; /* derive_lost has put it into a row */
    struct lost unsaid = is_said ? (struct lost){0, 0, 0} : l->unsaid;
    if (!is_said) {
        unsaid.too_long += l->flush.lost_too_long;
        unsaid.no_memory += l->flush.lost_no_memory;
    }
    count_events(l);
    int64_t forgotten = 0;
    if (l->is_failed ||
        (forgotten = life_open_update(&l->open, l->flush.events, l->flush.n, l->open_max)) < 0)
        forgotten = forget_all(l); /* a hop over events that are not known would be a wrong one */
    if (forgotten > 0) {
        unsaid.forgotten += (uint64_t)forgotten;
        l->counts.forgotten += (uint64_t)forgotten;
    }
    l->unsaid = unsaid;
    drop_flush(l);
}

/* ---------------------------------------------------------------- made and unmade */

int lifeline_create(const struct lifeline_options *o, struct lifeline **out, struct diag *why)
{
    struct lifeline *l = mem_try_alloc(sizeof *l);
    if (!l)
        return -ENOMEM;
    l->partition_ns = o->partition_ns ? o->partition_ns : ARCHIVE_PARTITION_NS;
    l->open_max = o->open_max ? o->open_max : OPEN_MAX;
    int r = id_set_parse(o->ids, &l->ids, why);
    for (size_t i = 0; r == 0 && i < TABLES; i++)
        r = schema_create(tables[i].name, tables[i].fields, tables[i].n, &l->schemas[i]);
    if (r == 0) {
        l->registry = registry_create();
        l->builder = l->registry ? batch_builder_create(l->registry, 0) : NULL;
        r = l->builder ? 0 : -ENOMEM;
    }
    if (r < 0) {
        lifeline_destroy(l);
        return r;
    }
    *out = l;
    return 0;
}

void lifeline_destroy(struct lifeline *l)
{
    if (!l)
        return;
    drop_flush(l);
    mem_free(l->batches);
    batch_builder_destroy(l->builder);
    for (size_t i = 0; i < TABLES; i++)
        schema_unref(l->schemas[i]);
    if (l->registry)
        registry_destroy(l->registry);
    life_open_fini(&l->open);
    life_events_fini(&l->flush);
    id_set_fini(&l->ids);
    mem_free(l);
}

struct archive_derive_ops lifeline_ops(struct lifeline *l)
{
    return (struct archive_derive_ops){.rows = take_rows, .derive = derive, .end = end_flush, .arg = l};
}

int lifeline_follow(struct archive *a, const struct lifeline_options *o, struct lifeline **out,
                    struct diag *why)
{
    struct lifeline *l;
    int r = lifeline_create(o, &l, why);
    if (r < 0)
        return r;
    const struct archive_derive_ops ops = lifeline_ops(l);
    archive_on_flush(a, &ops);
    *out = l;
    return 0;
}

void lifeline_counts(const struct lifeline *l, struct lifeline_counts *out)
{
    *out = l->counts;
    out->open = l->open.n;
}

const char *const *lifeline_id_fields(const struct lifeline *l, size_t *n)
{
    *n = l->ids.n_fields;
    return l->ids.fields;
}
