/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of an archive beside a plain list of the events that were put into it. */
#include "unit/archive/rows_seen.h"

#include "archive/lifeline.h"
#include "archive/lifeline_pyramid.h"
#include "archive/merge.h"
#include "archive/partition_internal.h"
#include "archive/retain.h"
#include "archive/tile.h"
#include "base/cursor.h"

#include <errno.h>
#include <math.h>

#define MS(n)    (INT64_C(1000000) * (n))
#define BEGIN    INT64_C(1794777600000000000)
#define DAY      INT64_C(1794700800000000000) /* a partition begins */
#define MIDNIGHT (DAY + MS(86400000))

enum { NAMES = 4, HOSTS = 3 };
static const char *const names[NAMES] = {"job.start", "job.read", "job.write", "job.end"};
static const char *const hosts[HOSTS] = {"alpha", "beta", "gamma"};

struct plain {
    int64_t time_ns;
    uint64_t seq;
    unsigned id, name, host;
    uint8_t level;
    double value;
};

/* An archive, what is in it, and a view. */
struct world {
    char dir[64];
    struct archive *a;
    struct lifeline *l;
    struct registry *registry;
    struct batch_builder *builder;
    struct plain *events;
    size_t n, max;
    uint64_t record, seed;
    bool has_levels; /* all kinds of them, and events without an id */
    struct view_reader *reader;
    struct view *view;
};

static const struct archive_source source = {"a journal"};

static void open_world(struct world *w)
{
    const struct archive_options o = {
        .dir = w->dir, .partition_ns = INT64_C(86400000000000), .flush_ns = INT64_MAX / 2};
    assert_int_equal(archive_open(&o, &w->a, NULL), 0);
    assert_int_equal(lifeline_create(&(struct lifeline_options){.partition_ns = o.partition_ns}, &w->l, NULL),
                     0);
    struct archive_derive_ops ops = lifeline_ops(w->l);
    archive_on_flush(w->a, &ops);
}

static void close_world(struct world *w)
{
    view_release(w->view);
    view_reader_destroy(w->reader);
    archive_close(w->a);
    lifeline_destroy(w->l);
    w->view = NULL;
    w->reader = NULL;
}

