/* SPDX-License-Identifier: Apache-2.0 */
/* A condition says the same of a summary, of rows and of exact arithmetic, for every type and constant. */
#include "unit/test.h"

#include "archive/bucket_where.h"

static void parses(void **state)
{
    (void)state;
    struct bucket_where w;
    struct diag why = {0};
    assert_int_equal(bucket_where_parse(SLICE_LIT(" load1 >= 4.5 "), &w, &why), 0);
    assert_slice(w.field, "load1");
    assert_int_equal(w.op, WHERE_GE);
    assert_true(value_eq(w.than, value_float(4.5)));
    assert_int_equal(bucket_where_parse(SLICE_LIT("\"job.id-x\"<>-3"), &w, &why), 0);
    assert_slice(w.field, "job.id-x");
    assert_int_equal(w.op, WHERE_NE);
    assert_true(value_eq(w.than, value_int(-3)));
    assert_int_equal(bucket_where_parse(SLICE_LIT("a.b=18446744073709551615"), &w, &why), 0);
    assert_true(value_eq(w.than, value_uint(UINT64_MAX)));
    static const struct {
        const char *text;
        uint32_t col;
    } bad[] = {{"", 1},      {"4 > load1", 1}, {"load1", 6},           {"load1 4", 7}, {"load1 > ", 8},
               {"a > b", 5}, {"a > NaN", 5},   {"a > 1 AND b > 2", 5}, {"\"a > 1", 1}, {"a > 'x'", 5}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(bucket_where_parse(slice_str(bad[i].text), &w, &why), E_PROTO);
        assert_int_equal(why.col, bad[i].col);
    }
}

static long double exact(struct value v)
{
    if (v.type == VALUE_INT)
        return (long double)v.i;
    return v.type == VALUE_FLOAT ? (long double)v.f : (long double)v.u;
}

static bool holds(struct value v, enum where_op op, struct value c)
{
    long double a = exact(v), b = exact(c);
    switch (op) {
    case WHERE_LT:
        return a < b;
    case WHERE_LE:
        return a <= b;
    case WHERE_GT:
        return a > b;
    case WHERE_GE:
        return a >= b;
    case WHERE_EQ:
        return a == b;
    default:
        return a < b || a > b; /* not NaN */
    }
}

static const double floats[] = {0.0,
                                -0.0,
                                0.5,
                                -0.5,
                                1,
                                -1,
                                1.5,
                                0x1p53,
                                0x1p53 + 2,
                                0x1p62,
                                0x1p63,
                                -0x1p63,
                                0x1p64,
                                -0x1p63 - 2048,
                                5e-324,
                                -5e-324,
                                1e300,
                                -1e300,
                                (double)INFINITY,
                                -(double)INFINITY,
                                (double)NAN};
static const uint64_t integers[] = {0,
                                    1,
                                    2,
                                    (UINT64_C(1) << 53) + 1,
                                    UINT64_C(1) << 53,
                                    INT64_MAX,
                                    (uint64_t)INT64_MAX + 1,
                                    UINT64_MAX,
                                    UINT64_MAX - 1,
                                    (uint64_t)-1023,
                                    INT64_MAX - 511};
enum { FLOATS = sizeof floats / sizeof *floats, INTEGERS = sizeof integers / sizeof *integers };

/* Value i of a type; is_constant: NaN is none. */
static bool value_at(uint8_t type, size_t i, bool is_constant, struct value *out)
{
    if (type == VALUE_FLOAT) {
        *out = i < FLOATS ? value_float(floats[i]) : value_none();
        return i < FLOATS && !(is_constant && isnan(floats[i]));
    }
    *out = (struct value){.u = i < INTEGERS ? integers[i] : 0, .type = type};
    return type == VALUE_BOOL ? i < 2 : i < INTEGERS;
}

static struct column_summary summary_of(struct value a, struct value b)
{
    struct column_summary s = {.count = 2};
    struct value both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        struct value v = both[i];
        if (v.type == VALUE_FLOAT && isnan(v.f)) {
            s.nans++;
            continue;
        }
        s.min = !s.min.type || exact(v) < exact(s.min) ? v : s.min;
        s.max = !s.max.type || exact(v) > exact(s.max) ? v : s.max;
    }
    return s;
}

static void check_pair(const struct where_test *t, enum where_op op, struct value c, struct value a,
                       struct value b)
{
    uint64_t bits[2] = {a.u, b.u}, present = 3, pass;
    struct column col = {.type = a.type, .u = bits, .present = &present};
    bool is_a = holds(a, op, c), is_b = holds(b, op, c);
    where_test_rows(t, &col, 2, &pass);
    assert_int_equal(pass, (uint64_t)is_a | (uint64_t)is_b << 1);
    present = 2;
    where_test_rows(t, &col, 2, &pass);
    assert_int_equal(pass, (uint64_t)is_b << 1);
    struct column_summary s = summary_of(a, b);
    enum where_answer answer = where_test_summary(t, &s);
    assert_true(answer != WHERE_ALL || (is_a && is_b));
    assert_true(answer != WHERE_NONE || (!is_a && !is_b));
    if (value_eq(a, b) && !isnan((double)exact(a))) /* then it can tell */
        assert_int_equal(answer, is_a ? WHERE_ALL : WHERE_NONE);
}

static void is_exact(void **state)
{
    (void)state;
    static const uint8_t types[] = {VALUE_INT, VALUE_UINT, VALUE_FLOAT, VALUE_BOOL};
    struct value a, b, c;
    for (int t = 0; t < 4; t++)
        for (int ct = 0; ct < 3; ct++)
            for (size_t k = 0; k < FLOATS; k++)
                for (int op = WHERE_LT; op <= WHERE_NE; op++) {
                    if (!value_at(types[ct], k, true, &c))
                        continue;
                    struct bucket_where w = {.op = (enum where_op)op, .than = c};
                    struct where_test test = where_test_of(&w, types[t]);
                    for (size_t i = 0; value_at(types[t], i, false, &a); i++)
                        for (size_t n = 0; value_at(types[t], n, false, &b); n++)
                            check_pair(&test, (enum where_op)op, c, a, b);
                }
}

static void text_never_passes(void **state)
{
    (void)state;
    struct bucket_where w = {.op = WHERE_NE, .than = value_int(1)};
    assert_true(where_test_of(&w, VALUE_TEXT).is_never);
    assert_true(where_test_of(&w, VALUE_BYTES).is_never);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses),
        cmocka_unit_test(is_exact),
        cmocka_unit_test(text_never_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
