/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/archive/chunks.h"

#include "archive/blob.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/strbuf.h"

#include <errno.h>

enum { EVERYTHING = BLOB_TIMES | BLOB_ORIGINS | BLOB_LEVELS | BLOB_ALL_COLUMNS, CHUNKS_MAX = 64 };

/* What was put into a blob. */
struct put {
    const struct table_def *table;
    struct slice key;
    struct rows rows;
};

struct blob {
    struct arena arena;
    struct put puts[CHUNKS_MAX];
    size_t n;
    struct strbuf directory, body;
};

static const char *const ids[] = {"id"};
static const struct blob_options with_ids = {.ids = ids, .n_ids = 1};

static struct slice key_of(struct arena *a, unsigned host)
{
    char *text = arena_alloc(a, 32);
    return slice_of(text, (size_t)snprintf(text, 32, "host%02u.example", host));
}

static void put(struct blob *b, struct blob_writer *w, const struct table_def *t, unsigned host, uint32_t n,
                uint64_t *seed)
{
    struct put *p = &b->puts[b->n++];
    *p = (struct put){t, key_of(&b->arena, host), random_rows(&b->arena, t, n, seed)};
    assert_int_equal(blob_writer_add(w, t, p->key, &p->rows), 0);
}

static void finish(struct blob *b, struct blob_writer *w)
{
    struct blob_bytes out;
    assert_int_equal(blob_writer_finish(w, &out), 0);
    strbuf_reset(&b->directory);
    strbuf_reset(&b->body);
    strbuf_add_slice(&b->directory, out.directory);
    strbuf_add_slice(&b->body, out.body);
    assert_true(blob_writer_is_empty(w));
}

static void blob_fini(struct blob *b)
{
    arena_fini(&b->arena);
    strbuf_fini(&b->directory);
    strbuf_fini(&b->body);
}

/* Two tables, some streams, the keys not in order. */
static void make_blob(struct blob *b, struct blob_writer *w, uint32_t rows_max, unsigned chunks,
                      uint64_t *seed)
{
    static const char *const names[] = {"cpu", "app.request"};
    struct table_def *tables = arena_alloc(&b->arena, 2 * sizeof *tables);
    for (unsigned i = 0; i < 2; i++)
        tables[i] = random_table(&b->arena, names[i], 1 + (uint32_t)(test_random(seed) % 12), seed);
    for (unsigned i = 0; i < chunks; i++)
        put(b, w, &tables[i % 2], (unsigned)(test_random(seed) % 100),
            1 + (uint32_t)(test_random(seed) % rows_max), seed);
    finish(b, w);
}

static const struct put *find_put(const struct blob *b, const struct blob_directory *d, uint32_t chunk)
{
    const struct blob_chunk *c = &d->chunks[chunk];
    for (size_t i = 0; i < b->n; i++) {
        const struct put *p = &b->puts[i];
        if (slice_eq(p->key, c->key) && slice_eq(p->table->name, d->sections[c->section].name) &&
            p->rows.n == c->n_rows && p->rows.time_ns[0] == c->min_ns)
            return p;
    }
    return NULL;
}

static void assert_same_summary(const struct column_summary *a, const struct column_summary *b)
{
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->nans, b->nans);
    assert_true(value_eq(a->min, b->min) && value_eq(a->max, b->max));
    assert_true(value_eq(a->first, b->first) && value_eq(a->last, b->last));
    assert_true(float_bits(a->sum) == float_bits(b->sum) || (isnan(a->sum) && isnan(b->sum)));
    assert_int_equal(a->first_ns, b->first_ns);
    assert_int_equal(a->last_ns, b->last_ns);
}

