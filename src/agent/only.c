/* SPDX-License-Identifier: Apache-2.0 */
/* Callers are waited for on the loop, each at most SPEAK_MS and no more than CALLERS of them; the others wait in the
 * kernel's queue. Who says nothing is answered nothing: what was not read was not taken. */
#include "agent/only.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/agent_name.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

enum { ANSWER_MS = 2000, LEAVE_MS = 5000, TRY_MS = 20, SPEAK_MS = 1000, CALLERS = 16, BACKLOG = 64 };

struct caller {
    struct only *only;
    struct event *event; /* NULL: the place is free */
    int fd;
    uid_t uid;
};

struct only {
    int fd;
    bool is_guest;
    struct event *readable;
    struct caller callers[CALLERS];
    const struct only_ops *ops;
    void *arg;
};

static void answer(const struct only *o, int fd, bool is_refused)
{
    char kind = is_refused ? AGENT_NAME_REFUSED : o->is_guest ? AGENT_NAME_GUEST : AGENT_NAME_RESIDENT;
    (void)!send(fd, &kind, 1, MSG_NOSIGNAL); /* a caller that has gone needs no answer */
}

static void hang_up(struct caller *c)
{
    if (!c->event)
        return;
    event_free(c->event);
    c->event = NULL;
    (void)close(c->fd);
    (void)event_add(c->only->readable, NULL); /* there is a place now; it was added before, so this can't fail */
}

/* Was it a job's message that is taken? */
static bool take_job(struct only *o, struct slice bytes, uid_t uid)
{
    struct launch_request r;
    if (!o->ops->on_job || launch_request_get(bytes, &r) < 0 || r.kind == LAUNCH_START)
        return false;
    if (r.uid == LAUNCH_NO_UID) /* a broker has filled it in, a launcher can't know it */
        r.uid = uid;
    return o->ops->on_job(o->arg, &r);
}

static void on_word(evutil_socket_t fd, short what, void *arg)
{
    struct caller *c = arg;
    struct only *o = c->only;
    char message[AGENT_NAME_MESSAGE + 1];
    ssize_t n = what & EV_READ ? recv(fd, message, sizeof message, 0) : 0; /* a message is sent as one */
    if (n <= 0) {
        hang_up(c);
        return;
    }
    bool is_job = message[0] == AGENT_NAME_JOB;
    bool is_resident = n == 1 && message[0] == AGENT_NAME_RESIDENT;
    answer(o, c->fd, is_job && !take_job(o, slice_of(message + 1, (size_t)n - 1), c->uid));
    hang_up(c);
    if (is_resident && o->is_guest)
        o->ops->on_replaced(o->arg);
}

static struct caller *free_place(struct only *o)
{
    for (size_t i = 0; i < CALLERS; i++)
        if (!o->callers[i].event)
            return &o->callers[i];
    return NULL;
}

static bool wait_for_word(struct only *o, int fd, uid_t uid)
{
    const struct timeval limit = {.tv_sec = SPEAK_MS / 1000, .tv_usec = SPEAK_MS % 1000 * 1000};
    struct caller *c = free_place(o);
    *c = (struct caller){.only = o, .fd = fd, .uid = uid};
    c->event = event_new(event_get_base(o->readable), fd, EV_READ, on_word, c);
    if (!c->event)
        return false;
    if (event_add(c->event, &limit) < 0) {
        event_free(c->event);
        c->event = NULL;
        return false;
    }
    if (!free_place(o))
        (void)event_del(o->readable); /* nobody is taken until one of these has gone; can't fail */
    return true;
}

/* The holder's side, while there is a place: who asks is told what we are; what a stranger says does not matter, and
 * is not waited for. */
static void on_caller(evutil_socket_t fd, short what, void *arg)
{
    struct only *o = arg;
    (void)what; /* readable */
    int caller = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct ucred peer = {0};
    socklen_t n = sizeof peer;
    if (caller < 0)
        return;
    bool is_ours = getsockopt(caller, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
                   (peer.uid == geteuid() || peer.uid == 0);
    if (is_ours && wait_for_word(o, caller, peer.uid))
        return;
    if (!is_ours)
        answer(o, caller, false);
    (void)close(caller);
}

/* -ECONNREFUSED: it has just gone, maybe without an answer. */
static int ask(const char *gateways, bool is_guest, struct only_other *other)
{
    struct ucred peer = {0};
    int64_t until = clock_mono_ns() + ANSWER_MS * INT64_C(1000000);
    int fd, r = agent_name_send(gateways, is_guest ? SLICE_LIT("g") : SLICE_LIT("r"), ANSWER_MS, &peer, &fd);
    if (r < 0)
        return r;
    char said = agent_name_answer(fd, ANSWER_MS);
    (void)close(fd);
    if (said == 0 && clock_mono_ns() < until)
        return -ECONNREFUSED;
    *other = (struct only_other){peer.pid, peer.uid, said == AGENT_NAME_GUEST};
    return 0;
}

static int take_name(struct only *o, const struct sockaddr_un *name, socklen_t length)
{
    o->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (o->fd < 0)
        return -errno;
    if (bind(o->fd, (const struct sockaddr *)name, length) == 0 && listen(o->fd, BACKLOG) == 0)
        return 0;
    int r = -errno;
    (void)close(o->fd);
    o->fd = -1;
    return r;
}

/* Who has just gone, or was asked to, is waited for: the name comes free when it has. */
static int take_or_find(struct only *o, const char *gateways, struct only_other *other)
{
    struct sockaddr_un name;
    socklen_t length = agent_name(gateways, &name);
    int64_t until = clock_mono_ns() + LEAVE_MS * INT64_C(1000000);
    bool is_leaving = false;
    int r;
    while ((r = take_name(o, &name, length)) == -EADDRINUSE) {
        r = is_leaving ? 0 : ask(gateways, o->is_guest, other);
        if (r < 0 && r != -ECONNREFUSED)
            return r;
        is_leaving |= r == 0 && !o->is_guest && other->is_guest;
        if ((r == 0 && !is_leaving) || clock_mono_ns() >= until)
            return -EEXIST;
        (void)poll(NULL, 0, TRY_MS);
    }
    return r;
}

int only_take(struct event_base *base, const char *gateways, bool is_guest, const struct only_ops *ops, void *arg,
              struct only **out, struct only_other *other, struct diag *why)
{
    struct only *o = mem_alloc(sizeof *o);
    *o = (struct only){.fd = -1, .is_guest = is_guest, .ops = ops, .arg = arg};
    *other = (struct only_other){0};
    int r = take_or_find(o, gateways, other);
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
    for (size_t i = 0; i < CALLERS; i++)
        hang_up(&o->callers[i]);
    if (o->readable)
        event_free(o->readable);
    if (o->fd >= 0)
        (void)close(o->fd); /* the name goes with it */
    mem_free(o);
}
