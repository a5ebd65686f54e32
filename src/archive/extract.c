/* SPDX-License-Identifier: Apache-2.0 */
/* Time is cut twice. First into segments: each raw partition is one, and so is what lies between two (heads
 * have rows of any time). For a segment the chunks that reach into it are listed, without reading any, and
 * their rows are spread over BUCKETS equal pieces of its time. Then into windows: as many of these as will
 * fit in memory by that estimate. A window that does not fit after all is halved and begun anew; one of a
 * single nanosecond is given chunk by chunk, as there is no order to keep.
 *
 * Within a window the rows of a chunk are a piece, in order of time; a heap of pieces gives the earliest.
 * With origins rows are sorted by producer, epoch, clock and number instead, and what is without a gap is a
 * batch. */
#include "archive/extract.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>

enum { BUCKETS = 1024, BATCH_EVENTS = 4096, ROW_COST = 48 };

/* Rows of one chunk in the window; everything is in the window's arena but the schema, a reference. */
struct piece {
    const struct schema *schema;
    struct slice host, prog;
    uint32_t n, next;
    const int64_t *time_ns;
    const uint8_t *level;
    const uint64_t *seq;
    const uint16_t *origin;
    const struct row_origin *origins;
    const struct value *values; /* n times the schema's fields */
    uint64_t number;            /* order of arrival, for rows of the same time */
};

/* A row in the order of origins. */
struct row_ref {
    uint32_t piece, row;
};

struct span {
    int64_t min_ns, max_ns;
    uint64_t cost; /* bytes */
};

struct extract {
    struct view *view;
    struct extract_spec spec;
    struct registry *registry;
    struct batch_builder *builder;
    struct batch *lent;
    struct scan_loss loss;
    size_t window_max;

    /* The segment, and what is in it: */
    size_t next_partition;
    int64_t segment_from, segment_to;
    bool has_segment, is_last_segment;
    struct span *spans;
    size_t n_spans, max_spans;
    uint64_t buckets[BUCKETS];
    int64_t low_ns, high_ns;
    uint64_t width_ns; /* of a bucket */

    /* The window: */
    int64_t from_ns, to_ns; /* both in */
    uint64_t fit_ns;        /* it is no longer: the estimate was wrong a moment ago */
    bool has_window;
    struct arena arena;
    size_t used; /* bytes of it */
    struct piece **pieces;
    size_t n_pieces, max_pieces;
    struct piece **heap;
    size_t n_heap;
    struct row_ref *order; /* with_origins */
    size_t n_order, at_order;
    /* Where reading it stands: of use for a window of one nanosecond, which is read in turns. */
    size_t table;
    struct scan *scan;
    bool is_read;
};

/* ---------------------------------------------------------------- opening */

int extract_open(struct view *v, const struct extract_spec *spec, struct extract **out)
{
    struct extract *x = mem_try_alloc(sizeof *x);
    if (!x)
        return -ENOMEM;
    x->view = v;
    x->spec = *spec;
    x->window_max = spec->window_bytes ? spec->window_bytes : EXTRACT_WINDOW_BYTES;
    x->fit_ns = UINT64_MAX;
    x->registry = registry_create();
    x->builder = x->registry ? batch_builder_create(x->registry, BUILDER_BORROW) : NULL;
    if (!x->builder) {
        extract_close(x);
        return -ENOMEM;
    }
    batch_builder_limit(x->builder, BATCH_EVENTS, SIZE_MAX);
    *out = x;
    return 0;
}

static void drop_window(struct extract *x)
{
    for (size_t i = 0; i < x->n_pieces; i++)
        schema_unref(x->pieces[i]->schema);
    x->n_pieces = x->n_heap = x->n_order = x->at_order = 0;
    mem_free(x->order);
    x->order = NULL;
    x->used = 0;
    arena_reset(&x->arena);
}

static void rewind_window(struct extract *x)
{
    scan_close(x->scan);
    x->scan = NULL;
    x->table = 0;
    x->is_read = false;
}

void extract_close(struct extract *x)
{
    if (!x)
        return;
    batch_unref(x->lent);
    drop_window(x);
    rewind_window(x);
    arena_fini(&x->arena);
    mem_free(x->pieces);
    mem_free(x->heap);
    mem_free(x->spans);
    batch_builder_destroy(x->builder);
    registry_destroy(x->registry);
    mem_free(x);
}