static void world_init(struct world *w)
{
    *w = (struct world){.seed = 5};
    (void)snprintf(w->dir, sizeof w->dir, "/tmp/gridline-tile-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    w->registry = registry_create();
    w->builder = batch_builder_create(w->registry, 0);
    open_world(w);
}

static void world_fini(struct world *w)
{
    close_world(w);
    batch_builder_destroy(w->builder);
    registry_destroy(w->registry);
    remove_folder(w->dir);
    mem_free(w->events);
}

static const char *prog_of(const struct plain *e)
{
    return e->name ? "p" : "client";
}

static bool has_id(const struct world *w, const struct plain *e)
{
    return !w->has_levels || e->id % 8 > 0;
}

static struct batch *build(struct world *w, const struct plain *e, size_t n)
{
    char id[32];
    for (size_t i = 0; i < n; i++) {
        int len = snprintf(id, sizeof id, "job-%06u", e[i].id);
        struct event_head head = {.time_ns = e[i].time_ns,
                                  .name = slice_str(names[e[i].name]),
                                  .host = slice_str(hosts[e[i].host]),
                                  .prog = slice_str(prog_of(&e[i])),
                                  .level = e[i].level};
        struct named_value v[] = {{SLICE_LIT("size"), value_float(e[i].value)},
                                  {SLICE_LIT("id"), value_text(slice_of(id, (size_t)len))}};
        assert_int_equal(batch_builder_add(w->builder, &head, v, has_id(w, &e[i]) ? 2 : 1, NULL), 0);
    }
    struct batch_origin origin = {.producer = "me", .epoch = 1, .first_seq = e[0].seq};
    return batch_builder_finish(w->builder, &origin);
}

enum { BATCH = 1000 };

static uint8_t random_level(struct world *w)
{
    uint64_t at = test_random(&w->seed) % 5000;
    if (!w->has_levels)
        return at ? LEVEL_INFO : LEVEL_ERROR;
    return at < 2      ? LEVEL_CRITICAL
           : at < 10   ? LEVEL_ERROR
           : at < 20   ? LEVEL_WARNING
           : at < 2500 ? LEVEL_DEBUG
                       : LEVEL_INFO;
}

/* n events of ids that go their way, per_id each, in about spread_ns. */
static void feed(struct world *w, size_t n, unsigned ids, int64_t from_ns, int64_t spread_ns)
{
    if (w->n + n > w->max) {
        w->max = w->n + n;
        w->events = mem_try_resize(w->events, w->max * sizeof *w->events);
        assert_non_null(w->events);
    }
    for (size_t i = 0; i < n; i++) {
        int64_t at = from_ns + (int64_t)((double)spread_ns * (double)i / (double)n);
        w->events[w->n + i] =
            (struct plain){.time_ns = at + (int64_t)(test_random(&w->seed) % (uint64_t)MS(5)),
                           .seq = w->n + i + 1,
                           .id = (unsigned)(test_random(&w->seed) % ids),
                           .name = (unsigned)(test_random(&w->seed) % NAMES),
                           .host = (unsigned)(test_random(&w->seed) % HOSTS),
                           .level = random_level(w),
                           .value = (double)(test_random(&w->seed) % 1000) / 7};
    }
    for (size_t i = 0; i < n; i += BATCH) {
        struct batch *b = build(w, w->events + w->n + i, n - i < BATCH ? n - i : BATCH);
        w->record++;
        assert_int_equal(archive_append(w->a, &source, w->record, b), 0);
        assert_int_equal(archive_done(w->a, &source, w->record), 0);
        batch_unref(b);
    }
    w->n += n;
}

static void look(struct world *w)
{
    assert_int_equal(view_reader_create(w->a, NULL, 8 << 20, &w->reader, NULL), 0);
    assert_int_equal(view_take(w->reader, &w->view), 0);
}

/* The tile of a request written with | for NUL. bytes must be freed. */
__attribute__((format(printf, 6, 7))) static int ask(struct world *w, const struct sql_access *access,
                                                     struct strbuf *bytes, struct tile *t, bool *is_final,
                                                     const char *format, ...)
{
    struct strbuf request = {0};
    char text[512];
    struct diag why = {.message = ""};
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (int i = 0; i < n; i++)
        strbuf_add_char(&request, text[i] == '|' ? '\0' : text[i]);
    strbuf_reset(bytes);
    int r = tile_answer(w->view, access, strbuf_slice(&request), bytes, &why);
    strbuf_fini(&request);
    if (r < 0)
        return r;
    *is_final = bytes->p[0] == 1;
    assert_int_equal(tile_read(slice_from(strbuf_slice(bytes), QUERY_TILE_HEAD), t), 0);
    assert_true(bytes->n <= TILE_BYTES_MAX + TILE_BYTES_MAX / 8);
    return 0;
}

static int64_t span_of(unsigned level)
{
    return INT64_C(1) << (2 * level + 8);
}

/* ---------------------------------------------------------------- series */

static void check_series(struct world *w, unsigned level, int64_t index)
{
    struct strbuf bytes = {0};
    struct tile t;
    bool is_final;
    assert_int_equal(ask(w, NULL, &bytes, &t, &is_final, "series|job.read|%u|%lld|field=size|host=beta|",
                         level, (long long)index),
                     0);
    assert_int_equal(t.head.kind, TILE_SERIES);
    int64_t from = index * span_of(level), bin = span_of(level) / TILE_BINS;
    uint32_t row = 0;
    for (unsigned b = 0; b < TILE_BINS; b++) {
        const struct plain *first = NULL, *last = NULL;
        double min = INFINITY, max = -INFINITY;
        unsigned count = 0;
        for (size_t i = 0; i < w->n; i++) {
            const struct plain *e = &w->events[i];
            if (e->name != 1 || e->host != 1 || e->time_ns < from + bin * b ||
                e->time_ns >= from + bin * (b + 1))
                continue;
            first = !first || e->time_ns < first->time_ns ? e : first;
            last = !last || e->time_ns > last->time_ns ? e : last;
            min = fmin(min, e->value);
            max = fmax(max, e->value);
            count++;
        }
        if (!count)
            continue;
        assert_true(row < t.columns[COLUMN_T].n);
        assert_int_equal(tile_time_ns(&t, tile_uint(&t, COLUMN_T, row)), from + bin * b);
        assert_true(tile_float(&t, COLUMN_FIRST, row) == first->value);
        assert_true(tile_float(&t, COLUMN_LAST, row) == last->value);
        assert_true(tile_float(&t, COLUMN_MIN, row) == min);
        assert_true(tile_float(&t, COLUMN_MAX, row) == max);
        assert_int_equal(tile_uint(&t, COLUMN_COUNT, row), count);
        row++;
    }
    assert_int_equal(row, t.columns[COLUMN_T].n);
    if (row)
        assert_slice(tile_text(&t, COLUMN_STREAM, 0), "beta p job.read");
    strbuf_fini(&bytes);
}

static void series(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    feed(&w, 3000, 50, BEGIN, MS(60000));
    assert_int_equal(archive_flush(w.a), 0);
    feed(&w, 3000, 50, BEGIN + MS(50000), MS(60000));
    look(&w);
    for (unsigned level = 10; level < 18; level++)
        for (int64_t i = BEGIN / span_of(level); i <= (BEGIN + MS(110000)) / span_of(level); i += 1 + (i % 7))
            check_series(&w, level, i);
    world_fini(&w);
}

/* ---------------------------------------------------------------- points */

static void points(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    feed(&w, 20000, 50, BEGIN, MS(60000));
    assert_int_equal(archive_flush(w.a), 0);
    look(&w);
    for (unsigned level = 8; level < 18; level++) {
        int64_t index = (BEGIN + MS(30000)) / span_of(level), from = index * span_of(level);
        struct strbuf bytes = {0};
        struct tile t;
        bool is_final;
        assert_int_equal(ask(&w, NULL, &bytes, &t, &is_final, "points|job.*|%u|%lld|where=size > 20|", level,
                             (long long)index),
                         0);
        uint64_t want = 0, errors = 0, got = 0, got_errors = 0;
        for (size_t i = 0; i < w.n; i++)
            if (w.events[i].time_ns >= from && w.events[i].time_ns < from + span_of(level) &&
                w.events[i].value > 20) {
                want++;
                errors += w.events[i].level <= LEVEL_ERROR;
            }
        for (uint32_t i = 0; i < t.columns[COLUMN_T].n; i++) {
            got += tile_uint(&t, COLUMN_COUNT, i);
            got_errors += tile_uint(&t, COLUMN_SEVERITY, i) <= LEVEL_ERROR;
            assert_int_equal(tile_text(&t, COLUMN_ID, i).n, 10);
        }
        assert_int_equal(got, want);
        bool is_exact = tile_uint(&t, COLUMN_BIN_NS, 0) == 0;
        assert_int_equal(is_exact, want <= 2500);
        if (is_exact)
            assert_int_equal(got_errors, errors);
        else
            assert_true(got_errors > 0 || errors == 0);
        strbuf_fini(&bytes);
    }
    world_fini(&w);
}

/* Of one cell of a tile of points: the events that it must be of. */
static void check_point(const struct world *w, const struct tile *t, uint32_t row)
{
    char stream[64], id[32];
    struct slice name = tile_text(t, COLUMN_STREAM, (uint32_t)tile_uint(t, COLUMN_ROW, row));
    int64_t from = tile_time_ns(t, tile_uint(t, COLUMN_T, row)),
            to = from + (int64_t)tile_uint(t, COLUMN_BIN_NS, 0);
    uint64_t count = 0, with_id = 0;
    uint8_t worst = UINT8_MAX;
    for (size_t i = 0; i < w->n; i++) {
        const struct plain *e = &w->events[i];
        if (e->time_ns < from || e->time_ns >= to)
            continue;
        (void)snprintf(stream, sizeof stream, "%s %s %s", hosts[e->host], prog_of(e), names[e->name]);
        if (!slice_eq_str(name, stream))
            continue;
        (void)snprintf(id, sizeof id, "job-%06u", e->id);
        with_id += e->level <= LEVEL_ERROR && slice_eq_str(tile_text(t, COLUMN_ID, row), id);
        worst = e->level < worst ? e->level : worst;
        count++;
    }
    assert_int_equal(tile_uint(t, COLUMN_COUNT, row), count);
    assert_int_equal(tile_uint(t, COLUMN_SEVERITY, row), worst);
    assert_int_equal(with_id > 0, worst <= LEVEL_ERROR);
}

/* So many that ids are read of errors only, and chunks within a bin not at all. */
static void points_dense(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    for (unsigned i = 0; i < 20; i++) {
        feed(&w, 8000, 3000, BEGIN + MS(20000) * i, MS(19000));
        if (i < 19)
            assert_int_equal(archive_flush(w.a), 0);
    }
    look(&w);
    for (unsigned level = 17; level <= 19; level++) { /* bins of 17 s, 69 s and 275 s */
        struct strbuf bytes = {0};
        struct tile t;
        bool is_final;
        uint64_t all = 0;
        int64_t from = BEGIN / span_of(level), to = (BEGIN + MS(20000) * 20) / span_of(level);
        for (int64_t index = from; index <= to; index++) {
            assert_int_equal(
                ask(&w, NULL, &bytes, &t, &is_final, "points|job.*|%u|%lld|", level, (long long)index), 0);
            for (uint32_t i = 0; i < t.columns[COLUMN_T].n; i++) {
                all += tile_uint(&t, COLUMN_COUNT, i);
                if (i % 5 == 0)
                    check_point(&w, &t, i);
            }
        }
        assert_int_equal(all, w.n);
        strbuf_fini(&bytes);
    }
    world_fini(&w);
}

/* A cell as it must be. */
struct expected {
    uint64_t count;
    const struct plain *worst; /* the first of the worst level */
};
enum { STREAMS = NAMES * HOSTS };
struct taken {
    int64_t before_ns; /* events that retention has taken away */
    int name;          /* and those of that name; -1 = none */
};

static unsigned stream_number(struct slice text)
{
    char stream[64];
    for (unsigned i = 0; i < STREAMS; i++) {
        (void)snprintf(stream, sizeof stream, "%s %s %s", hosts[i % HOSTS], i / HOSTS ? "p" : "client",
                       names[i / HOSTS]);
        if (slice_eq_str(text, stream))
            return i;
    }
    fail_msg("no stream %.*s", SLICE_ARG(text));
    return 0;
}

/* The whole tile: its cells are those that the events make, no more and no fewer. Returns its events. */
static uint64_t check_points(struct world *w, unsigned level, int64_t index, struct taken gone)
{
    static struct expected cells[STREAMS][TILE_BINS];
    struct strbuf bytes = {0};
    struct tile t;
    bool is_final;
    char id[32];
    assert_int_equal(ask(w, NULL, &bytes, &t, &is_final, "points|job.*|%u|%lld|", level, (long long)index),
                     0);
    int64_t from = index * span_of(level), bin = (int64_t)tile_uint(&t, COLUMN_BIN_NS, 0);
    uint64_t all = 0, n = 0;
    assert_true(bin > 0);
    assert_int_equal(t.head.lost, 0);
    memset(cells, 0, sizeof cells);
    for (size_t i = 0; i < w->n; i++) {
        const struct plain *e = &w->events[i];
        if (e->time_ns < from || e->time_ns - from >= span_of(level) || e->time_ns < gone.before_ns ||
            (int)e->name == gone.name)
            continue;
        struct expected *c = &cells[e->name * HOSTS + e->host][(e->time_ns - from) / bin];
        n += c->count++ == 0;
        if (!c->worst || e->level < c->worst->level ||
            (e->level == c->worst->level && e->time_ns < c->worst->time_ns))
            c->worst = e;
    }
    assert_int_equal(t.columns[COLUMN_T].n, n);
    for (uint32_t i = 0; i < n; i++) {
        int64_t at = tile_time_ns(&t, tile_uint(&t, COLUMN_T, i));
        struct slice stream = tile_text(&t, COLUMN_STREAM, (uint32_t)tile_uint(&t, COLUMN_ROW, i));
        const struct expected *c = &cells[stream_number(stream)][(at - from) / bin];
        assert_non_null(c->worst);
        assert_int_equal(tile_uint(&t, COLUMN_COUNT, i), c->count);
        assert_int_equal(tile_uint(&t, COLUMN_SEVERITY, i), c->worst->level);
        bool is_said = c->worst->level <= LEVEL_WARNING && has_id(w, c->worst);
        (void)snprintf(id, sizeof id, "job-%06u", c->worst->id);
        assert_slice(tile_text(&t, COLUMN_ID, i), is_said ? id : "");
        all += c->count;
    }
    strbuf_fini(&bytes);
    return all;
}

/* Every tile of these levels that is of so many events that they are not read one by one. */
static void check_all_points(struct world *w, int64_t from_ns, int64_t to_ns, struct taken gone)
{
    look(w);
    for (unsigned level = 15; level <= 19; level++)
        for (int64_t i = from_ns / span_of(level); i <= to_ns / span_of(level); i++) {
            int64_t begin = i * span_of(level);
            size_t n = 0;
            for (size_t k = 0; k < w->n; k++)
                n += w->events[k].time_ns >= begin && w->events[k].time_ns < begin + span_of(level) &&
                     w->events[k].time_ns >= gone.before_ns && (int)w->events[k].name != gone.name;
            if (n > 140000)
                assert_int_equal(check_points(w, level, i, gone), n);
        }
    view_release(w->view);
    view_reader_destroy(w->reader);
    w->view = NULL;
    w->reader = NULL;
}

/* Changes the files of an archive that is closed. */
static void alter(struct world *w, void (*fn)(sqlite3 *db))
{
    struct retain_files files = {0};
    assert_int_equal(retain_files_list(w->dir, &files), 0);
    for (size_t i = 0; i < files.n; i++) {
        char path[256];
        sqlite3 *db;
        (void)snprintf(path, sizeof path, "%s/%s", w->dir, files.files[i].name);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        fn(db);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
    }
    retain_files_fini(&files);
}

static void put_row(sqlite3 *db, const char *sql, int64_t id, struct slice bytes, uint32_t crc)
{
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_bind_blob(s, 1, bytes.p, (int)bytes.n, SQLITE_TRANSIENT), SQLITE_OK);
    assert_int_equal(sqlite3_bind_int64(s, 2, crc), SQLITE_OK);
    assert_int_equal(sqlite3_bind_int64(s, 3, id), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_DONE);
    assert_int_equal(sqlite3_changes(db), 1);
    (void)sqlite3_finalize(s);
}

