/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/client/written.h"

#include "client/self.h"

#include <sys/stat.h>

static const struct gridline_value *find(const struct gridline_value *v, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(v[i].name, name) == 0)
            return &v[i];
    return NULL;
}

static void test_event(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, 0);
    gridline_self(g);
    gridline_self(NULL);
    gridline_close(g);
    written_read(&w);
    const struct event *e = written_event(&w, "process.self", 0);
    assert_true(written_float(e, "cpu.user.s") + written_float(e, "cpu.system.s") > 0);
    assert_true(written_int(e, "rss.bytes") > 100000);
    assert_true(written_int(e, "vsz.bytes") >= written_int(e, "rss.bytes"));
    assert_int_equal(written_int(e, "threads"), 1);
    assert_true(written_int(e, "faults.minor") > 0);
    assert_true(written_has(e, "faults.major"));
    assert_true(written_has(e, "switches.voluntary"));
    assert_true(written_has(e, "switches.involuntary"));
    assert_int_equal(e->level, GRIDLINE_USAGE);
    written_end(&w);
}

/* One more open file is one more; counting does not count itself. */
static void test_files(void **state)
{
    (void)state;
    struct gridline_value v[SELF_FIELDS_MAX];
    size_t n = self_fields("/proc/self", v);
    int64_t before = find(v, n, "fds")->v.i;
    assert_true(before >= 1);
    int fd = open("/dev/null", O_RDONLY);
    n = self_fields("/proc/self", v);
    assert_int_equal(find(v, n, "fds")->v.i, before + 1);
    (void)close(fd);
    n = self_fields("/proc/self", v);
    assert_int_equal(find(v, n, "fds")->v.i, before);
}

static void put_file(const char *dir, const char *name, const char *content)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs(content, f);
    assert_int_equal(fclose(f), 0);
}

/* What can't be read, or isn't a number, is missing and not 0. */
static void test_missing(void **state)
{
    (void)state;
    struct gridline_value v[SELF_FIELDS_MAX];
    size_t n = self_fields("/nonexistent", v);
    assert_int_equal(n, 6); /* getrusage alone */
    char dir[] = "/tmp/gridline-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    put_file(dir, "status", "Name:\tVmSize: 3\nVmRSSx:\t1 kB\nVmRSS:\t  12 kB\nThreads:\tmany\nVmSize");
    put_file(dir, "io", "rchar: 1\nread_bytes: 18446744073709551616\nwrite_bytes: 7");
    n = self_fields(dir, v);
    assert_int_equal(find(v, n, "rss.bytes")->v.i, 12288);
    assert_null(find(v, n, "vsz.bytes"));
    assert_null(find(v, n, "threads"));
    assert_null(find(v, n, "io.read.bytes"));
    assert_int_equal(find(v, n, "io.write.bytes")->v.i, 7);
    assert_null(find(v, n, "fds"));
    (void)snprintf(path, sizeof path, "%s/status", dir);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/io", dir);
    (void)unlink(path);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_event), cmocka_unit_test(test_files),
                                       cmocka_unit_test(test_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
