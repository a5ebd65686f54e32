/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "unit/sensor/sense.h"

#include <sys/stat.h>
#include <unistd.h>

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
                        "blocked=2\n");
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

/* A file cut in the middle of a number: what stands before it counts, the cut line does not. */
static void cut_at_every_byte(void **state)
{
    (void)state;
    char root[] = "/tmp/gridline-cpu.XXXXXX", path[64];
    struct strbuf whole = {0};
    struct sense s;
    assert_non_null(mkdtemp(root));
    (void)snprintf(path, sizeof path, "%s/proc", root);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/proc/stat", root);
    env_init(&s.env, FIXTURES "small");
    assert_int_equal(env_read_file(&s.env, "/proc/stat", &whole), 0);
    assert_int_equal(sense_open(&s, "cpu", FIXTURES "small", NULL), 0);
    assert_int_equal(sense_run(&s), 0);
    struct strbuf expected = s.text;
    s.text = (struct strbuf){0};
    sense_close(&s);
    for (size_t n = 0; n < whole.n; n++) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(fwrite(whole.p, 1, n, f), n);
        assert_int_equal(fclose(f), 0);
        assert_int_equal(sense_open(&s, "cpu", root, NULL), 0);
        int r = sense_run(&s);
        assert_true(r == 0 || r == E_NODATA);
        /* Rows of processors come whole and in order, so they are the beginning of what the whole file gives. */
        const char *system = s.text.n ? strstr(s.text.p, "cpu.system") : NULL;
        size_t same = system ? (size_t)(system - s.text.p) : s.text.n;
        if (same)
            assert_memory_equal(s.text.p, expected.p, same);
        sense_close(&s);
    }
    strbuf_fini(&whole);
    strbuf_fini(&expected);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/proc", root);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(root), 0);
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
        cmocka_unit_test(all_of_it),         cmocka_unit_test(only_the_total),  cmocka_unit_test(no_file_is_no_data),
        cmocka_unit_test(cut_at_every_byte), cmocka_unit_test(unknown_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
