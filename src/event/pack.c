/* SPDX-License-Identifier: Apache-2.0 */
#include "event/pack.h"

enum form { FORM_FIXED = 0, FORM_DELTA = 1, FORM_VARINT = 2 };

/* What one pass over the values finds: enough to know the size of the two fixed-width forms. */
struct survey {
    int64_t min, max;           /* of the values, as signed */
    int64_t step_min, step_max; /* of the steps */
};

static struct survey survey_values(const uint64_t *v, size_t n)
{
    struct survey s = {(int64_t)v[0], (int64_t)v[0], 0, 0};
    if (n > 1)
        s.step_min = s.step_max = (int64_t)(v[1] - v[0]);
    for (size_t i = 1; i < n; i++) {
        int64_t value = (int64_t)v[i], step = (int64_t)(v[i] - v[i - 1]);
        s.min = value < s.min ? value : s.min;
        s.max = value > s.max ? value : s.max;
        s.step_min = step < s.step_min ? step : s.step_min;
        s.step_max = step > s.step_max ? step : s.step_max;
    }
    return s;
}

/* Ids, counters and regular clocks: every step is the first one. Gives up at the first group of steps that is not. */
static bool steps_evenly(const uint64_t *v, size_t n)
{
    uint64_t step = n > 1 ? v[1] - v[0] : 0, odd = 0;
    size_t i = 1;
    for (; i + 4 <= n && !odd; i += 4)
        odd = ((v[i] - v[i - 1]) ^ step) | ((v[i + 1] - v[i]) ^ step) | ((v[i + 2] - v[i + 1]) ^ step) |
              ((v[i + 3] - v[i + 2]) ^ step);
    for (; i < n && !odd; i++)
        odd = (v[i] - v[i - 1]) ^ step;
    return !odd;
}

static size_t varint_size(uint64_t v)
{
    return (size_t)(70 - __builtin_clzll(v | 1)) / 7;
}

/* Bytes of the varint form without its head; stops counting at `enough`. */
static size_t varint_bytes(const uint64_t *v, size_t n, size_t enough)
{
    size_t bytes = 0;
    for (size_t i = 1; i < n && bytes < enough; i++)
        bytes += varint_size(zigzag((int64_t)(v[i] - v[i - 1])));
    return bytes;
}

/* Bytes that hold max - min. */
static unsigned width_of(int64_t min, int64_t max)
{
    uint64_t range = (uint64_t)max - (uint64_t)min;
    return range == 0 ? 0 : range <= UINT8_MAX ? 1 : range <= UINT16_MAX ? 2 : range <= UINT32_MAX ? 4 : 8;
}

/* The low bytes of x, lowest first. Width is a constant in each loop below, so it becomes one instruction. */
static inline void store(unsigned char *to, uint64_t x, unsigned width)
{
    for (unsigned k = 0; k < width; k++)
        to[k] = (unsigned char)(x >> (8 * k));
}

static void write_fixed(struct strbuf *out, const uint64_t *v, size_t n, unsigned width, uint64_t base)
{
    unsigned char *to = (unsigned char *)strbuf_room(out, n * width);
    if (!to || width == 0)
        return;
    for (size_t i = 0; i < n && width == 1; i++)
        store(to + i, v[i] - base, 1);
    for (size_t i = 0; i < n && width == 2; i++)
        store(to + i * 2, v[i] - base, 2);
    for (size_t i = 0; i < n && width == 4; i++)
        store(to + i * 4, v[i] - base, 4);
    for (size_t i = 0; i < n && width == 8; i++)
        store(to + i * 8, v[i] - base, 8);
    strbuf_advance(out, n * width);
}

static void write_delta(struct strbuf *out, const uint64_t *v, size_t n, unsigned width, uint64_t base)
{
    unsigned char *to = (unsigned char *)strbuf_room(out, (n - 1) * width);
    if (!to || width == 0)
        return;
    for (size_t i = 1; i < n && width == 1; i++)
        store(to + i - 1, v[i] - v[i - 1] - base, 1);
    for (size_t i = 1; i < n && width == 2; i++)
        store(to + (i - 1) * 2, v[i] - v[i - 1] - base, 2);
    for (size_t i = 1; i < n && width == 4; i++)
        store(to + (i - 1) * 4, v[i] - v[i - 1] - base, 4);
    for (size_t i = 1; i < n && width == 8; i++)
        store(to + (i - 1) * 8, v[i] - v[i - 1] - base, 8);
    strbuf_advance(out, (n - 1) * width);
}

static void write_varints(struct strbuf *out, const uint64_t *v, size_t n)
{
    char *start = strbuf_room(out, n * 10), *to = start;
    if (!to)
        return;
    for (size_t i = 1; i < n; i++) {
        uint64_t x = zigzag((int64_t)(v[i] - v[i - 1]));
        for (; x >= 0x80; x >>= 7)
            *to++ = (char)(x | 0x80);
        *to++ = (char)x;
    }
    strbuf_advance(out, (size_t)(to - start));
}