static void check_makers(const struct blob_chunk *c, const struct rows *rows)
{
    for (uint32_t i = 0; i < rows->n; i++) {
        const struct row_origin *o = &rows->origins[rows->origin[i]];
        uint32_t k = 0;
        while (k < c->by.n && (memcmp(c->by.origins[k].producer, o->producer, 16) != 0 ||
                               c->by.origins[k].epoch != o->epoch))
            k++;
        assert_true(k < c->by.n);
        assert_true(rows->seq[i] == 0 ||
                    (c->by.first_seq[k] <= rows->seq[i] && rows->seq[i] <= c->by.last_seq[k]));
    }
}

static void check_filters(const struct blob_directory *d, uint32_t chunk, const struct rows *rows)
{
    for (uint32_t k = 0; k < rows->n_columns; k++)
        for (uint32_t i = 0; i < rows->n; i++) {
            struct value v = column_value(&rows->columns[k], i);
            char text[NUM_TEXT_MAX];
            struct slice s = v.type == VALUE_INT    ? slice_of(text, num_print_int(text, v.i))
                             : v.type == VALUE_UINT ? slice_of(text, num_print_uint(text, v.u))
                                                    : value_slice(v);
            if (v.type != VALUE_FLOAT && v.type != VALUE_BOOL && v.type != VALUE_NONE)
                assert_true(blob_chunk_may_have(d, chunk, rows->columns[k].id, s));
        }
}

static void check_chunk(const struct blob *b, const struct blob_directory *d, uint32_t chunk,
                        struct blob_cache *cache)
{
    struct arena arena = {0};
    struct rows got;
    const struct blob_chunk *c = &d->chunks[chunk];
    const struct put *p = find_put(b, d, chunk);
    assert_non_null(p);
    assert_int_equal(
        blob_chunk_read(d, strbuf_slice(&b->body), 1, chunk, EVERYTHING, NULL, 0, cache, &arena, &got), 0);
    assert_same_rows(&p->rows, &got);
    assert_int_equal(c->n_columns, p->rows.n_columns);
    assert_int_equal(c->max_ns, p->rows.time_ns[p->rows.n - 1]);
    for (uint32_t i = 0; i < c->n_columns; i++) {
        struct column_summary s;
        column_summarise(&p->rows, &p->rows.columns[i], 0, p->rows.n, &s);
        assert_same_summary(&s, &c->summaries[i]);
    }
    check_makers(c, &p->rows);
    check_filters(d, chunk, &p->rows);
    arena_fini(&arena);
}

static void check_blob(const struct blob *b, struct blob_cache *cache)
{
    struct arena arena = {0};
    const struct blob_directory *d;
    assert_int_equal(blob_directory_read(strbuf_slice(&b->directory), &arena, &d), 0);
    assert_int_equal(d->n_chunks, b->n);
    assert_true(blob_is_pair(strbuf_slice(&b->directory), strbuf_slice(&b->body)));
    for (uint32_t i = 0; i < d->n_chunks; i++) {
        check_chunk(b, d, i, cache);
        uint32_t at = blob_directory_find(d, d->chunks[i].section, d->chunks[i].key);
        assert_true(at <= i && slice_eq(d->chunks[at].key, d->chunks[i].key));
        assert_true(at == 0 || !slice_eq(d->chunks[at - 1].key, d->chunks[i].key) ||
                    d->chunks[at - 1].section != d->chunks[i].section);
    }
    arena_fini(&arena);
}

/* ---------------------------------------------------------------- tests */

static void test_round_trip(void **state)
{
    (void)state;
    struct blob_writer *w = blob_writer_create(&with_ids);
    struct blob_cache *cache = blob_cache_create(100000);
    for (uint64_t round = 0; round < 40 * test_scale(); round++) {
        uint64_t seed = round;
        struct blob b = {.n = 0};
        print_message("seed %u\n", (unsigned)round);
        make_blob(&b, w, round % 8 ? 300 : 5000, 1 + (unsigned)(round % 20), &seed);
        check_blob(&b, round % 2 ? cache : NULL);
        blob_fini(&b);
    }
    blob_cache_destroy(cache);
    blob_writer_destroy(w);
}

