/* SPDX-License-Identifier: Apache-2.0 */
#include "base/num.h"
#include "helper/logfilter_internal.h"

static const char *const type_names[LOGVALUE_TYPES] = {"text", "int",      "uint", "float",
                                                       "bool", "duration", "size", "time"};

int logvalue_type_parse(struct slice s, enum logvalue_type *out)
{
    for (int i = 0; i < LOGVALUE_TYPES; i++) {
        if (slice_eq_str(s, type_names[i])) {
            *out = (enum logvalue_type)i;
            return 0;
        }
    }
    return E_PROTO;
}

static int parse_bool(struct slice s, struct value *out)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (slice_eq_nocase(s, slice_str(words[i]))) {
            *out = value_bool(i % 2);
            return 0;
        }
    }
    return E_PROTO;
}

/* [[D-]H:]M:S in seconds; the last part may have a fraction. */
static int parse_clock(struct slice s, double *out)
{
    double total = 0;
    const char *dash = memchr(s.p, '-', s.n);
    if (dash) {
        uint64_t days;
        if (num_parse_uint(slice_of(s.p, (size_t)(dash - s.p)), &days) < 0)
            return E_PROTO;
        total = (double)days * 24;
        s = slice_from(s, (size_t)(dash - s.p) + 1);
    }
    for (int part = 0; part < 3; part++) {
        const char *colon = memchr(s.p, ':', s.n);
        double v;
        if (s.n == 0 || (unsigned char)(s.p[0] - '0') > 9 ||
            num_parse_float(colon ? slice_of(s.p, (size_t)(colon - s.p)) : s, &v) < 0)
            return E_PROTO;
        total += v;
        if (!colon) {
            *out = total;
            return part == 0 || (dash && part < 2) ? E_PROTO : 0;
        }
        total *= 60;
        s = slice_from(s, (size_t)(colon - s.p) + 1);
    }
    return E_PROTO;
}

static int parse_duration(struct slice s, struct value *out)
{
    int64_t ns;
    double seconds;
    if (memchr(s.p, ':', s.n)) {
        int r = parse_clock(s, &seconds);
        if (r < 0)
            return r;
        *out = value_float(seconds);
        return 0;
    }
    int r = num_parse_duration(s, &ns);
    if (r < 0 && num_parse_float(s, &seconds) == 0 && isfinite(seconds)) { /* 1.25 */
        *out = value_float(seconds);
        return 0;
    }
    if (r == 0)
        *out = value_float((double)ns / 1e9);
    return r;
}

int logvalue_parse(enum logvalue_type type, struct slice text, struct value *out)
{
    struct value v = value_text(text);
    int r = 0;
    switch (type) {
    case LOGVALUE_INT:
        r = num_parse_int(text, &v.i);
        v.type = VALUE_INT;
        break;
    case LOGVALUE_UINT:
        r = num_parse_uint(text, &v.u);
        v.type = VALUE_UINT;
        break;
    case LOGVALUE_SIZE:
        r = num_parse_size(text, &v.u);
        v.type = VALUE_UINT;
        break;
    case LOGVALUE_FLOAT: {
        double d = 0;
        r = num_parse_float(text, &d);
        v = value_float(d);
        break;
    }
    case LOGVALUE_BOOL:
        r = parse_bool(text, &v);
        break;
    case LOGVALUE_DURATION:
        r = parse_duration(text, &v);
        break;
    case LOGVALUE_UNTYPED:
        v = value_untyped(text);
        break;
    case LOGVALUE_TEXT:
    case LOGVALUE_TIME:
        break;
    }
    if (r == 0)
        *out = v;
    return r;
}
