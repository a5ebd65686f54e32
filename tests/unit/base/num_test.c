/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/err.h"
#include "base/num.h"

#include <errno.h>
#include <locale.h>
#include <math.h>

static void check_float(double v, const char *text)
{
    char buf[NUM_TEXT_MAX + 1];
    assert_slice(slice_of(buf, num_print_float(buf, v)), text);
}

static void test_print_float(void **state)
{
    (void)state;
    check_float(0, "0.0");
    check_float(-0.0, "-0.0");
    check_float(5, "5.0");
    check_float(-1.5, "-1.5");
    check_float(0.1, "0.1");
    check_float(100, "100.0");
    check_float(1e15, "1000000000000000.0");
    check_float(1e16, "1e16");
    check_float(1.5e-7, "1.5e-7");
    check_float(0.00001, "0.00001");
    check_float(5e-324, "5e-324");
    check_float(1.7976931348623157e308, "1.7976931348623157e308");
    check_float(0.1 + 0.2, "0.30000000000000004");
    check_float(NAN, "NaN");
    check_float(INFINITY, "Inf");
    check_float(-INFINITY, "-Inf");
}

/* Any bit pattern: what is printed reads back as the same bits and is classified as that float. */
static void test_float_round_trip(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int i = 0; i < 300000; i++) {
        uint64_t bits = test_random(&seed);
        double v, back;
        if (i % 3 == 0)
            v = (double)(int64_t)(bits % 20000001 - 10000000) / 1000.0;
        else
            memcpy(&v, &bits, 8);
        char buf[NUM_TEXT_MAX + 1];
        size_t n = num_print_float(buf, v);
        assert_true(n <= NUM_TEXT_MAX);
        assert_int_equal(num_parse_float(slice_of(buf, n), &back), 0);
        assert_true(isnan(v) ? isnan(back) : memcmp(&v, &back, 8) == 0);
        assert_int_equal(num_classify(slice_of(buf, n)).is, NUM_FLOAT);
    }
}

static void test_other_locale(void **state)
{
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8"))
        skip(); /* the machine has no such locale */
    check_float(0.1 + 0.2, "0.30000000000000004");
    double v;
    assert_int_equal(num_parse_float(SLICE_LIT("0.30000000000000004"), &v), 0);
    assert_true(v == 0.1 + 0.2);
    (void)setlocale(LC_ALL, "C");
}

static void test_classify(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum num_class is;
    } cases[] = {
        {"5", NUM_INT},          {"-5", NUM_INT},        {"0", NUM_INT},          {"-0", NUM_NOT},
        {"007", NUM_NOT},        {"+5", NUM_NOT},        {"", NUM_NOT},           {"-", NUM_NOT},
        {"1.5", NUM_FLOAT},      {"1.50", NUM_NOT},      {".5", NUM_NOT},         {"5.", NUM_NOT},
        {"1e5", NUM_NOT},        {"1e16", NUM_FLOAT},    {"1e+16", NUM_NOT},      {"1E16", NUM_NOT},
        {"5.0", NUM_FLOAT},      {"-0.0", NUM_FLOAT},    {"NaN", NUM_FLOAT},      {"nan", NUM_NOT},
        {"Inf", NUM_FLOAT},      {"-Inf", NUM_FLOAT},    {"inf", NUM_NOT},        {"0x10", NUM_NOT},
        {"9223372036854775807", NUM_INT},                {"9223372036854775808", NUM_UINT},
        {"18446744073709551615", NUM_UINT},              {"18446744073709551616", NUM_NOT},
        {"-9223372036854775808", NUM_INT},               {"-9223372036854775809", NUM_NOT},
        {"20041019121500.123456", NUM_NOT},              {"1.2.3", NUM_NOT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum num_class is = num_classify(slice_str(cases[i].text)).is;
        if (is != cases[i].is)
            fail_msg("%s is %d, not %d", cases[i].text, is, cases[i].is);
    }
}

/* A decimal is canonical exactly when printing its value gives the same text. */
static void test_classify_decimals(void **state)
{
    (void)state;
    uint64_t seed = 17;
    for (int i = 0; i < 300000; i++) {
        char text[64], printed[NUM_TEXT_MAX];
        uint64_t r = test_random(&seed), digits = r >> (r % 60);
        size_t zeros = test_random(&seed) % 3, places = test_random(&seed) % 12;
        int n = snprintf(text, sizeof text, "%s%.*s%llu", r & 1 ? "-" : "", (int)zeros, "00", (unsigned long long)digits);
        if ((size_t)n > places + 1) {
            memmove(text + n - places + 1, text + n - places, places + 1);
            text[n - (int)places] = '.';
            n++;
        }
        struct slice s = slice_of(text, (size_t)n);
        double v;
        if (!memchr(text, '.', (size_t)n) || n > NUM_TEXT_MAX || num_parse_float(s, &v) < 0)
            continue;
        bool is_canonical = slice_eq(s, slice_of(printed, num_print_float(printed, v)));
        if ((num_classify(s).is == NUM_FLOAT) != is_canonical)
            fail_msg("%s is %scanonical", text, is_canonical ? "" : "not ");
    }
}

