/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "agent/threshold.h"

static const struct field fields[] = {
    KEY("device", ""),
    FIELD("count", UINT, COUNTER, "", ""),
    FIELD("level", INT, GAUGE, "", ""),
    FIELD("load", FLOAT, GAUGE, "", ""),
    FIELD("state", TEXT, STATE, "", ""),
};
static const struct sensor_schema declared[] = {SCHEMA("t", fields), {0}};
enum { N = sizeof fields / sizeof *fields };

static bool passes(const struct change_limit *changes, size_t n, const struct value *before,
                   const struct value *now)
{
    struct limit limits[N];
    struct schema *s;
    assert_int_equal(schema_create(SLICE_LIT("t"), fields, N, &s), 0);
    limits_resolve(changes, n, &declared[0], limits);
    bool r = limits_passed(limits, s, before, now);
    schema_unref(s);
    return r;
}

#define ROW(c, l, f, t)                                                                                     \
    {                                                                                                       \
        value_text(SLICE_LIT("sda")), value_uint(c), value_int(l), value_float(f), value_text(SLICE_LIT(t)) \
    }

static void without_limits_every_change_counts(void **state)
{
    (void)state;
    const struct value a[] = ROW(1, -1, 0.5, "up"), same[] = ROW(1, -1, 0.5, "up"),
                       b[] = ROW(2, -1, 0.5, "up"), c[] = ROW(1, -1, 0.5, "down");
    assert_false(passes(NULL, 0, a, same));
    assert_true(passes(NULL, 0, a, b));
    assert_true(passes(NULL, 0, a, c));
}

static void only_named_fields_count(void **state)
{
    (void)state;
    const struct change_limit limit[] = {{"load", 0.2, false}};
    const struct value a[] = ROW(1, -1, 0.5, "up"), b[] = ROW(900, 7, 0.7, "down"),
                       c[] = ROW(1, -1, 0.71, "up");
    assert_false(passes(limit, 1, a, b)); /* exactly 0.2 is not more than 0.2 */
    assert_true(passes(limit, 1, a, c));
}

static void star_is_all_others(void **state)
{
    (void)state;
    const struct change_limit limits[] = {{"*", 10, false}, {"count", 1000, false}};
    const struct value a[] = ROW(1, -1, 0.5, "up"), b[] = ROW(999, 8, 9, "up"), c[] = ROW(1, 10, 0.5, "up");
    assert_false(passes(limits, 2, a, b));
    assert_true(passes(limits, 2, a, c));
}

static void percent_of_the_value_before(void **state)
{
    (void)state;
    const struct change_limit limit[] = {{"count", 10, true}};
    const struct value a[] = ROW(100, 0, 0, ""), b[] = ROW(110, 0, 0, ""), c[] = ROW(111, 0, 0, ""),
                       d[] = ROW(89, 0, 0, ""), zero[] = ROW(0, 0, 0, ""), one[] = ROW(1, 0, 0, "");
    assert_false(passes(limit, 1, a, b));
    assert_true(passes(limit, 1, a, c));
    assert_true(passes(limit, 1, a, d));
    assert_true(passes(limit, 1, zero, one)); /* anything is more than ten percent of nothing */
}

static void large_integers_by_their_difference(void **state)
{
    (void)state;
    const struct change_limit limit[] = {{"count", 5, false}};
    const struct value a[] = ROW(UINT64_MAX, 0, 0, ""), b[] = ROW(UINT64_MAX - 5, 0, 0, ""),
                       c[] = ROW(UINT64_MAX - 6, 0, 0, "");
    assert_false(passes(limit, 1, a, b));
    assert_true(passes(limit, 1, a, c));
    const struct change_limit wide[] = {{"level", 1e19, false}};
    const struct value low[] = ROW(0, INT64_MIN, 0, ""), high[] = ROW(0, INT64_MAX, 0, "");
    assert_true(passes(wide, 1, low, high)); /* 1.8e19 apart, without overflow */
}

static void missing_and_nan(void **state)
{
    (void)state;
    const struct change_limit limit[] = {{"load", 100, false}};
    struct value a[] = ROW(0, 0, 0.5, ""), gone[] = ROW(0, 0, 0.5, ""), nan[] = ROW(0, 0, 0, "");
    gone[3] = value_none();
    nan[3] = value_float((double)NAN);
    assert_true(passes(limit, 1, a, gone));
    assert_true(passes(limit, 1, gone, a));
    assert_false(passes(limit, 1, gone, gone));
    assert_true(passes(limit, 1, a, nan));
    assert_false(passes(limit, 1, nan, nan));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_limits_every_change_counts),
        cmocka_unit_test(only_named_fields_count),
        cmocka_unit_test(star_is_all_others),
        cmocka_unit_test(percent_of_the_value_before),
        cmocka_unit_test(large_integers_by_their_difference),
        cmocka_unit_test(missing_and_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
