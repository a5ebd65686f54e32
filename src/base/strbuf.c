/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strbuf.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>

void strbuf_fini(struct strbuf *s)
{
    mem_free(s->p);
    *s = (struct strbuf){0};
}

void strbuf_reset(struct strbuf *s)
{
    s->n = 0;
    s->failed = false;
    if (s->p)
        s->p[0] = '\0';
}

char *strbuf_grow(struct strbuf *s, size_t n)
{
    if (s->failed)
        return NULL;
    if (n > SIZE_MAX / 4 || s->n > SIZE_MAX / 4) {
        s->failed = true;
        return NULL;
    }
    size_t cap = s->cap ? s->cap : 64;
    while (cap <= s->n + n)
        cap *= 2;
    char *p = mem_try_resize(s->p, cap);
    if (!p) {
        s->failed = true;
        return NULL;
    }
    s->p = p;
    s->cap = cap;
    s->p[s->n] = '\0';
    return s->p + s->n;
}

void strbuf_printf(struct strbuf *s, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    char *to = n > 0 ? strbuf_room(s, (size_t)n) : NULL;
    if (!to)
        return;
    va_start(ap, format);
    n = vsnprintf(to, (size_t)n + 1, format, ap);
    va_end(ap);
    strbuf_advance(s, (size_t)n);
}

void strbuf_consume(struct strbuf *s, size_t n)
{
    if (n == 0 || !s->p)
        return;
    memmove(s->p, s->p + n, s->n - n);
    s->n -= n;
    s->p[s->n] = '\0';
}

void strbuf_add_u32(struct strbuf *s, uint32_t v)
{
    unsigned char b[4];
    for (int i = 0; i < 4; i++)
        b[i] = (unsigned char)(v >> (8 * i));
    strbuf_add(s, b, sizeof b);
}

void strbuf_add_u64(struct strbuf *s, uint64_t v)
{
    unsigned char b[8];
    for (int i = 0; i < 8; i++)
        b[i] = (unsigned char)(v >> (8 * i));
    strbuf_add(s, b, sizeof b);
}

void strbuf_add_varint(struct strbuf *s, uint64_t v)
{
    unsigned char b[10];
    size_t n = 0;
    while (v >= 0x80) {
        b[n++] = (unsigned char)(v | 0x80);
        v >>= 7;
    }
    b[n++] = (unsigned char)v;
    strbuf_add(s, b, n);
}

void strbuf_add_text(struct strbuf *s, struct slice text)
{
    strbuf_add_varint(s, text.n);
    strbuf_add_slice(s, text);
}
