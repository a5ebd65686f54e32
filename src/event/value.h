/* SPDX-License-Identifier: Apache-2.0 */
/* value.h - one typed value. 16 bytes, passed by value; text and bytes are borrowed from whoever holds them
 * (usually the batch's arena). NaN is one value: its sign and payload are not part of the model. */
#ifndef GRIDLINE_EVENT_VALUE_H
#define GRIDLINE_EVENT_VALUE_H

#include "base/slice.h"

#include <math.h>
#include <stdint.h>

/* The numbers are on the wire and on disk: never change them. */
enum value_type {
    VALUE_NONE = 0, /* missing; never written for zero, never read as zero */
    VALUE_INT = 1,
    VALUE_UINT = 2,
    VALUE_FLOAT = 3,
    VALUE_BOOL = 4,
    VALUE_TEXT = 5, /* UTF-8, may hold any character, NUL too */
    VALUE_BYTES = 6,
    VALUE_NUMBER = 7, /* a number as it was written by an untyped source: text that num_written takes and that is not
                       * canonical (0.50, 1e-05). Kept and compared as text, so that its spelling stays; counts as a
                       * number (value_number) */
    VALUE_TYPES = 8
};

struct value {
    union {
        int64_t i;
        uint64_t u; /* also a bool: 0 or 1 */
        double f;
        const char *p; /* text, bytes */
    };
    uint32_t n; /* length of text or bytes */
    uint8_t type;
};

static inline struct value value_none(void)
{
    return (struct value){.u = 0};
}
static inline struct value value_int(int64_t v)
{
    return (struct value){.i = v, .type = VALUE_INT};
}
static inline struct value value_uint(uint64_t v)
{
    return (struct value){.u = v, .type = VALUE_UINT};
}
static inline struct value value_float(double v)
{
    return (struct value){.f = isnan(v) ? (double)NAN : v, .type = VALUE_FLOAT};
}
static inline struct value value_bool(bool v)
{
    return (struct value){.u = v, .type = VALUE_BOOL};
}
static inline struct value value_text(struct slice s)
{
    return (struct value){.p = s.p, .n = (uint32_t)s.n, .type = VALUE_TEXT};
}
static inline struct value value_bytes(struct slice s)
{
    return (struct value){.p = s.p, .n = (uint32_t)s.n, .type = VALUE_BYTES};
}
static inline struct slice value_slice(struct value v)
{
    return (struct slice){v.p, v.n};
}
/* Is a value of that type kept as bytes (p, n)? */
static inline bool value_is_text(uint8_t type)
{
    return type == VALUE_TEXT || type == VALUE_BYTES || type == VALUE_NUMBER;
}

/* May a value of that type, which value_is_text, hold these bytes? Text: UTF-8; number: a spelling that is
 * not canonical; bytes: any. */
bool value_text_is_allowed(uint8_t type, struct slice s);

/* Same type and same value. All NaNs are equal; 0.0 and -0.0 are not. */
static inline bool value_eq(struct value a, struct value b)
{
    if (a.type != b.type)
        return false;
    if (value_is_text(a.type))
        return slice_eq(value_slice(a), value_slice(b));
    return a.u == b.u || (a.type == VALUE_FLOAT && isnan(a.f) && isnan(b.f));
}

/* "int", "uint", "float", "bool", "text", "bytes", "number". */
const char *value_type_name(uint8_t type);

/* What a text of an untyped source means: a canonical number is an int, uint or float; true and false are bools; another
 * spelling of a number is a VALUE_NUMBER; all else is text. Borrows s. */
struct value value_untyped(struct slice s);
/* The value as a number: int, uint, float and bool are themselves, a VALUE_NUMBER is the float (or int) that it spells;
 * VALUE_NONE for text and bytes, also for text that looks like a number: somebody quoted it. */
struct value value_number(struct value v);
/* The value as text: the spelling of a number, "true" or "false", the text itself, bytes as they are. Borrows v's bytes or
 * buf. The identity of a value (stream keys, ids of lifelines) is this text. */
enum { VALUE_SPELLING_MAX = 32 };
struct slice value_spelling(const struct value *v, char buf[VALUE_SPELLING_MAX]);

#endif
