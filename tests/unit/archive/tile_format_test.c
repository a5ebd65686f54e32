/* SPDX-License-Identifier: Apache-2.0 */
/* What was put comes back; what was changed is found; the text forms say the same. */
#include "unit/test.h"

#include "archive/tile_format.h"
#include "base/crc32c.h"

#include <errno.h>
#include <math.h>

static void make(struct strbuf *out)
{
    struct tile_writer w = {.head = {.kind = TILE_POINTS,
                                     .level = 12,
                                     .index = -3,
                                     .span_ns = UINT64_C(1) << 32,
                                     .base_ns = -3 * (INT64_C(1) << 32),
                                     .left_out = 7}};
    tile_put_uint(&w, COLUMN_BIN_NS, UINT64_C(1) << 24);
    tile_put_text(&w, COLUMN_STREAM, SLICE_LIT("alpha p job"));
    tile_put_text(&w, COLUMN_STREAM, SLICE_LIT(""));
    tile_put_text(&w, COLUMN_STREAM, SLICE_LIT("b\"e,ta"));
    for (unsigned i = 0; i < 5; i++) {
        tile_put_uint(&w, COLUMN_ROW, i % 3);
        tile_put_uint(&w, COLUMN_T, i * 1000);
        tile_put_uint(&w, COLUMN_SEVERITY, i == 4 ? 1000 : i);
        tile_put_float(&w, COLUMN_MAX, i == 2 ? (double)NAN : i * 0.1);
        tile_put_float(&w, COLUMN_RATE, i * 0.25);
        tile_put_text(&w, COLUMN_ID, i % 2 ? SLICE_LIT("x") : SLICE_LIT(""));
    }
    tile_declare(&w, COLUMN_NODE);
    size_t size = tile_size(&w);
    assert_int_equal(tile_finish(&w, out), 0);
    assert_int_equal(out->n, size);
    tile_writer_fini(&w);
}

static void comes_back(void **state)
{
    (void)state;
    struct strbuf out = {0};
    make(&out);
    struct tile t;
    assert_int_equal(tile_read(strbuf_slice(&out), &t), 0);
    assert_int_equal(t.head.kind, TILE_POINTS);
    assert_int_equal(t.head.level, 12);
    assert_int_equal(t.head.index, -3);
    assert_int_equal(t.head.flags, TILE_LEFT_OUT);
    assert_int_equal(t.head.left_out, 7);
    assert_int_equal(t.columns[COLUMN_T].n, 5);
    assert_int_equal(tile_uint(&t, COLUMN_T, 3), 3000);
    assert_int_equal(tile_uint(&t, COLUMN_SEVERITY, 4), 255); /* the greatest there is */
    assert_true(isnan(tile_float(&t, COLUMN_MAX, 2)));
    assert_true(tile_float(&t, COLUMN_MAX, 3) == 3 * 0.1);
    assert_true(tile_float(&t, COLUMN_RATE, 3) == 0.75);
    assert_slice(tile_text(&t, COLUMN_STREAM, 2), "b\"e,ta");
    assert_slice(tile_text(&t, COLUMN_STREAM, 1), "");
    assert_slice(tile_text(&t, COLUMN_ID, 3), "x");
    assert_true(t.columns[COLUMN_NODE].is_there && t.columns[COLUMN_NODE].n == 0);
    assert_false(t.columns[COLUMN_HOST].is_there);
    for (unsigned c = 0; c < COLUMNS; c++)
        if (t.columns[c].is_there)
            assert_int_equal((t.columns[c].values - out.p) % 8, 0);
    strbuf_fini(&out);
}

static void every_bit_counts(void **state)
{
    (void)state;
    struct strbuf out = {0};
    make(&out);
    struct tile t;
    for (size_t i = 0; i < out.n * 8; i++) {
        out.p[i / 8] ^= (char)(1 << i % 8);
        assert_true(tile_read(strbuf_slice(&out), &t) < 0);
        out.p[i / 8] ^= (char)(1 << i % 8);
    }
    for (size_t n = 0; n < out.n; n++)
        assert_true(tile_read(slice_of(out.p, n), &t) < 0);
    strbuf_fini(&out);
}

static void seal(struct strbuf *s)
{
    memset(s->p + 12, 0, 4);
    uint32_t crc = crc32c(0, strbuf_slice(s));
    for (unsigned i = 0; i < 4; i++)
        s->p[12 + i] = (char)(crc >> (8 * i));
}

/* With a good CRC nothing else may be taken on trust. */
static void nothing_is_trusted(void **state)
{
    (void)state;
    unsigned refused = 0, taken = 0;
    for (uint64_t seed = 1; seed <= 3000 * test_scale(); seed++) {
        uint64_t s = seed;
        struct strbuf out = {0};
        make(&out);
        for (unsigned i = 0; i < 1 + seed % 3; i++)
            out.p[test_random(&s) % out.n] = (char)test_random(&s);
        seal(&out);
        struct tile t;
        struct strbuf text = {0};
        if (tile_read(strbuf_slice(&out), &t) == 0) {
            tile_print_json(&t, &text);
            tile_print_csv(&t, &text);
            taken++;
        } else {
            refused++;
        }
        strbuf_fini(&text);
        strbuf_fini(&out);
    }
    assert_true(refused > 100 && taken > 100);
}

static void times(void **state)
{
    (void)state;
    for (unsigned level = 0; level <= TILE_LEVEL_MAX; level++) {
        struct tile t = {.head = {.span_ns = UINT64_C(1) << (2 * level + 8),
                                  .base_ns = -5 * (INT64_C(1) << (2 * level + 8))}};
        uint64_t s = level;
        for (unsigned i = 0; i < 200; i++) {
            int64_t at = t.head.base_ns + (int64_t)(test_random(&s) % t.head.span_ns);
            int64_t back = tile_time_ns(&t, tile_time(&t.head, at));
            assert_true(back <= at && (uint64_t)(at - back) <= t.head.span_ns >> 32);
        }
        assert_int_equal(tile_time(&t.head, t.head.base_ns - 1), 0);
        assert_int_equal(tile_time(&t.head, INT64_MAX), UINT32_MAX);
    }
}

static void for_people(void **state)
{
    (void)state;
    struct strbuf out = {0}, text = {0};
    make(&out);
    struct tile t;
    assert_int_equal(tile_read(strbuf_slice(&out), &t), 0);
    tile_print_json(&t, &text);
    assert_non_null(strstr(text.p, "\"streams\":[\"alpha p job\",\"\",\"b\\\"e,ta\"]"));
    assert_non_null(strstr(text.p, "\"max\":[0.0,0.1,null,"));
    assert_non_null(strstr(text.p, "\"nodes\":[]"));
    strbuf_reset(&text);
    tile_print_csv(&t, &text);
    assert_non_null(strstr(text.p, "row,t,max,severity,id,rate\r\n"));
    assert_non_null(strstr(text.p, "\"b\"\"e,ta\",1969-12-31T23:59:47."));
    strbuf_fini(&text);
    strbuf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back),         cmocka_unit_test(every_bit_counts),
        cmocka_unit_test(nothing_is_trusted), cmocka_unit_test(times),
        cmocka_unit_test(for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
