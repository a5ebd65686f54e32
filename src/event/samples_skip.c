/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that nobody wants as events, of streams that hold only numbers (samples_kept.is_plain). Nearly all of
 * their bytes are differences of a few bytes each, and no difference can be wrong, so they are skipped many
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

enum { STEP = 16, BLOCK = 64, SHORT_MAX = 8 };
typedef signed char bytes16 __attribute__((vector_size(STEP)));

/* The high bit of each byte, lowest first. */
static inline uint64_t high_bits(bytes16 v)
{
#ifdef __SSE2__
    return (unsigned)__builtin_ia32_pmovmskb128((__attribute__((vector_size(STEP))) char)v);
#else
    uint64_t words[2];
    memcpy(words, &v, sizeof words);
    for (int i = 0; i < 2; i++) /* moves bit 8 k to bit 56 + k */
        words[i] =
            (le64toh(words[i]) >> 7 & UINT64_C(0x0101010101010101)) * UINT64_C(0x0102040810204080) >> 56;
    return words[0] | words[1] << 8;
#endif
}

static uint32_t count_bits(uint64_t v)
{
    v -= v >> 1 & UINT64_C(0x5555555555555555);
    v = (v & UINT64_C(0x3333333333333333)) + (v >> 2 & UINT64_C(0x3333333333333333));
    return (uint32_t)(((v + (v >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f)) * UINT64_C(0x0101010101010101) >> 56);
}

/* Of up to n bytes from c->p on (at most BLOCK, and those that are there), a bit each: does a varint end
 * there; would a code that starts there be a difference? The STEP bytes before c->end can be read. */
static inline void look(const struct cursor *c, size_t n, uint64_t *ends, uint64_t *differences)
{
    const size_t left = cursor_left(c);
    *ends = *differences = 0;
    for (size_t i = 0; i < n && i < left; i += STEP) {
        const size_t over = left - i < STEP ? STEP - (left - i) : 0; /* bytes before i that are read, too */
        bytes16 v;
        memcpy(&v, c->p + i - over, sizeof v);
        *ends |= (high_bits(~v) >> over) << i;
        *differences |= (high_bits((v & 0x7f) > CODE_DECIMAL) >> over) << i;
    }
}

/* Skips up to n codes, a block at a time, as long as they are differences of at most SHORT_MAX bytes: where a
 * varint ends its byte's high bit is clear, so bits that say so are counted, and no step waits for the one
 * before to say where it starts. Returns how many; the code behind them is another, or cut short. The STEP
 * bytes before c->end can be read. */
static uint32_t skip_differences(struct cursor *c, uint32_t n)
{
    uint32_t done = 0;
    while (done < n) {
        const uint32_t want = n - done;
        uint64_t ends, differences;
        look(c, want < BLOCK / SHORT_MAX ? want * SHORT_MAX : BLOCK, &ends, &differences);
        uint64_t inside = ~ends & ~ends >> 1; /* and so on: SHORT_MAX bytes from here on end nothing */
        inside &= inside >> 2;
        inside &= inside >> 4;
        const uint64_t others = ((ends << 1 | 1) & ~differences) | inside;
        ends &= (others & (0 - others)) - 1; /* those before the first other */
        uint32_t count = count_bits(ends);
        if (count > want) {
            uint64_t behind = ends;
            for (count = 0; count < want; count++)
                behind &= behind - 1;
            ends ^= behind;
        }
        if (count == 0)
            break;
        c->p += BLOCK - __builtin_clzll(ends);
        done += count;
    }
    return done;
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
    const bool has_step = cursor_left(c) >= STEP;
    if (samples_read_groups(c, k->n_values, marks) < 0)
        return samples_refuse(why, c->bad ? "a row is cut short" : "the marks of a row are wrong");
    uint32_t n = 0;
    for (uint32_t g = 0; g * 8 < k->n_values; g++)
        n += count_bits(marks[g]);
    for (uint32_t done = 0; done < n; done++) {
        done += has_step ? skip_differences(c, n - done) : 0;
        int rc = done < n ? skip_code(c, k, marks, done, why) : 0;
        if (rc < 0)
            return rc;
    }
    return 0;
}
