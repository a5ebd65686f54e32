/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "unit/actuator/acting.h"

#include <errno.h>

static const struct act_datum data[] = {DATUM("host", "c0-0"), DATUM("t", "a\"\n\0"), DATUM("b", "\xff"),
                                        DATUM("host", "second")};

/* cat says what it was given. */
static void check_input(const char *const *options, size_t n_data, const char *expected)
{
    struct actuator_report report;
    const struct acting a = {.actuator = "page", .options = options, .data = data, .n_data = n_data};
    assert_int_equal(acting_run(a, &report), 0);
    assert_slice(strbuf_slice(&report.output), expected);
    actuator_report_fini(&report);
}

static void test_input(void **state)
{
    (void)state;
    check_input(
        OPTIONS("program=/bin/cat"), 4,
        "{\"host\":\"c0-0\",\"t\":\"a\\\"\\n\\u0000\",\"b\":\"\xef\xbf\xbd\",\"b.base64\":\"/w==\"}\n");
    check_input(OPTIONS("program=/bin/cat"), 0, "{}\n");
    check_input(OPTIONS("program=/bin/cat", "input=text", "text={host}: {t}"), 4, "c0-0: a\"\n\\x00");
    check_input(OPTIONS("program=/bin/cat", "input=none"), 4, "");
}

static void test_plan(void **state)
{
    (void)state;
    struct strbuf out = {0};
    const struct acting a = {
        .actuator = "page", .options = OPTIONS("program=p", "args={host}"), .data = data, .n_data = 1};
    assert_int_equal(acting_plan(a, &out, NULL), 0);
    assert_true(slice_starts(strbuf_slice(&out), SLICE_LIT("run \"p\" \"c0-0\"\n")));
    assert_non_null(strstr(out.p, "\ninput \"{\\\"host\\\":\\\"c0-0\\\"}\\x0a\"\n"));
    strbuf_fini(&out);
}

static void test_check(void **state)
{
    (void)state;
    acting_accepts("page", OPTIONS("program=x", "input=text", "text={a}"));
    acting_refuses("page", OPTIONS("input=json"), "program");
    acting_refuses("page", OPTIONS("program=x", "input=yaml"), "yaml");
    acting_refuses("page", OPTIONS("program="), "empty");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_input), cmocka_unit_test(test_plan),
                                       cmocka_unit_test(test_check)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
