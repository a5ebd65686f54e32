/* SPDX-License-Identifier: Apache-2.0 */
#include "sensor/proc_pid.h"

#include "base/err.h"
#include "base/text.h"
#include "sensor/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_ROOM = 48 }; /* "/proc/4294967295/" and a short name */

/* Fields behind the name, numbered as in proc(5), that are wanted; the others are skipped. Some of those are
 * negative. */
int proc_stat_parse(struct slice text, struct proc_stat *out)
{
    const char *open = memchr(text.p, '(', text.n);
    const char *close = memrchr(text.p, ')', text.n);
    if (!open || !close || close < open)
        return E_PROTO;
    struct proc_stat s = {.comm = slice_of(open + 1, (size_t)(close - open - 1))};
    struct scan rest = scan_of(slice_of(close + 1, (size_t)(text.p + text.n - close - 1)));
    struct slice state = scan_word(&rest);
    if (state.n != 1 ||
        !((state.p[0] >= 'A' && state.p[0] <= 'Z') || (state.p[0] >= 'a' && state.p[0] <= 'z')))
        return E_PROTO;
    s.state = state.p[0];
    struct {
        unsigned field;
        uint64_t *to;
    } wanted[] = {{4, &s.ppid},   {14, &s.utime}, {15, &s.stime}, {20, &s.threads},
                  {22, &s.start}, {23, &s.vsize}, {24, &s.rss},   {52, &s.exit_code}};
    unsigned field = 4;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        for (; field < wanted[i].field; field++)
            (void)scan_word(&rest);                                          /* skipped */
        bool is_there = scan_uint(&rest, wanted[i].to) && rest.p < rest.end; /* at the end it may be cut */
        if (!is_there && wanted[i].field < 52)
            return E_PROTO;
        if (!is_there)
            s.exit_code = 0; /* kernels before 3.5 have fewer fields */
        field++;
    }
    *out = s;
    return 0;
}

int proc_status_uid(struct slice text, uint64_t *out)
{
    struct scan s = scan_of(text);
    struct slice line;
    while (scan_line(&s, &line)) {
        struct scan l = scan_of(line);
        if (!slice_eq_str(scan_word(&l), "Uid:"))
            continue;
        uint64_t real;
        bool is_cut = s.p >= s.end && !scan_is_whole(text);
        return !is_cut && scan_uint(&l, &real) && scan_uint(&l, out) ? 0 : E_NODATA;
    }
    return E_NODATA;
}

/* Without the bytes at the end that only begin a character. */
static size_t whole_characters(const char *p, size_t n)
{
    size_t i = n;
    while (i > 0 && n - i < 3 && ((unsigned char)p[i - 1] & 0xc0) == 0x80)
        i--;
    if (i == 0 || (unsigned char)p[i - 1] < 0xc0)
        return n;
    unsigned char lead = (unsigned char)p[i - 1];
    size_t needs = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    return n - (i - 1) < needs ? i - 1 : n;
}

size_t proc_command_text(char *p, size_t n)
{
    while (n > 0 && p[n - 1] == '\0')
        n--;
    for (size_t i = 0; i < n; i++)
        if (p[i] == '\0')
            p[i] = ' ';
    size_t whole = whole_characters(p, n);
    if (text_is_utf8(slice_of(p, whole)))
        return whole;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)p[i] > 0x7f)
            p[i] = '?';
    return n;
}

static void print_path(char *to, uint32_t pid, const char *name)
{
    (void)snprintf(to, PATH_ROOM, "/proc/%u/%s", pid, name); /* names are ours and short */
}

/* What a file of a process that has gone fails with. */
static int64_t gone_or(int error)
{
    return error == ENOENT || error == ESRCH || error == ENOTDIR ? E_NODATA : -error;
}

int proc_open(struct sensor_env *env, uint32_t pid, const char *name)
{
    char path[PATH_ROOM];
    struct strbuf full = {0};
    print_path(path, pid, name);
    int fd = open(env_path(env, path, &full), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int r = fd >= 0 ? fd : (int)gone_or(errno);
    strbuf_fini(&full);
    env_note(env, "open", path, 0);
    return r;
}

int64_t proc_pread(struct sensor_env *env, int fd, uint32_t pid, const char *name, char *to, size_t room)
{
    ssize_t n;
    do
        n = pread(fd, to, room, 0);
    while (n < 0 && errno == EINTR);
    int64_t r = n < 0 ? gone_or(errno) : n;
    if (env->on_call) {
        char path[PATH_ROOM];
        print_path(path, pid, name);
        env_note(env, "pread", path, n > 0 ? (size_t)n : 0);
    }
    return r;
}

int64_t proc_read(struct sensor_env *env, uint32_t pid, const char *name, char *to, size_t room)
{
    int fd = proc_open(env, pid, name);
    if (fd < 0)
        return fd;
    int64_t n = proc_pread(env, fd, pid, name, to, room);
    (void)close(fd); /* opened for reading */
    return n;
}

static int count_one(void *arg, const char *name)
{
    (void)name; /* only their number counts */
    ++*(int64_t *)arg;
    return 0;
}

int64_t proc_count_files(struct sensor_env *env, uint32_t pid)
{
    char path[PATH_ROOM];
    struct stat st;
    int64_t n = 0;
    print_path(path, pid, "fd");
    if (env_is_live(env)) {
        env_note(env, "stat", path, 0);
        if (stat(path, &st) < 0)
            return gone_or(errno);
        if (st.st_size > 0)
            return st.st_size;
    }
    int r = env_list(env, path, count_one, &n);
    return r < 0 ? r : n;
}
