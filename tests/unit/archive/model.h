/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - an archive, and beside it the same rows in a plain array, to which whatever the archive answers
 * is compared: folds (bucket.h) by a loop over all of them. */
#ifndef GRIDLINE_TESTS_ARCHIVE_MODEL_H
#define GRIDLINE_TESTS_ARCHIVE_MODEL_H

#include "unit/test.h"

#include "archive/bucket.h"
#include "base/clock.h"
#include "base/mem.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

/* `cpu` has no keys; `disk.io` has one. Both have a field of every type, and one of two types. */
enum model_field { M_INT, M_UINT, M_FLOAT, M_BOOL, M_TEXT, M_TWO_INT, M_TWO_FLOAT, M_FIELDS };
enum { M_NAMES = 2, M_HOSTS = 3, M_DEVICES = 2 };
static const char *const model_names[M_NAMES] = {"cpu", "disk.io"};

struct model_row {
    int64_t time_ns;
    uint64_t seq;
    uint8_t name, host, device;
    bool is_gone; /* by retention */
    struct value v[M_FIELDS];
    char text[12];
};

struct model {
    char dir[64];
    struct archive *a;
    struct view_reader *reader;
    struct view *view;
    struct registry *registry;
    struct batch_builder *builder;
    struct schema *schemas[M_NAMES];
    struct archive_source source;
    uint64_t seed, record, seq;
    int64_t base_ns, partition_ns; /* rows are from base to base + span */
    int64_t span_ns;
    struct model_row *rows; /* in the order in which they came */
    size_t n, max;
};

static inline uint64_t model_random(struct model *m, uint64_t n)
{
    return test_random(&m->seed) % n;
}

static inline struct schema *model_schema(const char *name, bool has_key)
{
    struct field f[M_FIELDS + 1] = {{.name = SLICE_LIT("i"), .type = VALUE_INT},
                                    {.name = SLICE_LIT("u"), .type = VALUE_UINT},
                                    {.name = SLICE_LIT("f"), .type = VALUE_FLOAT},
                                    {.name = SLICE_LIT("b"), .type = VALUE_BOOL},
                                    {.name = SLICE_LIT("s"), .type = VALUE_TEXT},
                                    {.name = SLICE_LIT("two"), .type = VALUE_INT},
                                    {.name = SLICE_LIT("two"), .type = VALUE_FLOAT},
                                    {.name = SLICE_LIT("device"), .type = VALUE_TEXT, .role = ROLE_KEY}};
    struct schema *s;
    assert_int_equal(schema_create(slice_str(name), f, M_FIELDS + (has_key ? 1 : 0), &s), 0);
    return s;
}

static inline void model_open_archive(struct model *m)
{
    struct diag why = {0};
    struct archive_options o = {.dir = m->dir, .partition_ns = m->partition_ns};
    if (archive_open(&o, &m->a, &why) < 0)
        fail_msg("archive_open: %s", why.message);
    assert_int_equal(view_reader_create(m->a, NULL, 4 << 20, &m->reader, &why), 0);
}

static inline void model_init(struct model *m, uint64_t seed)
{
    *m = (struct model){.dir = "/tmp/gridline-model-XXXXXX",
                        .seed = seed,
                        .source = {.id = "model source"},
                        .partition_ns = 600 * SECOND,
                        .base_ns = INT64_C(1700000000) * SECOND,
                        .span_ns = 1500 * SECOND};
    assert_non_null(mkdtemp(m->dir));
    m->registry = registry_create();
    m->builder = batch_builder_create(m->registry, 0);
    for (size_t i = 0; i < M_NAMES; i++)
        m->schemas[i] = model_schema(model_names[i], i == 1);
    model_open_archive(m);
}

static inline void model_release(struct model *m)
{
    view_release(m->view);
    m->view = NULL;
}

static inline struct view *model_view(struct model *m)
{
    model_release(m);
    assert_int_equal(view_take(m->reader, &m->view), 0);
    return m->view;
}

