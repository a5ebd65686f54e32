/* SPDX-License-Identifier: Apache-2.0 */
/* What blobs (src/archive/blob.h) cost on the recorded host data of ../shared: bytes a sample, ns a sample in
 * and out, beside the control: (time, value) scattered to a column a series and packed by zstd -3 (PEERS.md
 * 4).
 *
 *     blob CSV.zst HOSTS ROWS [figures]     ROWS of a chunk at most
 *
 * Host h has every value times h + 1 and every time 37 h ms later, as DISTINCT=1 of the peers' loader.
 * recorded.h says how series become events. Everything that is written counts: names, keys, summaries,
 * checksums. */
#include "archive/blob.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "recorded.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <zstd.h>

/* VictoriaMetrics on the same data, index included (PEERS.md 4). */
#define VM_BYTES 0.71

enum { ROUNDS = 3 };

static struct recorded data;

/* Of every value and where it is: what went in must come out. */
static uint64_t mixed(uint64_t bits, int64_t time_ns)
{
    uint64_t x = (bits ^ (uint64_t)time_ns) * 0x9e3779b97f4a7c15u;
    return (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
}

static double cpu_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* can't fail */
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
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
    char *name = recorded_need(arena_alloc(&data.names, 16));
    struct host host = {.name = slice_of(name, (size_t)snprintf(name, 16, "h%02u", h))};
    uint64_t random = (h + 1) * 0x9e3779b97f4a7c15u;
    memcpy(host.origin.producer, &random, 8);
    random *= 0xbf58476d1ce4e5b9u;
    memcpy(host.origin.producer + 8, &random, 8);
    host.origin.epoch = 1794772000 + h;
    host.origin.clock =
        (struct batch_clock){.offset_ns = (int64_t)h * 1237, .bound_ns = 250000, .generation = 1};
    host.times = mem_alloc(data.n_times * sizeof *host.times);
    for (size_t i = 0; i < data.n_times; i++)
        host.times[i] = data.times[i] + (int64_t)h * 37000000;
    host.values = mem_alloc(data.n_series * sizeof *host.values);
    size_t at = 0;
    for (uint32_t i = 0; i < data.n_tables; i++)
        for (uint32_t k = 0; k < data.tables[i]->n_streams; k++)
            for (uint32_t j = 0; j < data.tables[i]->streams[k].n_fields; j++) {
                double *v = host.values[at++] = mem_alloc(data.n_times * sizeof *v);
                for (size_t r = 0; r < data.n_times; r++)
                    v[r] = data.tables[i]->streams[k].fields[j].series->values[r] * (h + 1);
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
        recorded_fail("a blob can't be finished");
    if (!run->keeps)
        return;
    run->kept = recorded_need(mem_try_resize(run->kept, (run->n_kept + 2) * sizeof *run->kept));
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
    for (size_t at = 0; at < data.n_times; at += run->rows) {
        uint32_t n = (uint32_t)(data.n_times - at < run->rows ? data.n_times - at : run->rows);
        for (uint32_t i = 0; i < n; i++)
            seqs[i] = (at + i) * data.n_streams + number;
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
            recorded_fail("a chunk can't be added");
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
    for (uint32_t i = 0; i < data.n_tables; i++) {
        struct table *t = data.tables[i];
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
            recorded_fail("a directory can't be read");
        double opened = cpu_now();
        *open_s += opened - start;
        for (uint32_t k = 0; k < d->n_chunks; k++) {
            struct rows rows;
            if (blob_chunk_read(d, strbuf_slice(&run->kept[i + 1]), i + 1, k, BLOB_TIMES | BLOB_ALL_COLUMNS,
                                NULL, 0, cache, &scratch, &rows) < 0)
                recorded_fail("a chunk can't be read");
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
        for (size_t s = 0; s < data.n_series; s++)
            for (size_t i = 0; i < data.n_times; i++) {
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
    struct blob_cache *cache = recorded_need(blob_cache_create(1 << 20));
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
    size_t n_series = data.n_series, total = n_series * run->n_hosts * data.n_times;
    struct sample *columns = mem_alloc(total * sizeof *columns);
    memset(columns, 1, total * sizeof *columns); /* page faults are nobody's cost */
    double start = cpu_now();
    for (size_t r = 0; r < data.n_times; r++)
        for (unsigned h = 0; h < run->n_hosts; h++)
            for (size_t s = 0; s < n_series; s++)
                columns[(s * run->n_hosts + h) * data.n_times + r] =
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
        recorded_fail("usage: blob CSV.zst HOSTS ROWS [figures]");
    recorded_read(argv[1], &data);
    unsigned n_hosts = (unsigned)strtoul(argv[2], NULL, 10);
    struct blob_options options = {.ids = NULL};
    struct run run = {.n_hosts = n_hosts, .rows = strtoul(argv[3], NULL, 10)};
    if (!n_hosts || !run.rows || run.rows > ROWS_CHUNK_MAX)
        recorded_fail("HOSTS and ROWS: 1 or more");
    run.hosts = mem_alloc(n_hosts * sizeof *run.hosts);
    for (unsigned h = 0; h < n_hosts; h++)
        run.hosts[h] = make_host(h);
    run.writer = recorded_need(blob_writer_create(&options));
    struct result r = {0};
    measure(&run, &r);
    double samples = (double)(data.n_samples * n_hosts), bytes, scatter_ns, pack_ns,
           size = (double)(r.directory + r.body);
    control(&run, &bytes, &scatter_ns, &pack_ns);
    printf("%zu series as %zu streams of %u event names, %zu scrapes, %u hosts: %.0f samples\n",
           data.n_series, data.n_streams, data.n_tables, data.n_times, n_hosts, samples);
    printf("%zu blobs, %zu chunks of %zu rows: directories %zu B (%.3f a sample), bodies %zu B (%.3f)\n",
           r.blobs, r.chunks, run.rows, r.directory, (double)r.directory / samples, r.body,
           (double)r.body / samples);
    printf("%-36s %9s %9s %9s\n", "", "B/sample", "in ns", "out ns");
    printf("%-36s %9.3f %9.1f %9.1f   (directories read: %.1f ns more)\n", "blobs", size / samples,
           r.in_s * 1e9 / samples, r.out_s * 1e9 / samples, r.open_s * 1e9 / samples);
    printf("%-36s %9.3f %9.1f %9s   (scatter alone: %.1f ns)\n\n", "control: scattered columns, zstd -3",
           bytes, scatter_ns + pack_ns, "-", scatter_ns);
    if (!r.is_same)
        recorded_fail("what came out is not what went in");
    if (argc < 5)
        return 0;
    bool is_ok = figure("bytes_per_sample", size / samples, VM_BYTES * 0.7);
    is_ok &= figure("in_ns", r.in_s * 1e9 / samples, 25);
    is_ok &= figure("out_ns", r.out_s * 1e9 / samples, 4);
    return !is_ok;
}
