/* SPDX-License-Identifier: Apache-2.0 */
#include "base/machine.h"

#include "base/num.h"
#include "base/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The kernel gives the first namespace of these kinds a fixed number (include/linux/proc_ns.h). */
#define FIRST_PID_NAMESPACE  0xEFFFFFFCu
#define FIRST_USER_NAMESPACE 0xEFFFFFFDu

static bool read_file(const char *path, struct strbuf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 1;
    strbuf_reset(out);
    while (fd >= 0 && n > 0 && out->n < PROCESS_FILE_MAX) {
        char *to = strbuf_room(out, 4096);
        n = to ? read(fd, to, 4096) : -1;
        if (n > 0)
            strbuf_advance(out, (size_t)n);
    }
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0 && n >= 0 && !strbuf_failed(out);
}

/* The line without its end; text moves on behind it. */
static bool next_line(struct slice *text, struct slice *line)
{
    if (text->n == 0)
        return false;
    const char *end = memchr(text->p, '\n', text->n);
    *line = slice_of(text->p, end ? (size_t)(end - text->p) : text->n);
    *text = slice_from(*text, line->n + (end ? 1 : 0));
    return true;
}

static uint64_t memory_total(struct strbuf *buffer)
{
    const struct slice label = SLICE_LIT("MemTotal:");
    struct slice text, line;
    uint64_t kib = 0;
    text = read_file("/proc/meminfo", buffer) ? strbuf_slice(buffer) : slice_of("", 0);
    while (next_line(&text, &line)) {
        if (!slice_starts(line, label))
            continue;
        const char *p = line.p + label.n, *end = line.p + line.n;
        while (p < end && *p == ' ')
            p++;
        const char *space = memchr(p, ' ', (size_t)(end - p));
        if (num_parse_uint(slice_of(p, (size_t)((space ? space : end) - p)), &kib) < 0)
            kib = 0;
        break;
    }
    return kib * 1024;
}

/* 0 = none. Version 1 says "none" with a number above all memory there can be. */
static uint64_t limit_in(const char *folder, struct slice path, const char *name)
{
    struct strbuf file = {0}, text = {0};
    uint64_t limit = 0;
    strbuf_printf(&file, "%s%.*s/%s", folder, SLICE_ARG(path), name);
    if (!strbuf_failed(&file) && read_file(file.p, &text) && text.n && text.p[text.n - 1] == '\n' &&
        num_parse_uint(slice_of(text.p, text.n - 1), &limit) < 0)
        limit = 0; /* "max" */
    strbuf_fini(&file);
    strbuf_fini(&text);
    return limit < INT64_MAX / 2 ? limit : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a && (!b || a < b) ? a : b;
}

/* Lines are "N:controllers:/path"; version 2 has no controllers. */
static uint64_t memory_limit(struct strbuf *buffer)
{
    struct rlimit r;
    struct slice text, line;
    uint64_t limit = getrlimit(RLIMIT_AS, &r) == 0 && r.rlim_cur != RLIM_INFINITY ? r.rlim_cur : 0;
    text = read_file("/proc/self/cgroup", buffer) ? strbuf_slice(buffer) : slice_of("", 0);
    while (next_line(&text, &line)) {
        const char *first = memchr(line.p, ':', line.n);
        const char *second = first ? memchr(first + 1, ':', (size_t)(line.p + line.n - first - 1)) : NULL;
        if (!second)
            continue;
        struct slice path = slice_from(line, (size_t)(second + 1 - line.p));
        if (second == first + 1) {
            limit = least(limit, limit_in("/sys/fs/cgroup", path, "memory.max"));
            limit = least(limit, limit_in("/sys/fs/cgroup/unified", path, "memory.max"));
        } else if (slice_eq_str(slice_of(first + 1, (size_t)(second - first - 1)), "memory")) {
            limit = least(limit, limit_in("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"));
        }
    }
    return limit;
}

static uint32_t count_processes(void)
{
    DIR *d = opendir("/proc");
    uint32_t n = 0;
    for (const struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] >= '0' && e->d_name[0] <= '9';
    if (d)
        (void)closedir(d);
    return n;
}

static uint32_t count_lines(const char *path, struct strbuf *buffer)
{
    struct slice text, line;
    uint32_t n = 0;
    text = read_file(path, buffer) ? strbuf_slice(buffer) : slice_of("", 0);
    while (next_line(&text, &line))
        n++;
    return n;
}

void machine_view(struct machine_view *out)
{
    struct strbuf buffer = {0};
    cpu_set_t cpus;
    *out = (struct machine_view){.memory = memory_total(&buffer),
                                 .memory_limit = memory_limit(&buffer),
                                 .processes = count_processes(),
                                 .mounts = count_lines("/proc/self/mountinfo", &buffer)};
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) /* 0 with more than CPU_SETSIZE of them */
        out->cpus = (uint32_t)CPU_COUNT(&cpus);
    strbuf_fini(&buffer);
}

static bool is_in(const char *namespace, unsigned number)
{
    struct stat st;
    return stat(namespace, &st) == 0 && st.st_ino == number;
}

bool machine_is_the_host(void)
{
    return is_in("/proc/self/ns/pid", FIRST_PID_NAMESPACE) && is_in("/proc/self/ns/user", FIRST_USER_NAMESPACE);
}
