/* SPDX-License-Identifier: Apache-2.0 */
/* Two passes over each range at most: metrics from columns, chunk by chunk, as no order is needed but within
 * a stream's chunk (the rate over the seam of two chunks is left out); and events that have an id, in order
 * of time (extract.h). With a condition, which is about events, everything comes from the second. */
#include "archive/deviation.h"

#include "archive/extract.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { BASELINE, RUN, SIDES };
#define SIGMA_LEAST 0.01 /* of the mean */

/* ---------------------------------------------------------------- values of one side */

struct bucket {
    uint32_t key;
    uint32_t count;
};

struct stats {
    uint64_t n;
    double mean, m2, min, max;
    struct bucket *buckets; /* by key */
    uint32_t n_buckets, max_buckets;
};

/* Sign, exponent and six bits of the fraction, in the order of the numbers. */
static uint32_t bucket_key(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    bits = bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
    return (uint32_t)(bits >> 46);
}

/* The middle of a bucket. */
static double bucket_value(uint32_t key)
{
    uint64_t bits = (uint64_t)key << 46 | UINT64_C(1) << 45;
    bits = bits >> 63 ? bits & ~(UINT64_C(1) << 63) : ~bits;
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static int add_bucket(struct stats *s, uint32_t at, uint32_t key)
{
    if (s->n_buckets == s->max_buckets) {
        uint32_t max = s->max_buckets ? s->max_buckets * 2 : 8;
        struct bucket *all = mem_try_resize(s->buckets, max * sizeof *all);
        if (!all)
            return -ENOMEM;
        s->buckets = all;
        s->max_buckets = max;
    }
    memmove(s->buckets + at + 1, s->buckets + at, (s->n_buckets - at) * sizeof *s->buckets);
    s->buckets[at] = (struct bucket){.key = key};
    s->n_buckets++;
    return 0;
}

static int stats_add(struct stats *s, double v)
{
    uint32_t key = bucket_key(v), from = 0, to = s->n_buckets;
    if (!isfinite(v))
        return 0;
    while (from < to) {
        uint32_t mid = from + (to - from) / 2;
        if (s->buckets[mid].key < key)
            from = mid + 1;
        else
            to = mid;
    }
    if (from == s->n_buckets || s->buckets[from].key != key) {
        int r = add_bucket(s, from, key);
        if (r < 0)
            return r;
    }
    s->buckets[from].count += s->buckets[from].count < UINT32_MAX;
    s->min = s->n == 0 || v < s->min ? v : s->min;
    s->max = s->n == 0 || v > s->max ? v : s->max;
    double delta = v - s->mean;
    s->mean += delta / (double)++s->n;
    s->m2 += delta * (v - s->mean);
    return 0;
}

static double percentile_95(const struct stats *s)
{
    uint64_t want = (s->n * 95 + 99) / 100, seen = 0;
    double v = s->max;
    for (uint32_t i = 0; i < s->n_buckets; i++) {
        seen += s->buckets[i].count;
        if (seen >= want) {
            v = bucket_value(s->buckets[i].key);
            break;
        }
    }
    return v < s->min ? s->min : v > s->max ? s->max : v;
}

static struct deviation_side side_of(const struct stats *s)
{
    if (s->n == 0)
        return (struct deviation_side){0};
    double sigma = s->n > 1 ? sqrt(s->m2 / (double)(s->n - 1)) : 0;
    return (struct deviation_side){.count = s->n, .mean = s->mean, .p95 = percentile_95(s), .sigma = sigma};
}

/* ---------------------------------------------------------------- hops and metrics */

struct compared {
    bool is_hop, is_counter;
    struct slice event, next, host, prog, keys, field, unit;
    struct stats sides[SIDES];
    /* Of a counter that comes event by event: the one before. */
    int64_t last_ns;
    double last;
    bool has_last;
};

struct open_id {
    struct slice key, event;
    int64_t time_ns;
};

struct deviations {
    const struct deviation_spec *spec; /* while it is made */
    struct diag *why;
    struct view *view;
    struct arena arena;    /* names */
    struct arena id_arena; /* of one side */
    struct map compared;   /* by key, owned */
    struct map ids;
    struct strbuf key;
    int side;
    struct scan_loss loss;
    struct deviation *found;
    size_t n;
};

static int check(const struct deviations *d)
{
    return d->spec->check ? d->spec->check(d->spec->arg) : 0;
}

static struct slice keep(struct deviations *d, struct slice s)
{
    return arena_copy(&d->arena, s);
}

/* The one of that key, which is in d->key, made if it must be: fields are to be filled in where event.p is
 * NULL. */
static int find_compared(struct deviations *d, struct compared **out)
{
    if (strbuf_failed(&d->key))
        return -ENOMEM;
    *out = map_get(&d->compared, strbuf_slice(&d->key));
    if (*out)
        return 0;
    if (d->compared.n >= DEVIATION_METRICS_MAX)
        return diag_set(d->why, E_LIMIT, 0,
                        "more than %d hops and metrics; ask for less with the baseline's condition",
                        DEVIATION_METRICS_MAX);
    struct slice key = keep(d, strbuf_slice(&d->key));
    struct compared *c = key.p ? mem_try_alloc(sizeof *c) : NULL;
    int r = c ? map_put(&d->compared, key, c) : -ENOMEM;
    if (r < 0) {
        mem_free(c);
        return r;
    }
    *out = c;
    return 0;
}

static bool is_number(uint8_t type)
{
    return type == VALUE_INT || type == VALUE_UINT || type == VALUE_FLOAT || type == VALUE_BOOL;
}

static double number_of(struct value v)
{
    return v.type == VALUE_INT ? (double)v.i : v.type == VALUE_FLOAT ? v.f : (double)v.u;
}

static bool is_metric(const struct deviations *d, const struct field *f)
{
    return is_number(f->type) && f->role != ROLE_KEY && !slice_eq(f->name, d->spec->id);
}

/* stream: the key's bytes; keys: its fields as text. */
static int find_metric(struct deviations *d, struct slice stream, const struct field *f,
                       const struct stream_key_parts *parts, struct slice keys, struct compared **out)
{
    strbuf_reset(&d->key);
    strbuf_printf(&d->key, "m%.*s/%u/", SLICE_ARG(f->name), (unsigned)f->type);
    strbuf_add_slice(&d->key, stream);
    int r = find_compared(d, out);
    struct compared *c = *out;
    if (r < 0 || c->event.p)
        return r;
    c->is_counter = f->kind == KIND_COUNTER;
    c->event = keep(d, parts->name);
    c->host = keep(d, parts->host);
    c->prog = keep(d, parts->prog);
    c->keys = keep(d, keys);
    c->field = keep(d, f->name);
    c->unit = keep(d, f->unit);
    return c->event.p && c->host.p && c->prog.p && c->keys.p && c->field.p && c->unit.p ? 0 : -ENOMEM;
}

static int find_hop(struct deviations *d, struct slice event, struct slice next, struct compared **out)
{
    strbuf_reset(&d->key);
    strbuf_printf(&d->key, "h%.*s/%.*s", SLICE_ARG(event), SLICE_ARG(next));
    int r = find_compared(d, out);
    struct compared *c = *out;
    if (r < 0 || c->event.p)
        return r;
    c->is_hop = true;
    c->event = keep(d, event);
    c->next = keep(d, next);
    c->unit = SLICE_LIT("s");
    return c->event.p && c->next.p ? 0 : -ENOMEM;
}

/* A counter that is lower than it was has begun anew. */
static int add_rate(struct stats *s, double before, double now, int64_t ns)
{
    if (ns <= 0 || isnan(before) || isnan(now))
        return 0;
    return stats_add(s, (now >= before ? now - before : now) * (double)NS_PER_S / (double)ns);
}

/* ---------------------------------------------------------------- metrics by chunk */

static int add_column(struct stats *s, const struct rows *r, const struct column *c, bool is_counter,
                      struct deviation_range range)
{
    bool has_last = false;
    double last = 0;
    int64_t last_ns = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->time_ns[i] < range.from_ns || r->time_ns[i] >= range.to_ns || !column_has(c, i))
            continue;
        double v = number_of(column_value(c, i));
        int e = !is_counter ? stats_add(s, v) : has_last ? add_rate(s, last, v, r->time_ns[i] - last_ns) : 0;
        if (e < 0)
            return e;
        has_last = true;
        last = v;
        last_ns = r->time_ns[i];
    }
    return 0;
}