static inline void model_close_archive(struct model *m)
{
    model_release(m);
    view_reader_destroy(m->reader);
    archive_close(m->a);
    m->reader = NULL;
    m->a = NULL;
}

static inline void model_remove_dir(const char *dir)
{
    DIR *d = opendir(dir);
    char path[400];
    for (struct dirent *e; d && (e = readdir(d));) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        (void)unlink(path);
    }
    closedir(d);
    (void)rmdir(dir);
}

static inline void model_fini(struct model *m)
{
    model_close_archive(m);
    model_remove_dir(m->dir);
    for (size_t i = 0; i < M_NAMES; i++)
        schema_unref(m->schemas[i]);
    batch_builder_destroy(m->builder);
    registry_destroy(m->registry);
    mem_free(m->rows);
}

/* A number from a small range, so that conditions and equal values meet; now and then an odd one. */
static inline struct value model_value(struct model *m, enum model_field f, char *text)
{
    uint64_t x = test_random(&m->seed);
    bool is_odd = x % 50 == 0;
    switch (f) {
    case M_INT:
    case M_TWO_INT:
        return value_int(is_odd ? INT64_MIN / 4 : (int64_t)(x >> 8) % 1000 - 500);
    case M_UINT:
        return value_uint(is_odd ? UINT64_MAX : (x >> 8) % 1000);
    case M_FLOAT:
    case M_TWO_FLOAT:
        return value_float(is_odd ? (x & 256 ? (double)NAN : -(double)INFINITY)
                                  : (double)((x >> 8) % 2000) / 8 - 100);
    case M_BOOL:
        return value_bool(x >> 63);
    default:
        return value_text(slice_of(text, (size_t)snprintf(text, 12, "t%u", (unsigned)(x >> 40) % 20)));
    }
}

static inline struct model_row *model_grow(struct model *m)
{
    if (m->n == m->max) {
        m->max = m->max ? m->max * 2 : 1024;
        m->rows = mem_try_resize(m->rows, m->max * sizeof *m->rows);
        assert_non_null(m->rows);
        for (size_t i = 0; i < m->n; i++) /* they have moved */
            if (m->rows[i].v[M_TEXT].type)
                m->rows[i].v[M_TEXT].p = m->rows[i].text;
    }
    m->rows[m->n] = (struct model_row){.seq = ++m->seq};
    return &m->rows[m->n++];
}

/* Where row i came from is in its place: hosts and devices by their number. */
static inline void model_names_of(const struct model_row *row, char host[8], char device[8])
{
    (void)snprintf(host, 8, "h%u", row->host);
    (void)snprintf(device, 8, "d%u", row->device);
}

static inline void model_build(struct model *m, const struct model_row *row)
{
    char host[8], device[8];
    struct value values[M_FIELDS + 1];
    model_names_of(row, host, device);
    memcpy(values, row->v, sizeof row->v);
    values[M_FIELDS] = value_text(slice_str(device));
    const struct event_head head = {
        .time_ns = row->time_ns, .host = slice_str(host), .prog = SLICE_LIT("p"), .level = LEVEL_INFO};
    assert_int_equal(batch_builder_add_known(m->builder, &head, m->schemas[row->name], values, NULL), 0);
}

/* The last n rows of the model, as one record. */
static inline void model_append_last(struct model *m, size_t n)
{
    const struct batch_origin o = {.producer = "producer", .epoch = 3, .first_seq = m->rows[m->n - n].seq};
    for (size_t i = m->n - n; i < m->n; i++)
        model_build(m, &m->rows[i]);
    struct batch *b = batch_builder_finish(m->builder, &o);
    assert_non_null(b);
    assert_int_equal(archive_append(m->a, &m->source, ++m->record, b), 0);
    assert_int_equal(archive_done(m->a, &m->source, m->record), 0);
    batch_unref(b);
}

/* n random rows, times anywhere in [from, to), some the same: but only of one record, as which of two rows of
 * the same time came first is not kept when they were sealed apart. */