/* The same of doubles near all decimals that a program may print for them. */
static void test_classify_long(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int i = 0; i < 300000; i++) {
        char text[64], printed[NUM_TEXT_MAX];
        double v = (double)test_random(&seed) / 18446744073709551616.0 * (i % 3 ? 1 : (double)(test_random(&seed) >> test_random(&seed) % 60));
        v = i % 7 ? v : ldexp(1, (int)(test_random(&seed) % 60) - 15);
        int n = i % 2 ? snprintf(text, sizeof text, "%.*g", 15 + i % 4, v)
                      : snprintf(text, sizeof text, "%.*f", (int)(test_random(&seed) % 22), v);
        struct slice s = slice_of(text, (size_t)n);
        if (!memchr(text, '.', (size_t)n) || n > NUM_TEXT_MAX || num_parse_float(s, &v) < 0)
            continue;
        if (test_random(&seed) % 4 == 0)
            s = slice_of(text, num_print_float(text, v));
        bool is_canonical = slice_eq(s, slice_of(printed, num_print_float(printed, v)));
        if ((num_classify(s).is == NUM_FLOAT) != is_canonical)
            fail_msg("%.*s is %scanonical", SLICE_ARG(s), is_canonical ? "" : "not ");
    }
}

static void test_written(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double number;
    } numbers[] = {{"0.50", 0.5},     {".50", 0.5},   {"5.", 5},      {"-5.", -5},     {"+0.25", 0.25}, {"1e-05", 1e-5},
                   {"1.50E+03", 1500}, {"-0", -0.0},  {"1e+2", 100},  {"1.10", 1.1},   {"0.00", 0},     {"+.5", 0.5},
                   {"1E-3", 1e-3},     {"+1.", 1},    {"-.5e1", -5},  {"-0.0e0", -0.0}, {"inf", INFINITY},
                   {"-inf", -INFINITY}, {"20041019121500.123456", 20041019121500.123456}};
    static const char *const others[] = {"",     "-",    "+",    ".",     "-.",   "e5",   "080",  "00017", "+4930123", "+5",
                                         "0x1F", "12e4", "12E4", "1.2.3", "95%",  "1e",   "1e+",  "1e-",   "1.5e",     " 1",
                                         "1 ",   "1_0",  "1,5",  "--1",   "+-1",  "Nan",  "INF",  "+inf",  "+nan",     "infinity",
                                         "01.5", "-080", "1e+400", "18446744073709551616", "\xc2\xbd", "5m"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct num n = num_written(slice_str(numbers[i].text));
        if (n.is != NUM_FLOAT || n.f != numbers[i].number || signbit(n.f) != signbit(numbers[i].number))
            fail_msg("%s is not %g", numbers[i].text, numbers[i].number);
        assert_int_equal(num_classify(slice_str(numbers[i].text)).is, NUM_NOT);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (num_written(slice_str(others[i])).is != NUM_NOT)
            fail_msg("%s is a number", others[i]);
    assert_true(isnan(num_written(SLICE_LIT("nan")).f) && isnan(num_written(SLICE_LIT("-nan")).f));
    assert_int_equal(num_written(SLICE_LIT("17")).i, 17);
    char text[80];
    memset(text, '0', sizeof text);
    text[1] = '.';
    assert_int_equal(num_written(slice_of(text, 64)).is, NUM_FLOAT);
    assert_int_equal(num_written(slice_of(text, 65)).is, NUM_NOT);
}

static void test_integers(void **state)
{
    (void)state;
    int64_t i = 1;
    uint64_t u = 1;
    assert_int_equal(num_parse_int(SLICE_LIT("-9223372036854775808"), &i), 0);
    assert_true(i == INT64_MIN);
    assert_int_equal(num_parse_int(SLICE_LIT("9223372036854775808"), &i), -ERANGE);
    assert_int_equal(num_parse_uint(SLICE_LIT("18446744073709551616"), &u), -ERANGE);
    assert_int_equal(num_parse_uint(SLICE_LIT("12a"), &u), E_PROTO);
    assert_int_equal(u, 1); /* untouched on failure */
    char buf[NUM_TEXT_MAX];
    assert_slice(slice_of(buf, num_print_int(buf, INT64_MIN)), "-9223372036854775808");
    assert_slice(slice_of(buf, num_print_uint(buf, UINT64_MAX)), "18446744073709551615");
}

static void test_units(void **state)
{
    (void)state;
    uint64_t size;
    int64_t ns;
    assert_int_equal(num_parse_size(SLICE_LIT("2GiB"), &size), 0);
    assert_int_equal(size, 2ull << 30);
    assert_int_equal(num_parse_size(SLICE_LIT("1.5k"), &size), 0);
    assert_int_equal(size, 1500);
    assert_int_equal(num_parse_size(SLICE_LIT("5 apples"), &size), E_PROTO);
    assert_int_equal(num_parse_duration(SLICE_LIT("250ms"), &ns), 0);
    assert_int_equal(ns, 250000000);
    assert_int_equal(num_parse_duration(SLICE_LIT("10"), &ns), 0);
    assert_int_equal(ns, 10000000000);
    assert_int_equal(num_parse_duration(SLICE_LIT("9999999999d"), &ns), -ERANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_print_float), cmocka_unit_test(test_float_round_trip),
        cmocka_unit_test(test_other_locale), cmocka_unit_test(test_classify),
        cmocka_unit_test(test_classify_decimals), cmocka_unit_test(test_classify_long), cmocka_unit_test(test_written),
        cmocka_unit_test(test_integers),     cmocka_unit_test(test_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