static bool may_see(const struct deviations *d, const struct stream_key_parts *parts, struct slice field)
{
    const struct sql_access *a = d->spec->access;
    return !a || !a->may_field || a->may_field(a->arg, parts->name, parts->host, field);
}

static void print_keys(struct strbuf *out, struct slice fields)
{
    struct slice name;
    struct value v;
    while (stream_key_next(&fields, &name, &v))
        stream_key_print_field(out, 0, name, v);
}

static int add_chunk(struct deviations *d, struct scan *s, const struct scan_chunk *c, const uint16_t *want,
                     size_t n)
{
    struct rows rows;
    struct strbuf keys = {0};
    struct stream_key_parts parts = stream_key_split(c->chunk->key);
    int r = scan_read(s, BLOB_TIMES, want, n, &rows);
    if (r < 0)
        return r == E_DAMAGE ? 0 : r; /* counted */
    print_keys(&keys, parts.fields);
    for (uint32_t i = 0; i < rows.n_columns && r == 0; i++) {
        const struct field *f = &c->table->columns[rows.columns[i].id];
        struct compared *m = NULL;
        if (!may_see(d, &parts, f->name))
            continue;
        r = find_metric(d, c->chunk->key, f, &parts, strbuf_slice(&keys), &m);
        if (r == 0)
            r = add_column(&m->sides[d->side], &rows, &rows.columns[i], m->is_counter,
                           d->side == RUN ? d->spec->run : d->spec->baseline);
    }
    strbuf_fini(&keys);
    return r;
}