static inline void model_add(struct model *m, size_t n, int64_t from_ns, int64_t to_ns)
{
    for (size_t i = 0; i < n; i++) {
        struct model_row *r = model_grow(m);
        r->time_ns =
            from_ns + (int64_t)model_random(m, (uint64_t)(to_ns - from_ns) / 50000000 + 1) * 50000000;
        if (r->time_ns >= to_ns)
            r->time_ns = from_ns;
        r->time_ns += (int64_t)m->record + 1;
        r->name = (uint8_t)model_random(m, M_NAMES);
        r->host = (uint8_t)model_random(m, M_HOSTS);
        r->device = r->name ? (uint8_t)model_random(m, M_DEVICES) : 0;
        for (int f = 0; f < M_FIELDS; f++)
            if (model_random(m, 4))
                r->v[f] = model_value(m, (enum model_field)f, r->text);
        if (r->v[M_TWO_INT].type) /* an event has a name once */
            r->v[M_TWO_FLOAT] = value_none();
    }
    model_append_last(m, n);
}

/* Rows as they come about: mostly in order, some late, sealed now and then. */
static inline void model_fill(struct model *m, unsigned records)
{
    for (unsigned i = 0; i < records; i++) {
        int64_t at = m->base_ns + m->span_ns * i / records,
                next = m->base_ns + m->span_ns * (i + 1) / records;
        bool is_late = model_random(m, 8) == 0;
        model_add(m, 1 + model_random(m, 60), is_late ? m->base_ns : at, next);
        if (model_random(m, 6) == 0)
            assert_int_equal(archive_flush(m->a), 0);
    }
}

/* ---------------------------------------------------------------- rows */

static inline const struct column *model_column(const struct rows *r, uint16_t id)
{
    for (uint32_t i = 0; i < r->n_columns; i++)
        if (r->columns[i].id == id)
            return &r->columns[i];
    return NULL;
}

static inline int model_field_of(const struct field *f);

static inline void model_check_row(struct model *m, const struct scan_chunk *sc, const struct rows *r,
                                   uint32_t row, uint8_t *seen)
{
    uint64_t seq = r->seq[row];
    assert_in_range(seq, 1, m->n);
    const struct model_row *want = &m->rows[seq - 1];
    struct stream_key_parts parts = stream_key_split(sc->chunk->key);
    char host[8], device[8];
    model_names_of(want, host, device);
    assert_false(want->is_gone);
    assert_int_equal(seen[seq - 1]++, 0);
    assert_int_equal(want->time_ns, r->time_ns[row]);
    assert_int_equal(r->level[row], LEVEL_INFO);
    assert_int_equal(r->origins[r->origin[row]].epoch, 3);
    assert_slice(parts.host, host);
    assert_slice(parts.name, model_names[want->name]);
    for (uint32_t i = 0; i < sc->table->n_columns; i++) {
        const struct column *c = model_column(r, (uint16_t)i);
        if (sc->table->columns[i].role == ROLE_KEY)
            continue;
        struct value v = c ? column_value(c, row) : value_none();
        assert_true(value_eq(v, want->v[model_field_of(&sc->table->columns[i])]));
    }
}

/* Every row is there once, as it was. Returns how many chunks there are. */
static inline size_t model_check_rows(struct model *m)
{
    struct scan_spec spec = {
        .from_ns = INT64_MIN, .to_ns = INT64_MAX, .is_stored = true, .id_column = UINT16_MAX};
    uint8_t *seen = mem_alloc(m->n + 1);
    struct scan *scan;
    struct scan_chunk chunk;
    struct rows rows;
    size_t n = 0;
    int r;
    assert_int_equal(scan_open(m->view, &spec, &scan), 0);
    while ((r = scan_next(scan, &chunk)) > 0) {
        n++;
        assert_int_equal(
            scan_read(scan, BLOB_TIMES | BLOB_ORIGINS | BLOB_LEVELS | BLOB_ALL_COLUMNS, NULL, 0, &rows), 0);
        assert_int_equal(rows.n, chunk.chunk->n_rows);
        for (uint32_t i = 0; i < rows.n; i++) {
            assert_true(i == 0 || rows.time_ns[i] >= rows.time_ns[i - 1]);
            model_check_row(m, &chunk, &rows, i, seen);
        }
    }
    assert_int_equal(r, 0);
    scan_close(scan);
    for (size_t i = 0; i < m->n; i++)
        assert_int_equal(seen[i], !m->rows[i].is_gone);
    mem_free(seen);
    return n;
}

