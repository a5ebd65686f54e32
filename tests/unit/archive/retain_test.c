/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "archive/retain.h"

#define DAY (INT64_C(86400) * 1000000000)

static void parses_rules(void **state)
{
    (void)state;
    struct retain_rules r;
    struct diag why = {0};
    assert_int_equal(retain_rules_init(&r, "cpu*=30d, job.state=12h ,*=7d", &why), 0);
    assert_int_equal(r.n, 3);
    assert_int_equal(retain_rules_age(&r, SLICE_LIT("cpu")), 30 * DAY);
    assert_int_equal(retain_rules_age(&r, SLICE_LIT("cpufreq")), 30 * DAY);
    assert_int_equal(retain_rules_age(&r, SLICE_LIT("job.state")), DAY / 2);
    assert_int_equal(retain_rules_age(&r, SLICE_LIT("memory")), 7 * DAY);
    assert_int_equal(retain_rules_longest(&r), 30 * DAY);
    retain_rules_fini(&r);
    assert_int_equal(retain_rules_init(&r, "cpu=1d", &why), 0);
    assert_int_equal(retain_rules_age(&r, SLICE_LIT("memory")), RETAIN_AGE_NS);
    assert_int_equal(retain_rules_longest(&r), RETAIN_AGE_NS);
    retain_rules_fini(&r);
    assert_int_equal(retain_rules_init(&r, "*=1d,cpu=90d", &why), 0); /* the second fits nothing */
    assert_int_equal(retain_rules_longest(&r), DAY);
    retain_rules_fini(&r);
    assert_int_equal(retain_rules_init(&r, NULL, &why), 0);
    assert_int_equal(retain_rules_age(&r, SLICE_LIT("cpu")), RETAIN_AGE_NS);
    retain_rules_fini(&r);
    static const char *const bad[] = {"cpu",     "=5d",    "cpu=",    "cpu=x",
                                      "cpu=-5d", "cpu=0s", "c[pu=5d", "a=1d,b"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        why.message[0] = '\0';
        assert_int_equal(retain_rules_init(&r, bad[i], &why), E_PROTO);
        assert_true(why.message[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
