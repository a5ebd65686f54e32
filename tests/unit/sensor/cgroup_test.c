/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "sensor/scan.h"
#include "unit/sensor/tree.h"

static const char *const services[] = {"groups", "system.slice/*.service", NULL};
static const char *const jobs[] = {"groups", "slurm/uid_*/job_*", NULL};

static void version_2(void **state)
{
    (void)state;
    tree_assert_text("cgroup", FIXTURES "cgroup-v2", services,
                     "cgroup group=\"system.slice/nginx.service\" cpu_usage=123456789 cpu_user=100000000 "
                     "cpu_system=23456789 cpu_periods=5000 cpu_throttled=42 cpu_throttled_time=987654 "
                     "memory=268435456 memory_peak=301989888 memory_max=1073741824 memory_anon=104857600 "
                     "memory_file=157286400 memory_swap=4096 memory_faults=55001 memory_major_faults=17 "
                     "memory_limit_hits=12 memory_oom_kills=1 io_read_bytes=91889664 io_write_bytes=613781504 "
                     "io_reads=9142 io_writes=1605 tasks=9 tasks_max=4915 cpu_some=1111 cpu_full=22 "
                     "memory_some=333 memory_full=44 io_some=5555 io_full=66\n"
                     "cgroup group=\"system.slice/ssh.service\" memory=8388608 tasks=1\n"
                     "cgroup.total groups=2 left_out=0\n");
    tree_assert_text("cgroup", FIXTURES "cgroup-v2", NULL,
                     "cgroup group=\"system.slice\" memory=2147483648\n"
                     "cgroup.total groups=2 left_out=0\n");
    tree_assert_text("cgroup", FIXTURES "cgroup-v2", (const char *[]){"groups", "/", NULL},
                     "cgroup group=\"/\" cpu_usage=900000000 cpu_user=600000000 cpu_system=300000000 "
                     "cpu_some=77\n"
                     "cgroup.total groups=1 left_out=0\n");
}

/* And what of version 2 stands beside it. */
static void version_1(void **state)
{
    (void)state;
    tree_assert_text("cgroup", FIXTURES "cgroup-v1", jobs,
                     "cgroup group=\"slurm/uid_1000/job_77\" cpu_usage=987654321 cpu_user=90000000 "
                     "cpu_system=8760000 cpu_periods=10 cpu_throttled=2 cpu_throttled_time=3456 "
                     "memory=4294967296 memory_peak=5368709120 memory_max=8589934592 memory_anon=3200000000 "
                     "memory_file=1000000000 memory_swap=12288 memory_faults=7000 memory_major_faults=70 "
                     "memory_limit_hits=6 memory_oom_kills=2 io_read_bytes=4196 io_write_bytes=8392 "
                     "io_reads=5 io_writes=7 tasks=33 cpu_some=500 cpu_full=5\n"
                     "cgroup group=\"slurm/uid_1001/job_78\" memory=4096\n"
                     "cgroup.total groups=2 left_out=0\n");
}

static void missing_and_cut(void **state)
{
    (void)state;
    static const char *const v2[] = {"cpu.stat",   "memory.current", "memory.stat", "memory.events",
                                     "pids.current", "memory.max",     "io.pressure"};
    static const char *const v1[] = {
        "cpuacct/slurm/uid_1000/job_77/cpuacct.usage",
        "cpuacct/slurm/uid_1000/job_77/cpuacct.stat",
        "cpu/slurm/uid_1000/job_77/cpu.stat",
        "memory/slurm/uid_1000/job_77/memory.stat",
        "memory/slurm/uid_1000/job_77/memory.limit_in_bytes",
        "blkio/slurm/uid_1000/job_77/blkio.throttle.io_service_bytes_recursive",
        "unified/slurm/uid_1000/job_77/cpu.pressure",
    };
    char path[TREE_PATH_MAX];
    tree_assert_no_data("cgroup", services);
    for (size_t i = 0; i < sizeof v2 / sizeof *v2; i++) {
        (void)snprintf(path, sizeof path, "/sys/fs/cgroup/system.slice/nginx.service/%s", v2[i]);
        tree_assert_cuts("cgroup", FIXTURES "cgroup-v2", path, services);
    }
    for (size_t i = 0; i < sizeof v1 / sizeof *v1; i++) {
        (void)snprintf(path, sizeof path, "/sys/fs/cgroup/%s", v1[i]);
        tree_assert_cuts("cgroup", FIXTURES "cgroup-v1", path, jobs);
    }
}

/* Sums over devices: a line cut in the middle makes the whole sum unknown. */
static void sums_of_devices(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    tree_make(&t, NULL);
    tree_put(&t, "/sys/fs/cgroup/cgroup.procs", "1\n");
    tree_put(&t, "/sys/fs/cgroup/a/cgroup.procs", "");
    assert_int_equal(sense_open(&s, "cgroup", t.root, NULL), 0);
    tree_put(&t, "/sys/fs/cgroup/a/io.stat", "8:0 rbytes=1 wbytes=x\n8:16 rbytes=4\n");
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "cgroup group=\"a\" io_read_bytes=5\ncgroup.total groups=1 left_out=0\n");
    tree_put(&t, "/sys/fs/cgroup/a/io.stat", "8:0 rbytes=1 wbytes=2\n8:16 rbytes=40");
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "cgroup.total groups=1 left_out=0\n");
    sense_close(&s);
    tree_remove(&t);
}

