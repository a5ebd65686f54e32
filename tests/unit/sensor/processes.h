/* SPDX-License-Identifier: Apache-2.0 */
/* processes.h - for tests that start programs: what is left of them. Everything that a test starts has a mark
 * in its arguments that no other process has. */
#ifndef GRIDLINE_TESTS_PROCESSES_H
#define GRIDLINE_TESTS_PROCESSES_H

#include "base/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#define LIMIT (60 * NS_PER_S) /* a test that waits longer for something has failed */

/* How many processes that are no zombies have the mark in their arguments. (One that is becoming another
 * program has none for a moment: a number that must be there is waited for.) */
static inline size_t processes_alive(const char *mark)
{
    DIR *proc = opendir("/proc");
    struct dirent *e;
    size_t n = 0;
    assert_non_null(proc);
    while ((e = readdir(proc))) {
        char path[300], line[4096];
        (void)snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
        int fd = e->d_name[0] >= '0' && e->d_name[0] <= '9' ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (fd < 0)
            continue;
        ssize_t r = read(fd, line, sizeof line);
        n += r > 0 && memmem(line, (size_t)r, mark, strlen(mark));
        (void)close(fd);
    }
    (void)closedir(proc);
    return n;
}

static inline void processes_wait(const char *mark, size_t n)
{
    int64_t until = clock_mono_ns() + LIMIT;
    while (processes_alive(mark) != n) {
        assert_true(clock_mono_ns() < until);
        (void)poll(NULL, 0, 5);
    }
}

#endif
