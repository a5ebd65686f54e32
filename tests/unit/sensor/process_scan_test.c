/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/err.h"
#include "sensor/process_scan.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct seen {
    uint32_t pids[64];
    size_t n;
};

static void note(void *arg, uint32_t pid)
{
    struct seen *s = arg;
    assert_true(s->n < 64);
    assert_true(s->n == 0 || s->pids[s->n - 1] < pid);
    s->pids[s->n++] = pid;
}

static void with_pid(const char *root, unsigned pid, int (*fn)(const char *path))
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/proc/%u", root, pid);
    assert_int_equal(fn(path), 0);
}

static int make(const char *path)
{
    return mkdir(path, 0700);
}

static size_t run(struct process_scan *s, struct sensor_env *env, bool is_whole, struct seen *out)
{
    out->n = 0;
    assert_int_equal(process_scan_run(s, env, is_whole, note, out), 0);
    return out->n;
}

static void new_ones_then_by_turns(void **state)
{
    (void)state;
    char root[] = "/tmp/gridline-scan.XXXXXX", path[64];
    struct sensor_env env;
    struct process_scan s = {0};
    struct seen seen;
    assert_non_null(mkdtemp(root));
    (void)snprintf(path, sizeof path, "%s/proc", root);
    env_init(&env, root);
    assert_int_equal(process_scan_run(&s, &env, true, note, &seen), E_NODATA);
    assert_int_equal(make(path), 0);
    assert_int_equal(run(&s, &env, true, &seen), 0);
    for (unsigned pid = 1; pid <= 32; pid++)
        with_pid(root, pid * 7, make);
    for (int i = 0; i < SCAN_NEW; i++)
        assert_int_equal(run(&s, &env, false, &seen), 32);
    /* From now on each of them once in SCAN_TURNS scans. */
    size_t looks = 0;
    for (int i = 0; i < SCAN_TURNS; i++)
        looks += run(&s, &env, false, &seen);
    assert_int_equal(looks, 32);
    /* A new one at once, and in the next two. */
    with_pid(root, 1000, make);
    for (int i = 0; i < SCAN_NEW; i++) {
        assert_true(run(&s, &env, false, &seen) >= 1);
        assert_int_equal(seen.pids[seen.n - 1], 1000);
    }
    /* One that was gone is new again. */
    with_pid(root, 7, rmdir);
    assert_true(run(&s, &env, false, &seen) == 0 || seen.pids[0] != 7);
    with_pid(root, 7, make);
    for (int i = 0; i < SCAN_NEW; i++) {
        assert_true(run(&s, &env, false, &seen) >= 1);
        assert_int_equal(seen.pids[0], 7);
    }
    assert_int_equal(run(&s, &env, true, &seen), 33);
    with_pid(root, 1000, rmdir);
    for (unsigned pid = 1; pid <= 32; pid++)
        with_pid(root, pid * 7, rmdir);
    assert_int_equal(run(&s, &env, false, &seen), 0);
    process_scan_fini(&s);
    env_fini(&env);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(root), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(new_ones_then_by_turns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