struct scan_loss extract_damaged(const struct extract *x)
{
    return x->loss;
}

int64_t extract_at_ns(const struct extract *x)
{
    return x->has_window ? x->from_ns : x->has_segment ? x->segment_from : x->spec.from_ns;
}

/* ---------------------------------------------------------------- what is asked for */

static const struct field *find_column(const struct table_def *t, struct slice name, uint8_t type)
{
    for (uint32_t i = 0; i < t->n_columns; i++)
        if (t->columns[i].type == type && slice_eq(t->columns[i].name, name))
            return &t->columns[i];
    return NULL;
}

/* The archive marks streams of its own by a key field that no event has (archive.h): `overflow`, whose rows
 * have their keys as columns, and `derived`, which are no events. */
static bool is_mark(const struct table_def *t, const char *mark, struct slice name, struct value v)
{
    if (v.type != VALUE_BOOL || !v.u || !slice_eq_str(name, mark))
        return false;
    const struct field *f = find_column(t, name, v.type);
    return !f || f->role != ROLE_KEY;
}

bool extract_is_derived(const struct view *v, const struct stream_key_parts *parts)
{
    const struct table_def *t = view_stored_table(v, parts->name);
    struct slice fields = parts->fields, name;
    struct value value;
    while (t && stream_key_next(&fields, &name, &value))
        if (is_mark(t, "derived", name, value))
            return true;
    return false;
}

static bool wants_table(const struct extract *x, const struct table_def *t)
{
    const struct sql_access *a = x->spec.access;
    if (a && a->may_table && !a->may_table(a->arg, t->name))
        return false;
    if (x->spec.wants && !x->spec.wants(x->spec.arg, t))
        return false;
    return !x->spec.selector || selector_wants_event(x->spec.selector, t->name);
}

static int check(const struct extract *x)
{
    return x->spec.check ? x->spec.check(x->spec.arg) : 0;
}

static bool wants_stream(void *arg, struct slice key, const struct stream_key_parts *parts)
{
    const struct extract *x = arg;
    const struct sql_access *a = x->spec.access;
    (void)key; /* its parts are enough */
    if (extract_is_derived(x->view, parts))
        return false;
    if (a && a->may_stream && !a->may_stream(a->arg, parts->name, parts->host))
        return false;
    return !x->spec.selector || selector_wants_host(x->spec.selector, parts->host);
}

static bool wants_field(const struct extract *x, const struct stream_key_parts *parts, struct slice field)
{
    const struct sql_access *a = x->spec.access;
    return !a || !a->may_field || a->may_field(a->arg, parts->name, parts->host, field);
}

static int open_scan(struct extract *x, const struct table_def *t, int64_t from_ns, int64_t to_ns)
{
    struct scan_spec spec = {.name = t->name,
                             .from_ns = from_ns,
                             .to_ns = to_ns,
                             .wants = wants_stream,
                             .arg = x,
                             .is_stored = true,
                             .id_column = UINT16_MAX};
    return scan_open(x->view, &spec, &x->scan);
}

/* ---------------------------------------------------------------- segments */

/* The next piece of time: a partition, or what is before the next one. false: it was the last. */
static bool next_segment(struct extract *x)
{
    if (x->has_segment && x->is_last_segment)
        return false;
    int64_t from = x->has_segment ? x->segment_to + 1 : x->spec.from_ns;
    if (from > x->spec.to_ns)
        return false;
    int64_t to = x->spec.to_ns;
    for (; x->next_partition < view_partitions(x->view); x->next_partition++) {
        struct partition_span p = view_partition_at(x->view, x->next_partition);
        if (p.step_ns || p.to_ns <= from)
            continue;
        int64_t end = p.from_ns > from ? p.from_ns - 1 : p.to_ns - 1;
        to = end < to ? end : to;
        break;
    }
    x->has_segment = true;
    x->is_last_segment = to == x->spec.to_ns;
    x->segment_from = from;
    x->segment_to = to;
    return true;
}

