/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/pfor.h"

enum { WIDER = 0x80, HEAD_MAX = 3, WIDTH_MAX = 56, WIDTH_ALL = 64 };
enum { SLACK = 8 }; /* bytes that packing writes and unpacking reads behind the last one it needs */

/* A width that is packed: a number of up to 56 bits and where it begins in a byte fit 64. */
static unsigned allowed(unsigned width)
{
    return width > WIDTH_MAX ? WIDTH_ALL : width;
}

static unsigned width_of(uint64_t v)
{
    return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

static size_t bytes_of(unsigned width, uint32_t n)
{
    return ((size_t)width * n + 7) / 8;
}

static uint64_t mask_of(unsigned width)
{
    return width >= 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;
}

/* ---------------------------------------------------------------- writing */

static void store(unsigned char *to, uint64_t v)
{
    v = htole64(v);
    memcpy(to, &v, sizeof v);
}

/* Packs the low `width` bits of each, and returns where the next byte goes; SLACK bytes behind are written.
 */
static unsigned char *pack(unsigned char *to, const uint64_t *v, uint32_t n, unsigned width)
{
    uint64_t gathered = 0, mask = mask_of(width);
    unsigned have = 0;
    if (width == 0)
        return to;
    for (uint32_t i = 0; i < n && width == WIDTH_ALL; i++)
        store(to + (size_t)i * 8, v[i]);
    if (width == WIDTH_ALL)
        return to + (size_t)n * 8;
    for (uint32_t i = 0; i < n; i++) {
        gathered |= (v[i] & mask) << have;
        have += width;
        store(to, gathered);
        to += have >> 3;
        gathered >>= have & ~7u;
        have &= 7;
    }
    return to + (have > 0);
}

/* The width that makes the block smallest; *widest: of its values. */
static unsigned best_width(const uint64_t *v, uint32_t n, unsigned *widest)
{
    uint32_t counts[65] = {0};
    for (uint32_t i = 0; i < n; i++)
        counts[width_of(v[i])]++;
    unsigned top = 64;
    while (top > 0 && !counts[top])
        top--;
    unsigned best = allowed(top);
    size_t least = bytes_of(best, n);
    uint32_t wider = 0;
    for (unsigned w = top; w-- > 0;) {
        wider += counts[w + 1];
        size_t size = 2 + bytes_of(w, n) + wider + bytes_of(allowed(top - w), wider);
        if (w <= WIDTH_MAX && size < least) {
            best = w;
            least = size;
        }
    }
    *widest = top;
    return best;
}

static unsigned char *write_block(unsigned char *to, const uint64_t *v, uint32_t n)
{
    unsigned widest, width = best_width(v, n, &widest);
    *to++ = (unsigned char)(width | (widest > width ? WIDER : 0));
    to = pack(to, v, n, width);
    if (widest <= width)
        return to;
    uint64_t high[PFOR_BLOCK];
    unsigned char places[PFOR_BLOCK];
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i++) {
        places[k] = (unsigned char)i;
        high[k] = v[i] >> width;
        k += high[k] != 0;
    }
    *to++ = (unsigned char)(k - 1);
    *to++ = (unsigned char)allowed(widest - width);
    memcpy(to, places, k);
    return pack(to + k, high, k, allowed(widest - width));
}

void pfor_write(struct strbuf *out, const uint64_t *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += PFOR_BLOCK) {
        uint32_t m = n - i < PFOR_BLOCK ? n - i : PFOR_BLOCK;
        char *to = strbuf_room(out, HEAD_MAX + m * 8 + SLACK); /* never more than as they are */
        if (!to)
            return;
        strbuf_advance(out, (size_t)((char *)write_block((unsigned char *)to, v + i, m) - to));
    }
}

/* ---------------------------------------------------------------- reading */

static uint64_t load(const unsigned char *from)
{
    uint64_t v;
    memcpy(&v, from, sizeof v);
    return le64toh(v);
}

/* SLACK bytes behind the last one are read. */
static void unpack(const unsigned char *from, uint64_t *v, uint32_t n, unsigned width)
{
    uint64_t mask = mask_of(width);
    if (width == WIDTH_ALL) {
        for (uint32_t i = 0; i < n; i++)
            v[i] = load(from + (size_t)i * 8);
        return;
    }
    for (uint32_t i = 0, bit = 0; i < n; i++, bit += width)
        v[i] = load(from + (bit >> 3)) >> (bit & 7) & mask;
}

/* n numbers of `width` bits from c, which may end right behind them. */
static void read_packed(struct cursor *c, uint64_t *v, uint32_t n, unsigned width)
{
    size_t size = bytes_of(width, n);
    if (width == 0) {
        memset(v, 0, n * sizeof *v);
        return;
    }
    if (size > cursor_left(c) || (width > WIDTH_MAX && width != WIDTH_ALL)) {
        (void)cursor_fail(c); /* c->bad says it */
        return;
    }
    unsigned char copy[PFOR_BLOCK * 8 + SLACK];
    const unsigned char *from = c->p;
    if (cursor_left(c) < size + SLACK) {
        memcpy(copy, c->p, size);
        memset(copy + size, 0, SLACK);
        from = copy;
    }
    unpack(from, v, n, width);
    c->p += size;
}

static void read_wider(struct cursor *c, uint64_t *v, uint32_t n, unsigned width)
{
    uint64_t high[PFOR_BLOCK];
    uint32_t k = cursor_u8(c) + 1u;
    unsigned high_width = cursor_u8(c);
    struct slice places = cursor_bytes(c, k);
    if (c->bad || k > n || width >= 64 || high_width == 0) {
        (void)cursor_fail(c);
        return;
    }
    read_packed(c, high, k, high_width);
    for (uint32_t i = 0; i < k && !c->bad; i++) {
        unsigned char at = (unsigned char)places.p[i];
        if (at >= n)
            (void)cursor_fail(c);
        else
            v[at] |= high[i] << width;
    }
}

void pfor_read(struct cursor *c, uint64_t *v, uint32_t n)
{
    for (uint32_t i = 0; i < n && !c->bad; i += PFOR_BLOCK) {
        uint32_t m = n - i < PFOR_BLOCK ? n - i : PFOR_BLOCK;
        uint8_t head = cursor_u8(c);
        unsigned width = head & (WIDER - 1);
        if (c->bad)
            return;
        read_packed(c, v + i, m, width);
        if (head & WIDER && !c->bad)
            read_wider(c, v + i, m, width);
    }
}
