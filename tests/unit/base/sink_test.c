/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static int set_up(void **unused)
{
    (void)unused;
    memcpy(folder, "/tmp/gridline-sink.XXXXXX", 26);
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int tear_down(void **unused)
{
    (void)unused;
    (void)unlink("file");
    (void)unlink("pipe");
    return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

static void add(struct sink *s, size_t n)
{
    char *to = strbuf_room(&s->waiting, n);
    assert_non_null(to);
    memset(to, 'x', n);
    strbuf_advance(&s->waiting, n);
}

static void test_file(void **unused)
{
    struct sink s = {.fd = -1};
    struct stat st;
    (void)unused;
    add(&s, 10);
    assert_int_equal(sink_flush(&s), -EBADF);
    assert_int_equal(s.waiting.n, 10);
    assert_int_equal(sink_open(&s, "file", 0600), 0);
    assert_true(s.is_regular);
    sink_mark(&s, 3);
    assert_int_equal(sink_queued(&s), 3);
    assert_int_equal(sink_flush(&s), 0);
    assert_int_equal(sink_queued(&s), 0);
    assert_int_equal(s.written, 10);
    sink_close(&s);
    assert_int_equal(sink_open(&s, "file", 0600), 0); /* appends */
    add(&s, 5);
    assert_int_equal(sink_flush(&s), 0);
    assert_int_equal(stat("file", &st), 0);
    assert_int_equal(st.st_size, 15);
    assert_int_equal(st.st_mode & 0777, 0600);
    sink_fini(&s);
    assert_int_equal(sink_open(&s, "no/file", 0600), -ENOENT);
    assert_int_equal(s.fd, -1);
}

static void test_full_device(void **unused)
{
    struct sink s = {.fd = -1};
    (void)unused;
    assert_int_equal(sink_open(&s, "/dev/full", 0), 0);
    add(&s, 100);
    sink_mark(&s, 1);
    assert_int_equal(sink_flush(&s), -ENOSPC);
    assert_int_equal(s.waiting.n, 100);
    assert_int_equal(sink_queued(&s), 1);
    sink_fini(&s);
}

/* A pipe takes what it can, and units count when their last byte is gone. */
static void test_pipe(void **unused)
{
    enum { UNITS = 3 * SINK_MARKS, EACH = 1000 };
    struct sink s = {.fd = -1};
    char buffer[4096];
    (void)unused;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(sink_open(&s, "pipe", 0600), -ENXIO); /* nobody reads */
    int reader = open("pipe", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_int_equal(sink_open(&s, "pipe", 0600), 0);
    for (int i = 0; i < UNITS; i++) {
        add(&s, EACH);
        sink_mark(&s, 1);
    }
    uint64_t read_bytes = 0;
    for (;;) {
        assert_int_equal(sink_flush(&s), 0);
        assert_int_equal(s.written + s.waiting.n, UNITS * EACH);
        /* Never early; late by no more than the marks that had to share one. */
        uint64_t whole = s.written / EACH, passed = UNITS - sink_queued(&s);
        assert_true(passed <= whole);
        assert_true(passed == whole || passed == SINK_MARKS - 1);
        ssize_t n = read(reader, buffer, sizeof buffer);
        if (n <= 0)
            break;
        read_bytes += (uint64_t)n;
    }
    assert_int_equal(read_bytes, UNITS * EACH);
    assert_int_equal(sink_queued(&s), 0);
    (void)close(reader);
    sink_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_device, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pipe, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
