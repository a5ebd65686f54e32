/* SPDX-License-Identifier: Apache-2.0 */
/* slice.h - a borrowed run of bytes: pointer and length, not NUL-terminated. Passed by value. */
#ifndef GRIDLINE_BASE_SLICE_H
#define GRIDLINE_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
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

static inline bool slice_eq(struct slice a, struct slice b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
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
