/* SPDX-License-Identifier: Apache-2.0 */
/* CONNECTING (one socket address after the other) -> HANDSHAKE (tls:// only) -> CONNECTED. */
#include "net/dial.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/address.h"
#include "net/secure.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum dial_state { DIAL_NEXT, DIAL_CONNECTING, DIAL_HANDSHAKE, DIAL_CONNECTED };

struct dial {
    struct strbuf address, identity;
    enum dial_state state;
    int fd;
    int error; /* of the last socket address that was tried */
    bool is_tls;
    struct sockaddr_un un;  /* sun_family 0: it is not one */
    struct addrinfo *found; /* else these; owned */
    const struct addrinfo *next;
    const struct secure_ops *secure_ops; /* tls:// only, as the next two */
    struct secure *secure;
    struct transport *transport;
};

static void add_default_socket(struct strbuf *out, const char *name)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    if (geteuid() == 0)
        strbuf_printf(out, "unix:/run/gridline/%s", name);
    else if (run && run[0])
        strbuf_printf(out, "unix:%s/gridline/%s", run, name);
    else
        strbuf_printf(out, "unix:/tmp/gridline-%u/%s", (unsigned)geteuid(), name);
}

void dial_default_gateway(struct strbuf *out)
{
    add_default_socket(out, "gateway.sock");
}

void dial_default_agent(struct strbuf *out)
{
    add_default_socket(out, "agent.sock");
}

void dial_default_guard(struct strbuf *out)
{
    add_default_socket(out, "guard.sock");
}

void dial_default_identity(struct strbuf *out)
{
    const char *given = getenv("GRIDLINE_IDENTITY"), *home = getenv("HOME");
    if (given && given[0])
        strbuf_add_str(out, given);
    else if (home && home[0])
        strbuf_printf(out, "%s/.config/gridline/identity", home);
}

/* ---------------------------------------------------------------- in words */

int dial_explain(const char *address, int r, struct diag *why)
{
    switch (r) {
    case -EINTR:
        return diag_set(why, r, 0, "stopped");
    case -ETIMEDOUT:
        return diag_set(why, r, 0, "%.120s does not answer in time", address);
    case -ECONNRESET:
    case -EPIPE:
        return diag_set(why, r, 0, "%.120s hung up; its log says why", address);
    case E_PROTO:
    case E_DAMAGE:
    case E_LIMIT:
        return diag_set(why, r, 0, "%.120s does not speak as a gateway of this version does", address);
    default:
        return diag_set(why, r, 0, "%.120s: %s", address, err_text(r));
    }
}

int dial_explain_bye(const char *address, struct slice payload, struct diag *why)
{
    struct frame_bye_reason bye;
    if (frame_get_bye(payload, &bye) < 0)
        return dial_explain(address, E_PROTO, why);
    if (bye.text.n > 100)
        bye.text.n = 100;
    if (bye.reason == BYE_NOT_ALLOWED)
        return diag_set(why, -EACCES, 0, "%.80s: not allowed: %.*s", address, SLICE_ARG(bye.text));
    return diag_set(why, -ECONNRESET, 0, "%.80s hung up: %.*s", address, SLICE_ARG(bye.text));
}

static int explain_dial(const struct dial *d, int r, struct diag *why)
{
    const char *at = d->address.p;
    if (r == -ENOENT || r == -ECONNREFUSED)
        return diag_set(why, r, 0, "no gateway answers at %.120s: is gridline-gateway running?", at);
    if (r == -EACCES || r == -EPERM)
        return diag_set(why, -EACCES, 0, "you may not use %.120s: it belongs to another user", at);
    return dial_explain(at, r, why);
}

static int no_memory(struct diag *why)
{
    return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
}

/* ---------------------------------------------------------------- addresses */

struct parts {
    bool is_unix, is_tls;
    struct slice path;
    char host[ADDRESS_HOST_MAX], port[ADDRESS_PORT_MAX];
};

static int take_apart(const char *address, struct parts *out, struct diag *why)
{
    struct slice rest = slice_str(address);
    *out = (struct parts){.is_unix = slice_starts(rest, SLICE_LIT("unix:"))};
    if (out->is_unix) {
        const size_t most = sizeof((struct sockaddr_un *)0)->sun_path - 1;
        struct slice path = slice_from(rest, 5);
        out->path = slice_starts(path, SLICE_LIT("//")) ? slice_from(path, 2) : path;
        if (out->path.n == 0 || out->path.n > most)
            return diag_set(why, -EINVAL, 0, "'%.120s': the path of a socket has 1 to %zu bytes", address,
                            most);
        return 0;
    }
    out->is_tls = slice_starts(rest, SLICE_LIT("tls://"));
    if (out->is_tls || slice_starts(rest, SLICE_LIT("tcp://")))
        rest = slice_from(rest, 6);
    if (address_split(rest, out->host, out->port) < 0)
        return diag_set(why, -EINVAL, 0,
                        "'%.120s' is no address; write tls://HOST:PORT, tcp://HOST:PORT or unix:PATH",
                        address);
    return 0;
}

int dial_check(const char *address, struct diag *why)
{
    struct parts p;
    return take_apart(address, &p, why);
}

static int resolve(struct dial *d, const struct parts *p, struct diag *why)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    if (p->is_unix) {
        d->un.sun_family = AF_UNIX;
        memcpy(d->un.sun_path, p->path.p, p->path.n);
        return 0;
    }
    int g = getaddrinfo(p->host, p->port, &hints, &d->found);
    if (g != 0) {
        d->found = NULL;
        return diag_set(why, -EHOSTUNREACH, 0, "'%.100s': %s", p->host, gai_strerror(g));
    }
    d->next = d->found;
    return 0;
}