static void test_columns_wanted(void **state)
{
    (void)state;
    uint64_t seed = 7;
    struct blob b = {.n = 0};
    struct arena arena = {0};
    struct blob_writer *w = blob_writer_create(&with_ids);
    struct table_def t = random_table(&b.arena, "t", 20, &seed);
    put(&b, w, &t, 1, 200, &seed);
    finish(&b, w);
    const struct blob_directory *d;
    assert_int_equal(blob_directory_read(strbuf_slice(&b.directory), &arena, &d), 0);
    for (uint16_t a = 0; a < 20; a++) {
        uint16_t want[] = {a, (uint16_t)(a + 3), 4000};
        struct rows got;
        assert_int_equal(blob_chunk_read(d, strbuf_slice(&b.body), 1, 0, 0, want, 3, NULL, &arena, &got), 0);
        assert_null(got.time_ns);
        assert_null(got.level);
        uint32_t k = 0;
        for (uint32_t i = 0; i < b.puts[0].rows.n_columns; i++) {
            const struct column *c = &b.puts[0].rows.columns[i];
            if (c->id == want[0] || c->id == want[1])
                assert_same_column(c, &got.columns[k++], 200);
        }
        assert_int_equal(k, got.n_columns);
    }
    arena_fini(&arena);
    blob_fini(&b);
    blob_writer_destroy(w);
}

/* What is the same in all rows needs no body, and next to no bytes. */
static void test_constants_cost_nothing(void **state)
{
    (void)state;
    enum { N = 2000, COLUMNS = 50, STREAMS = 20 };
    static int64_t times[N], values[N];
    static uint8_t levels[N];
    static uint64_t seqs[N];
    static uint16_t places[N];
    struct field fields[COLUMNS];
    struct column columns[COLUMNS];
    char names[COLUMNS][8];
    for (int i = 0; i < N; i++) {
        times[i] = INT64_C(1794772326000000000) + i * INT64_C(1000000000);
        seqs[i] = 5000 + (uint64_t)i * 130;
        values[i] = 42;
    }
    for (uint16_t i = 0; i < COLUMNS; i++) {
        (void)snprintf(names[i], sizeof names[i], "c%d", i);
        fields[i] = (struct field){.name = slice_str(names[i]), .type = VALUE_INT};
        columns[i] = (struct column){.id = i, .type = VALUE_INT, .i = values};
    }
    struct row_origin origin = {.producer = "producer"};
    struct table_def t = {.name = slice_str("same"), .columns = fields, .n_columns = COLUMNS};
    struct rows rows = {.n = N,
                        .n_columns = COLUMNS,
                        .time_ns = times,
                        .level = levels,
                        .seq = seqs,
                        .origin = places,
                        .origins = &origin,
                        .n_origins = 1,
                        .columns = columns};
    struct blob_writer *w = blob_writer_create(&(struct blob_options){0});
    struct blob b = {.n = 0};
    for (unsigned i = 0; i < STREAMS; i++)
        assert_int_equal(blob_writer_add(w, &t, key_of(&b.arena, i), &rows), 0);
    finish(&b, w);
    assert_true(b.directory.n + b.body.n < 1500);
    const struct blob_directory *d;
    struct rows got;
    assert_int_equal(blob_directory_read(strbuf_slice(&b.directory), &b.arena, &d), 0);
    assert_int_equal(blob_chunk_read(d, slice_of(NULL, 0), 1, 3, EVERYTHING, NULL, 0, NULL, &b.arena, &got),
                     0);
    assert_same_rows(&rows, &got);
    blob_fini(&b);
    blob_writer_destroy(w);
}

/* ---------------------------------------------------------------- damage */

