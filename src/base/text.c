/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/err.h"

#include <stdint.h>

/* Length of the well-formed sequence at p (end exclusive), or 0. */
static size_t sequence(const unsigned char *p, const unsigned char *end)
{
    unsigned char b = *p;
    size_t n = b < 0x80                ? 1
               : b >= 0xc2 && b < 0xe0 ? 2
               : b >= 0xe0 && b < 0xf0 ? 3
               : b >= 0xf0 && b < 0xf5 ? 4
                                       : 0;
    if (n == 0 || (size_t)(end - p) < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (b == 0xe0 && p[1] < 0xa0) || (b == 0xf0 && p[1] < 0x90);
    bool outside = (b == 0xed && p[1] > 0x9f) || (b == 0xf4 && p[1] > 0x8f);
    return overlong || outside ? 0 : n;
}

/* 8 to 16 bytes of ASCII: two loads that overlap in the middle. */
static bool is_short_ascii(struct slice s)
{
    uint64_t first, last;
    if (s.n < 8 || s.n > 16)
        return false;
    memcpy(&first, s.p, 8);
    memcpy(&last, s.p + s.n - 8, 8);
    return ((first | last) & 0x8080808080808080u) == 0;
}

bool text_is_utf8(struct slice s)
{
    if (s.n == 0 || is_short_ascii(s))
        return true; /* the first also of a slice that points nowhere */
    const unsigned char *p = (const unsigned char *)s.p, *end = p + s.n;
    while (p < end) {
        uint64_t word;
        while (end - p >= 8 && (memcpy(&word, p, 8), (word & 0x8080808080808080u) == 0))
            p += 8;
        if (p == end)
            break;
        size_t n = sequence(p, end);
        if (n == 0)
            return false;
        p += n;
    }
    return true;
}

size_t text_utf8_length(struct slice s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    return s.n ? sequence(p, p + s.n) : 0;
}

bool text_has_control(struct slice s)
{
    bool found = false;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        found |= (c < 0x20) | (c == 0x7f);
    }
    return found;
}