static bool wants_stream(void *arg, struct slice key, const struct stream_key_parts *parts)
{
    const struct deviations *d = arg;
    const struct sql_access *a = d->spec->access;
    (void)key; /* its parts are enough */
    if (extract_is_derived(d->view, parts))
        return false;
    return !a || !a->may_stream || a->may_stream(a->arg, parts->name, parts->host);
}

static int scan_table(struct deviations *d, const struct table_def *t, struct deviation_range range)
{
    const struct sql_access *a = d->spec->access;
    struct scan_spec spec = {.name = t->name,
                             .from_ns = range.from_ns,
                             .to_ns = range.to_ns - 1,
                             .wants = wants_stream,
                             .arg = d,
                             .id_column = UINT16_MAX};
    uint16_t want[ROWS_COLUMNS_MAX];
    size_t n = 0;
    struct scan *s = NULL;
    struct scan_chunk c;
    for (uint32_t i = 0; i < t->n_columns; i++)
        if (is_metric(d, &t->columns[i]))
            want[n++] = (uint16_t)i;
    if (n == 0 || (a && a->may_table && !a->may_table(a->arg, t->name)))
        return 0;
    int r = scan_open(d->view, &spec, &s);
    while (r == 0 && (r = scan_next(s, &c)) > 0) {
        r = check(d);
        if (r == 0)
            r = add_chunk(d, s, &c, want, n);
    }
    if (s) {
        struct scan_loss lost = scan_damaged(s);
        d->loss.rows += lost.rows;
        d->loss.chunks += lost.chunks;
        d->loss.blobs += lost.blobs;
    }
    scan_close(s);
    return r;
}

/* ---------------------------------------------------------------- event by event */

static int add_event_metrics(struct deviations *d, const struct event *e)
{
    struct strbuf stream = {0}, keys = {0};
    int r = 0;
    stream_key_put(&stream, e);
    if (strbuf_failed(&stream))
        r = -ENOMEM;
    struct stream_key_parts parts = {0};
    if (r == 0) {
        parts = stream_key_split(strbuf_slice(&stream));
        print_keys(&keys, parts.fields);
    }
    for (uint32_t i = 0; i < e->schema->n_fields && r == 0; i++) {
        const struct field *f = &e->schema->fields[i];
        struct compared *m = NULL;
        if (!is_metric(d, f) || e->values[i].type == VALUE_NONE)
            continue;
        r = find_metric(d, strbuf_slice(&stream), f, &parts, strbuf_slice(&keys), &m);
        if (r < 0)
            break;
        double v = number_of(e->values[i]);
        struct stats *s = &m->sides[d->side];
        if (!m->is_counter)
            r = stats_add(s, v);
        else if (m->has_last)
            r = add_rate(s, m->last, v, e->time_ns - m->last_ns);
        m->has_last = true;
        m->last = v;
        m->last_ns = e->time_ns;
    }
    strbuf_fini(&stream);
    strbuf_fini(&keys);
    return r;
}