static void write_even(struct strbuf *out, uint64_t first, uint64_t step)
{
    strbuf_add_char(out, step ? FORM_DELTA : FORM_FIXED);
    strbuf_add_char(out, 0);
    strbuf_add_varint(out, zigzag((int64_t)first));
    if (step)
        strbuf_add_varint(out, zigzag((int64_t)step));
}

void pack_write(struct strbuf *out, const uint64_t *v, size_t n)
{
    if (n == 0)
        return;
    if (steps_evenly(v, n)) { /* needs no bytes but the first value and the step */
        write_even(out, v[0], n > 1 ? v[1] - v[0] : 0);
        return;
    }
    struct survey s = survey_values(v, n);
    unsigned fixed = width_of(s.min, s.max), delta = width_of(s.step_min, s.step_max);
    unsigned width = fixed <= delta ? fixed : delta;
    size_t worth = width * n - width * n / 4;
    if (width > 1 && varint_bytes(v, n, worth) < worth) { /* a varint has a byte at least */
        strbuf_add_char(out, FORM_VARINT);
        strbuf_add_varint(out, zigzag((int64_t)v[0]));
        write_varints(out, v, n);
        return;
    }
    strbuf_add_char(out, fixed <= delta ? FORM_FIXED : FORM_DELTA);
    strbuf_add_char(out, (char)width);
    if (fixed <= delta) {
        strbuf_add_varint(out, zigzag(s.min));
        write_fixed(out, v, n, fixed, (uint64_t)s.min);
        return;
    }
    strbuf_add_varint(out, zigzag((int64_t)v[0]));
    strbuf_add_varint(out, zigzag(s.step_min));
    write_delta(out, v, n, delta, (uint64_t)s.step_min);
}

void pack_write_same(struct strbuf *out, uint64_t x)
{
    write_even(out, x, 0);
}

static inline uint64_t load(const unsigned char *p, unsigned width)
{
    uint64_t x = 0;
    for (unsigned k = 0; k < width; k++)
        x |= (uint64_t)p[k] << (8 * k);
    return x;
}

/* v[i] = base + the i-th stored number. Width is a constant in each loop, so load becomes one instruction. */
static void read_fixed(const unsigned char *p, uint64_t *v, size_t n, unsigned width, uint64_t base)
{
    switch (width) {
    case 0:
        for (size_t i = 0; i < n; i++)
            v[i] = base;
        break;
    case 1:
        for (size_t i = 0; i < n; i++)
            v[i] = base + load(p + i, 1);
        break;
    case 2:
        for (size_t i = 0; i < n; i++)
            v[i] = base + load(p + i * 2, 2);
        break;
    case 4:
        for (size_t i = 0; i < n; i++)
            v[i] = base + load(p + i * 4, 4);
        break;
    default:
        for (size_t i = 0; i < n; i++)
            v[i] = base + load(p + i * 8, 8);
        break;
    }
}

static bool width_is_known(unsigned width)
{
    return width == 0 || width == 1 || width == 2 || width == 4 || width == 8;
}

static void read_packed(struct cursor *c, uint64_t *v, size_t n, bool delta)
{
    unsigned width = cursor_u8(c);
    if (!width_is_known(width)) {
        (void)cursor_fail(c); /* c->bad says it */
        return;
    }
    uint64_t first = delta ? (uint64_t)unzigzag(cursor_varint(c)) : 0;
    uint64_t base = (uint64_t)unzigzag(cursor_varint(c));
    size_t stored = delta ? n - 1 : n;
    struct slice bytes = cursor_bytes(c, (uint64_t)stored * width);
    if (c->bad)
        return;
    read_fixed((const unsigned char *)bytes.p, delta ? v + 1 : v, stored, width, base);
    if (!delta)
        return;
    v[0] = first;
    for (size_t i = 1; i < n; i++)
        v[i] += v[i - 1];
}

static void read_varints(struct cursor *c, uint64_t *v, size_t n)
{
    uint64_t last = 0;
    if (n > cursor_left(c)) { /* each takes a byte at least */
        (void)cursor_fail(c); /* c->bad says it */
        return;
    }
    for (size_t i = 0; i < n; i++) {
        last += (uint64_t)unzigzag(cursor_varint(c));
        v[i] = last;
    }
}

void pack_read(struct cursor *c, uint64_t *v, size_t n)
{
    if (n == 0)
        return;
    switch (cursor_u8(c)) {
    case FORM_FIXED:
        read_packed(c, v, n, false);
        break;
    case FORM_DELTA:
        read_packed(c, v, n, true);
        break;
    case FORM_VARINT:
        read_varints(c, v, n);
        break;
    default:
        (void)cursor_fail(c); /* c->bad says it */
        break;
    }
}
