/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "actuator/target.h"
#include "unit/actuator/acting.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/gl-target-XXXXXX", path[64];
static const struct actuator_env patient = {.deadline_ns = INT64_MAX};

/* One that sleeps; deaf: it does not hear SIGTERM. */
static pid_t start(bool is_deaf)
{
    int ready[2];
    char c;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)signal(SIGTERM, is_deaf ? SIG_IGN : SIG_DFL);
        (void)close(ready[0]);
        (void)close(ready[1]);
        for (;;)
            (void)pause();
    }
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 0); /* it is past its signal call */
    (void)close(ready[0]);
    return pid;
}

static int reap(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WTERMSIG(status);
}

static void test_open(void **state)
{
    (void)state;
    struct target t;
    assert_int_equal(target_open(getpid(), &t), -EPERM);
    assert_int_equal(target_open(getppid(), &t), -EPERM);
    assert_int_equal(target_open(1, &t), -EPERM);
    assert_int_equal(target_open(0, &t), -EPERM);
    assert_int_equal(target_open(-1, &t), -EPERM);
    pid_t pid = start(false);
    assert_int_equal(target_open(pid, &t), 0);
    int64_t age = clock_utc_ns() - target_began_ns(&t);
    assert_true(age > -NS_PER_S && age < 600 * NS_PER_S);
    assert_int_equal(kill(pid, SIGKILL), 0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    struct target zombie;
    assert_int_equal(target_open(pid, &zombie), -ENOENT);
    assert_int_equal(reap(pid), SIGKILL);
    assert_int_equal(target_open(pid, &zombie), -ENOENT);
    assert_int_equal(targets_end(&t, 1, SIGTERM, NS_PER_S, &patient), 0); /* it is gone: nobody is hit */
    target_close(&t);
}

static void test_end(void **state)
{
    (void)state;
    struct target t[2];
    pid_t pid[] = {start(false), start(true)};
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(target_open(pid[i], &t[i]), 0);
    assert_int_equal(targets_end(t, 2, SIGCONT, 0, &patient), 0);
    assert_int_equal(targets_end(t, 2, SIGTERM, NS_PER_S / 20, &patient), 0);
    assert_int_equal(reap(pid[0]), SIGTERM);
    assert_int_equal(reap(pid[1]), SIGKILL);
    for (size_t i = 0; i < 2; i++)
        target_close(&t[i]);
}

static void write_file(const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void test_file(void **state)
{
    (void)state;
    struct target t;
    struct diag why = {0};
    char text[32];
    pid_t pid = start(false);
    assert_int_equal(target_of_file(path, &t, &why), -ENOENT);
    static const char *const bad[] = {"", "x", "-1", "12 34", "999999999999999999999", "0x10"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(bad[i]);
        assert_int_equal(target_of_file(path, &t, &why), -EINVAL);
    }
    write_file("1");
    assert_int_equal(target_of_file(path, &t, &why), -EPERM);
    (void)snprintf(text, sizeof text, "%d\n\n", (int)pid);
    write_file(text);
    assert_int_equal(target_of_file(path, &t, &why), 0);
    assert_int_equal(t.pid, pid);
    target_close(&t);
    /* Written before the process began: it names another. */
    const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    assert_int_equal(target_of_file(path, &t, &why), -ENOENT);
    assert_non_null(strstr(why.message, "older"));
    /* Somebody else's file can't name our process. */
    if (geteuid() == 0) {
        write_file(text);
        assert_int_equal(chown(path, 4711, 4711), 0);
        assert_int_equal(target_of_file(path, &t, &why), -EPERM);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(reap(pid), SIGKILL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(target_of_file(path, &t, &why), -EINVAL); /* no waiting */
    assert_int_equal(unlink(path), 0);
}

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(path, sizeof path, "%s/pid", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_open), cmocka_unit_test(test_end),
                                       cmocka_unit_test(test_file)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
