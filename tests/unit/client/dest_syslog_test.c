/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/client/blocks.h"

#include <sys/socket.h>
#include <sys/un.h>

static struct folder folder;

static int listen_at(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof a.sun_path);
    memcpy(a.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static void expect_line(int fd, const char *start, const char *end)
{
    char line[4096];
    ssize_t n = recv(fd, line, sizeof line, 0);
    assert_true(n > 0);
    struct slice s = {line, (size_t)n};
    if (!slice_starts(s, slice_str(start)) || !slice_ends(s, slice_str(end)))
        fail_msg("%.*s", SLICE_ARG(s));
}

static void test_lines(void **state)
{
    (void)state;
    folder_make(&folder);
    assert_int_equal(setenv("GRIDLINE_SYSLOG", folder_file(&folder, "log"), 1), 0);
    gridline *g = gridline_open("sys", "syslog:", 0);
    assert_non_null(g); /* nobody listens yet */
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "lost", (i64, "n", 1));
    assert_int_equal(gridline_flush(g, 1000), 0);
    struct gridline_stats s = stats_of(g);
    assert_true(s.dropped_unwritable >= 1);
    uint64_t lost = s.dropped;
    int fd = listen_at(folder.path);
    GRIDLINE_EVENT(g, GRIDLINE_ERROR, "found", (i64, "n", 2));
    assert_int_equal(gridline_flush(g, 1000), 0);
    expect_line(fd, "<11>sys: DATE=", " LVL=Error NL.EVNT=found n=2");
    GRIDLINE_EVENT(g, GRIDLINE_TRACE, "off", (i64, "n", 3));
    assert_int_equal(gridline_write(g, GRIDLINE_NOTICE, "found", "n=%d", 4), 0);
    assert_int_equal(gridline_flush(g, 1000), 0);
    expect_line(fd, "<13>sys: DATE=", " LVL=Notice NL.EVNT=found n=4");
    (void)close(fd); /* the daemon starts anew */
    assert_int_equal(unlink(folder.path), 0);
    fd = listen_at(folder.path);
    assert_int_equal(gridline_write(g, GRIDLINE_DEBUG, "found", "n=%d", 5), 0);
    gridline_set_level(g, GRIDLINE_DEBUG);
    assert_int_equal(gridline_write(g, GRIDLINE_DEBUG, "found", "n=%d", 6), 0);
    assert_int_equal(gridline_flush(g, 1000), 0);
    expect_line(fd, "<15>sys: DATE=", " LVL=Debug NL.EVNT=found n=6");
    assert_int_equal(stats_of(g).dropped, lost);
    /* the socket's queue fills up: counted, not waited for */
    for (int i = 0; i < 2000; i++)
        assert_int_equal(gridline_write(g, GRIDLINE_INFO, "flood", "i=%d", i), 0);
    assert_int_equal(gridline_flush(g, 1000), 0);
    s = stats_of(g);
    assert_true(s.dropped > lost);
    assert_int_equal(s.queued, 0);
    gridline_close(g);
    (void)close(fd);
    assert_int_equal(unsetenv("GRIDLINE_SYSLOG"), 0);
    folder_end(&folder, (const char *const[]){"log", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
