/* SPDX-License-Identifier: Apache-2.0 */
#include "net/agent_name.h"

#include "base/clock.h"
#include "base/hash.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

enum { LOOK_MS = 5 };

socklen_t agent_name(const char *gateways, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "gridline-agent/%016llx",
                     (unsigned long long)hash_bytes(slice_str(gateways)));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* A nonblocking connect to a full queue fails: it is tried again. */
static int dial(int s, const struct sockaddr_un *name, socklen_t length, int ms)
{
    int64_t until = clock_mono_ns() + (int64_t)ms * 1000000;
    int r = connect(s, (const struct sockaddr *)name, length) < 0 ? -errno : 0;
    while (r == -EAGAIN && clock_mono_ns() < until) {
        (void)poll(NULL, 0, LOOK_MS);
        r = connect(s, (const struct sockaddr *)name, length) < 0 ? -errno : 0;
    }
    return r;
}

int agent_name_send(const char *gateways, struct slice message, int ms, struct ucred *holder, int *fd)
{
    struct sockaddr_un name;
    socklen_t length = agent_name(gateways, &name), n = sizeof *holder;
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0)
        return -errno;
    int r = dial(s, &name, length, ms);
    if (r == 0 && (getsockopt(s, SOL_SOCKET, SO_PEERCRED, holder, &n) < 0 ||
                   send(s, message.p, message.n, MSG_NOSIGNAL) != (ssize_t)message.n))
        r = -errno; /* an empty socket takes it whole, or not at all */
    if (r == 0)
        *fd = s;
    else
        (void)close(s);
    return r;
}

char agent_name_answer(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char answer = 0;
    return poll(&p, 1, ms) == 1 && read(fd, &answer, 1) == 1 ? answer : 0;
}

static int exchange(const char *gateways, struct slice message, int ms)
{
    struct ucred holder;
    int64_t until = clock_mono_ns() + (int64_t)ms * 1000000;
    int fd, r = agent_name_send(gateways, message, ms, &holder, &fd);
    if (r < 0)
        return r;
    char answer = agent_name_answer(fd, ms);
    (void)close(fd);
    if (holder.uid != geteuid() && holder.uid != 0)
        return -EPERM;
    if (answer == 0) /* hung up before its time: it has just gone */
        return clock_mono_ns() < until ? -ECONNREFUSED : -ETIMEDOUT;
    return answer == AGENT_NAME_REFUSED ? -EACCES : 0;
}

int agent_name_ask(const char *gateways, int ms)
{
    return exchange(gateways, SLICE_LIT("g"), ms);
}

int agent_name_tell(const char *gateways, const struct launch_request *r, int ms)
{
    unsigned char message[AGENT_NAME_MESSAGE] = {AGENT_NAME_JOB};
    launch_request_put(message + 1, r);
    return exchange(gateways, slice_of((const char *)message, sizeof message), ms);
}
