/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/machine.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

static void sees_this_machine(void **state)
{
    (void)state;
    struct machine_view v;
    struct sysinfo s;
    machine_view(&v);
    assert_int_equal(sysinfo(&s), 0);
    assert_true(v.memory == (uint64_t)s.totalram * s.mem_unit);
    assert_true(v.processes >= 1 && v.mounts >= 1 && v.cpus >= 1);
}

/* In a process of its own: the limit stays with it. */
static void sees_a_limit(void **state)
{
    (void)state;
    int status = 1;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit small = {1 << 28, 1 << 28};
        struct machine_view v;
        if (setrlimit(RLIMIT_AS, &small) < 0)
            _exit(2);
        machine_view(&v);
        _exit(v.memory_limit > 0 && v.memory_limit <= 1 << 28 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sees_this_machine),
#ifndef GRIDLINE_ARENA_DEBUG /* a sanitizer needs more than any such limit */
        cmocka_unit_test(sees_a_limit),
#endif
    };
    (void)sees_a_limit;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