/* As version 1 has left them: every other blob, that is, has no counts. */
static void make_older(sqlite3 *db)
{
    sqlite3_stmt *s;
    size_t shorter = 0;
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT blob, gen, sections FROM section", -1, &s, NULL),
                     SQLITE_OK);
    while (sqlite3_step(s) == SQLITE_ROW) {
        int64_t blob = sqlite3_column_int64(s, 0), gen = sqlite3_column_int64(s, 1);
        struct slice bytes = slice_of(sqlite3_column_blob(s, 2), (size_t)sqlite3_column_bytes(s, 2));
        struct cursor c = cursor_of(slice_from(bytes, 8));
        for (uint64_t n = cursor_varint(&c); n > 0; n--) {
            (void)cursor_text(&c);
            (void)cursor_bytes(&c, 16);
            (void)cursor_varint(&c);
            (void)cursor_varint(&c);
        }
        assert_false(c.bad);
        if (blob % 2 == 0)
            continue;
        shorter += cursor_left(&c) > 0;
        bytes.n -= cursor_left(&c);
        put_row(db, "UPDATE section SET sections = ?, crc = ? WHERE blob = ?", blob, bytes,
                sections_crc((uint64_t)blob, (uint64_t)gen, bytes));
    }
    (void)sqlite3_finalize(s);
    assert_true(shorter > 0);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE id = 1", -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    char state[256];
    size_t n = (size_t)sqlite3_column_bytes(s, 0);
    assert_true(n < sizeof state);
    memcpy(state, sqlite3_column_blob(s, 0), n);
    (void)sqlite3_finalize(s);
    assert_int_equal(state[0], 2);
    state[0] = 1;
    put_row(db, "UPDATE meta SET value = ?, crc = ? WHERE id = ?", META_STATE, slice_of(state, n),
            meta_crc(META_STATE, slice_of(state, n)));
    put_row(db, "UPDATE meta_copy SET value = ?, crc = ? WHERE id = ?", META_STATE, slice_of(state, n),
            meta_crc(META_STATE, slice_of(state, n)));
}

