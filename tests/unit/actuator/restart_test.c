/* SPDX-License-Identifier: Apache-2.0 */
/* Real servers are in tests/flow/act_test.py and in the scenarios; here: what is refused, what is planned,
 * and the unit's argv, with a systemctl of our own in PATH. */
#include "unit/test.h"

#include "unit/actuator/acting.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct act_datum data[] = {DATUM("v", "$(x)"), DATUM("PATH", "/evil")};

static void test_unit(void **state)
{
    (void)state;
    char folder[] = "/tmp/gl-restart-XXXXXX", path[64], text[200];
    struct actuator_report report;
    struct strbuf plan = {0};
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/systemctl", folder);
    (void)snprintf(text, sizeof text, "%s:/usr/bin:/bin", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs("#!/bin/sh\nprintf '%s|' \"$@\"; env | grep -c ^GRIDLINE_V\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(setenv("PATH", text, 1), 0);
    const struct acting a = {
        .actuator = "restart", .options = OPTIONS("unit=-{v}.service"), .data = data, .n_data = 2};
    assert_int_equal(acting_run(a, &report), -ECHILD); /* grep found nothing: no data in the environment */
    assert_slice(strbuf_slice(&report.output), "restart|--|-{v}.service|0\n");
    actuator_report_fini(&report);
    assert_int_equal(acting_plan(a, &plan, NULL), 0);
    assert_true(slice_starts(strbuf_slice(&plan),
                             SLICE_LIT("run \"systemctl\" \"restart\" \"--\" \"-{v}.service\"\n")));
    assert_null(strstr(plan.p, "GRIDLINE_"));
    strbuf_fini(&plan);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void test_check(void **state)
{
    (void)state;
    acting_accepts("restart", OPTIONS("unit=slapd.service"));
    acting_accepts("restart", OPTIONS("command=/x", "command=-f", "pid_file=/p", "address=127.0.0.1:389"));
    acting_accepts("restart", OPTIONS("command=/x", "pid_file=/p", "address=unix:/run/x.sock"));
    acting_refuses("restart", OPTIONS("pid_file=/p"), "one of them");
    acting_refuses("restart", OPTIONS("unit=x", "command=y", "pid_file=/p"), "not both");
    acting_refuses("restart", OPTIONS("command=y"), "pid_file");
    acting_refuses("restart", OPTIONS("command=y", "pid_file=/p", "wait=0s"), "wait");
    acting_refuses("restart", OPTIONS("command=y", "pid_file=/p", "address=a:b:c"), "a:b:c");
}

static void test_plan(void **state)
{
    (void)state;
    struct strbuf plan = {0};
    const struct acting a = {.actuator = "restart",
                             .options = OPTIONS("command=/usr/sbin/x", "command={v}", "pid_file=/run/x.pid",
                                                "address=127.0.0.1:1"),
                             .data = data,
                             .n_data = 2};
    assert_int_equal(acting_plan(a, &plan, NULL), 0);
    assert_string_equal(plan.p, "end the process that /run/x.pid names, if it lives\n"
                                "start \"/usr/sbin/x\" \"{v}\"\n"
                                "wait until it lives and takes connections at 127.0.0.1:1\n");
    strbuf_fini(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_unit), cmocka_unit_test(test_check),
                                       cmocka_unit_test(test_plan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
