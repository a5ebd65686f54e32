/* SPDX-License-Identifier: Apache-2.0 */
/* Each frame is read back by the library, and a file of many by the tools (observer_file_test.c). */
#include "unit/test.h"

#include "base/mem.h"
#include "gateway/compress.h"

#include <errno.h>
#include <zlib.h>
#include <zstd.h>

static void fill(char *p, size_t n, bool is_random)
{
    uint64_t mixed = n;
    for (size_t i = 0; i < n; i++) {
        mixed = (mixed ^ (mixed >> 29)) * UINT64_C(0xbf58476d1ce4e5b9) + 1;
        p[i] = is_random ? (char)(mixed >> 56) : (char)('a' + i % 7);
    }
}

static size_t unpack(const char *name, struct slice frame, char *to, size_t max)
{
    if (strcmp(name, "zstd") == 0)
        return ZSTD_decompress(to, max, frame.p, frame.n);
    z_stream z = {.next_in = (Bytef *)(uintptr_t)frame.p,
                  .avail_in = (uInt)frame.n,
                  .next_out = (Bytef *)to,
                  .avail_out = (uInt)max};
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.avail_in, 0);
    assert_int_equal(inflateEnd(&z), Z_OK);
    return max - z.avail_out;
}

static void check(struct compressor *c, const char *name, size_t n, bool is_random)
{
    char *in = malloc(n + 1), *back = malloc(n + 1);
    struct strbuf out = {0};
    assert_true(in && back);
    fill(in, n, is_random);
    strbuf_add_str(&out, "before");
    assert_int_equal(compressor_frame(c, slice_of(in, n), &out), 0);
    assert_memory_equal(out.p, "before", 6);
    struct slice frame = slice_from(strbuf_slice(&out), 6);
    assert_int_equal(unpack(name, frame, back, n + 1), n);
    assert_memory_equal(in, back, n);
    strbuf_fini(&out);
    free(in);
    free(back);
}

/* Every small size, and some large ones, one behind the other with the same compressor. */
static void test_sizes(void **unused)
{
    static const char *const names[] = {"zstd", "gzip"};
    static const size_t large[] = {65535, 65536, 131072, 131073, 5000000};
    (void)unused;
    for (size_t k = 0; k < 2; k++) {
        struct compressor *c;
        assert_int_equal(compressor_create(names[k], &c), 0);
        assert_string_equal(compressor_suffix(c), k == 0 ? ".zst" : ".gz");
        for (size_t n = 1; n < 1000; n++)
            check(c, names[k], n, n % 2);
        for (size_t i = 0; i < 10; i++)
            check(c, names[k], large[i / 2], i % 2);
        compressor_destroy(c);
    }
}

static void test_none(void **unused)
{
    struct compressor *c = (void *)1;
    struct strbuf out = {0};
    (void)unused;
    assert_int_equal(compressor_create("none", &c), 0);
    assert_null(c);
    assert_string_equal(compressor_suffix(c), "");
    assert_int_equal(compressor_frame(c, SLICE_LIT("abc"), &out), 0);
    assert_slice(strbuf_slice(&out), "abc");
    strbuf_fini(&out);
    assert_int_equal(compressor_create("lz4", &c), -EINVAL);
    compressor_destroy(NULL);
}

static void test_no_memory(void **unused)
{
    struct compressor *c = NULL;
    struct strbuf out = {0};
    (void)unused;
    mem_fail_after(1);
    assert_int_equal(compressor_create("zstd", &c), -ENOMEM);
    assert_null(c);
    assert_int_equal(compressor_create("zstd", &c), 0);
    strbuf_add_str(&out, "before");
    mem_fail_after(1);
    char in[10000];
    fill(in, sizeof in, true);
    assert_int_equal(compressor_frame(c, slice_of(in, sizeof in), &out), -ENOMEM);
    mem_fail_after(0);
    assert_slice(strbuf_slice(&out), "before");
    assert_int_equal(compressor_frame(c, slice_of(in, sizeof in), &out), 0);
    assert_true(out.n > 6 && !strbuf_failed(&out));
    strbuf_fini(&out);
    compressor_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
