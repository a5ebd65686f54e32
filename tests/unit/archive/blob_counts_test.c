/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of random chunks beside a plain count of their rows; and bytes that are no counts. */
#include "unit/test.h"

#include "archive/blob.h"
#include "archive/blob_counts.h"
#include "base/mem.h"
#include "event/level.h"
#include "event/stream_key.h"

enum { ROWS = 3000 };

static const struct field columns[] = {
    {.name = {"id", 2}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_TEXT},
};
static const struct table_def table = {.name = {"job.end", 7}, .columns = columns, .n_columns = 1};

/* Rows of one stream; every fourth has no id. */
struct made {
    int64_t time_ns[ROWS];
    uint8_t level[ROWS];
    uint64_t seq[ROWS], present[ROWS / 64 + 1];
    uint16_t origin[ROWS];
    uint32_t ends[ROWS];
    struct strbuf ids;
    struct row_origin maker;
    struct column column;
    struct rows rows;
};

static bool has_id(uint32_t row)
{
    return row % 4 > 0;
}

static void make(struct made *m, uint32_t n, int64_t from_ns, uint64_t apart_ns, size_t id_bytes,
                 uint64_t *seed)
{
    strbuf_reset(&m->ids);
    memset(m->present, 0, sizeof m->present);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = test_random(seed) % 1000;
        from_ns += (int64_t)(test_random(seed) % apart_ns) * (at < 5 ? 5000 : 1); /* and gaps */
        m->time_ns[i] = from_ns;
        m->level[i] = at < 3 ? LEVEL_CRITICAL : at < 8 ? LEVEL_WARNING : at < 500 ? LEVEL_DEBUG : LEVEL_INFO;
        m->seq[i] = i + 1;
        m->origin[i] = 0;
        if (has_id(i)) {
            strbuf_printf(&m->ids, "%0*u", (int)id_bytes, i);
            m->present[i / 64] |= UINT64_C(1) << i % 64;
        }
        m->ends[i] = (uint32_t)m->ids.n;
    }
    m->column =
        (struct column){.type = VALUE_TEXT, .ends = m->ends, .bytes = m->ids.p, .present = m->present};
    m->rows = (struct rows){.n = n,
                            .n_columns = 1,
                            .time_ns = m->time_ns,
                            .level = m->level,
                            .seq = m->seq,
                            .origin = m->origin,
                            .origins = &m->maker,
                            .n_origins = 1,
                            .columns = &m->column};
}

static struct slice key_of(struct strbuf *out, const char *host)
{
    strbuf_reset(out);
    strbuf_add_text(out, slice_str(host));
    strbuf_add_text(out, SLICE_LIT("p"));
    strbuf_add_text(out, table.name);
    return strbuf_slice(out);
}

static void add(struct blob_writer *w, const char *host, const struct made *m)
{
    struct strbuf key = {0};
    assert_int_equal(blob_writer_add(w, &table, key_of(&key, host), &m->rows), 0);
    strbuf_fini(&key);
}

/* Of the only event name. */
static struct slice finish(struct blob_writer *w)
{
    struct blob_bytes b;
    assert_int_equal(blob_writer_finish(w, &b), 0);
    assert_int_equal(b.n_sections, 1);
    struct cursor c = cursor_of(b.counts);
    struct slice counts = cursor_text(&c);
    assert_false(c.bad);
    assert_int_equal(cursor_left(&c), 0);
    return counts;
}

static void check_bins(const struct counts_chunk *chunk, const struct made *m)
{
    struct cursor c = cursor_of(chunk->bins);
    struct counts_bin bin = {0};
    uint32_t row = 0, n = 0;
    char id[32];
    for (; counts_next_bin(chunk, &c, &bin); n++) {
        int64_t last = bin.from_ns + ((INT64_C(1) << (2 * chunk->zoom)) - 1);
        uint32_t first = row, worst = row;
        assert_int_equal(bin.from_ns & (last - bin.from_ns), 0);
        for (; row < m->rows.n && m->time_ns[row] <= last; row++) {
            assert_true(m->time_ns[row] >= bin.from_ns);
            worst = m->level[row] < m->level[worst] ? row : worst;
        }
        assert_int_equal(bin.count, row - first);
        assert_int_equal(bin.level, m->level[worst]);
        if (bin.level > LEVEL_WARNING) {
            assert_int_equal(bin.id.n, 0);
            continue;
        }
        assert_int_equal(bin.worst_ns, m->time_ns[worst]);
        (void)snprintf(id, sizeof id, "%06u", worst);
        assert_slice(bin.id, has_id(worst) ? id : "");
    }
    assert_false(c.bad);
    assert_int_equal(row, m->rows.n);
    assert_true(n <= m->rows.n / COUNTS_ROWS);
    assert_true(chunk->from_ns <= m->time_ns[0] && chunk->last_ns >= m->time_ns[m->rows.n - 1]);
}

