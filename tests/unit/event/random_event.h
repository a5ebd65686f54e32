/* SPDX-License-Identifier: Apache-2.0 */
/* random_event.h - hostile but legal events for property tests: strings with quotes, markers, control characters,
 * invalid UTF-8 (as bytes), numbers at their limits, odd names, fields that change type or go missing. */
#ifndef GRIDLINE_TESTS_RANDOM_EVENT_H
#define GRIDLINE_TESTS_RANDOM_EVENT_H

#include "unit/test.h"

#include "event/batch.h"

#include <float.h>
#include <math.h>

static inline size_t random_below(uint64_t *seed, size_t n)
{
    return (size_t)(test_random(seed) % n);
}

static const char *const random_scraps[] = {
    "",       " ",        "=",       "\"",      "\\",       "\\\"",   "\n",      "\r\n",   "\t",       "%u:5",
    "%b:",    "%e:x%0A",  "%t:%t:",  "%z:",     "5",        "-0",     "007",     "1.50",   "1e5",      "true",
    "false",  "NaN",      "Inf",     "null",    "<event>",  "</event>", "]]>",   "&amp;",  "&",        "<!--",
    "{\"a\"", ",",        "'",       "GLB1",    "DATE=",    "ts=",    "\x01",    "\x7f",   "\xc3\xbc", "\xe2\x80\xa8",
    "\xef\xbf\xbe", "\xf0\x9f\x98\x80", "a b", "$host",     "@",      "#",       "GL.x",   "gl.a-2eb", "\xc2\x80",
    "=1+1",   " lead",    "trail ",  "\\n",     "%0A",      "%",      "\v\f\b",
};

/* Text of scraps and letters in tmp (of size room); always valid UTF-8. NUL now and then. */
static inline struct slice random_text(uint64_t *seed, char *tmp, size_t room)
{
    size_t n = 0, parts = random_below(seed, 5);
    for (size_t i = 0; i < parts; i++) {
        const char *s = random_scraps[random_below(seed, sizeof random_scraps / sizeof *random_scraps)];
        size_t len = strlen(s);
        if (n + len + 1 > room)
            break;
        memcpy(tmp + n, s, len);
        n += len;
        if (random_below(seed, 3) == 0)
            tmp[n++] = (char)('a' + random_below(seed, 26));
        if (random_below(seed, 60) == 0)
            tmp[n++] = '\0';
    }
    return slice_of(tmp, n);
}

static inline struct slice random_name(uint64_t *seed, char *tmp)
{
    static const char *const odd[] = {"time", "host", "prog", "level", "name", "DATE", "HOST",  "PROG",  "LVL",     "NL.EVNT",
                                      "ts",   "event", "GL.x", "gl.y",  ".",    "..",   "-",     "_",     "a..b",    "9lives",
                                      "a:b",  ":",     "GL.",  "gl.",   "id",   "value"};
    static const char alphabet[] = "abcXYZ019._:-";
    if (random_below(seed, 4) == 0) {
        const char *s = odd[random_below(seed, sizeof odd / sizeof *odd)];
        memcpy(tmp, s, strlen(s));
        return slice_of(tmp, strlen(s));
    }
    size_t n = 1 + random_below(seed, random_below(seed, 50) == 0 ? EVENT_NAME_MAX : 8);
    for (size_t i = 0; i < n; i++)
        tmp[i] = alphabet[random_below(seed, sizeof alphabet - 1)];
    return slice_of(tmp, n);
}

static inline double random_float(uint64_t *seed)
{
    static const double odd[] = {0.0,     -0.0,     1.5,  -1.5,    NAN,     INFINITY, -INFINITY, DBL_MAX, DBL_MIN,
                                 5e-324,  1e15,     1e16, 123456.789, 0.1,  1e-5,     1e-6,      4503599627370496.5,
                                 9007199254740993.0, 1e22, 100.0};
    uint64_t bits = test_random(seed);
    double f;
    switch (random_below(seed, 3)) {
    case 0:
        return odd[random_below(seed, sizeof odd / sizeof *odd)];
    case 1:
        return (double)(int64_t)(bits % 2000001 - 1000000) / 100.0;
    default:
        memcpy(&f, &bits, sizeof f);
        return f;
    }
}

