/* SPDX-License-Identifier: Apache-2.0 */
/* What was packed comes back, in one frame or many, read in pieces of any size; what is damaged or cut is
 * said, after what came before it. */
#include "unit/test.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "cmd/file.h"
#include "cmd/unpack.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { SIZE = 700000 };

static char *content(void)
{
    char *p = mem_alloc(SIZE);
    uint64_t seed = 5;
    for (size_t i = 0; i < SIZE; i++)
        p[i] = (char)('a' + test_random(&seed) % (i % 1000 < 500 ? 26 : 2));
    return p;
}

static void add_gzip(struct strbuf *out, const char *p, size_t n)
{
    z_stream z = {0};
    size_t max = n + 1000;
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (unsigned char *)(uintptr_t)p;
    z.avail_in = (unsigned)n;
    z.next_out = (unsigned char *)strbuf_room(out, max);
    z.avail_out = (unsigned)max;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    strbuf_advance(out, max - z.avail_out);
    (void)deflateEnd(&z);
}

static void add_zstd(struct strbuf *out, const char *p, size_t n)
{
    size_t max = ZSTD_compressBound(n), got = ZSTD_compress(strbuf_room(out, max), max, p, n, 3);
    assert_false(ZSTD_isError(got));
    strbuf_advance(out, got);
}

static void add_plain(struct strbuf *out, const char *p, size_t n)
{
    strbuf_add(out, p, n);
}

/* Reads bytes through a file; how many came, and the result of the last read in *r. */
static size_t unpack_all(struct slice bytes, size_t piece, char *to, size_t max, ssize_t *r)
{
    int fd = file_open_temp();
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, bytes), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    struct unpack *u = unpack_create(fd);
    size_t n = 0;
    while (n + piece <= max && (*r = unpack_read(u, to + n, piece)) > 0)
        n += (size_t)*r;
    if (*r == 0)
        assert_int_equal(unpack_bytes(u), bytes.n);
    if (*r == E_DAMAGE)
        assert_true(unpack_why(u)[0] != '\0');
    unpack_destroy(u);
    (void)close(fd);
    return n;
}

static void comes_back(void **state)
{
    (void)state;
    static void (*const packers[])(struct strbuf *, const char *, size_t) = {add_plain, add_gzip, add_zstd};
    static const size_t pieces[] = {1, 777, 65536, 1 << 20};
    char *p = content(), *to = mem_alloc(SIZE + (2 << 20));
    ssize_t r;
    for (size_t k = 0; k < 3; k++) {
        struct strbuf packed = {0};
        packers[k](&packed, p, SIZE / 3);
        packers[k](&packed, p + SIZE / 3, 0); /* a member that is empty */
        packers[k](&packed, p + SIZE / 3, SIZE - SIZE / 3);
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
            assert_int_equal(unpack_all(strbuf_slice(&packed), pieces[i], to, SIZE + (2 << 20), &r), SIZE);
            assert_int_equal(r, 0);
            assert_memory_equal(to, p, SIZE);
        }
        strbuf_fini(&packed);
    }
    mem_free(to);
    mem_free(p);
}

static void small_files(void **state)
{
    (void)state;
    char to[64];
    ssize_t r;
    assert_int_equal(unpack_all(SLICE_LIT(""), 16, to, sizeof to, &r), 0);
    assert_int_equal(r, 0);
    assert_int_equal(unpack_all(SLICE_LIT("\x1f\x8b"), 16, to, sizeof to, &r),
                     2); /* not long enough to be packed */
    assert_int_equal(unpack_all(SLICE_LIT("a\n"), 16, to, sizeof to, &r), 2);
    assert_memory_equal(to, "a\n", 2);
}

static void damage(void **state)
{
    (void)state;
    static void (*const packers[])(struct strbuf *, const char *, size_t) = {add_gzip, add_zstd};
    char *p = content(), *to = mem_alloc(SIZE + (2 << 20));
    ssize_t r;
    for (size_t k = 0; k < 2; k++) {
        struct strbuf packed = {0};
        packers[k](&packed, p, SIZE);
        size_t n = unpack_all(slice_of(packed.p, packed.n / 2), 4096, to, SIZE + (2 << 20), &r);
        assert_int_equal(r, E_DAMAGE);
        assert_true(n < SIZE);
        assert_memory_equal(to, p, n); /* what came is right */
        packers[k](&packed, p, 100);
        strbuf_add_str(&packed, "and something else");
        n = unpack_all(strbuf_slice(&packed), 4096, to, SIZE + (2 << 20), &r);
        assert_int_equal(r, E_DAMAGE);
        assert_int_equal(n, SIZE + 100);
        strbuf_fini(&packed);
    }
    mem_free(to);
    mem_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back),
        cmocka_unit_test(small_files),
        cmocka_unit_test(damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