/* The id as bytes: its type and value. */
static void put_id(struct strbuf *out, struct value v)
{
    strbuf_reset(out);
    strbuf_add_char(out, (char)v.type);
    strbuf_add_slice(out, value_is_text(v.type) ? value_slice(v) : slice_of((const char *)&v.u, sizeof v.u));
}

static int open_lifeline(struct deviations *d, struct slice name, int64_t time_ns)
{
    if (d->ids.n >= DEVIATION_IDS_MAX)
        return diag_set(d->why, E_LIMIT, 0, "more than %d ids in one of the ranges; ask for a shorter one",
                        DEVIATION_IDS_MAX);
    struct open_id *o = arena_alloc(&d->id_arena, sizeof *o);
    struct slice key = arena_copy(&d->id_arena, strbuf_slice(&d->key));
    if (!o || !key.p)
        return -ENOMEM;
    *o = (struct open_id){.key = key, .event = name, .time_ns = time_ns};
    return map_put(&d->ids, key, o);
}

static int add_event_hop(struct deviations *d, const struct event *e)
{
    struct value id = event_get(e, d->spec->id);
    struct compared *hop = NULL;
    if (id.type == VALUE_NONE)
        return 0;
    put_id(&d->key, id);
    if (strbuf_failed(&d->key))
        return -ENOMEM;
    /* The table's name outlives the pass; the event's does not. */
    struct slice name = view_table(d->view, e->schema->name)->name;
    struct open_id *o = map_get(&d->ids, strbuf_slice(&d->key));
    if (!o)
        return open_lifeline(d, name, e->time_ns);
    int r = find_hop(d, o->event, name, &hop);
    if (r == 0)
        r = stats_add(&hop->sides[d->side], (double)(e->time_ns - o->time_ns) / (double)NS_PER_S);
    o->event = name;
    o->time_ns = e->time_ns;
    return r;
}

static bool has_id(void *arg, const struct table_def *t)
{
    const struct deviations *d = arg;
    for (uint32_t i = 0; i < t->n_columns; i++)
        if (slice_eq(t->columns[i].name, d->spec->id))
            return true;
    return false;
}

static int check_extract(void *arg)
{
    return check(arg);
}

static int read_events(struct deviations *d, struct deviation_range range, struct selector *selector)
{
    struct extract_spec spec = {.from_ns = range.from_ns,
                                .to_ns = range.to_ns - 1,
                                .selector = selector,
                                .access = d->spec->access,
                                .wants = selector ? NULL : has_id,
                                .check = check_extract,
                                .arg = d};
    struct extract *x = NULL;
    const struct batch *b;
    int r = extract_open(d->view, &spec, &x);
    while (r == 0 && (r = extract_next(x, &b)) > 0) {
        r = 0;
        for (size_t i = 0; i < b->n && r == 0; i++) {
            r = add_event_hop(d, &b->events[i]);
            if (r == 0 && selector)
                r = add_event_metrics(d, &b->events[i]);
        }
    }
    if (x && selector) /* else the other pass counts them */
        d->loss = extract_damaged(x);
    extract_close(x);
    return r;
}

static void forget_ids(struct deviations *d)
{
    map_fini(&d->ids);
    arena_fini(&d->id_arena);
    void *v;
    for (size_t i = 0; map_next(&d->compared, &i, &v);)
        ((struct compared *)v)->has_last = false;
}

static int read_side(struct deviations *d, int side, struct selector *selector)
{
    struct deviation_range range = side == RUN ? d->spec->run : d->spec->baseline;
    int r = 0;
    d->side = side;
    if (range.to_ns <= range.from_ns)
        return diag_set(d->why, E_PROTO, 0, "the %s is empty: it ends before it begins",
                        side == RUN ? "run" : "baseline");
    for (size_t i = 0; !selector && i < view_tables(d->view) && r == 0; i++)
        r = scan_table(d, view_table_at(d->view, i), range);
    if (r == 0)
        r = read_events(d, range, selector);
    forget_ids(d);
    return r;
}

