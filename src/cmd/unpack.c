/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/unpack.h"

#include "base/err.h"
#include "base/mem.h"
#include "cmd/file.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum { PACKED = 128 << 10, MAGIC = 4, GZIP_WINDOW = 15 + 16 };

enum form { FORM_UNKNOWN, FORM_PLAIN, FORM_GZIP, FORM_ZSTD };

struct unpack {
    int fd;
    enum form form;
    bool at_end;     /* of the descriptor */
    bool is_between; /* no member or frame has begun that has not ended */
    const char *why; /* after E_DAMAGE */
    size_t from, to; /* packed[from, to) is not used yet */
    uint64_t bytes;
    ZSTD_DStream *zstd;
    z_stream gzip;
    char packed[PACKED];
};

struct unpack *unpack_create(int fd)
{
    struct unpack *u = mem_try_alloc(sizeof *u);
    if (!u)
        return NULL;
    u->fd = fd;
    u->is_between = true;
    u->why = "";
    return u;
}

void unpack_destroy(struct unpack *u)
{
    if (!u)
        return;
    if (u->form == FORM_GZIP)
        (void)inflateEnd(&u->gzip);  /* an error says only that it was in the middle */
    (void)ZSTD_freeDStream(u->zstd); /* NULL is fine; never fails */
    mem_free(u);
}

/* More behind what is left; 0 or an error. */
static int fill(struct unpack *u)
{
    if (u->from) {
        memmove(u->packed, u->packed + u->from, u->to - u->from);
        u->to -= u->from;
        u->from = 0;
    }
    ssize_t n = file_read(u->fd, u->packed + u->to, PACKED - u->to);
    if (n < 0)
        return (int)n;
    u->at_end = n == 0;
    u->to += (size_t)n;
    u->bytes += (uint64_t)n;
    return 0;
}

static int look(struct unpack *u)
{
    static const unsigned char gzip[] = {0x1f, 0x8b, 8}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
    while (!u->at_end && u->to - u->from < MAGIC) {
        int r = fill(u);
        if (r < 0)
            return r;
    }
    u->form = FORM_PLAIN;
    if (u->to >= sizeof gzip && memcmp(u->packed, gzip, sizeof gzip) == 0) {
        if (inflateInit2(&u->gzip, GZIP_WINDOW) != Z_OK)
            return -ENOMEM;
        u->form = FORM_GZIP;
    } else if (u->to >= sizeof zstd && memcmp(u->packed, zstd, sizeof zstd) == 0) {
        u->zstd = ZSTD_createDStream();
        if (!u->zstd)
            return -ENOMEM;
        u->form = FORM_ZSTD;
    }
    return 0;
}

static ssize_t read_plain(struct unpack *u, char *to, size_t n)
{
    size_t left = u->to - u->from;
    if (left == 0 && !u->at_end) {
        ssize_t got = file_read(u->fd, to, n);
        u->bytes += got > 0 ? (uint64_t)got : 0;
        return got;
    }
    n = n < left ? n : left;
    memcpy(to, u->packed + u->from, n);
    u->from += n;
    return (ssize_t)n;
}

static int damage(struct unpack *u, const char *why)
{
    u->why = why;
    return E_DAMAGE;
}

/* Unpacks from what is there: how many bytes, perhaps none. */
static ssize_t step_gzip(struct unpack *u, char *to, size_t n)
{
    z_stream *z = &u->gzip;
    if (u->is_between && inflateReset(z) != Z_OK)
        return -EINVAL;
    z->next_in = (unsigned char *)u->packed + u->from;
    z->avail_in = (unsigned)(u->to - u->from);
    z->next_out = (unsigned char *)to;
    z->avail_out = (unsigned)n;
    int r = inflate(z, Z_NO_FLUSH);
    u->from = u->to - z->avail_in;
    u->is_between = r == Z_STREAM_END;
    size_t got = n - z->avail_out;
    if (r == Z_MEM_ERROR)
        return -ENOMEM;
    if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR && got == 0)
        return damage(u, "the gzip data is damaged");
    return (ssize_t)got;
}

static ssize_t step_zstd(struct unpack *u, char *to, size_t n)
{
    ZSTD_inBuffer in = {u->packed, u->to, u->from};
    ZSTD_outBuffer out = {to, n, 0};
    size_t r = ZSTD_decompressStream(u->zstd, &out, &in);
    u->from = in.pos;
    if (ZSTD_isError(r))
        return ZSTD_getErrorCode(r) == ZSTD_error_memory_allocation ? -ENOMEM
                                                                    : damage(u, "the zstd data is damaged");
    u->is_between = r == 0;
    return (ssize_t)out.pos;
}

ssize_t unpack_read(struct unpack *u, char *to, size_t n)
{
    int r = u->form == FORM_UNKNOWN ? look(u) : 0;
    if (r < 0)
        return r;
    if (u->form == FORM_PLAIN)
        return read_plain(u, to, n);
    n = n < 1 << 30 ? n : 1 << 30; /* zlib counts in unsigned */
    for (;;) {
        bool has_input = u->from < u->to;
        if (has_input || !u->is_between) { /* the library may hold bytes that it had no room for */
            ssize_t got = u->form == FORM_GZIP ? step_gzip(u, to, n) : step_zstd(u, to, n);
            if (got != 0)
                return got;
            if (u->from < u->to)
                continue;
        }
        if (u->at_end)
            return u->is_between ? 0 : damage(u, "the packed data ends in the middle");
        r = fill(u);
        if (r < 0)
            return r;
    }
}

const char *unpack_why(const struct unpack *u)
{
    return u->why;
}

uint64_t unpack_bytes(const struct unpack *u)
{
    return u->bytes;
}
