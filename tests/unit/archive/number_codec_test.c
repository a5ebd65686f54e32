/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/archive/chunks.h"

#include "archive/number_codec.h"
#include "archive/pfor.h"
#include "base/err.h"

static struct number_codec *codec;

static int setup(void **state)
{
    (void)state;
    codec = number_codec_create();
    return codec ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    number_codec_destroy(codec);
    return 0;
}

/* Both ways; how many bytes it took. */
static size_t round_trip(uint8_t type, const uint64_t *v, uint32_t n)
{
    static uint64_t back[ROWS_CHUNK_MAX];
    struct strbuf out = {0};
    strbuf_add_str(&out, "before");
    number_put(codec, type, v, n, &out);
    assert_false(strbuf_failed(&out));
    struct slice in = slice_from(strbuf_slice(&out), 6);
    assert_int_equal(number_get(in, type, n, back), 0);
    for (uint32_t i = 0; i < n; i++) {
        struct value a = {.u = v[i], .type = type}, b = {.u = back[i], .type = type};
        if (!value_eq(a, b))
            fail_msg("type %u: number %u of %u: %016llx became %016llx", type, i, n, (unsigned long long)v[i],
                     (unsigned long long)back[i]);
    }
    size_t size = in.n;
    strbuf_fini(&out);
    return size;
}

static void test_every_shape(void **state)
{
    (void)state;
    static uint64_t v[ROWS_CHUNK_MAX];
    static const uint8_t types[] = {VALUE_INT, VALUE_UINT, VALUE_FLOAT, VALUE_BOOL};
    static const uint32_t counts[] = {1, 2, 3, 7, 127, 128, 129, 255, 256, 257, 600, 1000, ROWS_CHUNK_MAX};
    uint64_t seed = 1;
    for (unsigned round = 0; round < 6 * test_scale(); round++)
        for (unsigned t = 0; t < 4; t++)
            for (unsigned shape = 0; shape < SHAPES; shape++)
                for (unsigned c = 0; c < sizeof counts / sizeof counts[0] - (round > 0); c++) {
                    uint64_t before = 0, salt = test_random(&seed) >> test_random(&seed) % 64;
                    for (uint32_t i = 0; i < counts[c]; i++) {
                        before = next_number((enum chunk_shape)shape, types[t], i, before, salt, &seed);
                        v[i] = types[t] == VALUE_BOOL ? before & 1 : before;
                    }
                    size_t size = round_trip(types[t], v, counts[c]);
                    assert_true(size <= counts[c] * 8u + counts[c] / 16 * 11u + 64);
                }
}

/* Every float that is odd, among decimals that are not. */
static void test_odd_floats(void **state)
{
    (void)state;
    uint64_t v[600], seed = 3;
    for (unsigned n_odd = 0; n_odd < 80; n_odd++) {
        for (int i = 0; i < 600; i++)
            v[i] = float_bits((double)(test_random(&seed) % 100000) / 1000);
        for (unsigned i = 0; i < n_odd; i++)
            v[i < 3 ? i : test_random(&seed) % 600] = odd_number(VALUE_FLOAT, &seed);
        round_trip(VALUE_FLOAT, v, 600);
    }
}

