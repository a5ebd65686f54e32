/* SPDX-License-Identifier: Apache-2.0 */
/* strbuf.h - an owned, growing run of bytes, always NUL-terminated. All text is built in one.
 *
 * Running out of memory is remembered, not returned by every call: appends after it do nothing, and
 * strbuf_failed() tells at the end. A zeroed struct is an empty buffer. Not thread-safe. */
#ifndef GRIDLINE_BASE_STRBUF_H
#define GRIDLINE_BASE_STRBUF_H

#include "base/slice.h"

#include <stdint.h>

struct strbuf {
    char *p; /* NULL until the first append */
    size_t n;
    size_t cap; /* bytes allocated, the NUL included */
    bool failed;
};

void strbuf_fini(struct strbuf *s); /* leaves an empty buffer */
/* Forgets the content and an earlier failure; keeps the memory. */
void strbuf_reset(struct strbuf *s);
static inline bool strbuf_failed(const struct strbuf *s)
{
    return s->failed;
}
static inline struct slice strbuf_slice(const struct strbuf *s)
{
    return (struct slice){s->n ? s->p : "", s->n};
}

/* Room for n more bytes (and the NUL) at s->p + s->n, or NULL. The caller writes there and then adds to s->n
 * with strbuf_advance. */
char *strbuf_grow(struct strbuf *s, size_t n);
static inline char *strbuf_room(struct strbuf *s, size_t n)
{
    return (!s->failed && s->cap - s->n > n) ? s->p + s->n : strbuf_grow(s, n);
}
static inline void strbuf_advance(struct strbuf *s, size_t n)
{
    s->n += n;
    s->p[s->n] = '\0';
}

static inline void strbuf_add(struct strbuf *s, const void *p, size_t n)
{
    char *to = strbuf_room(s, n);
    if (!to || n == 0)
        return;
    memcpy(to, p, n);
    strbuf_advance(s, n);
}
static inline void strbuf_add_slice(struct strbuf *s, struct slice a)
{
    strbuf_add(s, a.p, a.n);
}
static inline void strbuf_add_str(struct strbuf *s, const char *z)
{
    strbuf_add(s, z, strlen(z));
}
static inline void strbuf_add_char(struct strbuf *s, char c)
{
    strbuf_add(s, &c, 1);
}
void strbuf_printf(struct strbuf *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drops the first n bytes; the rest moves to the front. */
void strbuf_consume(struct strbuf *s, size_t n);

/* Little-endian fixed and LEB128 variable integers, for the binary formats. */
static inline void strbuf_add_u16(struct strbuf *s, uint16_t v)
{
    strbuf_add(s, (unsigned char[]){(unsigned char)v, (unsigned char)(v >> 8)}, 2);
}
void strbuf_add_u32(struct strbuf *s, uint32_t v);
void strbuf_add_u64(struct strbuf *s, uint64_t v);
void strbuf_add_varint(struct strbuf *s, uint64_t v);
void strbuf_add_text(struct strbuf *s, struct slice text); /* varint length, then the bytes */

#endif
