/* SPDX-License-Identifier: Apache-2.0 */
/* The socket does not block; waiting is poll in steps of STEP_MS, so that the owner can show that it waits
 * and a signal that came just before a poll is seen soon. */
#include "net/ask.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/address.h"
#include "net/secure.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { STEP_MS = 250, READ_SIZE = 64 << 10 };
static const int64_t ns_per_ms = 1000000;

struct ask {
    struct ask_options options;
    struct strbuf address;
    int fd;
    const struct secure_ops *secure_ops; /* tls:// only, as the next two */
    struct secure *secure;
    struct transport *transport;
    struct strbuf in, out;
    size_t done; /* bytes of in that are read: what was given from them is borrowed until the next call */
    uint64_t request;
    struct ask_clock clock;
};

void ask_default_gateway(struct strbuf *out)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    if (geteuid() == 0)
        strbuf_add_str(out, "unix:/run/gridline/gateway.sock");
    else if (run && run[0])
        strbuf_printf(out, "unix:%s/gridline/gateway.sock", run);
    else
        strbuf_printf(out, "unix:/tmp/gridline-%u/gateway.sock", (unsigned)geteuid());
}

void ask_default_identity(struct strbuf *out)
{
    const char *given = getenv("GRIDLINE_IDENTITY"), *home = getenv("HOME");
    if (given && given[0])
        strbuf_add_str(out, given);
    else if (home && home[0])
        strbuf_printf(out, "%s/.config/gridline/identity", home);
}

const char *ask_address(const struct ask *a)
{
    return a->address.p;
}

void ask_clock(const struct ask *a, struct ask_clock *out)
{
    *out = a->clock;
}

/* ---------------------------------------------------------------- waiting */

