/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>

static void test_print(void **state)
{
    (void)state;
    char buf[CLOCK_TEXT_MAX];
    assert_slice(slice_of(buf, clock_print_iso(buf, 0)), "1970-01-01T00:00:00.000000Z");
    assert_slice(slice_of(buf, clock_print_iso(buf, -1)), "1969-12-31T23:59:59.999999999Z");
    assert_slice(slice_of(buf, clock_print_ulm(buf, 957533100123456000)), "20000505132500.123456");
    assert_slice(slice_of(buf, clock_print_iso(buf, INT64_MAX)), "2262-04-11T23:47:16.854775807Z");
    assert_slice(slice_of(buf, clock_print_iso(buf, INT64_MIN)), "1677-09-21T00:12:43.145224192Z");
}

static void test_round_trip(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int i = 0; i < 200000; i++) {
        int64_t t = (int64_t)test_random(&seed), back;
        if (i % 2)
            t -= t % 1000;
        char buf[CLOCK_TEXT_MAX];
        size_t n = clock_print_iso(buf, t);
        assert_int_equal(clock_parse_iso(slice_of(buf, n), &back), 0);
        assert_int_equal(t, back);
        n = clock_print_ulm(buf, t);
        assert_int_equal(clock_parse_ulm(slice_of(buf, n), &back, NULL), 0);
        assert_int_equal(t, back);
    }
}

static void test_parse(void **state)
{
    (void)state;
    int64_t t = 0;
    assert_int_equal(clock_parse_iso(SLICE_LIT("2007-06-12T14:32:15.145455Z"), &t), 0);
    assert_int_equal(t, 1181658735145455000);
    assert_int_equal(clock_parse_iso(SLICE_LIT("2007-06-12T16:32:15.145455+02:00"), &t), 0);
    assert_int_equal(t, 1181658735145455000);
    assert_int_equal(clock_parse_iso(SLICE_LIT("2007-06-12"), &t), 0);
    assert_int_equal(t, 1181606400000000000);
    assert_int_equal(clock_parse_epoch(SLICE_LIT("1181658735.145455"), &t), 0);
    assert_int_equal(t, 1181658735145455000);
    assert_int_equal(clock_parse_epoch(SLICE_LIT("-0.5"), &t), 0);
    assert_int_equal(t, -500000000);
    size_t digits;
    assert_int_equal(clock_parse_ulm(SLICE_LIT("20000505132500.2102"), &t, &digits), 0);
    assert_int_equal(digits, 4);
    static const char *const bad[] = {"",           "2007",          "2007-13-01", "2007-02-29",
                                      "2007-06-12T", "2007-06-12T25:00:00Z", "2007-06-12T14:32:15.Z", "2007-06-12T14:32:15Zx"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(clock_parse_iso(slice_str(bad[i]), &t), E_PROTO);
    assert_int_equal(clock_parse_iso(SLICE_LIT("2500-01-01T00:00:00Z"), &t), -ERANGE);
    assert_int_equal(clock_parse_ulm(SLICE_LIT("20000505132500."), &t, NULL), E_PROTO);
}

static void test_human(void **state)
{
    (void)state;
    int64_t t, now = 1000 * NS_PER_S;
    assert_int_equal(clock_parse_human(SLICE_LIT("now-15m"), now, &t), 0);
    assert_int_equal(t, 100 * NS_PER_S);
    assert_int_equal(clock_parse_human(SLICE_LIT("now"), now, &t), 0);
    assert_int_equal(t, now);
    assert_int_equal(clock_parse_human(SLICE_LIT("1181658735"), now, &t), 0);
    assert_int_equal(t, 1181658735 * NS_PER_S);
    assert_int_equal(clock_parse_human(SLICE_LIT("20000505132500"), now, &t), 0);
    assert_int_equal(t, 957533100 * NS_PER_S);
    assert_true(clock_parse_human(SLICE_LIT("yesterday"), now, &t) < 0);
    assert_true(clock_parse_human(SLICE_LIT(""), now, &t) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_human),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