int dial_open(const char *address, const char *identity, struct dial **out, struct diag *why)
{
    struct parts p;
    int r = take_apart(address, &p, why);
    if (r < 0)
        return r;
    struct dial *d = mem_try_alloc(sizeof *d);
    if (!d)
        return no_memory(why);
    d->fd = -1;
    d->is_tls = p.is_tls;
    strbuf_add_str(&d->address, address);
    if (identity && identity[0])
        strbuf_add_str(&d->identity, identity);
    else
        dial_default_identity(&d->identity);
    r = strbuf_failed(&d->address) || strbuf_failed(&d->identity) ? no_memory(why) : resolve(d, &p, why);
    if (r < 0) {
        dial_close(d);
        return r;
    }
    *out = d;
    return 0;
}

void dial_close(struct dial *d)
{
    if (!d)
        return;
    if (d->transport)
        d->secure_ops->transport->end(d->transport);
    if (d->secure)
        d->secure_ops->close(d->secure);
    if (d->fd >= 0)
        (void)close(d->fd); /* nothing is waiting to be written */
    if (d->found)
        freeaddrinfo(d->found);
    strbuf_fini(&d->address);
    strbuf_fini(&d->identity);
    mem_free(d);
}

/* ---------------------------------------------------------------- steps */

/* The next socket address, if there is one. -EAGAIN: it is being connected. */
static int connect_next(struct dial *d)
{
    bool is_unix = d->un.sun_family == AF_UNIX;
    const struct sockaddr *sa = is_unix ? (const struct sockaddr *)&d->un : d->next ? d->next->ai_addr : NULL;
    socklen_t n = is_unix ? sizeof d->un : d->next ? d->next->ai_addrlen : 0;
    if (!sa || (is_unix && d->error))
        return d->error ? d->error : -EHOSTUNREACH;
    d->next = d->next ? d->next->ai_next : NULL;
    if (d->fd >= 0)
        (void)close(d->fd); /* the one before did not answer */
    d->fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (d->fd < 0)
        return -errno;
    int on = 1;
    if (!is_unix)
        (void)setsockopt(d->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* slower without, not wrong */
    d->state = DIAL_CONNECTING;
    if (connect(d->fd, sa, n) == 0)
        return 0;
    if (errno == EINPROGRESS || errno == EINTR)
        return -EAGAIN;
    d->error = errno == EAGAIN ? -EBUSY : -errno; /* a Unix socket's queue is full */
    d->state = DIAL_NEXT;
    return 1; /* the one behind it */
}

/* -EAGAIN: not yet; 1: this one does not answer. */
static int check_connected(struct dial *d)
{
    struct pollfd p = {.fd = d->fd, .events = POLLOUT};
    int error = 0;
    socklen_t n = sizeof error;
    if (poll(&p, 1, 0) <= 0)
        return -EAGAIN;
    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0)
        error = errno;
    if (error == 0)
        return 0;
    d->error = -error;
    d->state = DIAL_NEXT;
    return 1;
}

static int start_tls(struct dial *d, struct diag *why)
{
    if (d->identity.n == 0)
        return diag_set(why, -ENOENT, 0, "tls:// needs your identity: --identity DIR, or GRIDLINE_IDENTITY");
    d->secure_ops = secure_load(why);
    int r = d->secure_ops ? d->secure_ops->open(d->identity.p, "", &d->secure, why) : -ENOENT;
    return r < 0 ? r : d->secure_ops->transport->start(d->secure, d->fd, NULL, &d->transport, why);
}

int dial_step(struct dial *d, short *wants, struct diag *why)
{
    int r = 0;
    *wants = POLLOUT;
    while (d->state == DIAL_NEXT || d->state == DIAL_CONNECTING) {
        r = d->state == DIAL_NEXT ? connect_next(d) : check_connected(d);
        if (r < 0)
            return r == -EAGAIN ? r : explain_dial(d, r, why);
        if (r > 0)
            continue;
        d->state = d->is_tls ? DIAL_HANDSHAKE : DIAL_CONNECTED;
        r = d->is_tls ? start_tls(d, why) : 0;
        if (r < 0)
            return r;
    }
    if (d->state == DIAL_CONNECTED)
        return 0;
    r = d->secure_ops->transport->handshake(d->transport, wants, why);
    if (r == 0)
        d->state = DIAL_CONNECTED;
    return r;
}

int dial_fd(const struct dial *d)
{
    return d->fd;
}

ssize_t dial_send(struct dial *d, struct slice s, short *wants)
{
    if (d->transport)
        return d->secure_ops->transport->send(d->transport, s.p, s.n, wants);
    ssize_t n = send(d->fd, s.p, s.n, MSG_NOSIGNAL);
    *wants = POLLOUT;
    return n < 0 ? -errno : n;
}

ssize_t dial_receive(struct dial *d, void *to, size_t n, short *wants)
{
    if (d->transport)
        return d->secure_ops->transport->receive(d->transport, to, n, wants);
    ssize_t got = recv(d->fd, to, n, 0);
    *wants = POLLIN;
    return got < 0 ? -errno : got;
}

int dial_hello(struct strbuf *out, const char *prog)
{
    char host[256] = "localhost";
    struct frame_hello h = {.minor_high = FRAME_MINOR,
                            .role = PEER_CONSUMER,
                            .origin = {.epoch = 1},
                            .t0_ns = clock_utc_ns(),
                            .prog = slice_str(prog)};
    (void)gethostname(host, sizeof host - 1); /* stays localhost; it is for logs */
    h.host = slice_str(host);
    if (getrandom(h.origin.producer, sizeof h.origin.producer, 0) < 0)
        return -errno;
    greeting_put(out);
    frame_put_hello(out, &h);
    return strbuf_failed(out) ? -ENOMEM : 0;
}