static int add_span(struct extract *x, const struct blob_chunk *c)
{
    if (x->n_spans == x->max_spans) {
        size_t max = x->max_spans ? x->max_spans * 2 : 256;
        struct span *spans = mem_try_resize(x->spans, max * sizeof *spans);
        if (!spans)
            return -ENOMEM;
        x->spans = spans;
        x->max_spans = max;
    }
    uint64_t cost = c->n_rows * (ROW_COST + (uint64_t)c->n_columns * sizeof(struct value));
    x->spans[x->n_spans++] = (struct span){c->min_ns, c->max_ns, cost};
    return 0;
}

static int list_table(struct extract *x, const struct table_def *t)
{
    struct scan_chunk c;
    int r = open_scan(x, t, x->segment_from, x->segment_to);
    if (r < 0)
        return r;
    while ((r = scan_next(x->scan, &c)) > 0) {
        r = check(x);
        if (r == 0)
            r = add_span(x, c.chunk);
        if (r < 0)
            break;
    }
    struct scan_loss lost =
        scan_damaged(x->scan); /* what can't even be listed; chunks are counted when read */
    x->loss.blobs += lost.blobs;
    x->loss.rows += lost.rows;
    scan_close(x->scan);
    x->scan = NULL;
    return r;
}

static uint64_t distance(int64_t from, int64_t to)
{
    return (uint64_t)to - (uint64_t)from;
}

/* Spreads the cost of a chunk over the buckets that it reaches. */
static void spread(struct extract *x, const struct span *s)
{
    int64_t from = s->min_ns > x->low_ns ? s->min_ns : x->low_ns;
    int64_t to = s->max_ns < x->high_ns ? s->max_ns : x->high_ns;
    size_t first = (size_t)(distance(x->low_ns, from) / x->width_ns),
           last = (size_t)(distance(x->low_ns, to) / x->width_ns);
    double share =
        (double)s->cost * ((double)distance(from, to) + 1) / ((double)distance(s->min_ns, s->max_ns) + 1);
    for (size_t i = first; i <= last; i++)
        x->buckets[i] += (uint64_t)(share / (double)(last - first + 1)) + 1;
}

/* What is in the segment, and how it lies in it: 1; 0: nothing. */
static int plan_segment(struct extract *x)
{
    x->n_spans = 0;
    for (size_t i = 0; i < view_tables(x->view); i++) {
        const struct table_def *t = view_stored_table_at(x->view, i);
        int r = wants_table(x, t) ? list_table(x, t) : 0;
        if (r < 0)
            return r;
    }
    if (x->n_spans == 0)
        return 0;
    x->low_ns = INT64_MAX;
    x->high_ns = INT64_MIN;
    for (size_t i = 0; i < x->n_spans; i++) {
        x->low_ns = x->spans[i].min_ns < x->low_ns ? x->spans[i].min_ns : x->low_ns;
        x->high_ns = x->spans[i].max_ns > x->high_ns ? x->spans[i].max_ns : x->high_ns;
    }
    x->low_ns = x->low_ns < x->segment_from ? x->segment_from : x->low_ns;
    x->high_ns = x->high_ns > x->segment_to ? x->segment_to : x->high_ns;
    x->width_ns = distance(x->low_ns, x->high_ns) / BUCKETS + 1;
    memset(x->buckets, 0, sizeof x->buckets);
    for (size_t i = 0; i < x->n_spans; i++)
        spread(x, &x->spans[i]);
    return 1;
}

/* ---------------------------------------------------------------- windows */

/* From there on as much as should fit. */
static void set_window(struct extract *x, int64_t from_ns)
{
    size_t i = (size_t)(distance(x->low_ns, from_ns) / x->width_ns);
    uint64_t cost = x->buckets[i];
    while (i + 1 < BUCKETS && cost + x->buckets[i + 1] <= x->window_max / 2)
        cost += x->buckets[++i];
    uint64_t end = (uint64_t)(i + 1) * x->width_ns - 1, whole = distance(x->low_ns, x->high_ns);
    end = end < whole ? end : whole;
    uint64_t begin = distance(x->low_ns, from_ns);
    end = end - begin > x->fit_ns ? begin + x->fit_ns : end;
    x->from_ns = from_ns;
    x->to_ns = (int64_t)((uint64_t)x->low_ns + end);
    x->has_window = true;
    rewind_window(x);
}

