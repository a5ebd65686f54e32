/* SPDX-License-Identifier: Apache-2.0 */
/* Application events with ids and text fields into an archive, or into a plain SQLite table with an index,
 * and what is asked of them.
 *
 *     archive_events make N                     makes the events, and nothing else: the control of both
 *     archive_events archive N FOLDER           into an archive, flushed, with what is derived of ids
 *     archive_events archive-plain N FOLDER     without that
 *     archive_events sqlite N FILE              into a table, a transaction of 10,000 rows, then ANALYZE
 *     archive_events ask-archive FOLDER         on stdin a statement a line: its rows to stdout, then "= us"
 *     archive_events ask-sqlite FILE
 *
 * Events are the same each time. Every 500 us a transfer begins: it has an id of 16 characters and goes
 * through transfer.start, open, block, close and end, on hosts of its own, with latencies whose logarithm is
 * normal; so there are 10,000 events a second. One in 1,000 transfers fails (level error), one in 100,000
 * hangs for long in one hop. They come in order of time but for the last few milliseconds, in batches of
 * 1,000. */
#include "archive/archive.h"
#include "archive/lifeline.h"
#include "archive/sql.h"
#include "archive/view.h"
#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 5, HOSTS = 16, BATCH = 1000, COMMIT = 10000, LINE_MAX_BYTES = 4096 };

static const char *const names[STEPS] = {"transfer.start", "transfer.open", "transfer.block",
                                         "transfer.close", "transfer.end"};

static void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "archive_events: %s: %s\n", what, why);
    exit(1);
}

/* ---------------------------------------------------------------- the events */

struct made {
    int64_t time_ns;
    uint64_t transfer;
    unsigned step;
};

/* What comes next of each transfer that is under way, the earliest first. */
struct maker {
    struct made *heap;
    size_t n, cap;
    uint64_t begun, left, seed;
};

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t random_of(uint64_t transfer, unsigned what)
{
    return mix(transfer * 64 + what + 0x9e3779b97f4a7c15u);
}

static double uniform(uint64_t transfer, unsigned what)
{
    return ((double)(random_of(transfer, what) >> 11) + 0.5) / 9007199254740992.0;
}

static int64_t latency_ns(uint64_t transfer, unsigned step)
{
    double normal = sqrt(-2 * log(uniform(transfer, 2 * step))) *
                    cos(6.283185307179586 * uniform(transfer, 2 * step + 1));
    double s = 0.2 * exp(normal);
    if (random_of(transfer, 20) % 100000 == 0 && random_of(transfer, 21) % (STEPS - 1) == step)
        s += 60 + 300 * uniform(transfer, 22);
    return (int64_t)(s * 1e9);
}

static void heap_put(struct maker *m, struct made e)
{
    if (m->n == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 1024;
        m->heap = mem_try_resize(m->heap, m->cap * sizeof *m->heap);
        if (!m->heap)
            die("memory", err_text(-ENOMEM));
    }
    size_t at = m->n++;
    for (; at && m->heap[(at - 1) / 2].time_ns > e.time_ns; at = (at - 1) / 2)
        m->heap[at] = m->heap[(at - 1) / 2];
    m->heap[at] = e;
}

static struct made heap_take(struct maker *m)
{
    struct made first = m->heap[0], e = m->heap[--m->n];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= m->n)
            break;
        if (child + 1 < m->n && m->heap[child + 1].time_ns < m->heap[child].time_ns)
            child++;
        if (m->heap[child].time_ns >= e.time_ns)
            break;
        m->heap[at] = m->heap[child];
        at = child;
    }
    m->heap[at] = e;
    return first;
}

static bool next_event(struct maker *m, struct made *out)
{
    const int64_t began = INT64_C(1794700800000000000);
    if (m->left == 0)
        return false;
    m->left--;
    int64_t next = began + (int64_t)m->begun * 500000;
    if (m->n == 0 || m->heap[0].time_ns > next) {
        *out = (struct made){next, m->begun++, 0};
    } else {
        *out = heap_take(m);
    }
    if (out->step + 1 < STEPS)
        heap_put(m, (struct made){out->time_ns + latency_ns(out->transfer, out->step), out->transfer,
                                  out->step + 1});
    return true;
}

/* An event as everybody gets it. */
struct row {
    int64_t time_ns;
    const char *name;
    char id[17], host[16], user[16], url[48], status[24];
    int64_t bytes;
    uint8_t level;
};

static void make_row(const struct made *e, struct row *r)
{
    uint64_t t = e->transfer;
    bool fails = random_of(t, 30) % 1000 == 0 && e->step == STEPS - 1;
    r->time_ns = e->time_ns;
    r->name = names[e->step];
    r->level = fails ? LEVEL_ERROR : LEVEL_INFO;
    r->bytes = (int64_t)(4096 * exp(uniform(t, 33) * 12)) + e->step;
    (void)snprintf(r->id, sizeof r->id, "%016llx", (unsigned long long)random_of(t, 31));
    (void)snprintf(r->host, sizeof r->host, "node%02u", (unsigned)(random_of(t, 40 + e->step / 2) % HOSTS));
    (void)snprintf(r->user, sizeof r->user, "user%03u", (unsigned)(random_of(t, 32) % 200));
    (void)snprintf(r->url, sizeof r->url, "/data/run%04u/file%03u.h5", (unsigned)(t / 5000 % 2000),
                   (unsigned)(random_of(t, 34) % 500));
    (void)snprintf(r->status, sizeof r->status, "%s", fails ? "no route to host" : "ok");
}

