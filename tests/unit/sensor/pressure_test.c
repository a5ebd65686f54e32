/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "sensor/scan.h"
#include "unit/sensor/tree.h"

static void all_of_it(void **state)
{
    (void)state;
    tree_assert_text(
        "pressure", FIXTURES "server", NULL,
        "pressure resource=\"cpu\" some_avg10=12.5 some_avg60=7.03 some_avg300=2.99 some_total=6025876566 "
        "full_avg10=0.0 full_avg60=0.0 full_avg300=0.0 full_total=0\n"
        "pressure resource=\"memory\" some_avg10=0.0 some_avg60=0.0 some_avg300=0.01 some_total=18446744073709551615 "
        "full_avg10=100.0 full_avg60=99.99 full_avg300=0.0 full_total=12\n"
        "pressure resource=\"io\" some_avg10=0.07 some_avg60=0.09 some_avg300=0.29 some_total=89489687 "
        "full_avg10=0.04 full_avg60=0.07 full_avg300=0.26 full_total=30874953\n"
        "pressure resource=\"irq\" full_avg10=0.17 full_avg60=0.2 full_avg300=0.21 full_total=45118822\n");
}

static void missing_and_cut(void **state)
{
    (void)state;
    tree_assert_no_data("pressure", NULL);
    tree_assert_cuts("pressure", FIXTURES "server", "/proc/pressure/io", NULL);
    tree_assert_cuts("pressure", FIXTURES "server", "/proc/pressure/irq", NULL);
}

static void words_that_are_no_numbers(void **state)
{
    (void)state;
    struct tree t;
    tree_make(&t, NULL);
    tree_put(&t, "/proc/pressure/cpu", "some avg10=x avg60= avg300=1.5 total=-1\nhalf avg10=1.0\n\nfull total=5\n");
    tree_assert_text("pressure", t.root, NULL, "pressure resource=\"cpu\" some_avg300=1.5\n");
    tree_remove(&t);
}

static void this_host(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "pressure", "", NULL), 0);
    int r = sense_run(&s);
    if (r == E_NODATA) {
        sense_close(&s);
        skip(); /* a kernel without PSI */
    }
    assert_int_equal(r, 0);
    assert_non_null(strstr(s.text.p, "pressure resource=\"cpu\" some_avg10="));
    sense_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it),
        cmocka_unit_test(missing_and_cut),
        cmocka_unit_test(words_that_are_no_numbers),
        cmocka_unit_test(this_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