static inline uint64_t random_word(uint64_t *seed)
{
    static const uint64_t odd[] = {0, 1, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX, UINT32_MAX, 1ull << 53, 10, 99, 100};
    uint64_t bits = test_random(seed);
    return bits % 3 == 0 ? odd[bits / 3 % (sizeof odd / sizeof *odd)] : bits >> (bits % 64);
}

/* A number that is spelt otherwise than its canonical text. */
static inline struct slice random_spelling(uint64_t *seed, char *tmp, size_t room)
{
    static const char *const odd[] = {"0.50", ".50",  "5.",   "-5.",   "-.5",  "+0.25",  "1e-05",    "1.50E+03", "nan",
                                      "-nan", "inf",  "-inf", "-0",    "1.10", "0.00",   "1E-3",     "-0.0e0",   "1e+2",
                                      "1.5e+00", "100.00", "+.5e-3", "9999999999999999999.0", "0.1000000000000000055"};
    for (;;) {
        int n = 0;
        double f = random_float(seed);
        switch (random_below(seed, 4)) {
        case 0:
            n = snprintf(tmp, room, "%s", odd[random_below(seed, sizeof odd / sizeof *odd)]);
            break;
        case 1:
            n = snprintf(tmp, room, "%.*f", (int)random_below(seed, 6), f);
            break;
        case 2:
            n = snprintf(tmp, room, "%+.*g", (int)random_below(seed, 20), f);
            break;
        default:
            n = snprintf(tmp, room, "%.*e", (int)random_below(seed, 20), f);
        }
        if (n > 0 && (size_t)n < room && value_text_is_allowed(VALUE_NUMBER, slice_of(tmp, (size_t)n)))
            return slice_of(tmp, (size_t)n);
    }
}

static inline struct value random_value(uint64_t *seed, char *tmp, size_t room)
{
    switch (1 + random_below(seed, 7)) {
    case VALUE_INT:
        return value_int((int64_t)random_word(seed));
    case VALUE_UINT:
        return value_uint(random_word(seed));
    case VALUE_FLOAT:
        return value_float(random_float(seed));
    case VALUE_BOOL:
        return value_bool(random_below(seed, 2));
    case VALUE_TEXT:
        return random_below(seed, 8) ? value_text(random_text(seed, tmp, room)) : value_text(random_spelling(seed, tmp, room));
    case VALUE_NUMBER: {
        struct slice s = random_spelling(seed, tmp, room);
        return (struct value){.p = s.p, .n = (uint32_t)s.n, .type = VALUE_NUMBER};
    }
    default: {
        size_t n = random_below(seed, 20);
        for (size_t i = 0; i < n; i++)
            tmp[i] = (char)test_random(seed);
        return value_bytes(slice_of(tmp, n));
    }
    }
}

/* Host and prog: like text, without control characters. */
static inline struct slice random_origin(uint64_t *seed, char *tmp, size_t room)
{
    struct slice s = random_text(seed, tmp, room);
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)tmp[i] < 0x20 || tmp[i] == 0x7f)
            tmp[i] = '.';
    return s;
}

/* Adds one event; a name that came twice makes the builder refuse, so it is left out here. */
static inline void random_event_add(struct batch_builder *b, uint64_t *seed)
{
    enum { ROOM = 64, FIELDS = 12 };
    char host[ROOM], prog[ROOM], name[EVENT_NAME_MAX], names[FIELDS][EVENT_NAME_MAX], text[FIELDS][ROOM];
    struct named_value values[FIELDS];
    size_t n = 0, want = random_below(seed, FIELDS);
    for (size_t i = 0; i < want; i++) {
        struct slice field = random_name(seed, names[n]);
        bool twice = false;
        for (size_t k = 0; k < n; k++)
            twice |= slice_eq(values[k].name, field);
        if (!twice) {
            values[n].name = field;
            values[n].value = random_value(seed, text[n], ROOM);
            n++;
        }
    }
    struct event_head head = {.time_ns = (int64_t)test_random(seed),
                              .name = random_name(seed, name),
                              .host = random_origin(seed, host, ROOM),
                              .prog = random_origin(seed, prog, ROOM),
                              .level = (uint8_t)random_below(seed, LEVEL_COUNT)};
    if (random_below(seed, 2))
        head.time_ns -= head.time_ns % 1000;
    struct diag why;
    if (batch_builder_add(b, &head, values, n, &why) < 0)
        fail_msg("random event refused: %s", why.message);
}

#endif