/* The next one that may have rows: 1; 0: the end. */
static int next_window(struct extract *x)
{
    if (x->has_window && x->to_ns < x->high_ns) {
        set_window(x, x->to_ns + 1);
        return 1;
    }
    x->has_window = false;
    while (next_segment(x)) {
        int r = plan_segment(x);
        if (r < 0)
            return r;
        if (r > 0) {
            set_window(x, x->low_ns);
            return 1;
        }
    }
    return 0;
}

static bool is_instant(const struct extract *x)
{
    return x->from_ns == x->to_ns;
}

/* ---------------------------------------------------------------- rows as events */

/* What all rows of a chunk have in common. */
struct chunk_keys {
    struct stream_key_parts parts;
    struct field fields[EVENT_FIELDS_MAX];
    struct value values[EVENT_FIELDS_MAX];
    uint32_t n;
};

static int read_keys(struct extract *x, const struct scan_chunk *c, struct chunk_keys *k)
{
    struct slice key = arena_copy(&x->arena, c->chunk->key), name;
    struct value v;
    if (!key.p)
        return -ENOMEM;
    k->parts = stream_key_split(key);
    k->n = 0;
    while (stream_key_next(&k->parts.fields, &name, &v) && k->n < EVENT_FIELDS_MAX) {
        const struct field *f = find_column(c->table, name, v.type);
        if (is_mark(c->table, "overflow", name, v) || !wants_field(x, &k->parts, name))
            continue;
        k->fields[k->n] = f ? *f : (struct field){.name = name, .type = v.type};
        k->fields[k->n].role = ROLE_KEY;
        k->values[k->n++] = v;
    }
    return 0;
}

/* A schema of the keys and these columns: an owned reference. */
static int make_schema(struct extract *x, const struct scan_chunk *c, const struct chunk_keys *k,
                       const struct column *const *columns, uint32_t n, const struct schema **out)
{
    struct field fields[EVENT_FIELDS_MAX];
    struct schema *made;
    memcpy(fields, k->fields, k->n * sizeof *fields);
    for (uint32_t i = 0; i < n; i++)
        fields[k->n + i] = c->table->columns[columns[i]->id];
    int r = schema_create(c->table->name, fields, k->n + n, &made);
    const struct schema *s;
    if (r == 0)
        r = registry_intern(x->registry, made, &s);
    if (r == 0)
        *out = schema_ref(s);
    return r;
}

static int reserve_piece(struct extract *x)
{
    if (x->n_pieces < x->max_pieces)
        return 0;
    size_t max = x->max_pieces ? x->max_pieces * 2 : 256;
    struct piece **pieces = mem_try_resize(x->pieces, max * sizeof *pieces);
    if (pieces)
        x->pieces = pieces;
    struct piece **heap = pieces ? mem_try_resize(x->heap, max * sizeof *heap) : NULL;
    if (!heap)
        return -ENOMEM;
    x->heap = heap;
    x->max_pieces = max;
    return 0;
}

static struct value copy_value(struct extract *x, struct value v, bool *has_failed)
{
    if (!value_is_text(v.type))
        return v;
    struct slice s = arena_copy(&x->arena, value_slice(v));
    *has_failed |= !s.p;
    x->used += s.n;
    v.p = s.p;
    return v;
}

static void *copy_array(struct arena *a, const void *from, size_t size)
{
    void *p = arena_alloc(a, size);
    if (p)
        memcpy(p, from, size);
    return p;
}

/* Heads and origins of rows [from, to). */
static bool copy_heads(struct extract *x, struct piece *p, const struct rows *r, uint32_t from, uint32_t to)
{
    uint32_t n = to - from;
    p->n = n;
    p->time_ns = copy_array(&x->arena, r->time_ns + from, n * sizeof *r->time_ns);
    p->level = copy_array(&x->arena, r->level + from, n);
    if (x->spec.with_origins) {
        p->seq = copy_array(&x->arena, r->seq + from, n * sizeof *r->seq);
        p->origin = copy_array(&x->arena, r->origin + from, n * sizeof *r->origin);
        p->origins = copy_array(&x->arena, r->origins, r->n_origins * sizeof *r->origins);
    }
    return p->time_ns && p->level && (!x->spec.with_origins || (p->seq && p->origin && p->origins));
}

