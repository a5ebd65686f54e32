/* SPDX-License-Identifier: Apache-2.0 */
/* One file is read in the life of a program; so where it goes is static. */
#include "recorded.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>

static struct recorded *data;
static struct map series_of, table_of;
static size_t times_cap;

void recorded_fail(const char *what)
{
    (void)fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

void *recorded_need(void *p)
{
    if (!p)
        recorded_fail("out of memory");
    return p;
}

/* ---------------------------------------------------------------- series to events */

static bool is_of_value(struct slice label)
{
    static const char *const words[] = {"mode", "quantile", "code", "cause", "queue", "ip", "state"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (slice_eq_str(label, words[i]))
            return true;
    return false;
}

static struct table *find_table(struct slice name)
{
    struct table *t = map_get(&table_of, name);
    if (t)
        return t;
    if (data->n_tables == TABLES_MAX)
        recorded_fail("too many event names");
    t = mem_alloc(sizeof *t);
    t->streams = mem_alloc(STREAMS_MAX * sizeof *t->streams);
    t->def = (struct table_def){.name = arena_copy(&data->names, name), .columns = t->columns};
    (void)map_put(&table_of, t->def.name,
                  t); /* no memory: the next lookup makes it again, and the run fails */
    return data->tables[data->n_tables++] = t;
}

static struct stream *find_stream(struct table *t, struct slice labels)
{
    for (uint32_t i = 0; i < t->n_streams; i++)
        if (slice_eq(t->streams[i].labels, labels))
            return &t->streams[i];
    if (t->n_streams == STREAMS_MAX)
        recorded_fail("too many streams");
    data->n_streams++;
    struct stream *s = &t->streams[t->n_streams++];
    s->labels = arena_copy(&data->names, labels);
    return s;
}

static uint16_t find_field(struct table *t, struct slice name)
{
    for (uint16_t i = 0; i < t->def.n_columns; i++)
        if (slice_eq(t->columns[i].name, name))
            return i;
    if (t->def.n_columns == FIELDS_MAX)
        recorded_fail("too many fields");
    t->columns[t->def.n_columns] =
        (struct field){.name = arena_copy(&data->names, name), .type = VALUE_FLOAT};
    return (uint16_t)t->def.n_columns++;
}

/* The labels of name{...}: those of the value are added to field, others to key. */
static void split_labels(struct slice labels, struct strbuf *field, struct strbuf *key)
{
    while (labels.n) {
        const char *eq = memchr(labels.p, '=', labels.n);
        if (!eq)
            return;
        struct slice name = slice_of(labels.p, (size_t)(eq - labels.p));
        size_t at = name.n + 2;
        while (at < labels.n && labels.p[at] != '"')
            at += labels.p[at] == '\\' ? 2 : 1;
        struct slice value = slice_of(eq + 2, at - name.n - 2);
        if (is_of_value(name)) {
            strbuf_add_char(field, '_');
            strbuf_add_slice(field, value);
        } else {
            strbuf_add_text(key, name);
            strbuf_add_char(key, VALUE_TEXT);
            strbuf_add_text(key, value);
        }
        labels = slice_from(labels, at + 2);
    }
}

static struct series *make_series(struct slice full)
{
    const char *brace = memchr(full.p, '{', full.n);
    struct slice metric = brace ? slice_of(full.p, (size_t)(brace - full.p)) : full;
    struct slice labels = brace ? slice_of(brace + 1, full.n - metric.n - 2) : slice_of("", 0);
    size_t end = 0;
    for (int words = 0; end < metric.n; end++)
        if (metric.p[end] == '_' && ++words == 2)
            break;
    struct strbuf field = {0}, key = {0};
    strbuf_add_slice(&field, end < metric.n ? slice_from(metric, end + 1) : slice_str("value"));
    split_labels(labels, &field, &key);
    struct table *t = find_table(slice_of(metric.p, end));
    struct stream *s = find_stream(t, strbuf_slice(&key));
    struct series *made = mem_alloc(sizeof *made);
    if (s->n_fields == FIELDS_MAX)
        recorded_fail("too many fields of a stream");
    s->fields[s->n_fields++] = (struct field_of){find_field(t, strbuf_slice(&field)), made};
    strbuf_fini(&field);
    strbuf_fini(&key);
    return made;
}

static int by_id(const void *a, const void *b)
{
    return ((const struct field_of *)a)->id - ((const struct field_of *)b)->id;
}

/* ---------------------------------------------------------------- reading */

static void read_all(const char *path, struct strbuf *out)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        recorded_fail(path);
    struct strbuf packed = {0};
    char block[65536];
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
        strbuf_add(&packed, block, n);
    (void)fclose(f); /* only read */
    ZSTD_DCtx *z = recorded_need(ZSTD_createDCtx());
    ZSTD_inBuffer in = {packed.p, packed.n, 0};
    while (in.pos < in.size) {
        ZSTD_outBuffer to = {recorded_need(strbuf_room(out, 1 << 20)), 1 << 20, 0};
        size_t r = ZSTD_decompressStream(z, &to, &in);
        if (ZSTD_isError(r))
            recorded_fail(ZSTD_getErrorName(r));
        strbuf_advance(out, to.pos);
    }
    (void)ZSTD_freeDCtx(z); /* can't fail */
    strbuf_fini(&packed);
}

/* "name{label=""value""}",ms,value */
static void read_line(struct slice line, struct strbuf *name)
{
    size_t i = 1;
    strbuf_reset(name);
    for (; i < line.n && (line.p[i] != '"' || line.p[i + 1] == '"'); i++) {
        strbuf_add_char(name, line.p[i]);
        i += line.p[i] == '"';
    }
    struct slice rest = slice_from(line, i + 2);
    const char *comma = recorded_need(memchr(rest.p, ',', rest.n));
    int64_t ms = 0;
    double v = 0;
    if (num_parse_int(slice_of(rest.p, (size_t)(comma - rest.p)), &ms) < 0 ||
        num_parse_float(slice_from(rest, (size_t)(comma - rest.p) + 1), &v) < 0)
        recorded_fail("a line that is not name,ms,value");
    struct series *s = map_get(&series_of, strbuf_slice(name));
    if (!s) {
        s = make_series(strbuf_slice(name));
        if (map_put(&series_of, arena_copy(&data->names, strbuf_slice(name)), s) < 0)
            recorded_fail("out of memory");
    }
    if (!data->n_times || data->times[data->n_times - 1] != ms * 1000000) {
        if (data->n_times == times_cap)
            data->times = recorded_need(mem_try_resize(
                data->times, (times_cap = times_cap ? times_cap * 2 : 1024) * sizeof *data->times));
        data->times[data->n_times++] = ms * 1000000;
    }
    if (s->n == s->cap)
        s->values = recorded_need(
            mem_try_resize(s->values, (s->cap = s->cap ? s->cap * 2 : 1024) * sizeof *s->values));
    if (s->n + 1 != data->n_times)
        recorded_fail("a series that is not in every scrape");
    s->values[s->n++] = v;
    data->n_samples++;
}

void recorded_read(const char *path, struct recorded *out)
{
    *out = (struct recorded){0};
    data = out;
    struct strbuf text = {0}, name = {0};
    read_all(path, &text);
    for (char *p = text.p, *end = text.p + text.n, *eol; p < end; p = eol + 1) {
        eol = recorded_need(memchr(p, '\n', (size_t)(end - p)));
        read_line(slice_of(p, (size_t)(eol - p) - (eol[-1] == '\r')), &name);
    }
    strbuf_fini(&text);
    strbuf_fini(&name);
    for (uint32_t i = 0; i < data->n_tables; i++)
        for (uint32_t k = 0; k < data->tables[i]->n_streams; k++)
            qsort(data->tables[i]->streams[k].fields, data->tables[i]->streams[k].n_fields,
                  sizeof(struct field_of), by_id);
    data->n_series = series_of.n;
}
