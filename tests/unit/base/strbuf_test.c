/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/arena.h"
#include "base/cursor.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/strbuf.h"

static void test_append(void **state)
{
    (void)state;
    struct strbuf s = {0};
    assert_slice(strbuf_slice(&s), "");
    for (int i = 0; i < 1000; i++)
        strbuf_printf(&s, "%d,", i % 10);
    assert_int_equal(s.n, 2000);
    assert_int_equal(s.p[2000], '\0');
    strbuf_consume(&s, 1996);
    assert_slice(strbuf_slice(&s), "8,9,");
    strbuf_fini(&s);
}

static void test_failure_is_sticky(void **state)
{
    (void)state;
    struct strbuf s = {0};
    mem_fail_after(1);
    strbuf_add_str(&s, "abc");
    assert_true(strbuf_failed(&s));
    strbuf_add_str(&s, "def");
    assert_slice(strbuf_slice(&s), "");
    strbuf_reset(&s);
    strbuf_add_str(&s, "ghi");
    assert_slice(strbuf_slice(&s), "ghi");
    strbuf_fini(&s);
}

static void test_integers(void **state)
{
    (void)state;
    static const uint64_t values[] = {0, 1, 127, 128, 300, 65535, 1ull << 32, INT64_MAX, UINT64_MAX};
    struct strbuf s = {0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        strbuf_add_varint(&s, values[i]);
        strbuf_add_u64(&s, values[i]);
        strbuf_add_u32(&s, (uint32_t)values[i]);
        strbuf_add_u16(&s, (uint16_t)values[i]);
    }
    struct cursor c = cursor_of(strbuf_slice(&s));
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        assert_true(cursor_varint(&c) == values[i]);
        assert_true(cursor_u64(&c) == values[i]);
        assert_int_equal(cursor_u32(&c), (uint32_t)values[i]);
        assert_int_equal(cursor_u16(&c), (uint16_t)values[i]);
        assert_true(unzigzag(zigzag((int64_t)values[i])) == (int64_t)values[i]);
    }
    assert_false(c.bad);
    assert_int_equal(cursor_left(&c), 0);
    assert_int_equal(cursor_u8(&c), 0);
    assert_true(c.bad);
    strbuf_fini(&s);
}

static void test_cursor_refuses(void **state)
{
    (void)state;
    struct cursor c = cursor_of(SLICE_LIT("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02")); /* past 64 bits */
    (void)cursor_varint(&c);
    assert_true(c.bad);
    c = cursor_of(SLICE_LIT("\x80\x80"));
    (void)cursor_varint(&c);
    assert_true(c.bad);
    c = cursor_of(SLICE_LIT("abc"));
    assert_int_equal(cursor_bytes(&c, UINT64_MAX).n, 0);
    assert_true(c.bad);
}

static void test_crc(void **state)
{
    (void)state;
    assert_int_equal(crc32c(0, SLICE_LIT("123456789")), 0xe3069283u);
    assert_int_equal(crc32c(crc32c(0, SLICE_LIT("1234")), SLICE_LIT("56789")), 0xe3069283u);
}

/* Long input takes another way than short pieces do. */
static void test_crc_of_much(void **state)
{
    (void)state;
    static char bytes[20011];
    uint64_t seed = 7;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)test_random(&seed);
    for (size_t n = 3000; n < sizeof bytes; n += 61) {
        uint32_t pieces = 0x1234;
        for (size_t at = 1; at < n; at += 61)
            pieces = crc32c(pieces, slice_of(bytes + at, n - at < 61 ? n - at : 61));
        assert_int_equal(crc32c(0x1234, slice_of(bytes + 1, n - 1)), pieces);
    }
}

static void test_arena(void **state)
{
    (void)state;
    struct arena a = {0};
    uint64_t seed = 1;
    for (int round = 0; round < 3; round++) {
        char *kept[200];
        size_t sizes[200];
        for (int i = 0; i < 200; i++) {
            sizes[i] = test_random(&seed) % (i % 50 == 0 ? 3000000 : 300);
            kept[i] = arena_alloc(&a, sizes[i]);
            assert_non_null(kept[i]);
            assert_int_equal((uintptr_t)kept[i] % 8, 0);
            memset(kept[i], i, sizes[i]);
        }
        for (int i = 0; i < 200; i++)
            for (size_t k = 0; k < sizes[i]; k += 97)
                assert_int_equal((unsigned char)kept[i][k], i);
        arena_reset(&a);
    }
    assert_null(arena_alloc(&a, SIZE_MAX - 3));
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append),   cmocka_unit_test(test_failure_is_sticky),
        cmocka_unit_test(test_integers), cmocka_unit_test(test_cursor_refuses),
        cmocka_unit_test(test_crc),      cmocka_unit_test(test_crc_of_much),
        cmocka_unit_test(test_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
