/* SPDX-License-Identifier: Apache-2.0 */
/* The connection of a stream destination: dial without waiting, HELLO, WELCOME, then frames both ways.
 *
 * A peer is given up when it closes, when it says what can't be, or when it owes an answer and nothing has
 * been heard of it for SILENCE_MS (a process that hangs keeps its socket open, and its listen queue takes new
 * connections). After PING_MS it is asked. Then the next address is tried, and when all have failed, after a
 * pause that doubles from BACKOFF_MIN_MS to BACKOFF_MAX_MS, with jitter so that a thousand programs don't
 * come back at once. A connection that was of use (or lasted a second) starts the pauses over. */
#include "client/stream.h"

#include "base/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

enum {
    PING_MS = 2000,
    SILENCE_MS = 5000,
    BACKOFF_MIN_MS = 50,
    BACKOFF_MAX_MS = 5000,
    RETRY_MAX_MS = 60000,   /* a peer that says to wait longer is asked earlier */
    RECEIVE_MAX = 256 << 10 /* bytes a pump reads at most, whatever the peer sends */
};
static const int64_t ns_per_ms = 1000000;

static uint64_t next_random(struct stream *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

void link_reset(struct stream *s)
{
    if (s->fd >= 0)
        (void)close(s->fd);
    s->fd = -1;
    s->state = LINK_DOWN;
    s->out_at = s->window_used = s->window = 0;
    s->has_progress = false;
    strbuf_fini(&s->in); /* memory of a connection goes with it */
    strbuf_fini(&s->out);
}

void link_break(struct stream *s, int64_t now_ns, int64_t retry_ms)
{
    bool was_useful = s->has_progress || (s->state == LINK_READY && now_ns - s->up_at_ns >= NS_PER_S);
    link_reset(s);
    stream_take_back(s);
    if (was_useful)
        s->backoff_ms = 0;
    s->address = was_useful ? s->address : (s->address + 1) % s->n_addresses;
    if (retry_ms) {
        s->retry_at_ns = now_ns + (retry_ms < RETRY_MAX_MS ? retry_ms : RETRY_MAX_MS) * ns_per_ms;
        return;
    }
    if (!was_useful && s->address != 0) { /* the other addresses of the host first */
        s->retry_at_ns = now_ns;
        return;
    }
    s->backoff_ms = s->backoff_ms ? s->backoff_ms * 2 : BACKOFF_MIN_MS;
    if (s->backoff_ms > BACKOFF_MAX_MS)
        s->backoff_ms = BACKOFF_MAX_MS;
    uint64_t half_ns = (uint64_t)(s->backoff_ms * ns_per_ms / 2);
    s->retry_at_ns = now_ns + (int64_t)(half_ns + next_random(s) % half_ns);
}

static void say_hello(struct stream *s, int64_t now_ns)
{
    int on = 1;
    if (s->addresses[s->address].sa.ss_family != AF_UNIX)
        (void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* slower without, not wrong */
    greeting_put(&s->out);
    frame_put_hello(&s->out, &(struct frame_hello){.minor_low = 0,
                                                   .minor_high = FRAME_MINOR,
                                                   .role = PEER_PROGRAM,
                                                   .origin = s->origin,
                                                   .t0_ns = clock_boot_ns(),
                                                   .host = slice_str(s->env->host),
                                                   .prog = slice_str(s->env->prog)});
    s->state = LINK_HELLO;
    s->heard_at_ns = now_ns;
    if (strbuf_failed(&s->out))
        link_break(s, now_ns, 0);
}

static void dial(struct stream *s, int64_t now_ns)
{
    const struct sockaddr *sa = (const struct sockaddr *)&s->addresses[s->address].sa;
    s->fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0) {
        link_break(s, now_ns, 0);
        return;
    }
    s->heard_at_ns = now_ns;
    if (connect(s->fd, sa, s->addresses[s->address].len) == 0)
        say_hello(s, now_ns);
    else if (errno == EINPROGRESS || errno == EINTR)
        s->state = LINK_CONNECTING;
    else
        link_break(s, now_ns, 0);
}

static void finish_dialling(struct stream *s, int64_t now_ns)
{
    struct pollfd p = {.fd = s->fd, .events = POLLOUT};
    if (poll(&p, 1, 0) <= 0)
        return;
    int error = 0;
    socklen_t len = sizeof error;
    if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error)
        link_break(s, now_ns, 0);
    else
        say_hello(s, now_ns);
}

static int on_welcome(struct stream *s, struct slice payload, int64_t now_ns)
{
    struct frame_welcome w;
    if (s->state != LINK_HELLO || frame_get_welcome(payload, &w) < 0 || w.minor > FRAME_MINOR)
        return E_PROTO;
    s->state = LINK_READY;
    s->window = w.window;
    s->held_seq = w.seq;
    s->up_at_ns = now_ns;
    s->counts_at_ns = now_ns;
    return 0;
}

static int on_ack(struct stream *s, struct slice payload)
{
    struct frame_ack a;
    if (s->state != LINK_READY || frame_get_ack(payload, &a) < 0)
        return E_PROTO;
    s->has_progress = true;
    stream_acknowledge(s, &a.origin, a.seq);
    return 0;
}

/* 1: the connection was given up, to be dialled again when the peer wants the events again. */
static int on_refuse(struct stream *s, struct slice payload, int64_t now_ns)
{
    struct frame_refuse r;
    if (s->state != LINK_READY || frame_get_refuse(payload, &r) < 0)
        return E_PROTO;
    if (r.retry_ms) {
        link_break(s, now_ns, r.retry_ms);
        return 1;
    }
    stream_refuse(s, &r);
    return 0;
}

