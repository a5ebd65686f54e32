/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include "base/num.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

bool process_read(pid_t pid, const char *name, struct strbuf *out)
{
    char path[64];
    strbuf_reset(out);
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name); /* names are short */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = 1;
    while (n > 0 && out->n < PROCESS_FILE_MAX) {
        char *to = strbuf_room(out, 4096);
        n = to ? read(fd, to, 4096) : -1;
        if (n > 0)
            strbuf_advance(out, (size_t)n);
    }
    (void)close(fd); /* opened for reading */
    return n >= 0;
}

/* "12 (name) S ppid ...", where the name may hold anything: it ends at the last parenthesis. */
bool process_stat(pid_t pid, struct strbuf *buffer, struct process_stat *out)
{
    enum { START = 22 - 3 }; /* words behind the state; proc(5) counts from the pid, 1 */
    if (!process_read(pid, "stat", buffer) || buffer->n == 0)
        return false;
    const char *end = buffer->p + buffer->n, *open = memchr(buffer->p, '(', buffer->n);
    const char *p = memrchr(buffer->p, ')', buffer->n);
    if (!open || !p || p < open || end - p < 4)
        return false;
    out->name = slice_of(open + 1, (size_t)(p - open - 1));
    out->state = p[2];
    p += 3;
    for (int i = 1; i < START && p < end; i++) {
        p = memchr(p + 1, ' ', (size_t)(end - p - 1));
        if (!p)
            return false;
    }
    const char *stop = ++p;
    while (stop < end && *stop >= '0' && *stop <= '9')
        stop++;
    return p < end && num_parse_uint(slice_of(p, (size_t)(stop - p)), &out->start) == 0;
}