/* ---------------------------------------------------------------- into an archive */

struct packer {
    struct registry *registry;
    struct batch_builder *builder;
    uint64_t seq;
};

static void pack(struct packer *p, const struct row *r)
{
    struct event_head head = {.time_ns = r->time_ns,
                              .name = slice_str(r->name),
                              .host = slice_str(r->host),
                              .prog = SLICE_LIT("mover"),
                              .level = r->level};
    struct named_value v[] = {{SLICE_LIT("id"), value_text(slice_str(r->id))},
                              {SLICE_LIT("user"), value_text(slice_str(r->user))},
                              {SLICE_LIT("url"), value_text(slice_str(r->url))},
                              {SLICE_LIT("bytes"), value_int(r->bytes)},
                              {SLICE_LIT("status"), value_text(slice_str(r->status))}};
    int e = batch_builder_add(p->builder, &head, v, sizeof v / sizeof *v, NULL);
    if (e < 0)
        die("event", err_text(e));
}

static struct batch *unload(struct packer *p)
{
    size_t n = batch_builder_count(p->builder);
    struct batch_origin origin = {.producer = "bench", .epoch = 1, .first_seq = p->seq + 1};
    p->seq += n;
    return n ? batch_builder_finish(p->builder, &origin) : NULL;
}

static void append(struct archive *a, uint64_t *record, struct batch *b)
{
    static const struct archive_source source = {"bench"};
    if (!b)
        return;
    ++*record;
    int r = a ? archive_append(a, &source, *record, b) : 0;
    if (r == 0 && a)
        r = archive_done(a, &source, *record);
    if (r == 0 && a)
        r = archive_tick(a, clock_mono_ns(), 0);
    if (r < 0)
        die("archive", err_text(r));
    batch_unref(b);
}

/* dir NULL: the events are made and forgotten. */
static void fill_archive(struct maker *m, const char *dir, bool has_lifelines)
{
    struct archive *a = NULL;
    struct lifeline *l = NULL;
    struct diag why = {.message = ""};
    struct packer p = {.registry = registry_create()};
    p.builder = batch_builder_create(p.registry, 0);
    if (dir && archive_open(&(struct archive_options){.dir = dir}, &a, &why) < 0)
        die(dir, why.message);
    if (a && has_lifelines && lifeline_follow(a, &(struct lifeline_options){.ids = NULL}, &l, &why) < 0)
        die(dir, why.message);
    struct made e;
    struct row r;
    uint64_t record = 0;
    for (size_t n = 0; next_event(m, &e);) {
        make_row(&e, &r);
        pack(&p, &r);
        if (++n % BATCH == 0)
            append(a, &record, unload(&p));
    }
    append(a, &record, unload(&p));
    int f = a ? archive_flush(a) : 0;
    if (f < 0)
        die(dir, err_text(f));
    if (l) {
        struct lifeline_counts c;
        lifeline_counts(l, &c);
        printf("events %llu hops %llu firsts %llu late %llu forgotten %llu derived %llu\n",
               (unsigned long long)c.events, (unsigned long long)c.hops, (unsigned long long)c.firsts,
               (unsigned long long)c.late, (unsigned long long)c.forgotten, (unsigned long long)c.derived);
    }
    archive_close(a);
    lifeline_destroy(l);
    batch_builder_destroy(p.builder);
    registry_destroy(p.registry);
}

/* ---------------------------------------------------------------- into SQLite */

static void must(sqlite3 *db, int r)
{
    if (r != SQLITE_OK && r != SQLITE_DONE && r != SQLITE_ROW)
        die("sqlite", sqlite3_errmsg(db));
}