static void wipe_bodies(sqlite3 *db)
{
    assert_int_equal(sqlite3_exec(db, "UPDATE blob SET body = zeroblob(length(body))", NULL, NULL, NULL),
                     SQLITE_OK);
}

/* Around midnight, so that there are two partitions; flushes overlap, and some rows come late. */
static void feed_days(struct world *w, unsigned flushes)
{
    for (unsigned i = 0; i < flushes; i++) {
        feed(w, 8000, 3000, MIDNIGHT - MS(200000) + MS(20000) * (i * 7 % flushes), MS(45000));
        assert_int_equal(archive_flush(w->a), 0);
    }
}

static int64_t is_read(void *arg, struct slice name)
{
    (void)arg;
    return (slice_eq_str(name, "job.read")) ? INT64_MAX : INT64_MIN;
}

static struct merge_counts merge_day(struct world *w, int64_t from_ns, bool drops_read)
{
    const struct partition_span span = {from_ns, from_ns + MS(86400000), 0};
    const struct merge_options o = {.is_closed = true, .floor = drops_read ? is_read : NULL};
    struct merge *m;
    int r;
    assert_int_equal(merge_create(w->a, &span, &o, &m), 0);
    while ((r = merge_step(m)) > 0)
        ;
    assert_int_equal(r, 0);
    struct merge_counts c = merge_counts(m);
    merge_destroy(m);
    return c;
}

/* Of counts that were made at sealing, of events, and of both: nobody can tell which. */
static void points_counted(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    w.has_levels = true;
    feed_days(&w, 20);
    feed(&w, 9000, 3000, MIDNIGHT - MS(50000), MS(100000)); /* in memory */
    const int64_t from = MIDNIGHT - MS(200000), to = MIDNIGHT + MS(230000);
    const struct taken nothing = {INT64_MIN, -1};
    check_all_points(&w, from, to, nothing);

    assert_int_equal(archive_flush(w.a), 0);
    close_world(&w);
    alter(&w, make_older);
    open_world(&w);
    check_all_points(&w, from, to, nothing);
    feed(&w, 9000, 3000, MIDNIGHT - MS(50000), MS(100000)); /* and it is written on */
    assert_int_equal(archive_flush(w.a), 0);
    feed(&w, 1000, 3000, MIDNIGHT - MS(50000), MS(100000));
    check_all_points(&w, from, to, nothing);

    assert_true(merge_day(&w, DAY, false).commits > 0);
    assert_true(merge_day(&w, MIDNIGHT, false).commits > 0);
    check_all_points(&w, from, to, nothing);
    world_fini(&w);
}

/* What retention takes away is in no count: an event name, a day. */
static void points_retained(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    w.has_levels = true;
    feed_days(&w, 45);
    const int64_t from = MIDNIGHT - MS(200000), to = MIDNIGHT + MS(200000) + MS(20000) * 45;
    assert_true(merge_day(&w, DAY, true).dropped > 0);
    assert_true(merge_day(&w, MIDNIGHT, true).dropped > 0);
    check_all_points(&w, from, to, (struct taken){INT64_MIN, 1});
    struct retain_files files = {0};
    uint64_t rows;
    assert_int_equal(retain_files_list(w.dir, &files), 0);
    assert_int_equal(files.files[0].from_ns, DAY);
    assert_int_equal(retain_remove(w.a, &files.files[0], &(struct retain_reason){GONE_AGE, 1}, &rows), 0);
    retain_files_fini(&files);
    check_all_points(&w, from, to, (struct taken){MIDNIGHT, 1});
    world_fini(&w);
}

/* Counts are used: a tile of much time does without a single row. */
static void points_without_bodies(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    w.has_levels = true;
    for (unsigned i = 0; i < 20; i++) { /* of each stream over COUNTS_ROWS_MIN rows */
        feed(&w, 8000, 3000, BEGIN + MS(20000) * (i * 7 % 20), MS(45000));
        assert_int_equal(archive_flush(w.a), 0);
    }
    close_world(&w);
    alter(&w, wipe_bodies);
    open_world(&w);
    look(&w);
    uint64_t all = 0;
    const unsigned level = 18;
    for (int64_t i = BEGIN / span_of(level); i <= (BEGIN + MS(460000)) / span_of(level); i++)
        all += check_points(&w, level, i, (struct taken){INT64_MIN, -1});
    assert_int_equal(all, w.n);
    world_fini(&w);
}

/* ---------------------------------------------------------------- lifelines */

static int by_time(const void *a, const void *b)
{
    const struct plain *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->seq < y->seq ? -1 : 1;
}

