/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that nobody wants as events, of streams that hold only numbers (samples_kept.is_plain). Nearly all of
 * their bytes are differences of a few bytes each, and no difference can be wrong, so they are skipped eight
 * bytes at a time. */
#include "event/samples_reader.h"

#include <endian.h>

int samples_read_groups(struct cursor *c, uint32_t n, unsigned char marks[EVENT_FIELDS_MAX / 8])
{
    uint32_t n_groups = (n + 7) / 8, top = 1;
    if (n_groups > 1)
        top = (uint32_t)cursor_fixed(c, (n_groups + 7) / 8);
    if (top == 0 || n_groups == 0 || (n_groups < 32 && top >> n_groups))
        return E_PROTO;
    for (uint32_t g = 0; g < n_groups; g++) {
        marks[g] = 0;
        if (!(top >> g & 1))
            continue;
        marks[g] = cursor_u8(c);
        if (marks[g] == 0)
            return E_PROTO;
    }
    return n % 8 && marks[n_groups - 1] >> n % 8 ? E_PROTO : 0;
}

/* The field behind value number j. */
static const struct field *value_field(const struct samples_kept *k, uint32_t j)
{
    const struct field *f = k->schema->fields;
    if (!k->has_keys)
        return f + j;
    for (;; f++)
        if (f->role != ROLE_KEY && j-- == 0)
            return f;
}

/* The bytes of the varint at p, of which eight can be read; 0: it has more, or says more than a difference.
 */
static inline size_t difference_size(const unsigned char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    uint64_t ends = ~le64toh(word) & UINT64_C(0x8080808080808080);
    return ends && (*p & 0x7f) > CODE_DECIMAL ? (size_t)__builtin_ctzll(ends) / 8 + 1 : 0;
}

/* Skips codes, eight bytes at a time, as long as they are short differences; at least one of the n stays.
 * Where a varint ends its byte's high bit is clear, so counting those bits counts codes, and no step waits
 * for the one before to say where it starts. Returns how many. */
static uint32_t skip_words(struct cursor *c, uint32_t n)
{
    const uint64_t high = UINT64_C(0x8080808080808080);
    const unsigned char *at = c->p;
    uint64_t before = high; /* the ends in the word before */
    uint32_t done = 0;
    while (c->end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        word = le64toh(word);
        uint64_t ends = ~word & high, starts = ends << 8 | before >> 56;
        uint64_t above =
            (word & ~high) + (0x7f - CODE_DECIMAL) * (high >> 7); /* high bit: low seven > CODE_DECIMAL */
        if (ends == 0 || starts & ~above || (__builtin_clzll(before) + __builtin_ctzll(ends)) / 8 >= 8)
            break;
        uint32_t count = (uint32_t)((ends >> 7) * (high >> 7) >> 56);
        if (done + count >= n)
            break;
        done += count;
        before = ends;
        at += 8;
    }
    c->p = at - __builtin_clzll(before) / 8; /* back to the start of one that was begun */
    return done;
}

static uint32_t count_bits(unsigned char b)
{
    b = (unsigned char)(b - (b >> 1 & 0x55));
    b = (unsigned char)((b & 0x33) + (b >> 2 & 0x33));
    return (b + (b >> 4)) & 15;
}

/* The number of the value behind code n of the row. */
static uint32_t nth_marked(const unsigned char *marks, uint32_t n)
{
    for (uint32_t j = 0;; j++)
        if (marks[j / 8] >> j % 8 & 1 && n-- == 0)
            return j;
}

/* Any code: number n of the row. */
static int skip_code(struct cursor *c, const struct samples_kept *k, const unsigned char *marks, uint32_t n,
                     struct diag *why)
{
    uint64_t code = cursor_varint(c);
    if (code == CODE_RAW) {
        (void)cursor_u64(c);
    } else if (code == CODE_DECIMAL && value_field(k, nth_marked(marks, n))->type == VALUE_FLOAT) {
        if (cursor_u8(c) > SAMPLES_DECIMAL_MAX)
            return samples_refuse(why, "a decimal out of range");
        (void)cursor_varint(c);
    }
    return c->bad ? samples_refuse(why, "a value is cut short") : 0;
}

int samples_skip_changes(struct cursor *c, const struct samples_kept *k, struct diag *why)
{
    unsigned char marks[EVENT_FIELDS_MAX / 8];
    if (samples_read_groups(c, k->n_values, marks) < 0)
        return samples_refuse(why, c->bad ? "a row is cut short" : "the marks of a row are wrong");
    uint32_t n = 0;
    for (uint32_t g = 0; g * 8 < k->n_values; g++)
        n += count_bits(marks[g]);
    for (uint32_t done = skip_words(c, n); done < n; done++) {
        size_t size = cursor_left(c) >= 8 ? difference_size(c->p) : 0;
        c->p += size;
        int rc = size ? 0 : skip_code(c, k, marks, done, why);
        if (rc < 0)
            return rc;
    }
    return 0;
}
