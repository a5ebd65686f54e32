/* SPDX-License-Identifier: Apache-2.0 */
/* What is said: the one who connects sends one byte, 'r' (resident) or 'g' (guest); the holder answers one
 * byte, the kind it is itself, and closes. The peer's pid and uid come from the kernel. Each side waits at
 * most ANSWER_MS. */
#include "agent/only.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/slice.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ANSWER_MS = 2000, LEAVE_MS = 5000, TRY_MS = 20 };

struct only {
    int fd;
    bool is_guest;
    struct event *readable;
    void (*on_replaced)(void *arg);
    void *arg;
};

static socklen_t make_name(const char *gateways, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "gridline-agent/%016llx",
                     (unsigned long long)hash_bytes(slice_str(gateways)));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool is_readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

/* The holder's side: who asks is told what we are; a resident makes a guest go. */
static void on_caller(evutil_socket_t fd, short what, void *arg)
{
    struct only *o = arg;
    (void)what; /* readable */
    int caller = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    char kind = 0;
    struct ucred peer = {0};
    socklen_t n = sizeof peer;
    if (caller < 0)
        return;
    bool may_replace = getsockopt(caller, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
                       (peer.uid == geteuid() || peer.uid == 0);
    if (may_replace && is_readable(caller, TRY_MS))   /* a stranger is not waited for */
        (void)!read(caller, &kind, 1);                /* nothing read: it is answered, not believed */
    (void)!write(caller, o->is_guest ? "g" : "r", 1); /* a caller that has gone needs no answer */
    (void)close(caller);
    if (kind == 'r' && o->is_guest && may_replace)
        o->on_replaced(o->arg);
}

static int ask(const struct sockaddr_un *name, socklen_t length, bool is_guest, struct only_other *other)
{
    struct ucred peer = {0};
    socklen_t n = sizeof peer;
    char kind = 'r';
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int r = connect(fd, (const struct sockaddr *)name, length) < 0 ? -errno : 0;
    if (r == 0) {
        (void)!write(fd, is_guest ? "g" : "r", 1); /* no answer then, and it is taken for a resident */
        if (is_readable(fd, ANSWER_MS))
            (void)!read(fd, &kind, 1);
        (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n); /* zeros then */
        *other = (struct only_other){peer.pid, peer.uid, kind == 'g'};
    }
    (void)close(fd);
    return r;
}

static int take_name(struct only *o, const struct sockaddr_un *name, socklen_t length)
{
    o->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (o->fd < 0)
        return -errno;
    if (bind(o->fd, (const struct sockaddr *)name, length) == 0 && listen(o->fd, 8) == 0)
        return 0;
    int r = -errno;
    (void)close(o->fd);
    o->fd = -1;
    return r;
}

/* The guest was asked to go: its name comes free when it has. */
static int wait_for_name(struct only *o, const struct sockaddr_un *name, socklen_t length)
{
    int64_t until = clock_mono_ns() + (int64_t)LEAVE_MS * 1000000;
    int r = take_name(o, name, length);
    while (r == -EADDRINUSE && clock_mono_ns() < until) {
        (void)poll(NULL, 0, TRY_MS);
        r = take_name(o, name, length);
    }
    return r;
}

int only_take(struct event_base *base, const char *gateways, bool is_guest, void (*on_replaced)(void *arg),
              void *arg, struct only **out, struct only_other *other, struct diag *why)
{
    struct sockaddr_un name;
    socklen_t length = make_name(gateways, &name);
    struct only *o = mem_alloc(sizeof *o);
    *o = (struct only){.fd = -1, .is_guest = is_guest, .on_replaced = on_replaced, .arg = arg};
    int r = take_name(o, &name, length);
    if (r == -EADDRINUSE) {
        r = ask(&name, length, is_guest, other);
        if (r == -ECONNREFUSED) /* it has just gone */
            r = wait_for_name(o, &name, length);
        else if (r == 0 && !is_guest && other->is_guest)
            r = wait_for_name(o, &name, length);
        else if (r == 0)
            r = -EEXIST;
        if (r == -EADDRINUSE)
            r = -EEXIST;
    }
    if (r == 0 && base) {
        o->readable = event_new(base, o->fd, EV_READ | EV_PERSIST, on_caller, o);
        if (!o->readable || event_add(o->readable, NULL) < 0)
            r = -ENOMEM;
    }
    if (r < 0) {
        only_release(o);
        return r == -EEXIST ? r : diag_set(why, r, 0, "the name of this host's agent: %s", err_text(r));
    }
    *out = o;
    return 0;
}

void only_release(struct only *o)
{
    if (!o)
        return;
    if (o->readable)
        event_free(o->readable);
    if (o->fd >= 0)
        (void)close(o->fd); /* the name goes with it */
    mem_free(o);
}
