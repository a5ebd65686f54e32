/* SPDX-License-Identifier: Apache-2.0 */
/* cursor.h - the one way to read binary input. Bounded, with a sticky error: after the first read past the
 * end or malformed varint every read gives 0 and cursor.bad stays set. Little-endian.
 *
 * Rule for loops over input: each round reads at least one byte, or is bounded by a count checked before. */
#ifndef GRIDLINE_BASE_CURSOR_H
#define GRIDLINE_BASE_CURSOR_H

#include "base/slice.h"

#include <endian.h>
#include <stdint.h>
#include <string.h>

struct cursor {
    const unsigned char *p;
    const unsigned char *end;
    bool bad;
};

static inline struct cursor cursor_of(struct slice s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    return (struct cursor){p, p + s.n, false};
}

static inline size_t cursor_left(const struct cursor *c)
{
    return (size_t)(c->end - c->p);
}

static inline bool cursor_fail(struct cursor *c)
{
    c->bad = true;
    c->p = c->end;
    return false;
}

static inline uint64_t cursor_fixed(struct cursor *c, unsigned n)
{
    if (cursor_left(c) < n)
        return (uint64_t)cursor_fail(c);
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++)
        v |= (uint64_t)c->p[i] << (8 * i);
    c->p += n;
    return v;
}

/* These are written out: gcc makes a loop over bytes of cursor_fixed, which costs more than all the rest of
 * reading a packet's head. */
static inline uint8_t cursor_u8(struct cursor *c)
{
    return c->p < c->end ? *c->p++ : (uint8_t)cursor_fail(c);
}
static inline uint16_t cursor_u16(struct cursor *c)
{
    return (uint16_t)cursor_fixed(c, 2);
}
static inline uint32_t cursor_u32(struct cursor *c)
{
    uint32_t v;
    if (cursor_left(c) < sizeof v)
        return (uint32_t)cursor_fail(c);
    memcpy(&v, c->p, sizeof v);
    c->p += sizeof v;
    return le32toh(v);
}
static inline uint64_t cursor_u64(struct cursor *c)
{
    uint64_t v;
    if (cursor_left(c) < sizeof v)
        return (uint64_t)cursor_fail(c);
    memcpy(&v, c->p, sizeof v);
    c->p += sizeof v;
    return le64toh(v);
}

/* LEB128, at most 10 bytes; a longer or overflowing one is an error. */
static inline uint64_t cursor_varint(struct cursor *c)
{
    if (c->p < c->end && *c->p < 0x80)
        return *c->p++;
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && c->p < c->end; shift += 7) {
        uint64_t b = *c->p++;
        if (shift == 63 && b > 1)
            break;
        v |= (b & 0x7f) << shift;
        if (b < 0x80)
            return v;
    }
    return (uint64_t)cursor_fail(c);
}

static inline uint64_t zigzag(int64_t v)
{
    return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}
static inline int64_t unzigzag(uint64_t v)
{
    return (int64_t)((v >> 1) ^ (~(v & 1) + 1));
}

/* The next n bytes, borrowed. Empty on error. */
static inline struct slice cursor_bytes(struct cursor *c, uint64_t n)
{
    if (n > cursor_left(c)) {
        (void)cursor_fail(c); /* c->bad says it */
        return (struct slice){"", 0};
    }
    struct slice s = {(const char *)c->p, (size_t)n};
    c->p += n;
    return s;
}

/* A varint length and that many bytes, borrowed; strbuf_add_text's other end. */
static inline struct slice cursor_text(struct cursor *c)
{
    return cursor_bytes(c, cursor_varint(c));
}

#endif