/* The events of the lifeline of that id in the tile, and the one before. */
static size_t plain_line(const struct world *w, unsigned id, int64_t from, int64_t span, struct plain *out)
{
    size_t n = 0, skip = 0;
    for (size_t i = 0; i < w->n; i++)
        if (w->events[i].id == id && w->events[i].time_ns >= from - span &&
            w->events[i].time_ns < from + span)
            out[n++] = w->events[i];
    qsort(out, n, sizeof *out, by_time);
    while (skip < n && out[skip].time_ns < from)
        skip++;
    if (skip == n)
        return 0;
    skip -= skip > 0;
    memmove(out, out + skip, (n - skip) * sizeof *out);
    return n - skip;
}

static void check_lines(const struct world *w, const struct tile *t, int64_t from, int64_t span)
{
    static struct plain line[30000];
    uint32_t vertex = 0;
    size_t ids = 0;
    int64_t unit = span < INT64_C(1) << 30 ? 1 : span >> 30;
    for (uint32_t i = 0; i < t->columns[COLUMN_ID].n; i++) {
        unsigned id = (unsigned)strtoul(tile_text(t, COLUMN_ID, i).p + 4, NULL, 10);
        size_t n = plain_line(w, id, from, span, line);
        uint32_t path = (uint32_t)tile_uint(t, COLUMN_PATH, i);
        uint32_t begin = path ? (uint32_t)tile_uint(t, COLUMN_PATH_END, path - 1) : 0;
        uint8_t worst = UINT8_MAX;
        assert_int_equal(tile_uint(t, COLUMN_PATH_END, path) - begin, n);
        for (uint32_t k = 0; k < n; k++, vertex++) {
            uint32_t event = (uint32_t)tile_uint(t, COLUMN_PATH_EVENT, begin + k);
            uint32_t host = (uint32_t)tile_uint(t, COLUMN_VERTEX_HOST, vertex);
            int64_t at = tile_time_ns(t, tile_uint(t, COLUMN_VERTEX_T, vertex));
            assert_slice(tile_text(t, COLUMN_EVENT, event), names[line[k].name]);
            assert_slice(tile_text(t, COLUMN_HOST, host), hosts[line[k].host]);
            assert_true(at <= line[k].time_ns && line[k].time_ns - at <= unit);
            worst = line[k].level < worst ? line[k].level : worst;
        }
        assert_int_equal(tile_uint(t, COLUMN_SEVERITY, i), worst);
    }
    assert_int_equal(vertex, t->columns[COLUMN_VERTEX_T].n);
    for (unsigned id = 0; id < 2000; id++)
        ids += plain_line(w, id, from, span, line) > 0;
    assert_int_equal(ids, t->columns[COLUMN_ID].n);
}

static void lifelines_exact(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    feed(&w, 20000, 2000, BEGIN, MS(60000));
    assert_int_equal(archive_flush(w.a), 0);
    feed(&w, 5000, 2000, BEGIN + MS(58000), MS(20000));
    look(&w);
    unsigned exact = 0, density = 0;
    for (unsigned level = 8; level < 16; level++)
        for (int64_t at = BEGIN + MS(1000); at < BEGIN + MS(80000); at += MS(15000)) {
            struct strbuf bytes = {0};
            struct tile t;
            bool is_final;
            int64_t index = at / span_of(level);
            assert_int_equal(
                ask(&w, NULL, &bytes, &t, &is_final, "lifeline|id|%u|%lld|", level, (long long)index), 0);
            assert_false(is_final); /* nothing is an hour later */
            if (t.head.kind == TILE_LIFELINE_EXACT) {
                check_lines(&w, &t, index * span_of(level), span_of(level));
                exact++;
            } else {
                assert_int_equal(t.head.kind, TILE_LIFELINE_DENSITY);
                density++;
            }
            strbuf_fini(&bytes);
        }
    assert_true(exact > 10 && density > 3);
    world_fini(&w);
}

struct totals {
    uint64_t cells, first, errors_shown, left_out, outliers;
    double slowest_ns;
};

static void add_tile(struct totals *to, const struct tile *t)
{
    for (uint32_t i = 0; i < t->columns[COLUMN_PAIR].n; i++) {
        to->cells += tile_uint(t, COLUMN_COUNT, i);
        if (tile_uint(t, COLUMN_PAIR_FROM, (uint32_t)tile_uint(t, COLUMN_PAIR, i)) == UINT16_MAX)
            to->first += tile_uint(t, COLUMN_COUNT, i);
    }
    for (uint32_t i = 0; i < t->columns[COLUMN_OUTLIER_T].n; i++) {
        to->errors_shown += tile_uint(t, COLUMN_OUTLIER_SEVERITY, i) <= LEVEL_ERROR;
        to->slowest_ns = fmax(to->slowest_ns, tile_float(t, COLUMN_OUTLIER_LATENCY, i));
        to->outliers++;
    }
    to->left_out += t->head.left_out;
}

/* All of the archive's time at one level. */
static struct totals whole(struct world *w, const char *ids, unsigned level, int64_t from, int64_t to)
{
    struct totals all = {.cells = 0};
    for (int64_t i = from / span_of(level); i <= to / span_of(level); i++) {
        struct strbuf bytes = {0};
        struct tile t;
        bool is_final;
        assert_int_equal(
            ask(w, NULL, &bytes, &t, &is_final, "lifeline-density|%s|%u|%lld|", ids, level, (long long)i), 0);
        add_tile(&all, &t);
        strbuf_fini(&bytes);
    }
    return all;
}

/* Nothing is derived of such ids: each tile has all of its events, or says that they are too many. */
static void undeclared(struct world *w, int64_t end)
{
    struct strbuf bytes = {0};
    struct tile t;
    bool is_final;
    struct totals fine = whole(w, "size", 14, BEGIN, end);
    assert_int_equal(fine.cells, w->n);
    assert_int_equal(
        ask(w, NULL, &bytes, &t, &is_final, "lifeline|size|20|%lld|", (long long)(BEGIN / span_of(20))),
        E_LIMIT);
    assert_int_equal(
        ask(w, NULL, &bytes, &t, &is_final, "lifeline|size|20|%lld|", (long long)(end / span_of(20) + 1)), 0);
    assert_int_equal(t.columns[COLUMN_PAIR].n, 0); /* behind all of them */
    strbuf_fini(&bytes);
}

