/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/bucket_where.h"

#include "base/num.h"

/* ---------------------------------------------------------------- text */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_name_char(char c)
{
    char l = slice_lower(c);
    return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

static struct slice skip_space(struct slice s)
{
    while (s.n && is_space(*s.p))
        s = slice_from(s, 1);
    return s;
}

static uint32_t column_of(struct slice text, struct slice at)
{
    return (uint32_t)(at.p - text.p) + 1;
}

static int take_field(struct slice text, struct slice *at, struct slice *out, struct diag *why)
{
    size_t n = 0;
    if (at->n && *at->p == '"') {
        const char *end = memchr(at->p + 1, '"', at->n - 1);
        if (!end || end == at->p + 1)
            return diag_set(why, E_PROTO, column_of(text, *at), "\" without a name and an end");
        *out = slice_of(at->p + 1, (size_t)(end - at->p) - 1);
        *at = slice_from(*at, out->n + 2);
        return 0;
    }
    while (n < at->n && is_name_char(at->p[n]))
        n++;
    if (n == 0 || (at->p[0] >= '0' && at->p[0] <= '9'))
        return diag_set(why, E_PROTO, column_of(text, *at),
                        "a condition begins with a field, as in: load1 > 4");
    *out = slice_of(at->p, n);
    *at = slice_from(*at, n);
    return 0;
}

static int take_op(struct slice text, struct slice *at, enum where_op *out, struct diag *why)
{
    static const struct {
        const char *word;
        enum where_op op;
    } ops[] = {{"<=", WHERE_LE}, {">=", WHERE_GE}, {"<>", WHERE_NE}, {"!=", WHERE_NE},
               {"==", WHERE_EQ}, {"<", WHERE_LT},  {">", WHERE_GT},  {"=", WHERE_EQ}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (slice_starts(*at, slice_str(ops[i].word))) {
            *out = ops[i].op;
            *at = slice_from(*at, strlen(ops[i].word));
            return 0;
        }
    return diag_set(why, E_PROTO, column_of(text, *at), "one of < <= > >= = != should be here");
}

static int take_number(struct slice text, struct slice at, struct value *out, struct diag *why)
{
    int64_t i;
    uint64_t u;
    double f;
    if (num_parse_int(at, &i) == 0)
        *out = value_int(i);
    else if (num_parse_uint(at, &u) == 0)
        *out = value_uint(u);
    else if (num_parse_float(at, &f) == 0 && !isnan(f))
        *out = value_float(f);
    else
        return diag_set(why, E_PROTO, column_of(text, at), "a number should be here, and nothing behind it");
    return 0;
}

int bucket_where_parse(struct slice text, struct bucket_where *out, struct diag *why)
{
    struct bucket_where w;
    while (text.n && is_space(text.p[text.n - 1]))
        text.n--;
    struct slice at = skip_space(text);
    int r = take_field(text, &at, &w.field, why);
    if (r < 0)
        return r;
    at = skip_space(at);
    if ((r = take_op(text, &at, &w.op, why)) < 0)
        return r;
    if ((r = take_number(text, skip_space(at), &w.than, why)) < 0)
        return r;
    *out = w;
    return 0;
}

/* ---------------------------------------------------------------- intervals */

/* Where the constant is among the values of a type: at one of them, between one and the next, or beyond all.
 */
enum place { AT, ABOVE, UNDER_ALL, OVER_ALL };

static enum place place_int(struct value c, int64_t *at)
{
    if (c.type == VALUE_UINT) {
        *at = (int64_t)c.u;
        return c.u > INT64_MAX ? OVER_ALL : AT;
    }
    if (c.type == VALUE_INT) {
        *at = c.i;
        return AT;
    }
    if (c.f >= 0x1p63)
        return OVER_ALL;
    if (c.f < -0x1p63)
        return UNDER_ALL;
    double below = floor(c.f);
    *at = (int64_t)below;
    return below == c.f ? AT : ABOVE;
}

static enum place place_uint(struct value c, uint64_t *at)
{
    if (c.type == VALUE_FLOAT) {
        if (c.f >= 0x1p64)
            return OVER_ALL;
        if (c.f < 0)
            return UNDER_ALL;
        double below = floor(c.f);
        *at = (uint64_t)below;
        return below == c.f ? AT : ABOVE;
    }
    *at = c.u;
    return c.type == VALUE_INT && c.i < 0 ? UNDER_ALL : AT;
}

static enum place place_float(struct value c, double *at)
{
    if (c.type == VALUE_FLOAT) {
        *at = c.f;
        return AT;
    }
    /* The nearest double may be on either side. */
    double d = c.type == VALUE_INT ? (double)c.i : (double)c.u;
    bool is_more, is_less;
    if (c.type == VALUE_INT) {
        is_more = d >= 0x1p63 || (int64_t)d > c.i;
        is_less = d < 0x1p63 && (int64_t)d < c.i;
    } else {
        is_more = d >= 0x1p64 || (uint64_t)d > c.u;
        is_less = d < 0x1p64 && (uint64_t)d < c.u;
    }
    *at = is_more ? nextafter(d, -(double)INFINITY) : d;
    return is_more || is_less ? ABOVE : AT;
}

/* The value before and after, of a type; the ends have none: callers ask first. */
static struct value step_of(struct value v, bool is_up)
{
    if (v.type == VALUE_FLOAT)
        return value_float(nextafter(v.f, is_up ? (double)INFINITY : -(double)INFINITY));
    v.u += is_up ? 1 : UINT64_MAX;
    return v;
}

static struct value least_of(uint8_t type)
{
    if (type == VALUE_INT)
        return value_int(INT64_MIN);
    return type == VALUE_FLOAT ? value_float(-(double)INFINITY) : value_uint(0);
}

static struct value most_of(uint8_t type)
{
    if (type == VALUE_INT)
        return value_int(INT64_MAX);
    return type == VALUE_FLOAT ? value_float((double)INFINITY) : value_uint(UINT64_MAX);
}

static struct where_test always(uint8_t type)
{
    return (struct where_test){.lo = least_of(type), .hi = most_of(type)};
}

static struct where_test never(void)
{
    return (struct where_test){.is_never = true};
}

/* The interval for a constant that is a value of the type. */
static struct where_test test_at(enum where_op op, struct value at)
{
    struct where_test t = always(at.type);
    switch (op) {
    case WHERE_LT:
        if (value_eq(at, t.lo))
            return never();
        t.hi = step_of(at, false);
        return t;
    case WHERE_LE:
        t.hi = at;
        return t;
    case WHERE_GT:
        if (value_eq(at, t.hi))
            return never();
        t.lo = step_of(at, true);
        return t;
    case WHERE_GE:
        t.lo = at;
        return t;
    case WHERE_EQ:
    case WHERE_NE:
        t.lo = t.hi = at;
        t.is_not = op == WHERE_NE;
        return t;
    }
    return never();
}

struct where_test where_test_of(const struct bucket_where *w, uint8_t type)
{
    struct value at = {.type = type == VALUE_BOOL ? VALUE_UINT : type};
    enum place place;
    if (at.type == VALUE_INT)
        place = place_int(w->than, &at.i);
    else if (at.type == VALUE_UINT)
        place = place_uint(w->than, &at.u);
    else if (at.type == VALUE_FLOAT)
        place = place_float(w->than, &at.f);
    else
        return never();
    bool is_below = w->op == WHERE_LT || w->op == WHERE_LE, is_above = w->op == WHERE_GT || w->op == WHERE_GE;
    if (place == AT)
        return test_at(w->op, at);
    if (place == ABOVE && (is_below || is_above))
        return test_at(is_below ? WHERE_LE : WHERE_GT, at);
    if (w->op == WHERE_NE || (place == UNDER_ALL && is_above) || (place == OVER_ALL && is_below))
        return always(at.type);
    return never();
}

/* ---------------------------------------------------------------- values */

static bool is_within(const struct where_test *t, struct value v)
{
    if (t->lo.type == VALUE_INT)
        return v.i >= t->lo.i && v.i <= t->hi.i;
    if (t->lo.type == VALUE_FLOAT)
        return v.f >= t->lo.f && v.f <= t->hi.f;
    return v.u >= t->lo.u && v.u <= t->hi.u;
}

/* Is the whole of min to max on one side of the interval? */
static bool is_outside(const struct where_test *t, const struct column_summary *s)
{
    if (t->lo.type == VALUE_INT)
        return s->max.i < t->lo.i || s->min.i > t->hi.i;
    if (t->lo.type == VALUE_FLOAT)
        return s->max.f < t->lo.f || s->min.f > t->hi.f;
    return s->max.u < t->lo.u || s->min.u > t->hi.u;
}

enum where_answer where_test_summary(const struct where_test *t, const struct column_summary *s)
{
    if (t->is_never || s->count == s->nans)
        return WHERE_NONE;
    bool is_in = is_within(t, s->min) && is_within(t, s->max);
    if (!is_in && !is_outside(t, s))
        return WHERE_SOME;
    if (is_in == t->is_not)
        return WHERE_NONE;
    return s->nans ? WHERE_SOME : WHERE_ALL;
}

/* 64 rows a word. NaN is neither in nor out. */
#define TEST_ROWS(name, type, member)                                                       \
    static void name(const struct where_test *t, const type *v, uint32_t n, uint64_t *pass) \
    {                                                                                       \
        type lo = t->lo.member, hi = t->hi.member;                                          \
        bool is_not = t->is_not;                                                            \
        for (uint32_t at = 0; at < n; at += 64) {                                           \
            uint32_t m = n - at < 64 ? n - at : 64;                                         \
            uint64_t word = 0;                                                              \
            for (uint32_t i = 0; i < m; i++) {                                              \
                type x = v[at + i];                                                         \
                bool is_in = (x >= lo) & (x <= hi), is_out = (x < lo) | (x > hi);           \
                word |= (uint64_t)(is_not ? is_out : is_in) << i;                           \
            }                                                                               \
            pass[at / 64] = word;                                                           \
        }                                                                                   \
    }

TEST_ROWS(test_int, int64_t, i)
TEST_ROWS(test_uint, uint64_t, u)
TEST_ROWS(test_float, double, f)

void where_test_rows(const struct where_test *t, const struct column *c, uint32_t n, uint64_t *pass)
{
    size_t words = (n + 63) / 64;
    if (t->is_never) {
        memset(pass, 0, words * sizeof *pass);
        return;
    }
    if (t->lo.type == VALUE_INT)
        test_int(t, c->i, n, pass);
    else if (t->lo.type == VALUE_FLOAT)
        test_float(t, c->f, n, pass);
    else
        test_uint(t, c->u, n, pass);
    for (size_t i = 0; c->present && i < words; i++)
        pass[i] &= c->present[i];
}
