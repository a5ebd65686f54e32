/* SPDX-License-Identifier: Apache-2.0 */
/* What blobs (src/archive/blob.h) cost on the recorded host data of ../shared: bytes a sample, ns a sample in
 * and out, beside the control: (time, value) scattered to a column a series and packed by zstd -3 (PEERS.md
 * 4).
 *
 *     blob CSV.zst HOSTS ROWS [figures]     ROWS of a chunk at most
 *
 * Host h has every value times h + 1 and every time 37 h ms later, as DISTINCT=1 of the peers' loader. Series
 * become events as a person would map them: the event's name is the first two words of the metric's
 * (node_memory_Dirty_bytes: node_memory), labels are key fields, but those that number what is measured
 * (mode, quantile, code, ...) go to the field's name; the rest of the metric's name is the field. All values
 * are floats, as they came. Everything that is written counts: names, keys, summaries, checksums. */
#include "archive/blob.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/strbuf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <zstd.h>

/* VictoriaMetrics on the same data, index included (PEERS.md 4). */
#define VM_BYTES 0.71

enum { TABLES_MAX = 256, STREAMS_MAX = 1024, FIELDS_MAX = 256, ROUNDS = 3 };

/* One series: a field of a stream. */
struct series {
    double *values;
    size_t n, cap;
};

struct field_of {
    uint16_t id;
    struct series *series;
};

struct stream {
    struct slice labels; /* as they are in the name, without those that are part of fields */
    struct field_of fields[FIELDS_MAX];
    uint32_t n_fields;
};

struct table {
    struct table_def def;
    struct field columns[FIELDS_MAX];
    struct stream *streams;
    uint32_t n_streams;
};

/* Of every value and where it is: what went in must come out. */
static uint64_t mixed(uint64_t bits, int64_t time_ns)
{
    uint64_t x = (bits ^ (uint64_t)time_ns) * 0x9e3779b97f4a7c15u;
    return (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
}

static struct arena names;
static struct map series_of, table_of;
static struct table *tables[TABLES_MAX];
static uint32_t n_tables;
static int64_t *times;
static size_t n_times, times_cap, n_samples, n_streams;

static void die(const char *what)
{
    (void)fprintf(stderr, "blob: %s\n", what);
    exit(1);
}

static void *need(void *p)
{
    if (!p)
        die("out of memory");
    return p;
}

static double cpu_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* can't fail */
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
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
    if (n_tables == TABLES_MAX)
        die("too many event names");
    t = mem_alloc(sizeof *t);
    t->streams = mem_alloc(STREAMS_MAX * sizeof *t->streams);
    t->def = (struct table_def){arena_copy(&names, name), t->columns, 0};
    (void)map_put(&table_of, t->def.name,
                  t); /* no memory: the next lookup makes it again, and the run fails */
    return tables[n_tables++] = t;
}

static struct stream *find_stream(struct table *t, struct slice labels)
{
    for (uint32_t i = 0; i < t->n_streams; i++)
        if (slice_eq(t->streams[i].labels, labels))
            return &t->streams[i];
    if (t->n_streams == STREAMS_MAX)
        die("too many streams");
    n_streams++;
    struct stream *s = &t->streams[t->n_streams++];
    s->labels = arena_copy(&names, labels);
    return s;
}