/* Rows [from, to) as a piece whose schema is the keys and these columns. */
static int add_piece(struct extract *x, const struct scan_chunk *c, const struct chunk_keys *k,
                     const struct rows *r, const struct column *const *columns, uint32_t n_columns,
                     uint32_t from, uint32_t to)
{
    uint32_t n_fields = k->n + n_columns;
    struct piece *p = reserve_piece(x) == 0 ? arena_alloc(&x->arena, sizeof *p) : NULL;
    struct value *values =
        p ? arena_alloc(&x->arena, ((size_t)(to - from) * n_fields + 1) * sizeof *values) : NULL;
    bool has_failed = !values;
    if (!values)
        return -ENOMEM;
    x->used += (to - from) * (ROW_COST + n_fields * sizeof *values) + sizeof *p;
    *p =
        (struct piece){.host = k->parts.host, .prog = k->parts.prog, .values = values, .number = x->n_pieces};
    for (uint32_t row = from; row < to; row++) {
        memcpy(values, k->values, k->n * sizeof *values);
        values += k->n;
        for (uint32_t i = 0; i < n_columns; i++)
            *values++ = copy_value(x, column_value(columns[i], row), &has_failed);
    }
    if (has_failed || !copy_heads(x, p, r, from, to))
        return -ENOMEM;
    int e = make_schema(x, c, k, columns, n_columns, &p->schema);
    if (e == 0)
        x->pieces[x->n_pieces++] = p;
    return e;
}

/* More columns than a schema may have: each row is a piece, with those that it has. */
static int add_wide_rows(struct extract *x, const struct scan_chunk *c, const struct chunk_keys *k,
                         const struct rows *r, const struct column *const *columns, uint32_t n_columns,
                         uint32_t from, uint32_t to)
{
    for (uint32_t row = from; row < to; row++) {
        const struct column *has[EVENT_FIELDS_MAX];
        uint32_t n = 0;
        for (uint32_t i = 0; i < n_columns && k->n + n < EVENT_FIELDS_MAX; i++)
            if (column_has(columns[i], row))
                has[n++] = columns[i];
        int e = add_piece(x, c, k, r, has, n, row, row + 1);
        if (e < 0)
            return e;
    }
    return 0;
}