/* Every bit of the directory: never read as something else. */
static void test_bits_of_directory(void **state)
{
    (void)state;
    uint64_t seed = 11;
    struct blob b = {.n = 0};
    struct blob_writer *w = blob_writer_create(&with_ids);
    make_blob(&b, w, 40, 3, &seed);
    for (size_t i = 0; i < b.directory.n * 8; i++) {
        struct arena arena = {0};
        const struct blob_directory *d;
        b.directory.p[i / 8] ^= (char)(1 << i % 8);
        int r = blob_directory_read(strbuf_slice(&b.directory), &arena, &d);
        assert_true(r == E_DAMAGE);
        b.directory.p[i / 8] ^= (char)(1 << i % 8);
        arena_fini(&arena);
    }
    for (size_t n = 0; n < b.directory.n; n++) {
        struct arena arena = {0};
        const struct blob_directory *d;
        assert_int_equal(blob_directory_read(slice_of(b.directory.p, n), &arena, &d), E_DAMAGE);
        arena_fini(&arena);
    }
    check_blob(&b, NULL);
    blob_fini(&b);
    blob_writer_destroy(w);
}

/* Every bit of the body: what was hit says so, all else is as it was. */
static void test_bits_of_body(void **state)
{
    (void)state;
    uint64_t seed = 12;
    struct blob b = {.n = 0};
    struct blob_writer *w = blob_writer_create(&with_ids);
    make_blob(&b, w, 60, 6, &seed);
    struct arena arena = {0}, scratch = {0};
    const struct blob_directory *d;
    assert_int_equal(blob_directory_read(strbuf_slice(&b.directory), &arena, &d), 0);
    size_t hits = 0, survivors = 0;
    for (size_t i = 0; i < b.body.n * 8; i++) {
        b.body.p[i / 8] ^= (char)(1 << i % 8);
        for (uint32_t k = 0; k < d->n_chunks; k++) {
            struct rows got;
            int r =
                blob_chunk_read(d, strbuf_slice(&b.body), 1, k, EVERYTHING, NULL, 0, NULL, &scratch, &got);
            assert_true(r == 0 || r == E_DAMAGE);
            if (r == 0)
                assert_same_rows(&find_put(&b, d, k)->rows, &got);
            hits += r < 0;
            survivors += r == 0;
            arena_reset(&scratch);
        }
        b.body.p[i / 8] ^= (char)(1 << i % 8);
    }
    assert_true(hits > 0 && survivors > 0);
    arena_fini(&arena);
    arena_fini(&scratch);
    blob_fini(&b);
    blob_writer_destroy(w);
}

/* Columns of 128 rows and more are in frames of their own: a hit costs one chunk, and of that one column. */
static void test_damage_is_local(void **state)
{
    (void)state;
    enum { N = 128, COLUMNS = 3, STREAMS = 5 };
    uint64_t seed = 18;
    struct blob b = {.n = 0};
    struct blob_writer *w = blob_writer_create(&with_ids);
    struct field fields[COLUMNS] = {{.name = slice_str("a"), .type = VALUE_UINT},
                                    {.name = slice_str("b"), .type = VALUE_FLOAT},
                                    {.name = slice_str("c"), .type = VALUE_TEXT}};
    struct table_def t = {.name = slice_str("t"), .columns = fields, .n_columns = COLUMNS};
    for (unsigned k = 0; k < STREAMS; k++) {
        struct column *columns = arena_alloc(&b.arena, sizeof *columns * COLUMNS);
        struct put *p = &b.puts[b.n++];
        *p = (struct put){&t, key_of(&b.arena, k), {0}};
        random_heads(&b.arena, N, &seed, &p->rows);
        for (uint16_t i = 0; i < COLUMNS; i++) {
            random_column(&b.arena, N, fields[i].type, SHAPE_NOISE, &seed, &columns[i]);
            columns[i].id = i;
            columns[i].present = NULL;
        }
        p->rows.columns = columns;
        p->rows.n_columns = COLUMNS;
        assert_int_equal(blob_writer_add(w, &t, p->key, &p->rows), 0);
    }
    finish(&b, w);
    struct arena arena = {0}, scratch = {0};
    const struct blob_directory *d;
    assert_int_equal(blob_directory_read(strbuf_slice(&b.directory), &arena, &d), 0);
    size_t once = 0;
    for (size_t i = 24; i < b.body.n; i += 7) { /* behind the head */
        unsigned hits = 0;
        b.body.p[i] ^= 16;
        for (uint32_t k = 0; k < d->n_chunks; k++)
            for (uint16_t c = 0; c < COLUMNS; c++) {
                struct rows got;
                int r = blob_chunk_read(d, strbuf_slice(&b.body), 1, k, 0, &c, 1, NULL, &scratch, &got);
                assert_true(r == 0 || r == E_DAMAGE);
                hits += r < 0;
                arena_reset(&scratch);
            }
        b.body.p[i] ^= 16;
        assert_true(hits <= 1); /* 0: it hit times or the like, which were not read */
        once += hits;
    }
    assert_true(once > b.body.n / 7 / 2);
    arena_fini(&arena);
    arena_fini(&scratch);
    blob_fini(&b);
    blob_writer_destroy(w);
}

