/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "unit/actuator/acting.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t start(const char *name)
{
    int ready[2];
    char c;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_NAME, name);
        (void)close(ready[0]);
        (void)close(ready[1]);
        for (;;)
            (void)pause();
    }
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 0);
    (void)close(ready[0]);
    return pid;
}

static void test_name(void **state)
{
    (void)state;
    struct actuator_report report;
    struct strbuf plan = {0};
    char name[16], text[40], pids[64];
    int status;
    (void)snprintf(name, sizeof name, "gl\n%d", (int)getpid() % 100000);
    (void)snprintf(text, sizeof text, "name=%s", name);
    pid_t pid[] = {start(name), start(name)};
    struct acting a = {.actuator = "kill", .options = OPTIONS(text)};
    assert_int_equal(acting_run(a, &report), E_LIMIT); /* two: none is hit */
    assert_non_null(strstr(report.text.p, "2 processes"));
    actuator_report_fini(&report);
    a.options = OPTIONS(text, "max=2", "grace=1s");
    assert_int_equal(acting_plan(a, &plan, NULL), 0);
    (void)snprintf(pids, sizeof pids, "%d ", (int)pid[1]);
    assert_true(strstr(plan.p, "send SIGTERM to ") && strstr(plan.p, pids) &&
                strstr(plan.p, "after 1s SIGKILL"));
    assert_int_equal(kill(pid[0], 0), 0); /* a plan touches nothing */
    assert_int_equal(acting_run(a, &report), 0);
    actuator_report_fini(&report);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(WTERMSIG(status), SIGTERM);
    }
    assert_int_equal(acting_run(a, &report), -ENOENT);
    actuator_report_fini(&report);
    strbuf_fini(&plan);
}

static void test_check(void **state)
{
    (void)state;
    acting_accepts("kill", OPTIONS("name={n}"));
    acting_accepts("kill", OPTIONS("pid={pid}", "start={start_time}"));
    acting_accepts("kill", OPTIONS("pid_file=/run/x.pid", "signal=SIGHUP"));
    acting_accepts("kill", OPTIONS("name=x", "signal=9"));
    acting_refuses("kill", OPTIONS("pid={pid}"), "start");
    acting_refuses("kill", OPTIONS("signal=TERM"), "one of");
    acting_refuses("kill", OPTIONS("name=x", "pid_file=y"), "one of");
    acting_refuses("kill", OPTIONS("name=x", "signal=NONSENSE"), "NONSENSE");
    acting_refuses("kill", OPTIONS("name=x", "signal=0"), "signal");
    acting_refuses("kill", OPTIONS("name=x", "max=0"), "max");
    acting_refuses("kill", OPTIONS("name="), "empty");
    acting_refuses("kill", OPTIONS("name=x", "max={v}x"), "max"); /* fixed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_name), cmocka_unit_test(test_check)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
