/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "event/rate.h"

#define S INT64_C(1000000000)

static void of_two_readings(void **state)
{
    (void)state;
    struct value r = rate_of(value_uint(100), value_uint(350), 1, 2 * S);
    assert_int_equal(r.type, VALUE_FLOAT);
    assert_true(r.f == 125.0);
    assert_true(rate_of(value_uint(7), value_uint(7), 1, S).f == 0.0);
    assert_true(rate_of(value_uint(0), value_uint(1000), 0.25, S).f == 250.0);
    assert_true(rate_of(value_uint(0), value_uint(UINT64_MAX), 1, S).f > 1.8e19);
}

static void two_decimals(void **state)
{
    (void)state;
    assert_true(rate_of(value_uint(0), value_uint(1), 1, 3 * S).f == 0.33);
    assert_true(rate_of(value_uint(0), value_uint(2), 1, 3 * S).f == 0.67);
    assert_true(rate_rounded(1234567.894999).f == 1234567.89);
}

static void gaps(void **state)
{
    (void)state;
    uint64_t gain = 77;
    assert_false(rate_gain(5, 4, &gain));
    assert_int_equal(gain, 77);
    assert_int_equal(rate_of(value_uint(5), value_uint(4), 1, S).type, VALUE_NONE);
    assert_int_equal(rate_of(value_none(), value_uint(4), 1, S).type, VALUE_NONE);
    assert_int_equal(rate_of(value_uint(4), value_none(), 1, S).type, VALUE_NONE);
    assert_int_equal(rate_of(value_uint(4), value_uint(5), 1, 0).type, VALUE_NONE);
    assert_int_equal(rate_of(value_uint(4), value_uint(5), 1, -S).type, VALUE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_two_readings),
        cmocka_unit_test(two_decimals),
        cmocka_unit_test(gaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
