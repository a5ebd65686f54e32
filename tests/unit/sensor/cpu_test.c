/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "unit/sensor/tree.h"

static void all_of_it(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "cpu", FIXTURES "small", NULL), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p,
                        "cpu cpu=\"all\" user=10132153 nice=290696 system=3084719 idle=46828483 iowait=16683 irq=0 "
                        "softirq=25195 steal=0 guest=175628 guest_nice=0\n"
                        "cpu cpu=\"0\" user=1393280 nice=32966 system=572056 idle=13343292 iowait=6130 irq=0 "
                        "softirq=17875 steal=0 guest=23933 guest_nice=0\n"
                        "cpu cpu=\"1\" user=1335091 nice=20961 system=501410 idle=13358191 iowait=5500 irq=0 "
                        "softirq=3320 steal=0 guest=24151 guest_nice=7\n"
                        "cpu.system interrupts=1462898 softirqs=229245889 switches=115315 forks=86031 running=6 "
                        "blocked=2 softirq_hi=94 softirq_timer=60001584 softirq_net_out=13619\n");
    sense_close(&s);
}

static void only_the_total(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "cpu", FIXTURES "small", (const char *[]){"per_core", "no", NULL}), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_int_equal(s.rows, 2);
    sense_close(&s);
    /* "100" is as long as "all" */
    assert_int_equal(sense_open(&s, "cpu", FIXTURES "many-cores", (const char *[]){"per_core", "no", NULL}), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_int_equal(s.rows, 2);
    sense_close(&s);
}

static void no_file_is_no_data(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "cpu", FIXTURES "missing", NULL), 0);
    assert_int_equal(sense_run(&s), E_NODATA);
    assert_int_equal(s.rows, 0);
    assert_int_equal(instance_stats(s.instance)->no_data, 1);
    sense_close(&s);
}

static void cut_at_every_byte(void **state)
{
    (void)state;
    tree_assert_cuts("cpu", FIXTURES "small", "/proc/stat", NULL);
}

/* 128 processors, and a kernel whose lines have 7 numbers. */
static void other_shapes(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "cpu", FIXTURES "many-cores", NULL), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_int_equal(s.rows, 130);
    sense_close(&s);
    tree_assert_text("cpu", FIXTURES "old-kernel", NULL,
                 "cpu cpu=\"all\" user=1000 nice=20 system=300 idle=5000 iowait=40 irq=5 softirq=6\n"
                 "cpu cpu=\"0\" user=1000 nice=20 system=300 idle=5000 iowait=40 irq=5 softirq=6\n"
                 "cpu.system interrupts=777 switches=888 forks=999\n");
}

/* A key is a number or "all", whatever a captured file holds. */
static void no_processor(void **state)
{
    (void)state;
    struct tree t;
    tree_make(&t, NULL);
    tree_put(&t, "/proc/stat", "cpu\xc4 1 2 3 4\ncpux 1 2 3 4\ncpu0x 1 2 3 4\ncpu12 1 2 3 4\n");
    tree_assert_text("cpu", t.root, NULL, "cpu cpu=\"12\" user=1 nice=2 system=3 idle=4\n");
    tree_remove(&t);
}

static void unknown_option(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "cpu", "", (const char *[]){"per_cores", "no", NULL}), -EINVAL);
    sense_close(&s);
    assert_int_equal(sense_open(&s, "cpu", "", (const char *[]){"per_core", "perhaps", NULL}), -EINVAL);
    sense_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it),         cmocka_unit_test(only_the_total), cmocka_unit_test(no_file_is_no_data),
        cmocka_unit_test(cut_at_every_byte), cmocka_unit_test(other_shapes),   cmocka_unit_test(no_processor),
        cmocka_unit_test(unknown_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
