/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "actuator/program.h"
#include "actuator/template.h"
#include "unit/actuator/acting.h"

#include <errno.h>

static void test_environment(void **state)
{
    (void)state;
    struct arena arena = {0};
    const struct act_datum data[] = {DATUM("host", "c0-0"),    DATUM("HOST", "later"), DATUM("a=b c", "1\n2"),
                                     DATUM("helper", "/evil"), DATUM("", "nameless"),  DATUM("n", "x\0y"),
                                     DATUM("child", "mark")};
    assert_int_equal(setenv("HOME", "/home/x", 1), 0);
    assert_int_equal(unsetenv("TZ"), 0);
    const struct actuator_env env = {.data = data, .n_data = 7};
    const char *const *v = program_environment(&env, &arena);
    static const char *const expected[] = {
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG=C.UTF-8",
        "HOME=/home/x",
        "GRIDLINE_HOST=c0-0",
        "GRIDLINE_A_B_C=1\n2",
        "GRIDLINE_HELPER_=/evil",
        "GRIDLINE_N=x\\x00y",
        "GRIDLINE_CHILD_=mark"};
    assert_non_null(v);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_string_equal(v[i], expected[i]);
    assert_null(v[sizeof expected / sizeof *expected]);
    arena_fini(&arena);
}

/* However much there is: it fits, and every name is there. */
static void test_much(void **state)
{
    (void)state;
    static char big[1 << 20], names[ACT_DATA_MAX][8];
    static struct act_datum data[ACT_DATA_MAX];
    struct arena arena = {0};
    size_t sum = 0, n = 0;
    memset(big, 'x', sizeof big);
    for (size_t i = 0; i < ACT_DATA_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "n%zu", i);
        data[i] = (struct act_datum){slice_str(names[i]), {big, i < 3 ? sizeof big : 400}};
    }
    const struct actuator_env env = {.data = data, .n_data = ACT_DATA_MAX};
    const char *const *v = program_environment(&env, &arena);
    assert_non_null(v);
    for (; v[n]; n++) {
        sum += strlen(v[n]) + 1;
        assert_true(strlen(v[n]) <= TEMPLATE_TEXT_MAX);
    }
    assert_int_equal(n, ACT_DATA_MAX + 3);
    assert_true(sum <= TEMPLATE_ALL_MAX + 1000);
    arena_fini(&arena);
}

static bool always(void *arg)
{
    (void)arg;
    return true;
}

static int run_script(const char *script, int64_t left_ns, bool is_cancelled, struct actuator_report *report)
{
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    const struct program p = {.argv = argv};
    const struct actuator_env env = {.deadline_ns = left_ns ? clock_mono_ns() + left_ns : INT64_MAX,
                                     .is_cancelled = is_cancelled ? always : NULL};
    *report = (struct actuator_report){.exit_code = -1};
    return program_run(&p, &env, report);
}

static void test_ends(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        int code, exit_code;
        const char *says;
    } cases[] = {
        {"echo out; echo err >&2", 0, 0, "code 0"},
        {"echo what is wrong >&2; exit 3", -ECHILD, 3, "what is wrong"},
        {"exit 75", -EAGAIN, 75, "75"},
        {"kill -9 $$", -ECHILD, -1, "signal 9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct actuator_report report;
        assert_int_equal(run_script(cases[i].script, 0, false, &report), cases[i].code);
        assert_int_equal(report.exit_code, cases[i].exit_code);
        assert_non_null(strstr(report.text.p, cases[i].says));
        if (i == 0)
            assert_slice(strbuf_slice(&report.output), "out\n");
        actuator_report_fini(&report);
    }
}

static void test_limits(void **state)
{
    (void)state;
    struct actuator_report report;
    assert_int_equal(run_script("trap '' TERM; while :; do sleep 1; done", NS_PER_S / 5, false, &report),
                     -ETIMEDOUT);
    actuator_report_fini(&report);
    assert_int_equal(run_script("exit 0", -1, false, &report), -ETIMEDOUT); /* not even started */
    actuator_report_fini(&report);
    assert_int_equal(run_script("sleep 1000", 0, true, &report), -ECANCELED);
    actuator_report_fini(&report);
    /* Any amount is read, the beginning is kept. */
    assert_int_equal(run_script("head -c 1000000 /dev/zero", 0, false, &report), 0);
    assert_int_equal(report.output.n, ACTUATOR_OUTPUT_MAX);
    actuator_report_fini(&report);
}

static void test_not_there(void **state)
{
    (void)state;
    const char *argv[] = {"/no/such/program", NULL};
    const struct actuator_env env = {.deadline_ns = INT64_MAX};
    struct actuator_report report = {.exit_code = -1};
    assert_int_equal(program_run(&(struct program){.argv = argv}, &env, &report), -ENOENT);
    assert_non_null(strstr(report.text.p, "/no/such/program"));
    actuator_report_fini(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_environment), cmocka_unit_test(test_much),
                                       cmocka_unit_test(test_ends), cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_not_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
