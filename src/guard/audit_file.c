/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/audit_file.h"

#include "base/err.h"
#include "base/num.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (INT64_C(1) << 30)

void audit_file_name(char to[AUDIT_NAME], uint64_t number)
{
    (void)snprintf(to, AUDIT_NAME, "audit-%06" PRIu64 ".log", number); /* 20 digits fit */
}

/* 0 = it is no file of an audit. */
static uint64_t number_of(const char *name)
{
    struct slice s = slice_str(name);
    char again[AUDIT_NAME];
    uint64_t n = 0;
    if (!slice_starts(s, SLICE_LIT("audit-")) || !slice_ends(s, SLICE_LIT(".log")) || s.n < 16)
        return 0;
    s = slice_of(s.p + 6, s.n - 10);
    while (s.n > 1 && s.p[0] == '0')
        s = slice_from(s, 1);
    if (num_parse_uint(s, &n) < 0)
        return 0;
    audit_file_name(again, n);
    return strcmp(again, name) == 0 ? n : 0;
}

int audit_file_last(int folder, uint64_t *out)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    DIR *d = fdopendir(fd);
    if (!d) {
        int r = -errno;
        (void)close(fd); /* nothing was written */
        return r;
    }
    const struct dirent *e;
    uint64_t last = 0;
    while ((errno = 0, e = readdir(d))) {
        uint64_t n = number_of(e->d_name);
        last = n > last ? n : last;
    }
    int r = -errno;
    (void)closedir(d);
    if (r == 0)
        *out = last;
    return r;
}

static int read_all(int fd, struct strbuf *out)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_size > FILE_MAX)
        return E_LIMIT;
    for (;;) {
        const size_t room = out->n < (size_t)st.st_size ? (size_t)st.st_size - out->n + 1 : 4096;
        char *to = strbuf_room(out, room);
        if (!to)
            return -ENOMEM;
        ssize_t n = read(fd, to, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        strbuf_advance(out, (size_t)n);
        if (out->n > (size_t)FILE_MAX)
            return E_LIMIT;
    }
}

int audit_file_read(int folder, uint64_t number, struct strbuf *out)
{
    char name[AUDIT_NAME];
    audit_file_name(name, number);
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    int r = read_all(fd, out);
    (void)close(fd); /* nothing was written */
    return r;
}
