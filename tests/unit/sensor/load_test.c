/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "unit/sensor/tree.h"

static void all_of_it(void **state)
{
    (void)state;
    tree_assert_text("load", FIXTURES "many-cores", NULL,
                     "load load1=96.5 load5=88.12 load15=64.0 running=97 threads=2467\n");
}

static void processes_on_request(void **state)
{
    (void)state;
    tree_assert_text("load", FIXTURES "container", NULL,
                     "load load1=0.25 load5=0.5 load15=0.75 running=2 threads=35\n");
    tree_assert_text("load", FIXTURES "container", (const char *[]){"processes", "yes", NULL},
                     "load load1=0.25 load5=0.5 load15=0.75 running=2 threads=35 processes=3\n");
}

static void no_file_is_no_data(void **state)
{
    (void)state;
    tree_assert_no_data("load", NULL);
}

/* What is no number is missing, and the rest stays. */
static void damaged(void **state)
{
    (void)state;
    struct tree t;
    tree_make(&t, NULL);
    tree_put(&t, "/proc/loadavg", "0.10 x 0.30 1-92 5\n");
    tree_assert_text("load", t.root, NULL, "load load1=0.1 load15=0.3\n");
    tree_put(&t, "/proc/loadavg", "0.10 0.20 0.30 /92 5\n");
    tree_assert_text("load", t.root, NULL, "load load1=0.1 load5=0.2 load15=0.3\n");
    tree_put(&t, "/proc/loadavg", "\n");
    tree_assert_no_data_at("load", t.root, NULL);
    tree_remove(&t);
}

static void cut_at_every_byte(void **state)
{
    (void)state;
    tree_assert_cuts("load", FIXTURES "many-cores", "/proc/loadavg", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it), cmocka_unit_test(processes_on_request), cmocka_unit_test(no_file_is_no_data),
        cmocka_unit_test(damaged),   cmocka_unit_test(cut_at_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
