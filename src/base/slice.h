/* SPDX-License-Identifier: Apache-2.0 */
/* slice.h - a borrowed run of bytes: pointer and length, not NUL-terminated. Passed by value. */
#ifndef GRIDLINE_BASE_SLICE_H
#define GRIDLINE_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const char *p;
    size_t n;
};

#define SLICE_LIT(s) ((struct slice){"" s, sizeof(s) - 1})
#define SLICE_ARG(s) (int)(s).n, (s).p /* for "%.*s" */

static inline struct slice slice_of(const char *p, size_t n)
{
    return (struct slice){p, n};
}

static inline struct slice slice_str(const char *s)
{
    return (struct slice){s, strlen(s)};
}

/* memcmp(a, b, n) == 0 without the call for up to 16 bytes, which is what names and words have: two loads that
 * overlap in the middle. */
static inline bool slice_bytes_eq(const char *a, const char *b, size_t n)
{
    if (n >= 8 && n <= 16) {
        uint64_t w[4];
        memcpy(&w[0], a, 8);
        memcpy(&w[1], b, 8);
        memcpy(&w[2], a + n - 8, 8);
        memcpy(&w[3], b + n - 8, 8);
        return ((w[0] ^ w[1]) | (w[2] ^ w[3])) == 0;
    }
    if (n >= 4 && n < 8) {
        uint32_t w[4];
        memcpy(&w[0], a, 4);
        memcpy(&w[1], b, 4);
        memcpy(&w[2], a + n - 4, 4);
        memcpy(&w[3], b + n - 4, 4);
        return ((w[0] ^ w[1]) | (w[2] ^ w[3])) == 0;
    }
    if (n < 4)
        return n == 0 || (a[0] == b[0] && a[n / 2] == b[n / 2] && a[n - 1] == b[n - 1]);
    return memcmp(a, b, n) == 0;
}

static inline bool slice_eq(struct slice a, struct slice b)
{
    return a.n == b.n && slice_bytes_eq(a.p, b.p, a.n);
}

static inline bool slice_eq_str(struct slice a, const char *s)
{
    return slice_eq(a, slice_str(s));
}

/* ASCII only, whatever the locale. */
static inline char slice_lower(char c)
{
    return (c >= 'A' && c <= 'Z') ? (char)(c + 32) : c;
}

static inline bool slice_eq_nocase(struct slice a, struct slice b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (slice_lower(a.p[i]) != slice_lower(b.p[i]))
            return false;
    return true;
}

static inline bool slice_starts(struct slice a, struct slice prefix)
{
    return a.n >= prefix.n && (prefix.n == 0 || memcmp(a.p, prefix.p, prefix.n) == 0);
}

static inline bool slice_ends(struct slice a, struct slice suffix)
{
    return a.n >= suffix.n && (suffix.n == 0 || memcmp(a.p + a.n - suffix.n, suffix.p, suffix.n) == 0);
}

static inline struct slice slice_from(struct slice a, size_t at)
{
    return at >= a.n ? (struct slice){a.p + a.n, 0} : (struct slice){a.p + at, a.n - at};
}

#endif