/* More events than are read for a tile: what was derived answers, and heads. */
static void lifelines_density(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    int64_t end = BEGIN;
    for (unsigned i = 0; i < 8; i++, end += MS(20000)) {
        feed(&w, 40000, 3000, end, MS(19000));
        if (i < 7)
            assert_int_equal(archive_flush(w.a), 0);
    }
    look(&w);
    uint64_t errors = 0, slowest = 0;
    static struct {
        int64_t time_ns;
        bool is_known;
    } last[3000];
    for (size_t i = 0; i < 8; i++) /* each flush in order of time, as it is joined */
        qsort(w.events + i * 40000, 40000, sizeof *w.events, by_time);
    uint64_t firsts = 0;
    memset(last, 0, sizeof last);
    for (size_t i = 0; i < w.n; i++) {
        const struct plain *e = &w.events[i];
        errors += e->level <= LEVEL_ERROR;
        firsts += !last[e->id].is_known;
        if (last[e->id].is_known && (uint64_t)(e->time_ns - last[e->id].time_ns) > slowest && i < 280000)
            slowest = (uint64_t)(e->time_ns - last[e->id].time_ns);
        last[e->id].time_ns = e->time_ns;
        last[e->id].is_known = true;
    }
    assert_true(errors > 20);
    for (unsigned level = 17; level <= 20; level++) { /* tiles of 275 s to 5 hours */
        struct totals all = whole(&w, "id", level, BEGIN, end);
        assert_int_equal(all.cells, w.n);
        assert_int_equal(all.errors_shown + all.left_out, errors);
        assert_true(all.left_out == 0); /* there are few: each is shown */
        assert_true(all.slowest_ns == (double)slowest);
        /* Of the events in heads, it is not known here what was before. */
        assert_true(all.first >= firsts && all.first <= firsts + 3000);
    }
    struct totals fine = whole(&w, "id", 14, BEGIN, end); /* of rows themselves */
    assert_int_equal(fine.cells, w.n);
    assert_int_equal(fine.errors_shown, errors);
    undeclared(&w, end);
    world_fini(&w);
}

static void edges(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    feed(&w, 5000, 100, BEGIN, MS(60000));
    assert_int_equal(archive_flush(w.a), 0);
    look(&w);
    qsort(w.events, w.n, sizeof *w.events, by_time);
    int last[100];
    uint64_t want[HOSTS][HOSTS] = {{0}}, got[HOSTS][HOSTS] = {{0}};
    memset(last, -1, sizeof last);
    for (size_t i = 0; i < w.n; i++) {
        const struct plain *e = &w.events[i];
        if (last[e->id] >= 0 && (unsigned)last[e->id] != e->host)
            want[last[e->id]][e->host]++;
        last[e->id] = (int)e->host;
    }
    struct strbuf bytes = {0};
    struct tile t;
    bool is_final;
    assert_int_equal(
        ask(&w, NULL, &bytes, &t, &is_final, "edges|id|20|%lld|", (long long)(BEGIN / span_of(20))), 0);
    assert_int_equal(t.columns[COLUMN_SRC].n, HOSTS * (HOSTS - 1));
    for (uint32_t i = 0; i < t.columns[COLUMN_SRC].n; i++) {
        char src = tile_text(&t, COLUMN_NODE, (uint32_t)tile_uint(&t, COLUMN_SRC, i)).p[0];
        char dst = tile_text(&t, COLUMN_NODE, (uint32_t)tile_uint(&t, COLUMN_DST, i)).p[0];
        got[src == 'g' ? 2 : src - 'a'][dst == 'g' ? 2 : dst - 'a'] += tile_uint(&t, COLUMN_COUNT, i);
        assert_true(tile_float(&t, COLUMN_P50, i) > 0 &&
                    tile_float(&t, COLUMN_P99, i) > tile_float(&t, COLUMN_P50, i));
    }
    assert_memory_equal(got, want, sizeof want);
    assert_int_equal(t.columns[COLUMN_HOP_T].n, 0);
    strbuf_fini(&bytes);
    world_fini(&w);
}

enum { NODES = HOSTS * 2 };

/* Host times two, and one more for another program than p. */
static unsigned node_of(const char *host, bool is_client)
{
    unsigned i = 0;
    while (i < HOSTS - 1 && hosts[i][0] != host[0])
        i++;
    return 2 * i + is_client;
}

struct hops {
    uint64_t counts[NODES][NODES];
    uint64_t errors, firsts;
};

/* Hops that end from from_ns to last_ns, of w's events, which are in order of time. */
static void count_hops(const struct world *w, bool by_prog, int64_t from_ns, int64_t last_ns,
                       struct hops *out)
{
    static const struct plain *before[100];
    memset(out, 0, sizeof *out);
    memset(before, 0, sizeof before);
    for (size_t i = 0; i < w->n; i++) {
        const struct plain *e = &w->events[i], *b = before[e->id];
        before[e->id] = e;
        if (e->time_ns < from_ns || e->time_ns > last_ns)
            continue;
        out->firsts += !b;
        if (!b)
            continue;
        out->counts[2 * b->host + (by_prog && !b->name)][2 * e->host + (by_prog && !e->name)]++;
        out->errors += e->level <= LEVEL_ERROR;
    }
}

static unsigned node_in(const struct tile *t, uint64_t number)
{
    struct slice text = tile_text(t, COLUMN_NODE, (uint32_t)number);
    const char *prog = text.n ? memchr(text.p, ' ', text.n) : NULL;
    return node_of(text.p, prog && prog[1] == 'c');
}

/* What the tile counts is as counted here; hops that are there one by one are those of their edges. */
static void check_hops(const struct world *w, const struct tile *t, bool by_prog, unsigned level)
{
    struct hops want, got = {.errors = 0}, single = {.errors = 0};
    int64_t from = BEGIN / span_of(level) * span_of(level);
    uint32_t n = t->columns[COLUMN_HOP_T].n;
    count_hops(w, by_prog, from, from + span_of(level) - 1, &want);
    uint64_t all = 0;
    for (uint32_t i = 0; i < t->columns[COLUMN_SRC].n; i++) {
        got.counts[node_in(t, tile_uint(t, COLUMN_SRC, i))][node_in(t, tile_uint(t, COLUMN_DST, i))] +=
            tile_uint(t, COLUMN_COUNT, i);
        got.errors += tile_uint(t, COLUMN_ERRORS, i);
        all += tile_uint(t, COLUMN_COUNT, i);
    }
    assert_memory_equal(got.counts, want.counts, sizeof want.counts);
    for (uint32_t i = 0; i < t->columns[COLUMN_NODE].n; i++)
        got.firsts += tile_uint(t, COLUMN_NODE_FIRST, i);
    assert_int_equal(got.errors, want.errors);
    assert_int_equal(got.firsts, want.firsts);
    assert_int_equal(n, all < 1024 ? all : 1024);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t edge = (uint32_t)tile_uint(t, COLUMN_HOP_EDGE, i);
        int64_t at = tile_time_ns(t, tile_uint(t, COLUMN_HOP_T, i));
        single
            .counts[node_in(t, tile_uint(t, COLUMN_SRC, edge))][node_in(t, tile_uint(t, COLUMN_DST, edge))]++;
        single.errors += tile_uint(t, COLUMN_HOP_SEVERITY, i) <= LEVEL_ERROR;
        assert_true(at >= from && at < from + span_of(level) && tile_float(t, COLUMN_HOP_LATENCY, i) >= 0);
    }
    assert_int_equal(single.errors, want.errors);
    if (n == all)
        assert_memory_equal(single.counts, want.counts, sizeof want.counts);
}