/* 0: fd is ready for one of events. until_ns is CLOCK_MONOTONIC. */
static int wait_for(const struct ask *a, short events, int64_t until_ns)
{
    for (;;) {
        int64_t left_ms = (until_ns - clock_mono_ns()) / ns_per_ms + 1;
        if (a->options.on_wait && a->options.on_wait(a->options.arg))
            return -EINTR;
        if (left_ms <= 0)
            return -ETIMEDOUT;
        struct pollfd p = {.fd = a->fd, .events = events};
        int n = poll(&p, 1, left_ms < STEP_MS ? (int)left_ms : STEP_MS);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

static ssize_t try_send(const struct ask *a, struct slice s, short *wants)
{
    if (a->transport)
        return a->secure_ops->transport->send(a->transport, s.p, s.n, wants);
    ssize_t n = send(a->fd, s.p, s.n, MSG_NOSIGNAL);
    *wants = POLLOUT;
    return n < 0 ? -errno : n;
}

static ssize_t try_receive(const struct ask *a, void *to, size_t n, short *wants)
{
    if (a->transport)
        return a->secure_ops->transport->receive(a->transport, to, n, wants);
    ssize_t got = recv(a->fd, to, n, 0);
    *wants = POLLIN;
    return got < 0 ? -errno : got;
}

static int flush(struct ask *a, int64_t until_ns)
{
    struct slice rest = strbuf_slice(&a->out);
    int r = strbuf_failed(&a->out) ? -ENOMEM : 0;
    while (r == 0 && rest.n) {
        short wants = POLLOUT;
        ssize_t n = try_send(a, rest, &wants);
        if (n >= 0)
            rest = slice_from(rest, (size_t)n);
        else if (n == -EAGAIN)
            r = wait_for(a, wants, until_ns);
        else if (n != -EINTR)
            r = (int)n;
    }
    strbuf_reset(&a->out);
    return r;
}

/* More bytes into in. -ECONNRESET: the gateway hung up. */
static int receive(struct ask *a, int64_t until_ns)
{
    char *room = strbuf_room(&a->in, READ_SIZE);
    if (!room)
        return -ENOMEM;
    for (;;) {
        short wants = POLLIN;
        ssize_t n = try_receive(a, room, READ_SIZE, &wants);
        if (n > 0) {
            strbuf_advance(&a->in, (size_t)n);
            return 0;
        }
        if (n == 0)
            return -ECONNRESET;
        int r = n == -EAGAIN ? wait_for(a, wants, until_ns) : n == -EINTR ? 0 : (int)n;
        if (r < 0)
            return r;
    }
}

/* The next frame; it is borrowed from in until the next call. */
static int next_frame(struct ask *a, int64_t until_ns, struct frame *out)
{
    for (;;) {
        if (a->done) {
            strbuf_consume(&a->in, a->done);
            a->done = 0;
        }
        int64_t n = frame_read(strbuf_slice(&a->in), FRAME_PAYLOAD_MAX, out);
        if (n < 0)
            return (int)n;
        if (n > 0) {
            a->done = (size_t)n;
            return 0;
        }
        int r = receive(a, until_ns);
        if (r < 0)
            return r;
    }
}

/* What a code means here, in words; returns it. */
static int explain(const struct ask *a, int r, struct diag *why)
{
    const char *at = a->address.p;
    switch (r) {
    case -EINTR:
        return diag_set(why, r, 0, "stopped");
    case -ETIMEDOUT:
        return diag_set(why, r, 0, "%.120s does not answer in time; --timeout gives it longer", at);
    case -ECONNRESET:
    case -EPIPE:
        return diag_set(why, r, 0, "%.120s hung up; its log says why", at);
    case E_PROTO:
    case E_DAMAGE:
    case E_LIMIT:
        return diag_set(why, r, 0, "%.120s does not speak as a gateway of this version does", at);
    default:
        return diag_set(why, r, 0, "%.120s: %s", at, err_text(r));
    }
}

/* ---------------------------------------------------------------- dialling */

static int explain_dial(const struct ask *a, int r, struct diag *why)
{
    if (r == -ENOENT || r == -ECONNREFUSED)
        return diag_set(why, r, 0,
                        "no gateway answers at %.120s: is gridline-gateway running? --gateway names another",
                        a->address.p);
    if (r == -EACCES || r == -EPERM)
        return diag_set(why, -EACCES, 0, "you may not use %.120s: it belongs to another user", a->address.p);
    return explain(a, r, why);
}

static int connect_to(struct ask *a, const struct sockaddr *sa, socklen_t len, int64_t until_ns)
{
    int error = 0;
    socklen_t n = sizeof error;
    a->fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (a->fd < 0)
        return -errno;
    if (connect(a->fd, sa, len) == 0)
        return 0;
    if (errno != EINPROGRESS && errno != EINTR)
        return -errno;
    int r = wait_for(a, POLLOUT, until_ns);
    if (r == 0 && getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0)
        r = -errno;
    return r < 0 ? r : -error;
}

static int dial_unix(struct ask *a, struct slice path, int64_t until_ns, struct diag *why)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    if (path.n == 0 || path.n >= sizeof un.sun_path)
        return diag_set(why, -EINVAL, 0, "'%.120s': the path of a socket has 1 to %zu bytes", a->address.p,
                        sizeof un.sun_path - 1);
    memcpy(un.sun_path, path.p, path.n);
    int r = connect_to(a, (const struct sockaddr *)&un, sizeof un, until_ns);
    return r < 0 ? explain_dial(a, r, why) : 0;
}

static int dial_tcp(struct ask *a, struct slice address, int64_t until_ns, struct diag *why)
{
    char host[ADDRESS_HOST_MAX], port[ADDRESS_PORT_MAX];
    struct addrinfo *found;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    if (address_split(address, host, port) < 0)
        return diag_set(why, -EINVAL, 0,
                        "'%.120s' is no address; write tls://HOST:PORT, tcp://HOST:PORT or unix:PATH",
                        a->address.p);
    int g = getaddrinfo(host, port, &hints, &found);
    if (g != 0)
        return diag_set(why, -EHOSTUNREACH, 0, "'%.100s': %s", host, gai_strerror(g));
    int r = -EHOSTUNREACH;
    for (const struct addrinfo *i = found; i && r != 0 && r != -EINTR; i = i->ai_next) {
        if (a->fd >= 0)
            (void)close(a->fd); /* the one before did not answer */
        r = connect_to(a, i->ai_addr, i->ai_addrlen, until_ns);
    }
    freeaddrinfo(found);
    return r < 0 ? explain_dial(a, r, why) : 0;
}

static int start_tls(struct ask *a, int64_t until_ns, struct diag *why)
{
    struct strbuf dir = {0};
    if (a->options.identity)
        strbuf_add_str(&dir, a->options.identity);
    else
        ask_default_identity(&dir);
    if (strbuf_failed(&dir) || dir.n == 0) {
        strbuf_fini(&dir);
        return diag_set(why, -ENOENT, 0, "tls:// needs your identity: --identity DIR, or GRIDLINE_IDENTITY");
    }
    a->secure_ops = secure_load(why);
    int r = a->secure_ops ? a->secure_ops->open(dir.p, "", &a->secure, why) : -ENOENT;
    strbuf_fini(&dir);
    if (r == 0)
        r = a->secure_ops->transport->start(a->secure, a->fd, NULL, &a->transport, why);
    while (r == 0) {
        short wants = POLLIN;
        r = a->secure_ops->transport->handshake(a->transport, &wants, why);
        if (r != -EAGAIN)
            break;
        r = wait_for(a, wants, until_ns);
        if (r < 0)
            return explain(a, r, why);
    }
    return r;
}

static int dial(struct ask *a, int64_t until_ns, struct diag *why)
{
    struct slice address = strbuf_slice(&a->address);
    if (slice_starts(address, SLICE_LIT("unix:"))) {
        struct slice path = slice_from(address, 5);
        return dial_unix(a, slice_starts(path, SLICE_LIT("//")) ? slice_from(path, 2) : path, until_ns, why);
    }
    bool is_tls = slice_starts(address, SLICE_LIT("tls://"));
    if (is_tls || slice_starts(address, SLICE_LIT("tcp://")))
        address = slice_from(address, 6);
    int r = dial_tcp(a, address, until_ns, why);
    return r == 0 && is_tls ? start_tls(a, until_ns, why) : r;
}

/* ---------------------------------------------------------------- frames */

static int explain_bye(const struct ask *a, struct slice payload, struct diag *why)
{
    struct frame_bye_reason bye;
    if (frame_get_bye(payload, &bye) < 0)
        return explain(a, E_PROTO, why);
    if (bye.text.n > 100)
        bye.text.n = 100;
    if (bye.reason == BYE_NOT_ALLOWED)
        return diag_set(why, -EACCES, 0, "%.80s: not allowed: %.*s", a->address.p, SLICE_ARG(bye.text));
    return diag_set(why, -ECONNRESET, 0, "%.80s hung up: %.*s", a->address.p, SLICE_ARG(bye.text));
}

static void note_clock(struct ask *a, const struct frame_welcome *w, int64_t t3_ns)
{
    int64_t rtt = (t3_ns - w->t0_ns) - (w->t2_ns - w->t1_ns);
    a->clock = (struct ask_clock){
        .rtt_ns = rtt, .offset_ns = w->t2_ns + rtt / 2 - t3_ns, .bound_ns = rtt > 0 ? rtt / 2 : 0};
}

static int greet(struct ask *a, int64_t until_ns, struct diag *why)
{
    char host[256] = "localhost";
    struct frame_hello h = {.minor_high = FRAME_MINOR,
                            .role = PEER_CONSUMER,
                            .origin = {.epoch = 1},
                            .t0_ns = clock_utc_ns(),
                            .prog = slice_str(a->options.prog ? a->options.prog : "gridline")};
    struct frame f;
    struct frame_welcome w;
    (void)gethostname(host, sizeof host - 1); /* stays localhost; it is for logs */
    h.host = slice_str(host);
    if (getrandom(h.origin.producer, sizeof h.origin.producer, 0) < 0)
        return explain(a, -errno, why);
    greeting_put(&a->out);
    frame_put_hello(&a->out, &h);
    int r = flush(a, until_ns);
    if (r == 0 || r == -EPIPE || r == -ECONNRESET) { /* what it said before it hung up can be read */
        int got = next_frame(a, until_ns, &f);
        r = got == 0 || r == 0 ? got : r;
    }
    if (r < 0)
        return explain(a, r, why);
    if (f.type == FRAME_BYE)
        return explain_bye(a, f.payload, why);
    if (f.type != FRAME_WELCOME || frame_get_welcome(f.payload, &w) < 0)
        return explain(a, E_PROTO, why);
    note_clock(a, &w, clock_utc_ns());
    return 0;
}

static int64_t limit(const struct ask *a, int64_t wanted_ns)
{
    int64_t ns = wanted_ns ? wanted_ns : a->options.timeout_ns ? a->options.timeout_ns : 10 * NS_PER_S;
    return clock_mono_ns() + ns;
}

int ask_open(const struct ask_options *o, struct ask **out, struct diag *why)
{
    struct ask *a = mem_try_alloc(sizeof *a);
    if (!a)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    a->options = *o;
    a->fd = -1;
    if (o->gateway && o->gateway[0])
        strbuf_add_str(&a->address, o->gateway);
    else
        ask_default_gateway(&a->address);
    int64_t until_ns = limit(a, 0);
    int r = strbuf_failed(&a->address) ? diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM))
                                       : dial(a, until_ns, why);
    if (r == 0)
        r = greet(a, until_ns, why);
    if (r < 0) {
        ask_close(a);
        return r;
    }
    *out = a;
    return 0;
}