/* ---------------------------------------------------------------- folds */

struct model_cell {
    uint8_t host, device;
    int64_t time_ns; /* when the step begins */
    uint64_t rows;
    struct {
        uint64_t count, nans;
        struct value min, max, first, last;
        int64_t first_ns, last_ns;
        double sum, size; /* of all |values|: what sums may differ by goes by it */
    } f[M_FIELDS];
    bool is_seen;
};

struct model_fold {
    struct model_cell *cells;
    size_t n, max;
};

static inline double model_number(struct value v)
{
    if (v.type == VALUE_INT)
        return (double)v.i;
    return v.type == VALUE_FLOAT ? v.f : (double)v.u;
}

static inline bool model_less(struct value a, struct value b)
{
    if (a.type == VALUE_INT)
        return a.i < b.i;
    return a.type == VALUE_FLOAT ? a.f < b.f : a.u < b.u;
}

static inline bool model_passes(struct value v, const struct bucket_where *w)
{
    if (v.type == VALUE_NONE || value_is_text(v.type))
        return false;
    /* All constants of these tests are exact as long doubles, as all values are. */
    long double x = v.type == VALUE_INT     ? (long double)v.i
                    : v.type == VALUE_FLOAT ? (long double)v.f
                                            : (long double)v.u;
    long double c = w->than.type == VALUE_INT     ? (long double)w->than.i
                    : w->than.type == VALUE_FLOAT ? (long double)w->than.f
                                                  : (long double)w->than.u;
    switch (w->op) {
    case WHERE_LT:
        return x < c;
    case WHERE_LE:
        return x <= c;
    case WHERE_GT:
        return x > c;
    case WHERE_GE:
        return x >= c;
    case WHERE_EQ:
        return x == c;
    default:
        return x < c || x > c;
    }
}

static inline void model_fold_value(struct model_cell *c, int f, struct value v, int64_t t)
{
    if (c->f[f].count++ == 0 || t < c->f[f].first_ns) {
        c->f[f].first = v;
        c->f[f].first_ns = t;
    }
    if (c->f[f].count == 1 || t >= c->f[f].last_ns) {
        c->f[f].last = v;
        c->f[f].last_ns = t;
    }
    if (value_is_text(v.type))
        return;
    if (v.type == VALUE_FLOAT && isnan(v.f)) {
        c->f[f].nans++;
        return;
    }
    if (!c->f[f].min.type || model_less(v, c->f[f].min))
        c->f[f].min = v;
    if (!c->f[f].max.type || model_less(c->f[f].max, v))
        c->f[f].max = v;
    c->f[f].sum += model_number(v);
    c->f[f].size += fabs(model_number(v));
}

static inline struct model_cell *model_cell_of(struct model_fold *f, const struct model_row *r,
                                               int64_t time_ns)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->cells[i].host == r->host && f->cells[i].device == r->device && f->cells[i].time_ns == time_ns)
            return &f->cells[i];
    if (f->n == f->max) {
        f->max = f->max ? f->max * 2 : 64;
        f->cells = mem_try_resize(f->cells, f->max * sizeof *f->cells);
        assert_non_null(f->cells);
    }
    f->cells[f->n] = (struct model_cell){.host = r->host, .device = r->device, .time_ns = time_ns};
    return &f->cells[f->n++];
}

static inline bool model_row_passes(const struct model_row *r, const struct bucket_where *w)
{
    static const char *const fields[M_FIELDS] = {"i", "u", "f", "b", "s", "two", "two"};
    for (int i = 0; i < M_FIELDS; i++)
        if (slice_eq_str(w->field, fields[i]) && model_passes(r->v[i], w))
            return true;
    return false;
}