/* Of the events themselves: in files and in memory alike, from place to place and from program to program. */
static void edges_by(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    feed(&w, 4000, 100, BEGIN, MS(50000));
    assert_int_equal(archive_flush(w.a), 0);
    feed(&w, 1000, 100, BEGIN + MS(50000), MS(10000));
    look(&w);
    qsort(w.events, w.n, sizeof *w.events, by_time);
    struct strbuf bytes = {0};
    struct tile t;
    bool is_final;
    for (unsigned level = 12; level <= 20; level += 4)
        for (int by_prog = 0; by_prog < 2; by_prog++) {
            assert_int_equal(ask(&w, NULL, &bytes, &t, &is_final, "edges|id|%u|%lld|by=%s|", level,
                                 (long long)(BEGIN / span_of(level)), by_prog ? "prog" : "place"),
                             0);
            check_hops(&w, &t, by_prog, level);
        }
    assert_int_equal(ask(&w, NULL, &bytes, &t, &is_final, "edges|id|20|%lld|by=prog|host=beta|event=%s|",
                         (long long)(BEGIN / span_of(20)), names[0]),
                     0);
    assert_int_equal(t.columns[COLUMN_NODE].n, 1); /* one program on one host */
    strbuf_fini(&bytes);
    world_fini(&w);
}

/* What is read again after a crash is counted once. */
static void read_again(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    feed(&w, 20000, 3000, BEGIN, MS(19000));
    assert_int_equal(archive_flush(w.a), 0);
    feed(&w, 20000, 3000, BEGIN + MS(20000), MS(19000));
    close_world(&w); /* heads are gone */
    open_world(&w);
    for (size_t i = 0; i < w.n; i += BATCH) { /* from the very beginning, although half of it is there */
        struct batch *b = build(&w, w.events + i, BATCH);
        assert_int_equal(archive_append(w.a, &source, i / BATCH + 1, b), 0);
        assert_int_equal(archive_done(w.a, &source, i / BATCH + 1), 0);
        batch_unref(b);
    }
    assert_int_equal(archive_flush(w.a), 0);
    look(&w);
    uint64_t counted = 0;
    struct scan_spec spec = {.name = SLICE_LIT("lifeline.pair"),
                             .from_ns = INT64_MIN,
                             .to_ns = INT64_MAX,
                             .id_column = UINT16_MAX};
    struct scan *s;
    struct scan_chunk c;
    assert_int_equal(scan_open(w.view, &spec, &s), 0);
    while (scan_next(s, &c) > 0) {
        struct rows rows;
        assert_int_equal(scan_read(s, BLOB_ALL_COLUMNS | BLOB_TIMES, NULL, 0, &rows), 0);
        for (uint32_t i = 0; i < rows.n; i++) {
            uint64_t count = 0, serves_to = 0;
            for (uint32_t k = 0; k < rows.n_columns; k++) {
                struct slice name = c.table->columns[rows.columns[k].id].name;
                if (slice_eq_str(name, "count"))
                    count = rows.columns[k].u[i];
                else if (slice_eq_str(name, "serves_to"))
                    serves_to = rows.columns[k].u[i];
            }
            counted += serves_to == PYRAMID_ZOOM_ALL ? count : 0;
        }
    }
    scan_close(s);
    assert_int_equal(counted, w.n);
    world_fini(&w);
}

/* ---------------------------------------------------------------- what is asked */

static bool not_beta(void *arg, struct slice event, struct slice host)
{
    (void)arg;
    (void)event;
    return !slice_eq_str(host, "beta");
}

static bool no_end(void *arg, struct slice event)
{
    (void)arg;
    return !slice_eq_str(event, "job.end");
}

static void who_may_see_what(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    feed(&w, 500, 50, BEGIN, MS(1000));
    look(&w);
    struct sql_access access = {.may_stream = not_beta, .may_table = no_end};
    struct strbuf bytes = {0};
    struct tile t;
    bool is_final;
    long long index = BEGIN / span_of(14);
    assert_int_equal(ask(&w, NULL, &bytes, &t, &is_final, "lifeline-exact|id|14|%lld|", index), 0);
    assert_int_equal(t.columns[COLUMN_HOST].n, 3);
    assert_int_equal(t.columns[COLUMN_EVENT].n, 4);
    assert_int_equal(ask(&w, &access, &bytes, &t, &is_final, "lifeline-exact|id|14|%lld|", index), 0);
    assert_int_equal(t.columns[COLUMN_HOST].n, 2);
    assert_int_equal(t.columns[COLUMN_EVENT].n, 3);
    assert_int_equal(ask(&w, &access, &bytes, &t, &is_final, "points|job.*|14|%lld|", index), 0);
    assert_int_equal(t.columns[COLUMN_STREAM].n, 6);
    assert_int_equal(ask(&w, &access, &bytes, &t, &is_final, "series|job.read|14|%lld|field=size|", index),
                     0);
    assert_int_equal(t.columns[COLUMN_STREAM].n, 2);
    assert_int_equal(ask(&w, &access, &bytes, &t, &is_final, "series|job.end|14|%lld|field=size|", index),
                     -ENOENT);
    strbuf_fini(&bytes);
    world_fini(&w);
}

