/* SPDX-License-Identifier: Apache-2.0 */
/* scan.h - reading the kernel's text files: words and numbers between blanks, one pass, nothing copied.
 *
 *     struct scan s = scan_of(text);
 *     while (scan_line(&s, &line)) { struct scan l = scan_of(line); word = scan_word(&l); ok = scan_uint(&l, &v); }
 *
 * A number that is not there, is followed by anything but a blank or the end, or overflows, is reported (false), never
 * read as 0. About 1 ns a digit. */
#ifndef GRIDLINE_SENSOR_SCAN_H
#define GRIDLINE_SENSOR_SCAN_H

#include "base/slice.h"
#include "event/value.h"

#include <stdint.h>

struct scan {
    const char *p, *end;
};

static inline struct scan scan_of(struct slice s)
{
    return (struct scan){s.p, s.p + s.n};
}

/* The next line without its end; false when there is none. A last line without LF counts: it may be cut, and then its
 * last number may be, too; see scan_is_whole. */
static inline bool scan_line(struct scan *s, struct slice *line)
{
    if (s->p >= s->end)
        return false;
    const char *lf = memchr(s->p, '\n', (size_t)(s->end - s->p));
    const char *stop = lf ? lf : s->end;
    *line = slice_of(s->p, (size_t)(stop - s->p));
    s->p = lf ? lf + 1 : s->end;
    return true;
}

/* The same for a line that has its end; a last one without it is cut and can't be believed. */
static inline bool scan_whole_line(struct scan *s, struct slice *line)
{
    return scan_line(s, line) && line->p + line->n < s->end;
}

/* Does the text end with a line end? A truncated file does not: its last line can't be believed. */
static inline bool scan_is_whole(struct slice text)
{
    return text.n > 0 && text.p[text.n - 1] == '\n';
}

static inline bool scan_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline void scan_blanks(struct scan *s)
{
    while (s->p < s->end && scan_is_blank(*s->p))
        s->p++;
}

/* The next run of bytes that are no blanks; empty at the end. */
static inline struct slice scan_word(struct scan *s)
{
    scan_blanks(s);
    const char *from = s->p;
    while (s->p < s->end && !scan_is_blank(*s->p) && *s->p != '\n')
        s->p++;
    return slice_of(from, (size_t)(s->p - from));
}

/* Decimal digits up to a blank, LF or the end. On false the word is skipped and *out is untouched. */
static inline bool scan_uint(struct scan *s, uint64_t *out)
{
    scan_blanks(s);
    const char *from = s->p;
    uint64_t v = 0;
    while (s->p < s->end && (unsigned char)(*s->p - '0') <= 9 && s->p - from < 19)
        v = v * 10 + (uint64_t)(*s->p++ - '0');
    if (s->p < s->end && (unsigned char)(*s->p - '0') <= 9) { /* a 20th digit may overflow */
        unsigned digit = (unsigned)(*s->p++ - '0');
        if (v > (UINT64_MAX - digit) / 10) {
            (void)scan_word(s); /* skipped */
            return false;
        }
        v = v * 10 + digit;
    }
    if (s->p == from || (s->p < s->end && !scan_is_blank(*s->p) && *s->p != '\n')) {
        (void)scan_word(s); /* skipped */
        return false;
    }
    *out = v;
    return true;
}

/* The next number as a value, VALUE_NONE when it is none. */
static inline struct value scan_value(struct scan *s)
{
    uint64_t v;
    return scan_uint(s, &v) ? value_uint(v) : value_none();
}

#endif
