/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - UTF-8, base64 and character classes: what every text encoding needs. ASCII rules, no locale. */
#ifndef GRIDLINE_BASE_TEXT_H
#define GRIDLINE_BASE_TEXT_H

#include "base/slice.h"
#include "base/strbuf.h"

/* True for well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF). 8 bytes a step on ASCII.
 */
bool text_is_utf8(struct slice s);
/* How many bytes the well-formed sequence has that s begins with; 0 = there is none. */
size_t text_utf8_length(struct slice s);
/* True when s holds a byte below 0x20 or 0x7f: what no line-based format can carry as it is. */
bool text_has_control(struct slice s);

/* [A-Za-z0-9._:-]{1,128}: names of events and fields. */
bool text_is_name(struct slice s);

/* Appends s in base64 (RFC 4648, padded). */
void text_add_base64(struct strbuf *out, struct slice s);
/* Appends what s decodes to; E_PROTO on any byte out of place (then *out is as it was). Canonical input only:
 * padded, no white space, unused bits zero. */
int text_from_base64(struct slice s, struct strbuf *out);

/* 0..15, or -1. */
static inline int text_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = slice_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Shell-style pattern: `*` any run, `?` one byte, `[a-z]` `[!a-z]` a class, `\` quotes. Case matters.
 * Linear in practice, never exponential: one backtrack point. */
bool text_glob(struct slice pattern, struct slice s);
/* Is every `[` of it closed? text_glob takes one that is not for an ordinary character, at a cost that grows
 * with the square of the pattern: who takes patterns from outside refuses those. */
bool text_glob_is_closed(struct slice pattern);
/* "cpu,disk*": does one of the patterns match? Without any, all do. */
bool text_glob_any(struct slice patterns, struct slice s);

enum { TEXT_DISTANCE_MAX = 32 };

/* How many single-character slips (one missing, one too many, one wrong, two swapped) lie between two words,
 * case ignored: for "did you mean". Words of more than TEXT_DISTANCE_MAX bytes are TEXT_DISTANCE_MAX apart.
 */
unsigned text_distance(struct slice a, struct slice b);

/* The nearest of some words, if it is near enough to be what was meant:
 *
 *     struct text_nearest near = text_nearest_of(word);
 *     text_nearest_try(&near, "convert"); ...
 *     if (near.best) ... did you mean */
struct text_nearest {
    struct slice word;
    const char *best; /* borrowed from text_nearest_try; NULL = none is near */
    unsigned distance;
};
struct text_nearest text_nearest_of(struct slice word);
void text_nearest_try(struct text_nearest *near, const char *candidate);

#endif