/* A NaN of any payload is the one NaN afterwards. */
static void test_one_nan(void **state)
{
    (void)state;
    uint64_t v[3] = {0x7ff8000000000001u, 0xfff8000000000000u, 0x7ff0000000000001u}, back[3];
    struct strbuf out = {0};
    number_put(codec, VALUE_FLOAT, v, 3, &out);
    assert_int_equal(number_get(strbuf_slice(&out), VALUE_FLOAT, 3, back), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(back[i], float_bits(value_float(NAN).f));
    strbuf_fini(&out);
}

static void test_sizes(void **state)
{
    (void)state;
    enum { N = 600 };
    uint64_t v[N], seed = 5;
    for (int i = 0; i < N; i++)
        v[i] = 1794772326000000000u;
    assert_true(round_trip(VALUE_INT, v, N) <= 11);
    for (int i = 0; i < N; i++)
        v[i] = 1794772326000000000u + (uint64_t)i * 1000000000;
    assert_true(round_trip(VALUE_INT, v, N) <= 24);
    for (int i = 0; i < N; i++)
        v[i] = float_bits(123456.0 + i * 17);
    assert_true(round_trip(VALUE_FLOAT, v, N) <= 16);
    /* Pages of 4096 bytes, between 0 and 255 of them: a byte each. */
    for (int i = 0; i < N; i++)
        v[i] = float_bits((double)(test_random(&seed) % 256) * 4096 + 1e9);
    assert_true(round_trip(VALUE_FLOAT, v, N) < N + 24);
    /* Three decimals below ten: 14 bits each; multiplied by 7 a bit or two more. */
    for (int i = 0; i < N; i++)
        v[i] = float_bits((double)(test_random(&seed) % 10000) / 1000);
    assert_true(round_trip(VALUE_FLOAT, v, N) < N * 15 / 8 + 24);
    for (int i = 0; i < N; i++)
        v[i] = float_bits((double)(test_random(&seed) % 10000) / 1000 * 7);
    assert_true(round_trip(VALUE_FLOAT, v, N) < N * 18 / 8 + 24);
    /* One step in a hundred. */
    for (int i = 0; i < N; i++)
        v[i] = i ? v[i - 1] + (i % 100 == 0 ? 1000003 : 0) : 77;
    assert_true(round_trip(VALUE_UINT, v, N) < 48);
    /* Few that have nothing in common. */
    uint64_t few[4] = {test_random(&seed), test_random(&seed), test_random(&seed), test_random(&seed)};
    for (int i = 0; i < N; i++)
        v[i] = few[test_random(&seed) % 4];
    assert_true(round_trip(VALUE_UINT, v, N) < N / 4 + 64);
    /* Nothing helps against noise; it must not get larger. */
    for (int i = 0; i < N; i++)
        v[i] = test_random(&seed);
    assert_true(round_trip(VALUE_UINT, v, N) <= N * 8 + 32);
}

/* What is cut short, longer, or has any bit flipped: an error or other numbers, never a crash. */
static void test_wrong_bytes(void **state)
{
    (void)state;
    uint64_t v[300], back[300], seed = 9;
    for (unsigned shape = 0; shape < SHAPES; shape++) {
        struct strbuf out = {0};
        uint64_t before = 0;
        for (uint32_t i = 0; i < 300; i++)
            v[i] = before = next_number((enum chunk_shape)shape, VALUE_FLOAT, i, before, 12345, &seed);
        number_put(codec, VALUE_FLOAT, v, 300, &out);
        for (size_t n = 0; n < out.n; n++)
            assert_int_equal(number_get(slice_of(out.p, n), VALUE_FLOAT, 300, back), E_PROTO);
        for (size_t i = 0; i < out.n * 8; i++) {
            out.p[i / 8] ^= (char)(1 << i % 8);
            int r = number_get(strbuf_slice(&out), VALUE_FLOAT, 300, back);
            assert_true(r == 0 || r == E_PROTO);
            (void)number_get(strbuf_slice(&out), VALUE_INT, 300, back); /* any result, */
            (void)number_get(strbuf_slice(&out), VALUE_BOOL, 1, back);  /* but no crash */
            out.p[i / 8] ^= (char)(1 << i % 8);
        }
        strbuf_add_char(&out, 0);
        assert_int_equal(number_get(strbuf_slice(&out), VALUE_FLOAT, 300, back), E_PROTO);
        strbuf_fini(&out);
    }
}

static void test_bool_is_0_or_1(void **state)
{
    (void)state;
    uint64_t v[2] = {0, 2}, back[2];
    struct strbuf out = {0};
    number_put(codec, VALUE_UINT, v, 2, &out);
    assert_int_equal(number_get(strbuf_slice(&out), VALUE_UINT, 2, back), 0);
    assert_int_equal(number_get(strbuf_slice(&out), VALUE_BOOL, 2, back), E_PROTO);
    strbuf_fini(&out);
}

/* Every width, alone and with spikes; nothing behind the bytes is read (ASan, valgrind). */
static void test_pfor_widths(void **state)
{
    (void)state;
    uint64_t v[300], back[300], seed = 21;
    for (unsigned width = 0; width <= 64; width++)
        for (unsigned spikes = 0; spikes < 4; spikes++)
            for (uint32_t n = 1; n <= 300; n += n < 8 ? 1 : 61) {
                for (uint32_t i = 0; i < n; i++)
                    v[i] = width ? test_random(&seed) >> (64 - width) : 0;
                for (unsigned k = 0; k < spikes; k++)
                    v[test_random(&seed) % n] = test_random(&seed);
                struct strbuf out = {0};
                pfor_write(&out, v, n);
                char *exact = malloc(out.n);
                memcpy(exact, out.p, out.n);
                struct cursor c = cursor_of(slice_of(exact, out.n));
                pfor_read(&c, back, n);
                assert_false(c.bad);
                assert_int_equal(cursor_left(&c), 0);
                assert_memory_equal(v, back, n * sizeof v[0]);
                free(exact);
                strbuf_fini(&out);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shape), cmocka_unit_test(test_odd_floats),
        cmocka_unit_test(test_one_nan),     cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_wrong_bytes), cmocka_unit_test(test_bool_is_0_or_1),
        cmocka_unit_test(test_pfor_widths),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
