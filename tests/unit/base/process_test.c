/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A name that looks like the rest of the line. */
static void test_stat(void **state)
{
    (void)state;
    struct strbuf buffer = {0};
    struct process_stat a, b;
    assert_int_equal(prctl(PR_SET_NAME, ") Z 1 (2\n3)"), 0);
    assert_true(process_stat(getpid(), &buffer, &a));
    assert_slice(a.name, ") Z 1 (2\n3)");
    assert_int_equal(a.state, 'R');
    assert_false(process_is_dead(&a));
    assert_int_not_equal(a.start, 0);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_true(process_stat(child, &buffer, &b));
    assert_true(process_is_dead(&b) && b.start >= a.start);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_false(process_stat(child, &buffer, &b));
    strbuf_fini(&buffer);
}

static void test_read(void **state)
{
    (void)state;
    struct strbuf out = {0};
    assert_true(process_read(getpid(), "cmdline", &out));
    assert_non_null(strstr(out.p, "process"));
    assert_false(process_read(getpid(), "no-such-file", &out));
    assert_int_equal(out.n, 0);
    strbuf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stat), cmocka_unit_test(test_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