static void random_chunks(void **state)
{
    (void)state;
    uint64_t seed = 3;
    struct made *m = mem_alloc(sizeof *m);
    for (unsigned round = 0; round < 200; round++) {
        struct blob_writer *w = blob_writer_create(&(struct blob_options){.has_counts = true});
        int64_t from = (int64_t)(test_random(&seed) >> 3) * (round % 2 ? -1 : 1);
        uint32_t n = COUNTS_ROWS_MIN + (uint32_t)(test_random(&seed) % (ROWS - COUNTS_ROWS_MIN));
        make(m, n, from, 1 + (test_random(&seed) >> (24 + test_random(&seed) % 38)), 6, &seed);
        add(w, "alpha", m);
        struct counts_reader r;
        struct counts_chunk c;
        assert_int_equal(counts_open(&r, finish(w)), 1);
        assert_int_equal(counts_next(&r, &c), 1);
        assert_int_equal(c.rows, n);
        struct strbuf key = {0};
        assert_true(slice_eq(c.key, key_of(&key, "alpha")));
        strbuf_fini(&key);
        check_bins(&c, m);
        assert_int_equal(counts_next(&r, &c), 0);
        counts_close(&r);
        blob_writer_destroy(w);
    }
    strbuf_fini(&m->ids);
    mem_free(m);
}

/* Small ones and such with long ids have none; those beside them do, in the directory's order. */
static void who_has_none(void **state)
{
    (void)state;
    uint64_t seed = 5;
    struct made *m = mem_alloc(sizeof *m);
    struct blob_writer *w = blob_writer_create(&(struct blob_options){.has_counts = true});
    make(m, 1000, 0, 1000, 6, &seed);
    add(w, "delta", m); /* the directory is by key, not by who came first */
    add(w, "alpha", m);
    make(m, 1000, 0, 1000, COUNTS_ID_MAX + 1, &seed);
    add(w, "beta", m);
    make(m, COUNTS_ROWS_MIN - 1, 0, 1000, 6, &seed);
    add(w, "gamma", m);
    struct counts_reader r;
    struct counts_chunk c;
    static const uint32_t rows[] = {0, 1000, 1000, 0}; /* the shorter name first */
    assert_int_equal(counts_open(&r, finish(w)), 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(counts_next(&r, &c), 1);
        assert_int_equal(c.rows, rows[i]);
        if (c.rows)
            assert_slice(stream_key_split(c.key).host, i > 1 ? "delta" : "alpha");
    }
    assert_int_equal(counts_next(&r, &c), 0);
    counts_close(&r);
    add(w, "gamma", m); /* without any there is nothing */
    assert_int_equal(finish(w).n, 0);
    blob_writer_destroy(w);
    w = blob_writer_create(&(struct blob_options){.has_counts = false});
    make(m, 1000, 0, 1000, 6, &seed);
    add(w, "alpha", m);
    struct blob_bytes b;
    assert_int_equal(blob_writer_finish(w, &b), 0);
    assert_int_equal(b.counts.n, 0);
    blob_writer_destroy(w);
    strbuf_fini(&m->ids);
    mem_free(m);
}

/* What is given is right in itself, whatever the bytes are. */
static uint64_t read_any(struct slice bytes)
{
    struct counts_reader r;
    struct counts_chunk c;
    uint64_t given = 0;
    for (uint32_t n = counts_open(&r, bytes); n > 0 && counts_next(&r, &c) > 0; n--) {
        struct cursor in = cursor_of(c.bins);
        struct counts_bin bin = {0};
        uint64_t rows = 0;
        while (c.rows && counts_next_bin(&c, &in, &bin)) {
            assert_true(bin.from_ns >= c.from_ns && bin.from_ns <= c.last_ns);
            rows += bin.count;
        }
        assert_int_equal(rows, c.rows);
        given += rows;
    }
    counts_close(&r);
    return given;
}

static void broken_bytes(void **state)
{
    (void)state;
    uint64_t seed = 7;
    struct made *m = mem_alloc(sizeof *m);
    struct blob_writer *w = blob_writer_create(&(struct blob_options){.has_counts = true});
    for (unsigned i = 0; i < 4; i++) {
        make(m, 700, 1000000 * i, 1000, 6, &seed);
        add(w, i % 2 ? "alpha" : "beta", m);
    }
    struct slice whole = finish(w);
    assert_int_equal(read_any(whole), 4 * 700);
    char *copy = mem_alloc(whole.n);
    size_t less = 0;
    for (unsigned i = 0; i < 20000; i++) {
        memcpy(copy, whole.p, whole.n);
        size_t n = i % 4 ? whole.n : test_random(&seed) % whole.n;
        for (unsigned k = 0; k < i % 4; k++)
            copy[test_random(&seed) % whole.n] = (char)test_random(&seed);
        less += read_any(slice_of(copy, n)) < 4 * 700;
    }
    assert_true(less > 1000);
    mem_free(copy);
    blob_writer_destroy(w);
    strbuf_fini(&m->ids);
    mem_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_chunks),
        cmocka_unit_test(who_has_none),
        cmocka_unit_test(broken_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
