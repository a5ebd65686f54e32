/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "actuator/actuator.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char folder[] = "/tmp/gl-log-XXXXXX", path[64];

static int run(const char *option, const char *where, const char *text, const struct act_datum *data,
               size_t n, struct actuator_report *report)
{
    const char *yes = "true";
    const struct actuator_env env = {.data = data, .n_data = n, .deadline_ns = INT64_MAX, .attempt = "a"};
    const struct parameter_setting s[] = {{option, &where, 1}, {"text", &text, 1}, {"syslog", &yes, 1}};
    *report = (struct actuator_report){0};
    return actuator_run(actuator_find(SLICE_LIT("log")), s, strcmp(option, "socket") == 0 ? 3 : 2, &env,
                        report);
}

static void test_file(void **state)
{
    (void)state;
    const struct act_datum data[] = {{SLICE_LIT("v"), SLICE_LIT("a\nforged line\0\x1b[2J %n%s")}};
    struct actuator_report report;
    char line[200];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run("file", path, "host x: {v}!", data, 1, &report), 0);
        assert_non_null(strstr(report.text.p, path));
        actuator_report_fini(&report);
    }
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (int i = 0; i < 2; i++) {
        assert_non_null(fgets(line, sizeof line, f));
        assert_string_equal(line, "host x: a\\x0aforged line\\x00\\x1b[2J %n%s!\n");
    }
    assert_null(fgets(line, sizeof line, f));
    assert_int_equal(fclose(f), 0);
    assert_int_equal(unlink(path), 0);
}

static void test_no_file(void **state)
{
    (void)state;
    struct actuator_report report;
    assert_int_equal(run("file", "/nowhere/at/all", "x", NULL, 0, &report), -ENOENT);
    assert_non_null(strstr(report.text.p, "/nowhere/at/all"));
    actuator_report_fini(&report);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(run("file", path, "x", NULL, 0, &report), -ENXIO); /* nobody reads it: no waiting */
    actuator_report_fini(&report);
    assert_int_equal(unlink(path), 0);
}

static void test_syslog(void **state)
{
    (void)state;
    static char big[20000], got[20000];
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct actuator_report report;
    memset(big, 'x', sizeof big);
    const struct act_datum data[] = {{SLICE_LIT("v"), SLICE_LIT("a\nb")},
                                     {SLICE_LIT("big"), {big, sizeof big}}};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    (void)snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(run("socket", path, "t {v}", data, 2, &report), 0);
    actuator_report_fini(&report);
    ssize_t n = recv(fd, got, sizeof got, MSG_DONTWAIT);
    assert_slice(slice_of(got, (size_t)n), "<29>gridline: t a\\x0ab");
    assert_int_equal(run("socket", path, "t {big}", data, 2, &report), 0);
    actuator_report_fini(&report);
    n = recv(fd, got, sizeof got, MSG_DONTWAIT);
    assert_true(n > 8000 && n < 8100);
    assert_true(slice_ends(slice_of(got, (size_t)n), SLICE_LIT("[... 12002 bytes more]")));
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(run("socket", path, "t", data, 2, &report), -ENOENT); /* not lost in silence */
    actuator_report_fini(&report);
}

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(path, sizeof path, "%s/log", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_file), cmocka_unit_test(test_no_file),
                                       cmocka_unit_test(test_syslog)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
