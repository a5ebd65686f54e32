/* SPDX-License-Identifier: Apache-2.0 */
/* A pipe that polls writable takes at least PIPE_BUF bytes without blocking, whatever flags its descriptor
 * has (which may be shared, so they are not changed): writes are that small. A regular file is written as a
 * whole; it waits for its disk, which nothing short of a thread would change. */
#include "base/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

int sink_open(struct sink *s, const char *path, unsigned mode)
{
    struct stat st;
    bool is_output = strcmp(path, "-") == 0;
    int fd = is_output ? STDOUT_FILENO
                       : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
                              (mode_t)mode);
    if (fd < 0)
        return -errno;
    s->fd = fd;
    s->is_borrowed = is_output;
    s->is_regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    return 0;
}

void sink_close(struct sink *s)
{
    if (s->fd >= 0 && !s->is_borrowed)
        (void)close(s->fd); /* nothing of ours is buffered in it */
    s->fd = -1;
}

void sink_fini(struct sink *s)
{
    sink_close(s);
    strbuf_fini(&s->waiting);
    s->n_marks = 0;
}

void sink_mark(struct sink *s, uint64_t n)
{
    uint64_t end = s->written + s->waiting.n;
    if (n == 0)
        return;
    if (s->n_marks == SINK_MARKS) {
        s->marks[SINK_MARKS - 1].end = end;
        s->marks[SINK_MARKS - 1].n += n;
        return;
    }
    s->marks[s->n_marks++] = (struct sink_mark){end, n};
}

uint64_t sink_queued(const struct sink *s)
{
    uint64_t n = 0;
    for (size_t i = 0; i < s->n_marks; i++)
        n += s->marks[i].n;
    return n;
}

static void pass(struct sink *s, size_t bytes)
{
    size_t done = 0;
    s->written += bytes;
    strbuf_consume(&s->waiting, bytes);
    while (done < s->n_marks && s->marks[done].end <= s->written)
        done++;
    s->n_marks -= done;
    memmove(s->marks, s->marks + done, s->n_marks * sizeof *s->marks);
}

/* Bytes written, 0 when it would block, -1 with errno. */
static ssize_t write_some(const struct sink *s, struct slice data)
{
    struct pollfd p = {.fd = s->fd, .events = POLLOUT};
    if (s->is_regular)
        return write(s->fd, data.p, data.n);
    if (poll(&p, 1, 0) <= 0 || !(p.revents & (POLLOUT | POLLERR | POLLHUP)))
        return 0;
    return write(s->fd, data.p, data.n < PIPE_BUF ? data.n : PIPE_BUF);
}

int sink_flush(struct sink *s)
{
    size_t done = 0;
    int r = 0;
    if (s->fd < 0)
        return -EBADF;
    while (r == 0 && done < s->waiting.n) {
        ssize_t n = write_some(s, slice_from(strbuf_slice(&s->waiting), done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            r = -errno;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    pass(s, done);
    return r;
}