static int on_ping(struct stream *s, struct slice payload)
{
    struct frame_ping p;
    if (frame_get_ping(payload, &p) < 0)
        return E_PROTO;
    if (s->out.n - s->out_at > STREAM_OUTPUT_GOAL)
        return 0; /* it does not read: no more answers */
    int64_t now = clock_boot_ns();
    frame_put_pong(&s->out, &(struct frame_pong){p.token, p.t0_ns, now, now});
    return 0;
}

static int on_pong(struct slice payload)
{
    struct frame_pong p;
    return frame_get_pong(payload, &p);
}

static int on_activate(struct stream *s, struct slice payload)
{
    uint32_t number;
    struct slice list;
    int r = frame_get_activate(payload, &number, &list);
    if (r == 0 && s->on_activate)
        s->on_activate(s->on_activate_arg, list);
    return r;
}

/* 0; 1: the connection is gone; or an error, after which it must go. */
static int on_frame(struct stream *s, const struct frame *f, int64_t now_ns)
{
    s->heard_at_ns = now_ns;
    s->pinged_at_ns = 0;
    switch (f->type) {
    case FRAME_WELCOME:
        return on_welcome(s, f->payload, now_ns);
    case FRAME_ACK:
        return on_ack(s, f->payload);
    case FRAME_REFUSE:
        return on_refuse(s, f->payload, now_ns);
    case FRAME_PING:
        return on_ping(s, f->payload);
    case FRAME_PONG:
        return on_pong(f->payload);
    case FRAME_ACTIVATE:
        return on_activate(s, f->payload);
    case FRAME_BYE:
        link_break(s, now_ns, 0);
        return 1;
    default:
        return f->type < FRAME_OPTIONAL ? E_PROTO : 0;
    }
}

/* The frames that are whole. As on_frame. */
static int take_frames(struct stream *s, int64_t now_ns)
{
    size_t at = 0;
    int64_t n;
    struct frame f;
    while ((n = frame_read(slice_from(strbuf_slice(&s->in), at), STREAM_INPUT_MAX - FRAME_HEAD, &f)) > 0) {
        int r = on_frame(s, &f, now_ns);
        if (r != 0)
            return r;
        at += (size_t)n;
    }
    strbuf_consume(&s->in, at);
    return (int)n;
}

static void receive(struct stream *s, int64_t now_ns)
{
    for (size_t total = 0; s->fd >= 0 && total < RECEIVE_MAX;) {
        size_t room = STREAM_INPUT_MAX - s->in.n; /* never 0: a frame that fills it is whole */
        char *to = strbuf_room(&s->in, room);
        ssize_t n = to ? recv(s->fd, to, room, 0) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            link_break(s, now_ns, 0);
            return;
        }
        strbuf_advance(&s->in, (size_t)n);
        total += (size_t)n;
        if (take_frames(s, now_ns) < 0)
            link_break(s, now_ns, 0);
    }
}

/* Does the peer owe us a word? */
static bool is_waiting(const struct stream *s)
{
    return s->state == LINK_CONNECTING || s->state == LINK_HELLO ||
           (s->state == LINK_READY && (s->flight.head || s->out_at < s->out.n));
}

/* While nothing is owed the clock of silence stands still. */
static void watch(struct stream *s, int64_t now_ns)
{
    if (!is_waiting(s)) {
        s->heard_at_ns = now_ns;
        return;
    }
    int64_t silent_ns = now_ns - s->heard_at_ns;
    if (silent_ns >= SILENCE_MS * ns_per_ms) {
        link_break(s, now_ns, 0);
    } else if (s->state == LINK_READY && silent_ns >= PING_MS * ns_per_ms && !s->pinged_at_ns) {
        s->pinged_at_ns = now_ns;
        frame_put_ping(&s->out, &(struct frame_ping){++s->pings, clock_boot_ns()});
    }
}

void link_pump(struct stream *s, int64_t now_ns)
{
    if (s->state == LINK_DOWN && now_ns >= s->retry_at_ns)
        dial(s, now_ns);
    if (s->state == LINK_CONNECTING)
        finish_dialling(s, now_ns);
    if (s->state == LINK_HELLO || s->state == LINK_READY)
        receive(s, now_ns);
    watch(s, now_ns);
}

/* What is sent need not be kept; moving the rest costs little if it is done seldom. */
static void keep_small(struct stream *s)
{
    if (s->out_at < STREAM_OUTPUT_GOAL)
        return;
    strbuf_consume(&s->out, s->out_at);
    s->out_at = 0;
}

void link_flush(struct stream *s, int64_t now_ns)
{
    while (s->state >= LINK_HELLO && s->out_at < s->out.n) {
        ssize_t n = send(s->fd, s->out.p + s->out_at, s->out.n - s->out_at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            keep_small(s);
            return;
        }
        if (n < 0) {
            link_break(s, now_ns, 0);
            return;
        }
        s->out_at += (size_t)n;
    }
    if (s->state >= LINK_HELLO && strbuf_failed(&s->out))
        link_break(s, now_ns, 0); /* a frame is missing from the middle: no memory */
    s->out_at = 0;
    strbuf_reset(&s->out);
}

int64_t link_next_ns(const struct stream *s)
{
    if (s->state == LINK_DOWN)
        return s->retry_at_ns;
    if (!is_waiting(s))
        return INT64_MAX;
    bool may_ping = s->state == LINK_READY && !s->pinged_at_ns;
    return s->heard_at_ns + (may_ping ? PING_MS : SILENCE_MS) * ns_per_ms;
}