static void test_wrong_body(void **state)
{
    (void)state;
    uint64_t seed = 13;
    struct blob a = {.n = 0}, b = {.n = 0};
    struct blob_writer *w = blob_writer_create(&with_ids);
    make_blob(&a, w, 2000, 4, &seed);
    make_blob(&b, w, 2000, 4, &seed);
    assert_false(blob_is_pair(strbuf_slice(&a.directory), strbuf_slice(&b.body)));
    const struct blob_directory *d;
    struct rows got;
    assert_int_equal(blob_directory_read(strbuf_slice(&a.directory), &a.arena, &d), 0);
    for (uint32_t i = 0; i < d->n_chunks; i++)
        assert_int_equal(
            blob_chunk_read(d, strbuf_slice(&b.body), 1, i, EVERYTHING, NULL, 0, NULL, &a.arena, &got),
            E_DAMAGE);
    assert_int_equal(blob_directory_mark(strbuf_slice(&a.directory)), a.directory.n);
    assert_int_equal(blob_body_mark(strbuf_slice(&a.body)), a.body.n);
    assert_int_equal(blob_body_mark(strbuf_slice(&a.directory)), 0);
    blob_fini(&a);
    blob_fini(&b);
    blob_writer_destroy(w);
}

/* ---------------------------------------------------------------- limits, memory */

static void test_limits(void **state)
{
    (void)state;
    uint64_t seed = 14;
    struct blob b = {.n = 0};
    struct blob_writer *w = blob_writer_create(&with_ids);
    struct table_def t = random_table(&b.arena, "t", 3, &seed);
    struct rows rows = random_rows(&b.arena, &t, ROWS_CHUNK_MAX, &seed);
    assert_int_equal(blob_writer_add(w, &t, slice_str("k"), &rows), 0);
    rows.n++;
    assert_int_equal(blob_writer_add(w, &t, slice_str("k"), &rows), E_LIMIT);
    rows.n = 0;
    assert_int_equal(blob_writer_add(w, &t, slice_str("k"), &rows), E_LIMIT);
    blob_fini(&b);
    blob_writer_destroy(w);
}