static void fill_sqlite(struct maker *m, const char *file)
{
    sqlite3 *db;
    sqlite3_stmt *insert;
    struct made e;
    struct row r;
    must(NULL, sqlite3_open(file, &db));
    must(db, sqlite3_exec(
                 db,
                 "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-65536;"
                 "CREATE TABLE event(time INTEGER, name TEXT, host TEXT, prog TEXT, level INTEGER, id TEXT,"
                 " user TEXT, url TEXT, bytes INTEGER, status TEXT);"
                 "CREATE INDEX event_id ON event(id); BEGIN",
                 NULL, NULL, NULL));
    must(db,
         sqlite3_prepare_v2(db, "INSERT INTO event VALUES(?,?,?,'mover',?,?,?,?,?,?)", -1, &insert, NULL));
    for (size_t n = 1; next_event(m, &e); n++) {
        make_row(&e, &r);
        must(db, sqlite3_bind_int64(insert, 1, r.time_ns));
        must(db, sqlite3_bind_text(insert, 2, r.name, -1, SQLITE_STATIC));
        must(db, sqlite3_bind_text(insert, 3, r.host, -1, SQLITE_STATIC));
        must(db, sqlite3_bind_int(insert, 4, r.level));
        must(db, sqlite3_bind_text(insert, 5, r.id, -1, SQLITE_STATIC));
        must(db, sqlite3_bind_text(insert, 6, r.user, -1, SQLITE_STATIC));
        must(db, sqlite3_bind_text(insert, 7, r.url, -1, SQLITE_STATIC));
        must(db, sqlite3_bind_int64(insert, 8, r.bytes));
        must(db, sqlite3_bind_text(insert, 9, r.status, -1, SQLITE_STATIC));
        must(db, sqlite3_step(insert));
        must(db, sqlite3_reset(insert));
        if (n % COMMIT == 0)
            must(db, sqlite3_exec(db, "COMMIT; BEGIN", NULL, NULL, NULL));
    }
    must(db, sqlite3_exec(db, "COMMIT; ANALYZE; PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL));
    must(db, sqlite3_finalize(insert));
    must(db, sqlite3_close(db));
}

/* ---------------------------------------------------------------- asking */

static void print_us(int64_t began_ns)
{
    printf("= %.1f\n", (double)(clock_mono_ns() - began_ns) / 1000);
    (void)fflush(stdout);
}

static bool next_line(char *line)
{
    if (!fgets(line, LINE_MAX_BYTES, stdin))
        return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

static void print_value(const struct sql_value *v, bool is_first)
{
    printf("%s", is_first ? "" : "|");
    if (v->kind == SQL_INT)
        printf("%lld", (long long)v->i);
    else if (v->kind == SQL_FLOAT)
        printf("%.17g", v->f);
    else if (v->kind == SQL_TEXT)
        printf("%.*s", SLICE_ARG(v->text));
}

static void ask_archive(const char *dir)
{
    struct view_reader *reader;
    struct sql_engine *engine;
    struct diag why = {.message = ""};
    char line[LINE_MAX_BYTES];
    if (view_reader_create(NULL, dir, 64 << 20, &reader, &why) < 0 || sql_engine_create(reader, &engine) < 0)
        die(dir, why.message);
    while (next_line(line)) {
        int64_t began = clock_mono_ns();
        const struct sql_limits limits = {.time_ns = INT64_C(600000000000), .bytes = (size_t)4 << 30};
        const struct sql_query q = {.text = slice_str(line), .limits = &limits};
        struct sql_statement *s = NULL;
        int r = sql_prepare(engine, &q, &s, &why);
        while (r == 0 && (r = sql_step(s, &why)) > 0) {
            for (size_t i = 0; i < sql_columns(s); i++) {
                struct sql_value v = sql_value(s, i);
                print_value(&v, i == 0);
            }
            printf("\n");
            r = 0;
        }
        sql_finish(s);
        if (r < 0)
            die(line, why.message);
        print_us(began);
    }
    sql_engine_destroy(engine);
    view_reader_destroy(reader);
}

static void ask_sqlite(const char *file)
{
    sqlite3 *db;
    char line[LINE_MAX_BYTES];
    must(NULL, sqlite3_open_v2(file, &db, SQLITE_OPEN_READONLY, NULL));
    must(db, sqlite3_exec(db, "PRAGMA cache_size=-65536; PRAGMA mmap_size=4294967296", NULL, NULL, NULL));
    while (next_line(line)) {
        int64_t began = clock_mono_ns();
        sqlite3_stmt *s;
        must(db, sqlite3_prepare_v2(db, line, -1, &s, NULL));
        while (sqlite3_step(s) == SQLITE_ROW) {
            for (int i = 0; i < sqlite3_column_count(s); i++)
                printf("%s%s", i ? "|" : "", (const char *)sqlite3_column_text(s, i));
            printf("\n");
        }
        must(db, sqlite3_finalize(s));
        print_us(began);
    }
    must(db, sqlite3_close(db));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    struct maker m = {.left = argc > 2 ? strtoull(argv[2], NULL, 10) : 0};
    if (strcmp(what, "make") == 0 && argc == 3)
        fill_archive(&m, NULL, false);
    else if (strcmp(what, "archive") == 0 && argc == 4)
        fill_archive(&m, argv[3], true);
    else if (strcmp(what, "archive-plain") == 0 && argc == 4)
        fill_archive(&m, argv[3], false);
    else if (strcmp(what, "sqlite") == 0 && argc == 4)
        fill_sqlite(&m, argv[3]);
    else if (strcmp(what, "ask-archive") == 0 && argc == 3)
        ask_archive(argv[2]);
    else if (strcmp(what, "ask-sqlite") == 0 && argc == 3)
        ask_sqlite(argv[2]);
    else
        die("usage", "see the head of archive_events.c");
    mem_free(m.heap);
    return 0;
}