bool text_is_name(struct slice s)
{
    if (s.n < 1 || s.n > 128)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i], l = slice_lower(c);
        bool ok =
            (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == ':' || c == '-';
        if (!ok)
            return false;
    }
    return true;
}

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void text_add_base64(struct strbuf *out, struct slice s)
{
    size_t n = (s.n + 2) / 3 * 4;
    char *to = strbuf_room(out, n);
    if (!to)
        return;
    const unsigned char *p = (const unsigned char *)s.p;
    for (size_t i = 0; i < s.n; i += 3) {
        size_t left = s.n - i;
        uint32_t v =
            (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0);
        *to++ = base64_digits[v >> 18];
        *to++ = base64_digits[v >> 12 & 63];
        *to++ = left > 1 ? base64_digits[v >> 6 & 63] : '=';
        *to++ = left > 2 ? base64_digits[v & 63] : '=';
    }
    strbuf_advance(out, n);
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int text_from_base64(struct slice s, struct strbuf *out)
{
    size_t before = out->n;
    if (s.n % 4)
        return E_PROTO;
    for (size_t i = 0; i < s.n; i += 4) {
        const char *q = s.p + i;
        bool last = i + 4 == s.n;
        size_t n = last && q[3] == '=' ? (q[2] == '=' ? 1 : 2) : 3;
        uint32_t v = 0;
        for (size_t k = 0; k < 4; k++) {
            int d = k <= n ? base64_digit(q[k]) : 0;
            if (d < 0)
                goto bad;
            v = v << 6 | (uint32_t)d;
        }
        if ((n == 1 && (v & 0xffff)) || (n == 2 && (v & 0xff)))
            goto bad;
        strbuf_add(out,
                   (unsigned char[]){(unsigned char)(v >> 16), (unsigned char)(v >> 8), (unsigned char)v}, n);
    }
    return 0;
bad:
    out->n = before;
    return E_PROTO;
}

/* Matches the class at pattern[at] ('['), sets *next past it. An unclosed '[' is an ordinary character. */
static bool class_matches(struct slice pattern, size_t at, char c, size_t *next)
{
    size_t i = at + 1;
    bool negate = i < pattern.n && (pattern.p[i] == '!' || pattern.p[i] == '^');
    bool hit = false;
    i += negate;
    for (size_t first = i; i < pattern.n && (pattern.p[i] != ']' || i == first); i++) {
        unsigned char lo = (unsigned char)pattern.p[i], hi = lo;
        if (i + 2 < pattern.n && pattern.p[i + 1] == '-' && pattern.p[i + 2] != ']') {
            hi = (unsigned char)pattern.p[i + 2];
            i += 2;
        }
        hit |= (unsigned char)c >= lo && (unsigned char)c <= hi;
    }
    if (i >= pattern.n) {
        *next = at + 1;
        return c == '[';
    }
    *next = i + 1;
    return hit != negate;
}

/* Matches one pattern element that is not '*' against c and sets *next past it. */
static bool element_matches(struct slice pattern, size_t at, char c, size_t *next)
{
    char e = pattern.p[at];
    if (e == '[')
        return class_matches(pattern, at, c, next);
    if (e == '\\' && at + 1 < pattern.n)
        e = pattern.p[++at];
    else if (e == '?') {
        *next = at + 1;
        return true;
    }
    *next = at + 1;
    return e == c;
}

bool text_glob(struct slice pattern, struct slice s)
{
    size_t p = 0, i = 0, star_p = SIZE_MAX, star_i = 0, next = 0;
    while (i < s.n) {
        if (p < pattern.n && pattern.p[p] == '*') {
            star_p = ++p;
            star_i = i;
        } else if (p < pattern.n && element_matches(pattern, p, s.p[i], &next)) {
            p = next;
            i++;
        } else if (star_p != SIZE_MAX) {
            p = star_p;
            i = ++star_i;
        } else {
            return false;
        }
    }
    while (p < pattern.n && pattern.p[p] == '*')
        p++;
    return p == pattern.n;
}

bool text_glob_is_closed(struct slice pattern)
{
    for (size_t i = 0; i < pattern.n; i++) {
        if (pattern.p[i] == '\\') {
            i++;
            continue;
        }
        if (pattern.p[i] != '[')
            continue;
        size_t first = i + 1;
        if (first < pattern.n && (pattern.p[first] == '!' || pattern.p[first] == '^'))
            first++;
        const char *close =
            first + 1 < pattern.n ? memchr(pattern.p + first + 1, ']', pattern.n - first - 1) : NULL;
        if (!close)
            return false;
        i = (size_t)(close - pattern.p);
    }
    return true;
}

bool text_glob_any(struct slice patterns, struct slice s)
{
    if (patterns.n == 0)
        return true;
    while (patterns.n) {
        const char *comma = memchr(patterns.p, ',', patterns.n);
        struct slice one = slice_of(patterns.p, comma ? (size_t)(comma - patterns.p) : patterns.n);
        if (text_glob(one, s))
            return true;
        patterns = slice_from(patterns, one.n + 1);
    }
    return false;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Optimal string alignment: row[i][k] is the distance of the first i bytes of a from the first k of b. Only
 * the last three rows are kept. */
unsigned text_distance(struct slice a, struct slice b)
{
    unsigned row[3][TEXT_DISTANCE_MAX + 1];
    if (a.n > TEXT_DISTANCE_MAX || b.n > TEXT_DISTANCE_MAX)
        return TEXT_DISTANCE_MAX;
    for (unsigned k = 0; k <= b.n; k++)
        row[0][k] = k;
    for (unsigned i = 1; i <= a.n; i++) {
        unsigned *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        char c = slice_lower(a.p[i - 1]);
        now[0] = i;
        for (unsigned k = 1; k <= b.n; k++) {
            char d = slice_lower(b.p[k - 1]);
            now[k] = least(least(last[k], now[k - 1]) + 1, last[k - 1] + (c != d));
            bool swapped = i > 1 && k > 1 && c == slice_lower(b.p[k - 2]) && d == slice_lower(a.p[i - 2]);
            if (swapped)
                now[k] = least(now[k], before[k - 2] + 1);
        }
    }
    return row[a.n % 3][b.n];
}

struct text_nearest text_nearest_of(struct slice word)
{
    return (struct text_nearest){.word = word,
                                 .distance = word.n <= 3 ? 2 : 3}; /* one slip in a short word, else two */
}

void text_nearest_try(struct text_nearest *near, const char *candidate)
{
    unsigned d = text_distance(near->word, slice_str(candidate));
    if (d >= near->distance || d >= near->word.n)
        return;
    near->best = candidate;
    near->distance = d;
}