/* One id among many: chunks that can't have it are not even given. */
static void one_id(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    for (unsigned i = 0; i < 40; i++) { /* ids of a flush are its own */
        size_t from = w.n;
        feed(&w, 600, 100, BEGIN + MS(1000) * i, MS(900));
        (void)from;
        assert_int_equal(archive_flush(w.a), 0);
    }
    feed(&w, 30, 1, BEGIN + MS(50000), MS(10)); /* all of job-000000 */
    for (size_t i = w.n - 30; i < w.n; i++)
        w.events[i].id = 0;
    assert_int_equal(archive_flush(w.a), 0);
    struct plain rare = {
        .time_ns = BEGIN + MS(60000), .seq = w.n + 1, .id = 777777, .name = 1, .level = LEVEL_INFO};
    struct batch *b = build(&w, &rare, 1);
    w.record++;
    assert_int_equal(archive_append(w.a, &source, w.record, b), 0);
    assert_int_equal(archive_done(w.a, &source, w.record), 0);
    batch_unref(b);
    assert_int_equal(archive_flush(w.a), 0);
    look(&w);
    const struct table_def *table = view_table(w.view, SLICE_LIT("job.read"));
    uint16_t column = UINT16_MAX;
    for (uint32_t i = 0; i < table->n_columns; i++)
        if (slice_eq_str(table->columns[i].name, "id"))
            column = (uint16_t)i;
    unsigned all = 0, with = 0, rows_with = 0;
    for (unsigned asked = 0; asked < 2; asked++) {
        struct scan_spec spec = {.name = table->name,
                                 .from_ns = INT64_MIN,
                                 .to_ns = INT64_MAX,
                                 .id_column = asked ? column : UINT16_MAX,
                                 .id = SLICE_LIT("job-777777")};
        struct scan *s;
        struct scan_chunk c;
        assert_int_equal(scan_open(w.view, &spec, &s), 0);
        while (scan_next(s, &c) > 0) {
            struct rows rows;
            *(asked ? &with : &all) += 1;
            assert_int_equal(scan_read(s, BLOB_TIMES, &column, 1, &rows), 0);
            for (uint32_t i = 0; asked && i < rows.n; i++)
                rows_with += slice_eq_str(value_slice(column_value(&rows.columns[0], i)), "job-777777");
        }
        scan_close(s);
    }
    assert_int_equal(rows_with, 1);
    assert_true(all >= 120 && with <= all / 10);

    struct strbuf bytes = {0};
    struct tile t;
    bool is_final;
    assert_int_equal(ask(&w, NULL, &bytes, &t, &is_final, "lifeline|id|18|%lld|id=job-777777|",
                         (long long)(BEGIN / span_of(18))),
                     0);
    assert_int_equal(t.columns[COLUMN_ID].n, 1);
    assert_int_equal(t.columns[COLUMN_VERTEX_T].n, 1);
    strbuf_fini(&bytes);
    world_fini(&w);
}

static void final_or_open(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    feed(&w, 100, 10, BEGIN, MS(1000));
    feed(&w, 10, 10, BEGIN + MS(7200000), MS(1000));
    assert_int_equal(archive_flush(w.a), 0);
    feed(&w, 10, 10, BEGIN + MS(7300000), MS(1000));
    look(&w);
    struct strbuf bytes = {0};
    struct tile t;
    bool is_final;
    static const char *const kinds[] = {"series|job.read|14|%lld|field=size|", "points|job.*|14|%lld|",
                                        "lifeline|id|14|%lld|", "edges|id|14|%lld|"};
    for (unsigned i = 0; i < 4; i++) {
        char *format = (char *)(uintptr_t)kinds[i], request[100];
        (void)snprintf(request, sizeof request, "%s", format);
        char *number = strstr(request, "%lld");
        char at[200];
        (void)snprintf(at, sizeof at, "%.*s%lld%s", (int)(number - request), request,
                       (long long)(BEGIN / span_of(14)), number + 4);
        assert_int_equal(ask(&w, NULL, &bytes, &t, &is_final, "%s", at), 0);
        assert_true(is_final && !(t.head.flags & TILE_OPEN));
        (void)snprintf(at, sizeof at, "%.*s%lld%s", (int)(number - request), request,
                       (long long)((BEGIN + MS(7300000)) / span_of(14)), number + 4);
        assert_int_equal(ask(&w, NULL, &bytes, &t, &is_final, "%s", at), 0);
        assert_true(!is_final && (t.head.flags & TILE_OPEN));
    }
    strbuf_fini(&bytes);
    world_fini(&w);
}

static void wrong_requests(void **state)
{
    (void)state;
    struct world w;
    world_init(&w);
    look(&w);
    static const char *const wrong[] = {"",
                                        "series",
                                        "series|a|1",
                                        "series|a|1|2|",
                                        "serie|a|1|2|field=x|",
                                        "series||1|2|field=x|",
                                        "points|a|27|0|",
                                        "points|a|x|0|",
                                        "points|a|26|9|",
                                        "points|a|1|1.5|",
                                        "points|a|1|1|field=x|",
                                        "points|a|1|1|nope=x|",
                                        "points|a|1|1|as=png|",
                                        "points|[|1|1|",
                                        "points|a|1|1|where=|x",
                                        "points|a|1|1|where=((|",
                                        "lifeline|a,b|1|1|",
                                        "lifeline|a b|1|1|",
                                        "edges|id|1|1|host=x|",
                                        "edges|id|1|1|by=colour|",
                                        "points|a|0|36028797018963968|",
                                        "points|a|1|1|where"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct strbuf request = {0}, out = {0};
        for (const char *p = wrong[i]; *p; p++)
            strbuf_add_char(&request, *p == '|' ? '\0' : *p);
        struct diag why = {.message = ""};
        int r = tile_answer(w.view, NULL, strbuf_slice(&request), &out, &why);
        if (r != E_PROTO && r != -ENOENT)
            fail_msg("%s: %d", wrong[i], r);
        assert_true(why.message[0]);
        strbuf_fini(&request);
        strbuf_fini(&out);
    }
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(series),          cmocka_unit_test(points),
        cmocka_unit_test(points_dense),    cmocka_unit_test(points_counted),
        cmocka_unit_test(points_retained), cmocka_unit_test(points_without_bodies),
        cmocka_unit_test(lifelines_exact), cmocka_unit_test(edges),
        cmocka_unit_test(edges_by),        cmocka_unit_test(lifelines_density),
        cmocka_unit_test(read_again),      cmocka_unit_test(who_may_see_what),
        cmocka_unit_test(one_id),          cmocka_unit_test(final_or_open),
        cmocka_unit_test(wrong_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