/* What a fold should give. host < 0: of all. */
static inline struct model_fold model_fold(const struct model *m, unsigned name,
                                           const struct bucket_spec *spec, int host)
{
    struct model_fold f = {NULL, 0, 0};
    for (size_t i = 0; i < m->n; i++) {
        const struct model_row *r = &m->rows[i];
        if (r->is_gone || r->name != name || r->time_ns < spec->from_ns || r->time_ns >= spec->to_ns ||
            (host >= 0 && r->host != host) ||
            (spec->where && !spec->is_each && !model_row_passes(r, spec->where)))
            continue;
        int64_t step = spec->step_ns ? r->time_ns - r->time_ns % spec->step_ns : spec->from_ns;
        struct model_cell *c = spec->is_each ? NULL : model_cell_of(&f, r, step);
        for (int k = 0; k < M_FIELDS; k++) {
            if (r->v[k].type == VALUE_NONE || (spec->is_each && !model_passes(r->v[k], spec->where)))
                continue;
            c = model_cell_of(&f, r, step);
            if (k == M_TWO_INT) /* one column a field: float, as both types are stored */
                model_fold_value(c, M_TWO_FLOAT, value_float((double)r->v[k].i), r->time_ns);
            else
                model_fold_value(c, k, r->v[k], r->time_ns);
        }
        if (c)
            c->rows++;
    }
    return f;
}

static inline void model_check_sum(double want, double size, double got)
{
    if (isnan(want) || isinf(want)) {
        assert_true(isnan(want) ? isnan(got) : want == got);
        return;
    }
    if (!(fabs(want - got) <= size * 1e-12))
        fail_msg("sum is %.17g, not %.17g", got, want);
}

static inline void model_check_column(const struct model_cell *c, int f, const struct column_summary *s,
                                      const struct bucket_column *asked)
{
    assert_int_equal(s->count, c->f[f].count);
    if (c->f[f].count == 0)
        return;
    if (f == M_TEXT) {
        assert_true(!asked->wants_text || value_eq(s->last, c->f[f].last));
        return;
    }
    assert_int_equal(s->nans, c->f[f].nans);
    assert_true(value_eq(s->min, c->f[f].min) ||
                (s->min.type == VALUE_FLOAT && s->min.f == 0 && c->f[f].min.f == 0));
    assert_true(value_eq(s->max, c->f[f].max) ||
                (s->max.type == VALUE_FLOAT && s->max.f == 0 && c->f[f].max.f == 0));
    assert_true(value_eq(s->first, c->f[f].first));
    assert_true(value_eq(s->last, c->f[f].last));
    model_check_sum(c->f[f].sum, c->f[f].size, s->sum);
}

/* Which field of the model a column is. */
static inline int model_field_of(const struct field *f)
{
    static const char *const names[] = {"i", "u", "f", "b", "s"};
    for (int i = 0; i < 5; i++)
        if (slice_eq_str(f->name, names[i]))
            return i;
    return f->type == VALUE_INT ? M_TWO_INT : M_TWO_FLOAT;
}

static inline struct model_cell *model_find(struct model_fold *f, const struct bucket_row *row)
{
    struct stream_key_parts parts = stream_key_split(row->key);
    struct slice name;
    struct value device = value_none();
    (void)stream_key_next(&parts.fields, &name, &device);
    for (size_t i = 0; i < f->n; i++) {
        struct model_cell *c = &f->cells[i];
        char host[8], dev[8];
        (void)snprintf(host, sizeof host, "h%u", c->host);
        (void)snprintf(dev, sizeof dev, "d%u", c->device);
        if (c->time_ns == row->time_ns && slice_eq_str(parts.host, host) &&
            (device.type == VALUE_NONE || slice_eq_str(value_slice(device), dev)))
            return c;
    }
    return NULL;
}