/* Groups come and go; those that stay keep their place when there is no room for new ones, which are counted. */
static void bounded(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    char path[TREE_PATH_MAX];
    tree_make(&t, NULL);
    tree_put(&t, "/sys/fs/cgroup/pids/cgroup.procs", "1\n");
    tree_put(&t, "/sys/fs/cgroup/memory/cgroup.procs", "1\n");
    for (char name = 'e'; name <= 'f'; name++) {
        (void)snprintf(path, sizeof path, "/sys/fs/cgroup/pids/%c/cgroup.procs", name);
        tree_put(&t, path, "");
        (void)snprintf(path, sizeof path, "/sys/fs/cgroup/pids/%c/pids.current", name);
        tree_put(&t, path, "3\n");
    }
    assert_int_equal(sense_open(&s, "cgroup", t.root, (const char *[]){"max_groups", "2", NULL}), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "cgroup group=\"e\" tasks=3\ncgroup group=\"f\" tasks=3\n"
                                  "cgroup.total groups=2 left_out=0\n");
    tree_put(&t, "/sys/fs/cgroup/pids/a/cgroup.procs", "");
    tree_put(&t, "/sys/fs/cgroup/memory/a/cgroup.procs", ""); /* the same group in another tree */
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "cgroup group=\"e\" tasks=3\ncgroup group=\"f\" tasks=3\n"
                                  "cgroup.total groups=3 left_out=1\n");
    tree_put(&t, "/sys/fs/cgroup/pids/a/pids.current", "1\n");
    (void)snprintf(path, sizeof path, "%s/sys/fs/cgroup/pids/e/cgroup.procs", t.root);
    assert_int_equal(unlink(path), 0); /* without it it is no group */
    assert_int_equal(sense_run(&s), 0);
    assert_int_equal(sense_run(&s), 0); /* its place was taken when it was free */
    assert_string_equal(s.text.p, "cgroup group=\"a\" tasks=1\ncgroup group=\"f\" tasks=3\n"
                                  "cgroup.total groups=2 left_out=0\n");
    sense_close(&s);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(sense_open(&s, "cgroup", t.root, (const char *[]){"max_groups", i ? "0" : "1025", NULL}), 0);
        assert_int_equal(sense_run(&s), -EINVAL);
        sense_close(&s);
    }
    tree_remove(&t);
}

/* More groups than stay open. */
static void many_groups(void **state)
{
    (void)state;
    enum { MANY = 40 };
    struct tree t;
    struct sense s;
    char text[64];
    tree_make(&t, NULL);
    tree_put(&t, "/sys/fs/cgroup/cgroup.procs", "1\n");
    for (int i = 0; i < MANY; i++) {
        char path[TREE_PATH_MAX];
        (void)snprintf(path, sizeof path, "/sys/fs/cgroup/g%d/cgroup.procs", i);
        tree_put(&t, path, "");
        (void)snprintf(path, sizeof path, "/sys/fs/cgroup/g%d/pids.current", i);
        (void)snprintf(text, sizeof text, "%d\n", i + 100);
        tree_put(&t, path, text);
    }
    assert_int_equal(sense_open(&s, "cgroup", t.root, NULL), 0);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(sense_run(&s), 0);
        assert_int_equal(s.rows, MANY + 1);
        for (int i = 0; i < MANY; i++) {
            (void)snprintf(text, sizeof text, "cgroup group=\"g%d\" tasks=%d\n", i, i + 100);
            assert_non_null(strstr(s.text.p, text));
        }
    }
    sense_close(&s);
    tree_remove(&t);
}

/* The groups of this host: one that the test makes. */
static void this_host(void **state)
{
    (void)state;
    static const char *const trees[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/memory"};
    struct sense s;
    char name[64], path[TREE_PATH_MAX];
    bool is_made = false;
    (void)snprintf(name, sizeof name, "gridline-test-%d", getpid());
    for (size_t i = 0; i < sizeof trees / sizeof *trees && !is_made; i++) {
        (void)snprintf(path, sizeof path, "%s/cgroup.procs", trees[i]);
        if (access(path, F_OK) < 0)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", trees[i], name);
        is_made = mkdir(path, 0755) == 0;
    }
    if (!is_made)
        skip(); /* no control groups here, or no right to make one */
    assert_int_equal(sense_open(&s, "cgroup", "", (const char *[]){"groups", name, NULL}), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_non_null(strstr(s.text.p, "cgroup.total groups=1 left_out=0\n"));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "cgroup.total groups=0 left_out=0\n");
    sense_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_2),       cmocka_unit_test(version_1), cmocka_unit_test(missing_and_cut),
        cmocka_unit_test(sums_of_devices), cmocka_unit_test(bounded),   cmocka_unit_test(many_groups),
        cmocka_unit_test(this_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