void ask_close(struct ask *a)
{
    if (!a)
        return;
    if (a->request) { /* it was of use: say goodbye, without waiting for room */
        short wants;
        strbuf_reset(&a->out);
        frame_put_bye(&a->out, BYE_DONE, (struct slice){"", 0});
        if (!strbuf_failed(&a->out))
            (void)try_send(a, strbuf_slice(&a->out), &wants); /* closing says the same */
    }
    if (a->transport)
        a->secure_ops->transport->end(a->transport);
    if (a->secure)
        a->secure_ops->close(a->secure);
    if (a->fd >= 0)
        (void)close(a->fd); /* nothing is waiting to be written */
    strbuf_fini(&a->address);
    strbuf_fini(&a->in);
    strbuf_fini(&a->out);
    mem_free(a);
}

/* One frame while a question is open: 1 when the last answer is in *end. */
static int take_frame(struct ask *a, const struct frame *f, ask_row row, void *arg, struct ask_end *end,
                      struct diag *why)
{
    struct frame_answer answer;
    struct frame_ping ping;
    if (f->type == FRAME_BYE)
        return explain_bye(a, f->payload, why);
    if (f->type == FRAME_PING && frame_get_ping(f->payload, &ping) == 0) {
        int64_t now = clock_utc_ns();
        frame_put_pong(&a->out, &(struct frame_pong){ping.token, ping.t0_ns, now, now});
        return 0;
    }
    if (f->type != FRAME_ANSWER)
        return 0; /* other frames are not for a question */
    if (frame_get_answer(f->payload, &answer) < 0)
        return explain(a, E_PROTO, why);
    if (answer.request != a->request)
        return 0; /* of a question before */
    if (answer.status == CONTROL_MORE)
        return row ? row(arg, &answer) : 0;
    *end = (struct ask_end){answer.status, answer.text, answer.args};
    return 1;
}

int ask_run(struct ask *a, const struct ask_question *q, ask_row row, void *arg, struct ask_end *end,
            struct diag *why)
{
    a->request++;
    frame_put_control(&a->out, 0, &(struct frame_control){a->request, q->verb, q->args});
    int r = 0;
    while (r == 0) {
        struct frame f;
        int64_t until_ns = limit(a, q->silence_ns);
        r = flush(a, until_ns);
        if (r == 0)
            r = next_frame(a, until_ns, &f);
        if (r < 0)
            return explain(a, r, why);
        r = take_frame(a, &f, row, arg, end, why);
    }
    return r < 0 ? r : 0;
}
