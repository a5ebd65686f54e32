/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/compress.h"

#include "base/mem.h"

#include <errno.h>
#include <limits.h>
#include <zlib.h>
#include <zstd.h>

enum {
    ZSTD_LEVEL = 3,
    GZIP_LEVEL = 1, /* the fastest: it is on the loop */
    GZIP_WINDOW = 15 + 16,
    GZIP_MEMORY = 8
};

struct compressor {
    const char *suffix;
    /* Begins a frame: how many bytes it may need. */
    size_t (*bound)(struct compressor *c, size_t n);
    /* At `to` is room for `max` bytes: how many it wrote, or -ENOMEM, -EIO. */
    int64_t (*frame)(struct compressor *c, struct slice in, char *to, size_t max);
    ZSTD_CCtx *zstd; /* NULL = gzip */
    z_stream gzip;
    bool has_gzip;
};

/* ---------------------------------------------------------------- zstd */

static size_t zstd_bound(struct compressor *c, size_t n)
{
    (void)c; /* it depends on n alone */
    return ZSTD_compressBound(n);
}

static int64_t zstd_frame(struct compressor *c, struct slice in, char *to, size_t max)
{
    size_t n = ZSTD_compress2(c->zstd, to, max, in.p, in.n);
    if (!ZSTD_isError(n))
        return (int64_t)n;
    (void)ZSTD_CCtx_reset(c->zstd, ZSTD_reset_session_only); /* can't fail */
    return -ENOMEM; /* with room for its bound it has no other reason */
}

static int start_zstd(struct compressor *c)
{
    c->suffix = ".zst";
    c->frame = zstd_frame;
    c->bound = zstd_bound;
    c->zstd = ZSTD_createCCtx();
    if (!c->zstd)
        return -ENOMEM;
    bool is_good = !ZSTD_isError(ZSTD_CCtx_setParameter(c->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL)) &&
                   !ZSTD_isError(ZSTD_CCtx_setParameter(c->zstd, ZSTD_c_checksumFlag, 1));
    return is_good ? 0 : -EIO;
}

/* ---------------------------------------------------------------- gzip */

/* Reset first: behind the end of a member zlib forgets gzip's head and trailer here (1.2.13). */
static size_t gzip_bound(struct compressor *c, size_t n)
{
    (void)deflateReset(&c->gzip); /* its state is good: it is ours */
    return deflateBound(&c->gzip, n);
}

static int64_t gzip_frame(struct compressor *c, struct slice in, char *to, size_t max)
{
    z_stream *z = &c->gzip;
    if (in.n > UINT_MAX || max > UINT_MAX)
        return -EIO;
    z->next_in = (Bytef *)(uintptr_t)in.p; /* zlib's type is not const, it only reads */
    z->avail_in = (uInt)in.n;
    z->next_out = (Bytef *)to;
    z->avail_out = (uInt)max;
    return deflate(z, Z_FINISH) == Z_STREAM_END ? (int64_t)(max - z->avail_out) : -EIO;
}

static int start_gzip(struct compressor *c)
{
    c->suffix = ".gz";
    c->frame = gzip_frame;
    c->bound = gzip_bound;
    int r = deflateInit2(&c->gzip, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY, Z_DEFAULT_STRATEGY);
    c->has_gzip = r == Z_OK;
    return r == Z_OK ? 0 : r == Z_MEM_ERROR ? -ENOMEM : -EIO;
}

/* ---------------------------------------------------------------- any */

int compressor_create(const char *name, struct compressor **out)
{
    if (strcmp(name, "none") == 0) {
        *out = NULL;
        return 0;
    }
    bool is_zstd = strcmp(name, "zstd") == 0;
    if (!is_zstd && strcmp(name, "gzip") != 0)
        return -EINVAL;
    struct compressor *c = mem_try_alloc(sizeof *c);
    if (!c)
        return -ENOMEM;
    int r = is_zstd ? start_zstd(c) : start_gzip(c);
    if (r < 0) {
        compressor_destroy(c);
        return r;
    }
    *out = c;
    return 0;
}

void compressor_destroy(struct compressor *c)
{
    if (!c)
        return;
    (void)ZSTD_freeCCtx(c->zstd); /* NULL is fine */
    if (c->has_gzip)
        (void)deflateEnd(&c->gzip); /* says only whether a member was under way */
    mem_free(c);
}

const char *compressor_suffix(const struct compressor *c)
{
    return c ? c->suffix : "";
}

int compressor_frame(struct compressor *c, struct slice in, struct strbuf *out)
{
    size_t before = out->n, max = c ? c->bound(c, in.n) : in.n;
    char *to = strbuf_room(out, max);
    if (!to) { /* what was there is whole */
        out->failed = false;
        return -ENOMEM;
    }
    int64_t n = (int64_t)in.n;
    if (c)
        n = c->frame(c, in, to, max);
    else
        memcpy(to, in.p, in.n);
    if (n < 0) {
        out->p[before] = '\0';
        return (int)n;
    }
    strbuf_advance(out, (size_t)n);
    return 0;
}