/* The nth allocation fails, for all n: nothing was added, and it works the next time. */
static void test_no_memory(void **state)
{
    (void)state;
    uint64_t seed = 15;
    struct blob b = {.n = 0};
    struct blob_writer *w = blob_writer_create(&with_ids);
    struct table_def t = random_table(&b.arena, "t", 12, &seed);
    struct rows first = random_rows(&b.arena, &t, 700, &seed);
    for (uint64_t n = 1; b.n < 12; n++) {
        struct put *p = &b.puts[b.n];
        *p = (struct put){&t, key_of(&b.arena, (unsigned)b.n), random_rows(&b.arena, &t, 500, &seed)};
        if (b.n == 0)
            p->rows = first;
        mem_fail_after(n);
        int r = blob_writer_add(w, &t, p->key, &p->rows);
        mem_fail_after(0);
        assert_true(r == 0 || r == -ENOMEM);
        b.n += r == 0;
        n = r == 0 ? 0 : n;
    }
    struct blob_bytes out;
    for (uint64_t n = 1;; n++) {
        mem_fail_after(n);
        int r = blob_writer_finish(w, &out);
        mem_fail_after(0);
        if (r == 0)
            break;
        assert_int_equal(r, -ENOMEM);
    }
    strbuf_add_slice(&b.directory, out.directory);
    strbuf_add_slice(&b.body, out.body);
    check_blob(&b, NULL);
    const struct blob_directory *d;
    for (uint64_t n = 1;; n++) {
        struct arena arena = {0};
        mem_fail_after(n);
        int r = blob_directory_read(strbuf_slice(&b.directory), &arena, &d);
        mem_fail_after(0);
        arena_fini(&arena);
        if (r == 0)
            break;
        assert_int_equal(r, -ENOMEM);
    }
    blob_fini(&b);
    blob_writer_destroy(w);
}

static void test_full(void **state)
{
    (void)state;
    uint64_t seed = 16;
    struct blob_writer *w = blob_writer_create(&with_ids);
    for (int round = 0; round < 3; round++) {
        struct arena arena = {0};
        struct table_def t = random_table(&arena, "t", 6, &seed);
        assert_true(blob_writer_is_empty(w));
        unsigned n = 0;
        for (; !blob_writer_is_full(w) && n < 10000; n++) {
            struct rows rows = random_rows(&arena, &t, 600, &seed);
            assert_int_equal(blob_writer_add(w, &t, key_of(&arena, n), &rows), 0);
        }
        struct blob_bytes out;
        assert_int_equal(blob_writer_finish(w, &out), 0);
        size_t size = out.directory.n + out.body.n;
        assert_true(size > (64 << 10) && size < (512 << 10));
        assert_int_equal(out.n_sections, 1);
        assert_int_equal(out.sections[0].rows, n * 600);
        assert_int_equal(out.sections[0].streams, n);
        arena_fini(&arena);
    }
    blob_writer_destroy(w);
}

/* Few that are not there get through a filter. */
static void test_filter_rejects(void **state)
{
    (void)state;
    uint64_t seed = 17, wrong = 0;
    struct blob b = {.n = 0};
    struct arena arena = {0};
    struct blob_writer *w = blob_writer_create(&with_ids);
    struct field fields[] = {{.name = slice_str("id"), .type = VALUE_TEXT}};
    struct table_def t = {.name = slice_str("t"), .columns = fields, .n_columns = 1};
    struct rows rows;
    struct column c = {.id = 0, .type = VALUE_TEXT};
    random_heads(&b.arena, 5000, &seed, &rows);
    random_text(&b.arena, 5000, SHAPE_NOISE, &seed, &c);
    rows.columns = &c;
    rows.n_columns = 1;
    assert_int_equal(blob_writer_add(w, &t, slice_str("k"), &rows), 0);
    finish(&b, w);
    const struct blob_directory *d;
    assert_int_equal(blob_directory_read(strbuf_slice(&b.directory), &arena, &d), 0);
    for (unsigned i = 0; i < 10000; i++) {
        char text[32];
        wrong +=
            blob_chunk_may_have(d, 0, 0, slice_of(text, (size_t)snprintf(text, sizeof text, "not-%u", i)));
    }
    assert_true(wrong < 200);
    check_filters(d, 0, &rows);
    arena_fini(&arena);
    blob_fini(&b);
    blob_writer_destroy(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_columns_wanted),
        cmocka_unit_test(test_constants_cost_nothing),
        cmocka_unit_test(test_bits_of_directory),
        cmocka_unit_test(test_bits_of_body),
        cmocka_unit_test(test_damage_is_local),
        cmocka_unit_test(test_wrong_body),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_filter_rejects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