/* The first row at or behind that time. */
static uint32_t find_row(const struct rows *r, int64_t time_ns)
{
    uint32_t from = 0, to = r->n;
    while (from < to) {
        uint32_t mid = from + (to - from) / 2;
        if (r->time_ns[mid] < time_ns)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

static int add_rows(struct extract *x, const struct scan_chunk *c, const struct rows *r)
{
    uint32_t from = find_row(r, x->from_ns), to = x->to_ns == INT64_MAX ? r->n : find_row(r, x->to_ns + 1);
    struct chunk_keys k;
    if (from == to)
        return 0;
    int e = read_keys(x, c, &k);
    const struct column **columns =
        e == 0 ? arena_alloc(&x->arena, (r->n_columns + 1) * sizeof *columns) : NULL;
    if (!columns)
        return -ENOMEM;
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n_columns; i++)
        if (wants_field(x, &k.parts, c->table->columns[r->columns[i].id].name))
            columns[n++] = &r->columns[i];
    if (k.n + n <= EVENT_FIELDS_MAX)
        return add_piece(x, c, &k, r, columns, n, from, to);
    return add_wide_rows(x, c, &k, r, columns, n, from, to);
}

/* ---------------------------------------------------------------- reading a window */

static int read_chunk(struct extract *x, const struct scan_chunk *c)
{
    unsigned what = BLOB_TIMES | BLOB_LEVELS | BLOB_ALL_COLUMNS | (x->spec.with_origins ? BLOB_ORIGINS : 0);
    struct rows rows;
    int r = check(x);
    if (r == 0)
        r = scan_read(x->scan, what, NULL, 0, &rows);
    if (r != E_DAMAGE)
        return r < 0 ? r : add_rows(x, c, &rows);
    /* It comes again in the next windows that it reaches: counted in the first. */
    if (c->chunk->min_ns >= x->from_ns || x->from_ns == x->low_ns) {
        x->loss.chunks++;
        x->loss.rows += c->chunk->n_rows;
    }
    return 0;
}

/* More of the window: 1: it has a chunk; 0: it is read. */
static int read_more(struct extract *x)
{
    for (;;) {
        struct scan_chunk c;
        int r = x->scan ? scan_next(x->scan, &c) : 0;
        if (r > 0)
            r = read_chunk(x, &c);
        else if (r == 0 && x->scan) {
            scan_close(x->scan);
            x->scan = NULL;
            x->table++;
            continue;
        } else if (r == 0) {
            while (x->table < view_tables(x->view) && !wants_table(x, view_stored_table_at(x->view, x->table)))
                x->table++;
            x->is_read = x->table == view_tables(x->view);
            if (x->is_read)
                return 0;
            r = open_scan(x, view_stored_table_at(x->view, x->table), x->from_ns, x->to_ns);
            if (r == 0)
                continue;
        }
        return r < 0 ? r : 1;
    }
}

/* The next rows to be given are in pieces: all of the window; of an instant a chunk of it. 1; 0: the end. */
static int read_window(struct extract *x)
{
    for (;;) {
        drop_window(x);
        if (!x->has_window || x->is_read) {
            int r = next_window(x);
            if (r <= 0)
                return r;
        }
        struct scan_loss before = x->loss;
        int r = 1;
        while (r > 0 && (is_instant(x) ? x->n_pieces == 0 : x->used <= x->window_max))
            r = read_more(x);
        if (r < 0)
            return r;
        if (r > 0 && !is_instant(x)) { /* it does not fit */
            x->fit_ns = distance(x->from_ns, x->to_ns) / 2;
            x->to_ns = (int64_t)((uint64_t)x->from_ns + x->fit_ns);
            x->loss = before;
            rewind_window(x);
            continue;
        }
        x->fit_ns = x->fit_ns < UINT64_MAX / 4 ? 2 * x->fit_ns + 1 : UINT64_MAX;
        if (x->n_pieces)
            return 1;
    }
}

/* ---------------------------------------------------------------- in order of time */

static bool is_before(const struct piece *a, const struct piece *b)
{
    int64_t at = a->time_ns[a->next], bt = b->time_ns[b->next];
    return at != bt ? at < bt : a->number < b->number;
}

static void sift_down(struct extract *x, size_t i)
{
    struct piece *p = x->heap[i];
    for (size_t child; (child = 2 * i + 1) < x->n_heap; i = child) {
        if (child + 1 < x->n_heap && is_before(x->heap[child + 1], x->heap[child]))
            child++;
        if (!is_before(x->heap[child], p))
            break;
        x->heap[i] = x->heap[child];
    }
    x->heap[i] = p;
}

static void make_heap(struct extract *x)
{
    x->n_heap = x->n_pieces;
    memcpy(x->heap, x->pieces, x->n_pieces * sizeof *x->heap);
    for (size_t i = x->n_heap / 2; i-- > 0;)
        sift_down(x, i);
}

static struct event event_of(const struct piece *p, uint32_t row)
{
    return (struct event){.time_ns = p->time_ns[row],
                          .host = p->host,
                          .prog = p->prog,
                          .schema = p->schema,
                          .values = p->values + (size_t)row * p->schema->n_fields,
                          .level = p->level[row]};
}

static bool passes(struct extract *x, const struct event *e)
{
    return !x->spec.selector || selector_test(x->spec.selector, e);
}

static int add_event(struct extract *x, const struct event *e)
{
    struct event_head head = {.time_ns = e->time_ns, .host = e->host, .prog = e->prog, .level = e->level};
    return batch_builder_add_known(x->builder, &head, e->schema, e->values, NULL);
}

static int build_by_time(struct extract *x)
{
    while (x->n_heap && !batch_builder_full(x->builder)) {
        struct piece *p = x->heap[0];
        struct event e = event_of(p, p->next);
        int r = passes(x, &e) ? add_event(x, &e) : 0;
        if (r < 0)
            return r;
        if (++p->next == p->n)
            x->heap[0] = x->heap[--x->n_heap];
        if (x->n_heap)
            sift_down(x, 0);
    }
    return 0;
}

/* ---------------------------------------------------------------- in order of origins */

static const struct row_origin *origin_of(const struct piece *p, uint32_t row)
{
    return &p->origins[p->origin[row]];
}

static int compare_clocks(const struct batch_clock *a, const struct batch_clock *b)
{
    if (a->generation != b->generation)
        return a->generation < b->generation ? -1 : 1;
    if (a->offset_ns != b->offset_ns)
        return a->offset_ns < b->offset_ns ? -1 : 1;
    return a->bound_ns == b->bound_ns ? 0 : a->bound_ns < b->bound_ns ? -1 : 1;
}

static int compare_origins(const struct row_origin *a, const struct row_origin *b)
{
    int r = memcmp(a->producer, b->producer, sizeof a->producer);
    if (r == 0 && a->epoch != b->epoch)
        r = a->epoch < b->epoch ? -1 : 1;
    return r ? r : compare_clocks(&a->clock, &b->clock);
}

static int compare_refs(const void *a, const void *b, void *arg)
{
    const struct extract *x = arg;
    const struct row_ref *ra = a, *rb = b;
    const struct piece *pa = x->pieces[ra->piece], *pb = x->pieces[rb->piece];
    int r = compare_origins(origin_of(pa, ra->row), origin_of(pb, rb->row));
    if (r)
        return r;
    if (pa->seq[ra->row] != pb->seq[rb->row])
        return pa->seq[ra->row] < pb->seq[rb->row] ? -1 : 1;
    int64_t ta = pa->time_ns[ra->row], tb = pb->time_ns[rb->row];
    if (ta != tb)
        return ta < tb ? -1 : 1;
    return ra->piece != rb->piece ? (ra->piece < rb->piece ? -1 : 1)
                                  : (ra->row < rb->row ? -1 : ra->row > rb->row);
}

static int sort_rows(struct extract *x)
{
    size_t n = 0;
    for (size_t i = 0; i < x->n_pieces; i++)
        n += x->pieces[i]->n;
    x->order = mem_try_alloc(n * sizeof *x->order);
    if (!x->order)
        return -ENOMEM;
    for (size_t i = 0; i < x->n_pieces; i++)
        for (uint32_t row = 0; row < x->pieces[i]->n; row++)
            x->order[x->n_order++] = (struct row_ref){(uint32_t)i, row};
    qsort_r(x->order, n, sizeof *x->order, compare_refs, x);
    return 0;
}

/* Rows whose numbers follow each other are a batch; so are those without a number. */
static int build_by_origin(struct extract *x, struct batch_origin *out)
{
    const struct row_origin *first = NULL;
    uint64_t next_seq = 0;
    for (; x->at_order < x->n_order && !batch_builder_full(x->builder); x->at_order++) {
        struct row_ref at = x->order[x->at_order];
        const struct piece *p = x->pieces[at.piece];
        const struct row_origin *o = origin_of(p, at.row);
        uint64_t seq = p->seq[at.row];
        struct event e = event_of(p, at.row);
        if (!passes(x, &e))
            continue;
        if (first && (compare_origins(first, o) != 0 || seq != next_seq))
            break;
        if (!first) {
            *out = (struct batch_origin){.epoch = o->epoch, .first_seq = seq, .clock = o->clock};
            memcpy(out->producer, o->producer, sizeof out->producer);
            first = o;
        }
        next_seq = seq ? seq + 1 : 0;
        int r = add_event(x, &e);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---------------------------------------------------------------- public */

static int refill(struct extract *x)
{
    int r = read_window(x);
    if (r <= 0)
        return r;
    if (!x->spec.with_origins)
        make_heap(x);
    else
        r = sort_rows(x);
    return r < 0 ? r : 1;
}

int extract_next(struct extract *x, const struct batch **out)
{
    static const struct batch_origin none = {.clock = {.bound_ns = CLOCK_BOUND_UNKNOWN}};
    struct batch_origin origin = none;
    int r = 0;
    batch_unref(x->lent);
    x->lent = NULL;
    while (batch_builder_count(x->builder) == 0) {
        if (x->n_heap == 0 && x->at_order == x->n_order) {
            r = refill(x);
            if (r <= 0)
                return r;
        }
        r = x->spec.with_origins ? build_by_origin(x, &origin) : build_by_time(x);
        if (r < 0) {
            batch_builder_cut(x->builder, 0);
            return r;
        }
    }
    x->lent = batch_builder_finish(x->builder, &origin);
    if (!x->lent)
        return -ENOMEM;
    *out = x->lent;
    return 1;
}
