/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/archive/chunks.h"

#include "archive/column_codec.h"
#include "base/mem.h"

#include <errno.h>

static struct column_codec *codec;

static int setup(void **state)
{
    (void)state;
    codec = column_codec_create();
    return codec ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    column_codec_destroy(codec);
    return 0;
}

static uint32_t count_of(const struct column *c, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        count += column_has(c, i);
    return count;
}

static void test_every_shape(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (unsigned round = 0; round < 400 * test_scale(); round++) {
        struct arena arena = {0};
        struct strbuf out = {0};
        uint32_t n = 1 + (uint32_t)(test_random(&seed) % (round % 20 ? 700 : ROWS_CHUNK_MAX));
        struct column c = {.id = 3}, back = {.id = 3};
        back.type = (uint8_t)(1 + round % 6);
        random_column(&arena, n, back.type, (enum chunk_shape)(test_random(&seed) % SHAPES), &seed, &c);
        uint32_t count = count_of(&c, n);
        if (count == n)
            c.present = NULL;
        assert_int_equal(column_put(codec, &c, n, count, &out), 0);
        assert_int_equal(column_get(strbuf_slice(&out), n, count, &arena, &back), 0);
        assert_same_column(&c, &back, n);
        strbuf_fini(&out);
        arena_fini(&arena);
    }
}

/* Rows without a value: what is behind it is never looked at and comes back as nothing. */
static void test_missing(void **state)
{
    (void)state;
    uint64_t v[70], present[2] = {UINT64_C(1) << 40 | 1, UINT64_MAX << 2};
    struct arena arena = {0};
    struct strbuf out = {0};
    for (uint64_t i = 0; i < 70; i++)
        v[i] = 0xdead0000 + i;
    struct column c = {.type = VALUE_UINT, .u = v, .present = present}, back = {.type = VALUE_UINT};
    uint32_t count = count_of(&c, 70);
    assert_int_equal(count, 6);
    assert_int_equal(column_put(codec, &c, 70, count, &out), 0);
    assert_int_equal(column_get(strbuf_slice(&out), 70, count, &arena, &back), 0);
    assert_same_column(&c, &back, 70);
    assert_int_equal(back.u[1], 0);
    assert_int_equal(back.present[1] >> 6, 0); /* behind the last row: clean */
    strbuf_fini(&out);
    arena_fini(&arena);
}

static void test_text_sizes(void **state)
{
    (void)state;
    enum { N = 1000 };
    struct arena arena = {0};
    struct strbuf out = {0};
    uint64_t seed = 2;
    struct column c = {.type = VALUE_TEXT};
    random_text(&arena, N, SHAPE_SAME, &seed, &c);
    assert_int_equal(column_put(codec, &c, N, N, &out), 0);
    assert_true(out.n < 24);
    strbuf_reset(&out);
    random_text(&arena, N, SHAPE_FEW, &seed, &c);
    assert_int_equal(column_put(codec, &c, N, N, &out), 0);
    assert_true(out.n < N * 3 / 8 + 100);
    strbuf_fini(&out);
    arena_fini(&arena);
}

/* A dictionary of one long text that every row has: a few bytes that would be a gigabyte. */
static void test_text_bomb(void **state)
{
    (void)state;
    enum { LONG = 64 << 10, N = ROWS_CHUNK_MAX };
    struct arena arena = {0};
    struct strbuf out = {0};
    char *text = mem_alloc(LONG);
    uint32_t ends[1] = {LONG};
    struct column c = {.type = VALUE_TEXT, .ends = ends, .bytes = text};
    assert_int_equal(column_put(codec, &c, 1, 1, &out), 0);
    struct column back = {.type = VALUE_TEXT};
    assert_int_equal(column_get(strbuf_slice(&out), 1, 1, &arena, &back), 0);
    /* The same dictionary for 16384 rows: their places are the constant 0, whatever their number. */
    assert_int_equal(column_get(strbuf_slice(&out), N, N, &arena, &back), E_LIMIT);
    assert_true(arena.total < 8 << 20);
    mem_free(text);
    strbuf_fini(&out);
    arena_fini(&arena);
}

static void test_too_much_text(void **state)
{
    (void)state;
    enum { N = 1025, EACH = 64 << 10 };
    struct strbuf out = {0};
    char *bytes = mem_alloc((size_t)N * EACH);
    uint32_t ends[N];
    for (uint32_t i = 0; i < N; i++)
        ends[i] = (i + 1) * EACH;
    struct column c = {.type = VALUE_BYTES, .ends = ends, .bytes = bytes};
    assert_int_equal(column_put(codec, &c, N, N, &out), E_LIMIT);
    mem_free(bytes);
    strbuf_fini(&out);
}

/* Cut short anywhere, or with any bit flipped: an error, or values that are some. */
static void test_wrong_bytes(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (unsigned round = 0; round < 60; round++) {
        struct arena arena = {0}, scratch = {0};
        struct strbuf out = {0};
        struct column c = {.id = 0};
        uint8_t type = (uint8_t)(1 + round % 6);
        random_column(&arena, 90, type, (enum chunk_shape)(round % SHAPES), &seed, &c);
        uint32_t count = count_of(&c, 90);
        assert_int_equal(column_put(codec, &c, 90, count, &out), 0);
        for (size_t n = 0; n < out.n; n++) {
            struct column back = {.type = type};
            int r = column_get(slice_of(out.p, n), 90, count, &scratch, &back);
            assert_true(r == E_PROTO || r == E_LIMIT);
        }
        for (size_t i = 0; i < out.n * 8; i++) {
            struct column back = {.type = type};
            out.p[i / 8] ^= (char)(1 << i % 8);
            if (column_get(strbuf_slice(&out), 90, count, &scratch, &back) == 0)
                assert_same_column(&back, &back, 90); /* all of it can be read */
            out.p[i / 8] ^= (char)(1 << i % 8);
            arena_reset(&scratch);
        }
        strbuf_fini(&out);
        arena_fini(&arena);
        arena_fini(&scratch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shape),   cmocka_unit_test(test_missing),
        cmocka_unit_test(test_text_sizes),    cmocka_unit_test(test_text_bomb),
        cmocka_unit_test(test_too_much_text), cmocka_unit_test(test_wrong_bytes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
