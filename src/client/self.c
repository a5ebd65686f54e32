/* SPDX-License-Identifier: Apache-2.0 */
/* Event process.self, level Usage: cpu.user.s cpu.system.s (float), rss.bytes vsz.bytes threads faults.minor
 * faults.major io.read.bytes io.write.bytes (to and from storage, not the page cache) switches.voluntary
 * switches.involuntary fds (int). From getrusage and /proc/self/status, io and fd. What can't be read is a
 * field that is missing: a process that may not see its own /proc/self/io has no io.* fields. */
#include "client/self.h"

#include "base/clock.h"
#include "base/num.h"
#include "client/point.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

struct list {
    struct gridline_value *v;
    size_t n;
};

static void add_count(struct list *l, const char *name, uint64_t v)
{
    l->v[l->n++] = POINT_COUNT(name, v);
}

static void add_seconds(struct list *l, const char *name, struct timeval t)
{
    l->v[l->n++] = POINT_FLOAT(name, (double)t.tv_sec + (double)t.tv_usec / 1e6);
}

static int open_in(const char *dir, const char *name, int flags)
{
    int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return -1;
    int fd = openat(at, name, O_RDONLY | O_CLOEXEC | flags);
    (void)close(at); /* nothing was written */
    return fd;
}

/* The file's first bytes; empty when it can't be read. */
static struct slice read_start(const char *dir, const char *name, char *buf, size_t size)
{
    struct slice s = {buf, 0};
    int fd = open_in(dir, name, 0);
    if (fd < 0)
        return s;
    for (;;) {
        ssize_t r = read(fd, buf + s.n, size - s.n);
        if (r > 0)
            s.n += (size_t)r;
        else if (r == 0 || errno != EINTR)
            break;
    }
    (void)close(fd); /* only read */
    return s;
}

/* The number behind "key:" at the start of a line. */
static bool find_number(struct slice text, struct slice key, uint64_t *out)
{
    while (text.n > 0) {
        const char *end = memchr(text.p, '\n', text.n);
        struct slice line = {text.p, end ? (size_t)(end - text.p) : text.n};
        text = slice_from(text, line.n + 1);
        if (!slice_starts(line, key) || line.n == key.n || line.p[key.n] != ':')
            continue;
        size_t from = key.n + 1, to;
        while (from < line.n && (line.p[from] == ' ' || line.p[from] == '\t'))
            from++;
        for (to = from; to < line.n && line.p[to] >= '0' && line.p[to] <= '9';)
            to++;
        return num_parse_uint(slice_of(line.p + from, to - from), out) == 0;
    }
    return false;
}

static void add_usage(struct list *l)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) != 0)
        return;
    add_seconds(l, "cpu.user.s", u.ru_utime);
    add_seconds(l, "cpu.system.s", u.ru_stime);
    add_count(l, "faults.minor", (uint64_t)u.ru_minflt);
    add_count(l, "faults.major", (uint64_t)u.ru_majflt);
    add_count(l, "switches.voluntary", (uint64_t)u.ru_nvcsw);
    add_count(l, "switches.involuntary", (uint64_t)u.ru_nivcsw);
}

static void add_numbers(struct list *l, const char *proc)
{
    static const struct {
        const char *file, *key, *field;
        uint64_t unit;
    } numbers[] = {
        {"status", "VmRSS", "rss.bytes", 1024},     {"status", "VmSize", "vsz.bytes", 1024},
        {"status", "Threads", "threads", 1},        {"io", "read_bytes", "io.read.bytes", 1},
        {"io", "write_bytes", "io.write.bytes", 1},
    };
    char buf[8192]; /* status is 1.5 KiB */
    struct slice text = {buf, 0};
    const char *have = "";
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uint64_t v;
        if (strcmp(have, numbers[i].file) != 0)
            text = read_start(proc, have = numbers[i].file, buf, sizeof buf);
        if (find_number(text, slice_str(numbers[i].key), &v))
            add_count(l, numbers[i].field, v * numbers[i].unit);
    }
}

/* Open files, without the one used to count them. getdents64 because opendir allocates. */
static void add_files(struct list *l, const char *proc)
{
    _Alignas(struct dirent64) char buf[4096];
    int fd = open_in(proc, "fd", O_DIRECTORY);
    if (fd < 0)
        return;
    uint64_t n = 0;
    ssize_t r;
    while ((r = getdents64(fd, buf, sizeof buf)) > 0)
        for (ssize_t at = 0; at < r;) {
            const struct dirent64 *d = (const struct dirent64 *)(buf + at);
            n += d->d_name[0] != '.';
            at += d->d_reclen;
        }
    (void)close(fd); /* only read */
    if (r == 0 && n > 0)
        add_count(l, "fds", n - 1);
}

size_t self_fields(const char *proc, struct gridline_value out[SELF_FIELDS_MAX])
{
    struct list l = {out, 0};
    add_usage(&l);
    add_numbers(&l, proc);
    add_files(&l, proc);
    return l.n;
}

void gridline_self(gridline *g)
{
    if (!g || !client_is_on(g, GRIDLINE_USAGE, "process.self"))
        return;
    int saved_errno = errno;
    struct gridline_value v[SELF_FIELDS_MAX];
    size_t n = self_fields("/proc/self", v);
    (void)gridline_write_values(g, 0, GRIDLINE_USAGE, "process.self", v, n); /* a failure is counted there */
    errno = saved_errno;
}
