/* SPDX-License-Identifier: Apache-2.0 */
/* A socket of `gridline pinhole` (broker.h). The broker is not believed more than it has to be: its answer is eight
 * bytes or it is none, and it gets no more time than there is. */
#include "launch/pinhole.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static bool unix_is_here(const struct pinhole_terms *t, struct diag *why)
{
    struct stat st;
    if (stat(t->socket, &st) == 0 && S_ISSOCK(st.st_mode))
        return true;
    (void)diag_set(why, -ENOENT, 0, "no socket at %s", t->socket);
    return false;
}

/* A full queue of callers makes a nonblocking connect fail: it is tried again. */
static int dial(const char *path, int64_t until_ns)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n >= sizeof to.sun_path)
        return -ENAMETOOLONG;
    memcpy(to.sun_path, path, n);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    int r = connect(fd, (const struct sockaddr *)&to, sizeof to) < 0 ? -errno : 0;
    while (r == -EAGAIN && pinhole_left_ms(until_ns) > 0) {
        (void)poll(NULL, 0, 10);
        r = connect(fd, (const struct sockaddr *)&to, sizeof to) < 0 ? -errno : 0;
    }
    if (r == 0)
        return fd;
    (void)close(fd);
    return r;
}

static int read_reply(int fd, int64_t until_ns, enum launch_result *out)
{
    char bytes[LAUNCH_REPLY];
    size_t n = 0;
    while (n < sizeof bytes) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int left = pinhole_left_ms(until_ns);
        if (left == 0 || (poll(&p, 1, left) < 0 && errno != EINTR))
            return -ETIMEDOUT;
        ssize_t got = recv(fd, bytes + n, sizeof bytes - n, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return got == 0 ? -ECONNRESET : -errno;
        n += got > 0 ? (size_t)got : 0;
    }
    return launch_reply_get(slice_of(bytes, n), out);
}

static int exchange(const char *path, const struct launch_request *r, int64_t until_ns, enum launch_result *out)
{
    unsigned char request[LAUNCH_REQUEST];
    launch_request_put(request, r);
    int fd = dial(path, until_ns);
    if (fd < 0)
        return fd;
    /* An empty socket has room for that. Who has hung up already may have said why. */
    ssize_t sent = send(fd, request, sizeof request, MSG_NOSIGNAL);
    int code = sent == (ssize_t)sizeof request || errno == EPIPE ? read_reply(fd, until_ns, out) : -errno;
    (void)close(fd);
    return code;
}

static int unix_start(const struct pinhole_terms *t, int64_t until_ns, struct diag *why)
{
    const struct launch_request request = {.kind = LAUNCH_START, .uid = LAUNCH_NO_UID};
    enum launch_result result;
    int r = exchange(t->socket, &request, until_ns, &result);
    if (r < 0)
        return diag_set(why, r, 0, "%s: %s", t->socket, err_text(r));
    if (result == LAUNCH_DONE || result == LAUNCH_ALREADY)
        return 0;
    return diag_set(why, -EACCES, 0, "%s: %s", t->socket, launch_result_text(result));
}

static int unix_tell(const struct pinhole_terms *t, const struct launch_request *r, int64_t until_ns)
{
    enum launch_result result;
    int code = exchange(t->socket, r, until_ns, &result);
    return code < 0 ? code : result == LAUNCH_DONE ? 0 : -EACCES;
}

const struct pinhole_ops pinhole_unix = {
    .name = "unix",
    .summary = "a socket that `gridline pinhole` serves outside",
    .is_here = unix_is_here,
    .start = unix_start,
    .tell = unix_tell,
};
