/* SPDX-License-Identifier: Apache-2.0 */
#include "actuator/rotate_copy.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/mem.h"

#include <errno.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum {
    BLOCK = 64 << 10,
    GZIP_WINDOW = 15 + 16, /* the largest window, with gzip's head and tail */
    ZSTD_LEVEL = 3
};

/* What becomes of the bytes on their way. */
struct packer {
    enum copy_form form;
    int out;
    z_stream gzip;
    ZSTD_CCtx *zstd;
    unsigned char in_block[BLOCK], out_block[BLOCK];
};

static int write_all(int fd, const unsigned char *p, size_t n)
{
    while (n) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        p += done;
        n -= (size_t)done;
    }
    return 0;
}

static int packer_open(int out, enum copy_form form, struct packer **result)
{
    struct packer *p = mem_try_alloc(sizeof *p);
    if (!p)
        return -ENOMEM;
    p->form = form;
    p->out = out;
    bool is_good = true;
    if (form == COPY_GZIP)
        is_good = deflateInit2(&p->gzip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
                               Z_DEFAULT_STRATEGY) == Z_OK;
    if (form == COPY_ZSTD) {
        p->zstd = ZSTD_createCCtx();
        is_good = p->zstd &&
                  !ZSTD_isError(ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL)) &&
                  !ZSTD_isError(ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_checksumFlag, 1));
    }
    if (!is_good) {
        ZSTD_freeCCtx(p->zstd);
        mem_free(p);
        return -ENOMEM;
    }
    *result = p;
    return 0;
}

static void packer_close(struct packer *p)
{
    if (p->form == COPY_GZIP)
        (void)deflateEnd(&p->gzip); /* also of one that was not finished */
    ZSTD_freeCCtx(p->zstd);
    mem_free(p);
}

static int pack_gzip(struct packer *p, size_t n, bool is_last)
{
    int state = Z_OK;
    p->gzip.next_in = p->in_block;
    p->gzip.avail_in = (uInt)n;
    do {
        p->gzip.next_out = p->out_block;
        p->gzip.avail_out = BLOCK;
        state = deflate(&p->gzip, is_last ? Z_FINISH : Z_NO_FLUSH);
        if (state == Z_STREAM_ERROR)
            return -EIO;
        int r = write_all(p->out, p->out_block, BLOCK - p->gzip.avail_out);
        if (r < 0)
            return r;
    } while (p->gzip.avail_out == 0 || (is_last && state != Z_STREAM_END));
    return 0;
}

static int pack_zstd(struct packer *p, size_t n, bool is_last)
{
    ZSTD_inBuffer in = {p->in_block, n, 0};
    size_t left;
    do {
        ZSTD_outBuffer out = {p->out_block, BLOCK, 0};
        left = ZSTD_compressStream2(p->zstd, &out, &in, is_last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left))
            return -EIO;
        int r = write_all(p->out, p->out_block, out.pos);
        if (r < 0)
            return r;
    } while (is_last ? left != 0 : in.pos < in.size);
    return 0;
}

/* The n bytes in in_block; is_last ends what was begun. */
static int pack(struct packer *p, size_t n, bool is_last)
{
    switch (p->form) {
    case COPY_GZIP:
        return pack_gzip(p, n, is_last);
    case COPY_ZSTD:
        return pack_zstd(p, n, is_last);
    default:
        return write_all(p->out, p->in_block, n);
    }
}

static int may_go_on(const struct copy_limits *l)
{
    if (clock_mono_ns() >= l->env->deadline_ns)
        return -ETIMEDOUT;
    return l->env->is_cancelled && l->env->is_cancelled(l->env->arg) ? -ECANCELED : 0;
}

static int check_room(int out, const struct copy_limits *l)
{
    struct statvfs s;
    if (l->min_free == 0)
        return 0;
    if (fstatvfs(out, &s) < 0)
        return -errno;
    return (uint64_t)s.f_bavail * s.f_frsize < l->min_free + BLOCK ? -ENOSPC : 0;
}

static ssize_t read_at(int fd, unsigned char *to, size_t n, uint64_t at)
{
    ssize_t got;
    do
        got = pread(fd, to, n, (off_t)at);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

int copy_append(int in, int out, enum copy_form form, const struct copy_limits *limits, struct copied *done)
{
    struct packer *p = NULL;
    struct copied now = *done;
    ssize_t n = 1;
    int r = packer_open(out, form, &p);
    if (r < 0)
        return r;
    while (r == 0 && n > 0) {
        r = may_go_on(limits);
        if (r == 0)
            r = check_room(out, limits);
        n = r == 0 ? read_at(in, p->in_block, BLOCK, now.bytes) : 0;
        if (n < 0)
            r = (int)n;
        if (r == 0)
            r = pack(p, (size_t)n, n == 0);
        now.crc = crc32c(now.crc, slice_of((const char *)p->in_block, n > 0 ? (size_t)n : 0));
        now.bytes += n > 0 ? (uint64_t)n : 0;
    }
    packer_close(p);
    if (r == 0)
        *done = now;
    return r;
}

int copy_checksum(int in, uint64_t n, const struct copy_limits *limits, uint32_t *crc)
{
    unsigned char *block = mem_try_alloc(BLOCK);
    uint32_t sum = 0;
    int r = block ? 0 : -ENOMEM;
    for (uint64_t at = 0; at < n && r == 0;) {
        size_t want = n - at < BLOCK ? (size_t)(n - at) : BLOCK;
        ssize_t got = read_at(in, block, want, at);
        r = got < 0 ? (int)got : got == 0 ? -ENODATA : may_go_on(limits);
        sum = crc32c(sum, slice_of((const char *)block, got > 0 ? (size_t)got : 0));
        at += got > 0 ? (uint64_t)got : 0;
    }
    mem_free(block);
    if (r == 0)
        *crc = sum;
    return r;
}

int copy_is_same(int a, int b)
{
    unsigned char *blocks = mem_try_alloc(2 * BLOCK);
    ssize_t n = 1;
    int r = blocks ? 1 : -ENOMEM;
    for (uint64_t at = 0; r == 1 && n > 0; at += (uint64_t)n) {
        /* Plain files: a short read is the end, and the next one says so. */
        n = read_at(a, blocks, BLOCK, at);
        ssize_t m = n < 0 ? 0 : read_at(b, blocks + BLOCK, BLOCK, at);
        r = n < 0   ? (int)n
            : m < 0 ? (int)m
                    : n == m && (n == 0 || memcmp(blocks, blocks + BLOCK, (size_t)n) == 0);
        n = n < 0 ? 0 : n;
    }
    mem_free(blocks);
    return r;
}