/* Folds the view by spec (its tables are one, made here of all columns, or of some) and compares. */
static inline void model_check_fold(struct model *m, unsigned name, struct bucket_spec *spec, int host,
                                    uint64_t some)
{
    struct bucket_column columns[M_FIELDS + 1];
    struct bucket_table table = {.def = view_table(m->view, slice_str(model_names[name])),
                                 .columns = columns};
    struct model_fold want = model_fold(m, name, spec, host);
    struct bucket *b = NULL;
    struct bucket_row row;
    struct diag why = {0};
    size_t n = 0;
    if (!table.def) {
        assert_int_equal(want.n, 0);
        return;
    }
    for (uint32_t i = 0; i < table.def->n_columns; i++)
        if (table.def->columns[i].role != ROLE_KEY && (some >> i & 1))
            columns[table.n_columns++] = (struct bucket_column){(uint16_t)i, some >> 32 & 1};
    spec->tables = &table;
    spec->n_tables = 1;
    int r = bucket_fold(m->view, spec, &b, &why);
    if (r < 0)
        fail_msg("bucket_fold: %d %s", r, why.message);
    for (; bucket_next(b, &row); n++) {
        struct model_cell *c = model_find(&want, &row);
        if (!c && spec->is_each) /* nothing of it passed but in columns that were not asked */
            fail_msg("a cell that should not be");
        assert_non_null(c);
        assert_false(c->is_seen);
        c->is_seen = true;
        if (!spec->is_each)
            assert_int_equal(row.rows, c->rows);
        for (uint32_t i = 0; i < table.n_columns; i++)
            model_check_column(c, model_field_of(&table.def->columns[columns[i].id]), &row.columns[i],
                               &columns[i]);
    }
    if (!spec->is_each || some == UINT64_MAX)
        assert_int_equal(n, want.n);
    assert_int_equal(bucket_damaged(b).chunks, 0);
    bucket_destroy(b);
    mem_free(want.cells);
}

static inline bool model_wants_host(void *arg, struct slice key, const struct stream_key_parts *parts)
{
    char host[8];
    (void)key;
    (void)snprintf(host, sizeof host, "h%d", *(int *)arg);
    return slice_eq_str(parts->host, host);
}

/* A random fold, compared. */
static inline void model_check_random(struct model *m, int64_t tier_ns)
{
    static const int64_t steps[] = {0,           SECOND / 4,   SECOND,        7 * SECOND,    10 * SECOND,
                                    60 * SECOND, 600 * SECOND, 3600 * SECOND, 86400 * SECOND};
    struct bucket_where where = {
        .field = slice_str(((const char *[]){"i", "u", "f", "b", "two"})[model_random(m, 5)]),
        .op = (enum where_op)model_random(m, 6),
        .than = model_random(m, 2) ? value_int((int64_t)model_random(m, 600) - 300)
                                   : value_float((double)model_random(m, 900) / 3)};
    int host = model_random(m, 3) ? -1 : (int)model_random(m, M_HOSTS);
    struct bucket_spec spec = {.step_ns = steps[model_random(m, sizeof steps / sizeof *steps)],
                               .tier_ns = tier_ns,
                               .wants = host >= 0 ? model_wants_host : NULL,
                               .arg = &host};
    if (model_random(m, 3) == 0 && tier_ns == 0) {
        spec.where = &where;
        spec.is_each = model_random(m, 2);
    }
    int64_t a = (int64_t)model_random(m, (uint64_t)m->span_ns),
            b = (int64_t)model_random(m, (uint64_t)m->span_ns);
    bool is_all = model_random(m, 3) == 0;
    spec.from_ns = is_all ? m->base_ns - SECOND : m->base_ns + (a < b ? a : b);
    spec.to_ns = is_all ? m->base_ns + m->span_ns + SECOND : m->base_ns + (a < b ? b : a);
    if (model_random(m, 4) == 0)
        spec.from_ns -= spec.from_ns % (10 * SECOND);
    uint64_t some = model_random(m, 3) ? test_random(&m->seed) : UINT64_MAX;
    model_check_fold(m, (unsigned)model_random(m, M_NAMES), &spec, host, some);
}

#endif
