/* SPDX-License-Identifier: Apache-2.0 */
/* gridline/actuator.h as a program has it: the shared library, nothing of ours inside. */
#include "unit/test.h"

#include <gridline/actuator.h>

#include <errno.h>

struct seen {
    unsigned options;
    bool has_script;
};

static int on_option(void *arg, const char *option, const char *type, const char *default_text, int is_needed,
                     int is_fixed, const char *help)
{
    struct seen *s = arg;
    (void)default_text, (void)is_needed;
    assert_true(option[0] && type[0] && help[0]);
    s->options++;
    s->has_script |= strcmp(option, "script") == 0 && is_fixed;
    return 0;
}

static void every_actuator_describes_itself(void **state)
{
    (void)state;
    size_t n = 0;
    for (; gridline_actuator_name(n); n++) {
        struct seen s = {0};
        assert_non_null(gridline_actuator_summary(gridline_actuator_name(n)));
        assert_int_equal(gridline_actuator_options(gridline_actuator_name(n), on_option, &s), 0);
        assert_true(s.options > 0);
        assert_true(s.has_script == (strcmp(gridline_actuator_name(n), "exec") == 0));
    }
    assert_true(n >= 5);
    assert_null(gridline_actuator_summary("nonsense"));
    assert_int_equal(gridline_actuator_options("nonsense", on_option, NULL), -ENOENT);
    assert_int_equal(gridline_actuator_traits("nonsense"), -ENOENT);
    assert_int_equal(gridline_actuator_traits("log"),
                     GRIDLINE_ACTUATOR_REPEATABLE | GRIDLINE_ACTUATOR_GROUPABLE);
    assert_int_equal(gridline_actuator_traits("exec"), 0);
}

static void run(void **state)
{
    (void)state;
    const char *options[] = {"script=printf '%s|' \"$@\"; exit 3",
                             "args={host}",
                             "args={i}",
                             "args={u}",
                             "args={f}",
                             "args={b}",
                             "args={x}",
                             NULL};
    const struct gridline_value data[] = {{.name = "host", .type = 't', .v.p = "c0-0", .n = (size_t)-1},
                                          {.name = "i", .type = 'i', .v.i = -5},
                                          {.name = "u", .type = 'u', .v.u = UINT64_MAX},
                                          {.name = "f", .type = 'f', .v.f = 0.5},
                                          {.name = "b", .type = 'b', .v.u = 1},
                                          {.name = "x", .type = 'x', .v.p = "\0\n", .n = 2}};
    char said[200], *output;
    size_t n;
    assert_int_equal(
        gridline_actuator_run_output("exec", options, data, 6, 0, said, sizeof said, &output, &n), -ECHILD);
    assert_slice(slice_of(output, n), "c0-0|-5|18446744073709551615|0.5|true|\\x00\n|");
    assert_non_null(strstr(said, "code 3"));
    free(output);
    assert_int_equal(gridline_actuator_run("exec", options, data, 6, 100, NULL, 0), -ECHILD);
    const struct gridline_value bad[] = {{.name = "host", .type = 'q'}};
    assert_int_equal(gridline_actuator_run("exec", options, bad, 1, 0, said, sizeof said), -EINVAL);
    const char *slow[] = {"program=/bin/sleep", "args=1000", NULL};
    assert_int_equal(gridline_actuator_run("exec", slow, NULL, 0, 50, said, sizeof said), -ETIMEDOUT);
}

static void plan_and_check(void **state)
{
    (void)state;
    char *plan, why[200];
    const struct gridline_value data[] = {{.name = "v", .type = 't', .v.p = "a b", .n = 3}};
    const char *options[] = {"file=/tmp/x", "text={v}", NULL}, *wrong[] = {"flie=/tmp/x", NULL},
               *none[] = {"x", NULL};
    assert_int_equal(gridline_actuator_plan("log", options, data, 1, &plan, why, sizeof why), 0);
    assert_string_equal(plan, "append to /tmp/x\na b\n");
    free(plan);
    assert_int_equal(gridline_actuator_check("log", options, why, sizeof why), 0);
    assert_int_equal(gridline_actuator_check("log", wrong, why, sizeof why), -EINVAL);
    assert_non_null(strstr(why, "did you mean `file`"));
    assert_int_equal(gridline_actuator_check("log", none, why, sizeof why), -EINVAL);
    assert_int_equal(gridline_actuator_check("lgo", NULL, why, sizeof why), -ENOENT);
    assert_non_null(strstr(why, "did you mean log"));
    assert_int_equal(gridline_actuator_check("lgo", NULL, NULL, 0), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_actuator_describes_itself),
                                       cmocka_unit_test(run), cmocka_unit_test(plan_and_check)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
