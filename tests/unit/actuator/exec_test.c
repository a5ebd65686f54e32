/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "unit/actuator/acting.h"

#include <errno.h>

static const struct act_datum data[] = {DATUM("v", "$(x) \"\n"), DATUM("host", "c0-0")};

static void test_plan(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct acting a = {.actuator = "exec",
                       .options = OPTIONS("program=/bin/{v}", "args={v}", "args=-x", "args="),
                       .data = data,
                       .n_data = 2};
    assert_int_equal(acting_plan(a, &out, NULL), 0);
    assert_true(
        slice_starts(strbuf_slice(&out), SLICE_LIT("run \"/bin/{v}\" \"$(x) \\\"\\x0a\" \"-x\" \"\"\n")));
    assert_non_null(strstr(out.p, "env \"GRIDLINE_V=$(x) \\\"\\x0a\"\n"));
    strbuf_reset(&out);
    a.options = OPTIONS("script=echo {v} $1", "args={v}");
    assert_int_equal(acting_plan(a, &out, NULL), 0);
    assert_true(
        slice_starts(strbuf_slice(&out),
                     SLICE_LIT("run \"/bin/sh\" \"-c\" \"echo {v} $1\" \"gridline\" \"$(x) \\\"\\x0a\"\n")));
    strbuf_fini(&out);
}

static void test_run(void **state)
{
    (void)state;
    struct actuator_report report;
    const struct acting a = {.actuator = "exec",
                             .options = OPTIONS("script=printf '%s|' \"$0\" \"$@\" \"$GRIDLINE_HOST\"",
                                                "args={v}", "args=-{host}"),
                             .data = data,
                             .n_data = 2};
    assert_int_equal(acting_run(a, &report), 0);
    assert_slice(strbuf_slice(&report.output), "gridline|$(x) \"\n|-c0-0|c0-0|");
    assert_int_equal(report.exit_code, 0);
    actuator_report_fini(&report);
}

static void test_check(void **state)
{
    (void)state;
    acting_accepts("exec", OPTIONS("program=x", "args={a}{b?c}"));
    acting_accepts("exec", OPTIONS("script={ echo; }")); /* fixed texts have no templates */
    acting_refuses("exec", OPTIONS("args=x"), "one of them");
    acting_refuses("exec", OPTIONS("program=x", "script=y"), "not both");
    acting_refuses("exec", OPTIONS("program="), "empty");
    acting_refuses("exec", OPTIONS("program=x", "args={"), "args");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plan), cmocka_unit_test(test_run),
                                       cmocka_unit_test(test_check)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
