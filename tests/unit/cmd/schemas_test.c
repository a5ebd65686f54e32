/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/cmd/sample.h"

#include "cmd/schemas.h"

static void test_schemas(void **unused)
{
    (void)unused;
    struct schemas s = {0};
    struct batch *b = sample();
    for (int twice = 0; twice < 2; twice++)
        for (size_t i = 0; i < b->n; i++)
            schemas_add(&s, b->events[i].schema);
    batch_unref(b); /* the set keeps them alive */
    const char *want[] = {"i", "u", "f", "b", "t", "x", "e", "n", "other"};
    assert_int_equal(s.n_names, 9);
    for (size_t i = 0; i < 9; i++)
        assert_slice(s.names[i], want[i]);
    schemas_fini(&s);
    assert_int_equal(s.n_names, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_schemas)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