static uint16_t find_field(struct table *t, struct slice name)
{
    for (uint16_t i = 0; i < t->def.n_columns; i++)
        if (slice_eq(t->columns[i].name, name))
            return i;
    if (t->def.n_columns == FIELDS_MAX)
        die("too many fields");
    t->columns[t->def.n_columns] = (struct field){.name = arena_copy(&names, name), .type = VALUE_FLOAT};
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
        die("too many fields of a stream");
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
        die(path);
    struct strbuf packed = {0};
    char block[65536];
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
        strbuf_add(&packed, block, n);
    (void)fclose(f); /* only read */
    ZSTD_DCtx *z = need(ZSTD_createDCtx());
    ZSTD_inBuffer in = {packed.p, packed.n, 0};
    while (in.pos < in.size) {
        ZSTD_outBuffer to = {need(strbuf_room(out, 1 << 20)), 1 << 20, 0};
        size_t r = ZSTD_decompressStream(z, &to, &in);
        if (ZSTD_isError(r))
            die(ZSTD_getErrorName(r));
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
    const char *comma = need(memchr(rest.p, ',', rest.n));
    int64_t ms = 0;
    double v = 0;
    if (num_parse_int(slice_of(rest.p, (size_t)(comma - rest.p)), &ms) < 0 ||
        num_parse_float(slice_from(rest, (size_t)(comma - rest.p) + 1), &v) < 0)
        die("a line that is not name,ms,value");
    struct series *s = map_get(&series_of, strbuf_slice(name));
    if (!s) {
        s = make_series(strbuf_slice(name));
        if (map_put(&series_of, arena_copy(&names, strbuf_slice(name)), s) < 0)
            die("out of memory");
    }
    if (!n_times || times[n_times - 1] != ms * 1000000) {
        if (n_times == times_cap)
            times =
                need(mem_try_resize(times, (times_cap = times_cap ? times_cap * 2 : 1024) * sizeof *times));
        times[n_times++] = ms * 1000000;
    }
    if (s->n == s->cap)
        s->values =
            need(mem_try_resize(s->values, (s->cap = s->cap ? s->cap * 2 : 1024) * sizeof *s->values));
    if (s->n + 1 != n_times)
        die("a series that is not in every scrape");
    s->values[s->n++] = v;
    n_samples++;
}

static void read_csv(const char *path)
{
    struct strbuf text = {0}, name = {0};
    read_all(path, &text);
    for (char *p = text.p, *end = text.p + text.n, *eol; p < end; p = eol + 1) {
        eol = need(memchr(p, '\n', (size_t)(end - p)));
        read_line(slice_of(p, (size_t)(eol - p) - (eol[-1] == '\r')), &name);
    }
    strbuf_fini(&text);
    strbuf_fini(&name);
    for (uint32_t i = 0; i < n_tables; i++)
        for (uint32_t k = 0; k < tables[i]->n_streams; k++)
            qsort(tables[i]->streams[k].fields, tables[i]->streams[k].n_fields, sizeof(struct field_of),
                  by_id);
}

/* ---------------------------------------------------------------- a host's rows */

struct host {
    struct slice name;
    struct row_origin origin;
    int64_t *times;
    double **values; /* one a series, in the order of tables, streams, fields */
};

static struct host make_host(unsigned h)
{
    char *name = need(arena_alloc(&names, 16));
    struct host host = {.name = slice_of(name, (size_t)snprintf(name, 16, "h%02u", h))};
    uint64_t random = (h + 1) * 0x9e3779b97f4a7c15u;
    memcpy(host.origin.producer, &random, 8);
    random *= 0xbf58476d1ce4e5b9u;
    memcpy(host.origin.producer + 8, &random, 8);
    host.origin.epoch = 1794772000 + h;
    host.origin.clock =
        (struct batch_clock){.offset_ns = (int64_t)h * 1237, .bound_ns = 250000, .generation = 1};
    host.times = mem_alloc(n_times * sizeof *host.times);
    for (size_t i = 0; i < n_times; i++)
        host.times[i] = times[i] + (int64_t)h * 37000000;
    host.values = mem_alloc(series_of.n * sizeof *host.values);
    size_t at = 0;
    for (uint32_t i = 0; i < n_tables; i++)
        for (uint32_t k = 0; k < tables[i]->n_streams; k++)
            for (uint32_t j = 0; j < tables[i]->streams[k].n_fields; j++) {
                double *v = host.values[at++] = mem_alloc(n_times * sizeof *v);
                for (size_t r = 0; r < n_times; r++)
                    v[r] = tables[i]->streams[k].fields[j].series->values[r] * (h + 1);
            }
    return host;
}

/* ---------------------------------------------------------------- in and out */

struct result {
    size_t directory, body, blobs, chunks;
    double in_s, out_s, open_s;
    bool is_same; /* what came out, and what went in */
};

struct run {
    struct host *hosts;
    unsigned n_hosts;
    size_t rows;
    struct blob_writer *writer;
    struct strbuf *kept; /* directories and bodies */
    size_t n_kept;
    struct result *result;
    bool keeps;
};

static void end_blob(struct run *run)
{
    struct blob_bytes b;
    if (blob_writer_is_empty(run->writer))
        return;
    if (blob_writer_finish(run->writer, &b) < 0)
        die("a blob can't be finished");
    if (!run->keeps)
        return;
    run->kept = need(mem_try_resize(run->kept, (run->n_kept + 2) * sizeof *run->kept));
    run->kept[run->n_kept] = run->kept[run->n_kept + 1] = (struct strbuf){0};
    strbuf_add_slice(&run->kept[run->n_kept++], b.directory);
    strbuf_add_slice(&run->kept[run->n_kept++], b.body);
    run->result->directory += b.directory.n;
    run->result->body += b.body.n;
    run->result->blobs++;
}

static void put_stream(struct run *run, const struct table *t, const struct stream *s,
                       const struct host *host, double *const *values, uint64_t number)
{
    static const uint8_t levels[ROWS_CHUNK_MAX];
    static const uint16_t places[ROWS_CHUNK_MAX];
    static uint64_t seqs[ROWS_CHUNK_MAX];
    struct strbuf key = {0};
    strbuf_add_text(&key, host->name);
    strbuf_add_text(&key, slice_str("node"));
    strbuf_add_text(&key, t->def.name);
    strbuf_add_slice(&key, s->labels);
    struct column columns[FIELDS_MAX];
    for (size_t at = 0; at < n_times; at += run->rows) {
        uint32_t n = (uint32_t)(n_times - at < run->rows ? n_times - at : run->rows);
        for (uint32_t i = 0; i < n; i++)
            seqs[i] = (at + i) * n_streams + number;
        for (uint32_t i = 0; i < s->n_fields; i++)
            columns[i] = (struct column){.id = s->fields[i].id, .type = VALUE_FLOAT, .f = values[i] + at};
        struct rows rows = {.n = n,
                            .n_columns = s->n_fields,
                            .time_ns = host->times + at,
                            .level = levels,
                            .seq = seqs,
                            .origin = places,
                            .origins = &host->origin,
                            .n_origins = 1,
                            .columns = columns};
        if (blob_writer_add(run->writer, &t->def, strbuf_slice(&key), &rows) < 0)
            die("a chunk can't be added");
        run->result->chunks += run->keeps;
        if (blob_writer_is_full(run->writer))
            end_blob(run);
    }
    strbuf_fini(&key);
}

static void encode(struct run *run)
{
    size_t at = 0;
    uint64_t number = 1;
    for (uint32_t i = 0; i < n_tables; i++) {
        struct table *t = tables[i];
        for (unsigned h = 0; h < run->n_hosts; h++) {
            size_t series = at;
            for (uint32_t k = 0; k < t->n_streams; k++) {
                put_stream(run, t, &t->streams[k], &run->hosts[h], run->hosts[h].values + series, number + k);
                series += t->streams[k].n_fields;
            }
        }
        number += t->n_streams;
        for (uint32_t k = 0; k < t->n_streams; k++)
            at += t->streams[k].n_fields;
    }
    end_blob(run);
}

static uint64_t mix_rows(const struct rows *r)
{
    uint64_t mix = 0;
    for (uint32_t c = 0; c < r->n_columns; c++)
        for (uint32_t i = 0; i < r->n; i++)
            mix += mixed(r->columns[c].u[i], r->time_ns[i]);
    return mix;
}

/* Every value of every chunk. Returns seconds without directories; *mix is made only if asked, outside of
 * that. */
static double decode(struct run *run, struct blob_cache *cache, double *open_s, uint64_t *mix)
{
    struct arena arena = {0}, scratch = {0};
    double spent = 0;
    for (size_t i = 0; i < run->n_kept; i += 2) {
        const struct blob_directory *d;
        double start = cpu_now();
        if (blob_directory_read(strbuf_slice(&run->kept[i]), &arena, &d) < 0)
            die("a directory can't be read");
        double opened = cpu_now();
        *open_s += opened - start;
        for (uint32_t k = 0; k < d->n_chunks; k++) {
            struct rows rows;
            if (blob_chunk_read(d, strbuf_slice(&run->kept[i + 1]), i + 1, k, BLOB_TIMES | BLOB_ALL_COLUMNS,
                                NULL, 0, cache, &scratch, &rows) < 0)
                die("a chunk can't be read");
            if (mix)
                *mix += mix_rows(&rows);
            arena_reset(&scratch);
        }
        spent += cpu_now() - opened;
        arena_reset(&arena);
    }
    arena_fini(&arena);
    arena_fini(&scratch);
    return spent;
}

static uint64_t mix_hosts(const struct run *run)
{
    uint64_t mix = 0;
    for (unsigned h = 0; h < run->n_hosts; h++)
        for (size_t s = 0; s < series_of.n; s++)
            for (size_t i = 0; i < n_times; i++) {
                uint64_t bits;
                memcpy(&bits, &run->hosts[h].values[s][i], sizeof bits);
                mix += mixed(bits, run->hosts[h].times[i]);
            }
    return mix;
}

static void measure(struct run *run, struct result *out)
{
    double best_in = 1e9, best_out = 1e9;
    uint64_t mix = 0;
    run->result = out;
    for (int i = 0; i < ROUNDS; i++) {
        run->keeps = i == 0;
        double start = cpu_now();
        encode(run);
        double s = cpu_now() - start;
        best_in = s < best_in && i ? s : best_in; /* the first one copies */
    }
    struct blob_cache *cache = need(blob_cache_create(1 << 20));
    for (int i = 0; i < ROUNDS; i++) {
        double open_s = 0, s = decode(run, cache, &open_s, NULL);
        best_out = s < best_out ? s : best_out;
        out->open_s = open_s;
    }
    double ignored = 0;
    (void)decode(run, cache, &ignored, &mix); /* not for its time */
    out->is_same = mix == mix_hosts(run);
    blob_cache_destroy(cache);
    out->in_s = best_in;
    out->out_s = best_out;
}

/* ---------------------------------------------------------------- control */

/* (time, value) of a series side by side, all series one after the other, zstd -3. */
static void control(const struct run *run, double *bytes, double *scatter_ns, double *pack_ns)
{
    struct sample {
        int64_t at_ms;
        double value;
    };
    size_t n_series = series_of.n, total = n_series * run->n_hosts * n_times;
    struct sample *columns = mem_alloc(total * sizeof *columns);
    memset(columns, 1, total * sizeof *columns); /* page faults are nobody's cost */
    double start = cpu_now();
    for (size_t r = 0; r < n_times; r++)
        for (unsigned h = 0; h < run->n_hosts; h++)
            for (size_t s = 0; s < n_series; s++)
                columns[(s * run->n_hosts + h) * n_times + r] =
                    (struct sample){run->hosts[h].times[r] / 1000000, run->hosts[h].values[s][r]};
    double scattered = cpu_now();
    size_t room = ZSTD_compressBound(total * sizeof *columns);
    void *packed = mem_alloc(room);
    double packing = cpu_now();
    *bytes = (double)ZSTD_compress(packed, room, columns, total * sizeof *columns, 3) / (double)total;
    *pack_ns = (cpu_now() - packing) * 1e9 / (double)total;
    *scatter_ns = (scattered - start) * 1e9 / (double)total;
    mem_free(packed);
    mem_free(columns);
}

static bool figure(const char *name, double value, double goal)
{
    printf("figure: blob.%s %.3g (goal <= %.3g) %s\n", name, value, goal, value <= goal ? "ok" : "short");
    return value <= goal;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        die("usage: blob CSV.zst HOSTS ROWS [figures]");
    read_csv(argv[1]);
    unsigned n_hosts = (unsigned)strtoul(argv[2], NULL, 10);
    struct blob_options options = {.ids = NULL};
    struct run run = {.n_hosts = n_hosts, .rows = strtoul(argv[3], NULL, 10)};
    if (!n_hosts || !run.rows || run.rows > ROWS_CHUNK_MAX)
        die("HOSTS and ROWS: 1 or more");
    run.hosts = mem_alloc(n_hosts * sizeof *run.hosts);
    for (unsigned h = 0; h < n_hosts; h++)
        run.hosts[h] = make_host(h);
    run.writer = need(blob_writer_create(&options));
    struct result r = {0};
    measure(&run, &r);
    double samples = (double)(n_samples * n_hosts), bytes, scatter_ns, pack_ns,
           size = (double)(r.directory + r.body);
    control(&run, &bytes, &scatter_ns, &pack_ns);
    printf("%zu series as %zu streams of %u event names, %zu scrapes, %u hosts: %.0f samples\n", series_of.n,
           n_streams, n_tables, n_times, n_hosts, samples);
    printf("%zu blobs, %zu chunks of %zu rows: directories %zu B (%.3f a sample), bodies %zu B (%.3f)\n",
           r.blobs, r.chunks, run.rows, r.directory, (double)r.directory / samples, r.body,
           (double)r.body / samples);
    printf("%-36s %9s %9s %9s\n", "", "B/sample", "in ns", "out ns");
    printf("%-36s %9.3f %9.1f %9.1f   (directories read: %.1f ns more)\n", "blobs", size / samples,
           r.in_s * 1e9 / samples, r.out_s * 1e9 / samples, r.open_s * 1e9 / samples);
    printf("%-36s %9.3f %9.1f %9s   (scatter alone: %.1f ns)\n\n", "control: scattered columns, zstd -3",
           bytes, scatter_ns + pack_ns, "-", scatter_ns);
    if (!r.is_same)
        die("what came out is not what went in");
    if (argc < 5)
        return 0;
    bool is_ok = figure("bytes_per_sample", size / samples, VM_BYTES * 0.7);
    is_ok &= figure("in_ns", r.in_s * 1e9 / samples, 25);
    is_ok &= figure("out_ns", r.out_s * 1e9 / samples, 4);
    return !is_ok;
}