/* ---------------------------------------------------------------- what deviates */

static double score_of(const struct deviation *f)
{
    const struct deviation_side *b = &f->baseline, *r = &f->run;
    if (b->count < DEVIATION_LEAST || r->count < DEVIATION_LEAST) {
        bool is_one_sided = f->is_hop && (b->count == 0 || r->count == 0);
        return is_one_sided && b->count + r->count >= DEVIATION_LEAST ? (double)INFINITY : 0;
    }
    double least = SIGMA_LEAST * fabs(b->mean), sigma = b->sigma > least ? b->sigma : least;
    double mean = fabs(r->mean - b->mean), p95 = fabs(r->p95 - b->p95), far = mean > p95 ? mean : p95;
    if (far == 0)
        return 0;
    return sigma > 0 ? far / sigma : (double)INFINITY;
}

static int compare_names(struct slice a, struct slice b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int r = n ? memcmp(a.p, b.p, n) : 0;
    return r ? r : a.n < b.n ? -1 : a.n > b.n;
}

static int by_score(const void *a, const void *b)
{
    const struct deviation *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    int r = compare_names(x->event, y->event);
    return r ? r : compare_names(x->is_hop ? x->next : x->field, y->is_hop ? y->next : y->field);
}

static int judge(struct deviations *d)
{
    void *v;
    d->found = mem_try_alloc((d->compared.n + 1) * sizeof *d->found);
    if (!d->found)
        return -ENOMEM;
    for (size_t i = 0; map_next(&d->compared, &i, &v);) {
        const struct compared *c = v;
        struct deviation f = {.is_hop = c->is_hop,
                              .event = c->event,
                              .next = c->next,
                              .host = c->host,
                              .prog = c->prog,
                              .keys = c->keys,
                              .field = c->field,
                              .unit = c->unit,
                              .baseline = side_of(&c->sides[BASELINE]),
                              .run = side_of(&c->sides[RUN])};
        f.score = score_of(&f);
        if (f.score > d->spec->k)
            d->found[d->n++] = f;
    }
    qsort(d->found, d->n, sizeof *d->found, by_score);
    return 0;
}

/* ---------------------------------------------------------------- public */

static int make_selector(const struct deviation_spec *spec, struct selector **out, struct diag *why)
{
    static const struct slice none = {"", 0};
    const struct select_spec select = {.events = none, .hosts = none, .where = spec->where, .on_change = none,
                                       .cross = none, .delta = none, .every = none};
    *out = NULL;
    return spec->where.n ? selector_create(&select, clock_utc_ns(), out, why) : 0;
}

int deviations_find(struct view *v, const struct deviation_spec *spec, struct deviations **out,
                    struct diag *why)
{
    struct deviations *d = mem_try_alloc(sizeof *d);
    struct selector *selector = NULL;
    if (!d)
        return -ENOMEM;
    d->spec = spec;
    d->view = v;
    d->why = why;
    int r = make_selector(spec, &selector, why);
    for (int side = 0; side < SIDES && r == 0; side++)
        r = read_side(d, side, selector);
    if (r == 0)
        r = judge(d);
    selector_destroy(selector);
    d->spec = NULL;
    d->why = NULL;
    if (r < 0)
        deviations_destroy(d);
    else
        *out = d;
    return r;
}

void deviations_destroy(struct deviations *d)
{
    void *v;
    if (!d)
        return;
    for (size_t i = 0; map_next(&d->compared, &i, &v);) {
        struct compared *c = v;
        mem_free(c->sides[BASELINE].buckets);
        mem_free(c->sides[RUN].buckets);
        mem_free(c);
    }
    map_fini(&d->compared);
    map_fini(&d->ids);
    arena_fini(&d->id_arena);
    arena_fini(&d->arena);
    strbuf_fini(&d->key);
    mem_free(d->found);
    mem_free(d);
}

size_t deviations_count(const struct deviations *d)
{
    return d->n;
}

const struct deviation *deviations_at(const struct deviations *d, size_t i)
{
    return &d->found[i];
}

struct scan_loss deviations_damaged(const struct deviations *d)
{
    return d->loss;
}
