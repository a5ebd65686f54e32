/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/err.h"
#include "base/setting.h"

#include <errno.h>

static void test_flags(void **unused)
{
    static const char *const yes[] = {"true", "yes", "on", "1", "TRUE", "Yes"}, *const no[] = {"false", "no",
                                                                                               "off", "0"};
    bool flag;
    (void)unused;
    for (size_t i = 0; i < 6; i++) {
        flag = false;
        assert_int_equal(setting_parse(SETTING_FLAG, slice_str(yes[i]), NULL, &flag), 0);
        assert_true(flag);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(setting_parse(SETTING_FLAG, slice_str(no[i]), NULL, &flag), 0);
        assert_false(flag);
    }
    flag = true;
    assert_int_equal(setting_parse(SETTING_FLAG, SLICE_LIT("maybe"), NULL, &flag), E_PROTO);
    assert_int_equal(setting_parse(SETTING_FLAG, SLICE_LIT(""), NULL, &flag), E_PROTO);
    assert_true(flag);
}

static void test_others(void **unused)
{
    struct arena arena = {0};
    int64_t i;
    uint64_t u = 5;
    double f;
    const char *text;
    (void)unused;
    assert_int_equal(setting_parse(SETTING_INT, SLICE_LIT("-7"), NULL, &i), 0);
    assert_int_equal(i, -7);
    assert_int_equal(setting_parse(SETTING_FLOAT, SLICE_LIT("0.5"), NULL, &f), 0);
    assert_true(f == 0.5);
    assert_int_equal(setting_parse(SETTING_DURATION, SLICE_LIT("250ms"), NULL, &i), 0);
    assert_int_equal(i, 250000000);
    assert_int_equal(setting_parse(SETTING_SIZE, SLICE_LIT("64KiB"), NULL, &u), 0);
    assert_int_equal(u, 65536);
    assert_int_equal(setting_parse(SETTING_SIZE, SLICE_LIT("64KiBs"), NULL, &u), E_PROTO);
    assert_int_equal(u, 65536);
    assert_int_equal(setting_parse(SETTING_INT, SLICE_LIT("99999999999999999999"), NULL, &i), -ERANGE);
    assert_int_equal(setting_parse(SETTING_STRING, slice_of("abcdef", 3), &arena, &text), 0);
    assert_string_equal(text, "abc");
    assert_int_equal(setting_parse(SETTING_LIST, SLICE_LIT("a"), &arena, &text), E_PROTO);
    for (int type = SETTING_FLAG; type <= SETTING_LIST; type++) {
        assert_true(*setting_type_name((enum setting_type)type));
        assert_true(*setting_type_example((enum setting_type)type));
    }
    arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
