/* SPDX-License-Identifier: Apache-2.0 */
/* The connection: dial without waiting, HELLO, WELCOME, then frames both ways.
 *
 * A peer is given up when it closes, when it says what can't be, or when it owes an answer and nothing has
 * been heard of it for SILENCE_MS (a process that hangs keeps its socket open, and its listen queue takes new
 * connections). After PING_MS it is asked. Then the next address is tried, and when all have failed, after a
 * pause that doubles from BACKOFF_MIN_MS to BACKOFF_MAX_MS, with jitter so that a thousand programs don't
 * come back at once. A connection that was of use (or lasted a second) starts the pauses over, and the list:
 * the first address comes first again. */
#include "net/uplink_internal.h"

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

static uint64_t next_random(struct uplink *u)
{
    u->random ^= u->random << 13;
    u->random ^= u->random >> 7;
    u->random ^= u->random << 17;
    return u->random;
}

void uplink_link_reset(struct uplink *u)
{
    if (u->fd >= 0)
        (void)close(u->fd);
    u->fd = -1;
    u->state = LINK_DOWN;
    u->out_at = u->window_used = u->window = 0;
    u->has_progress = false;
    strbuf_fini(&u->in); /* memory of a connection goes with it */
    strbuf_fini(&u->out);
}

/* After a useful connection the first address of the list; within that, the socket address that worked. */
static void choose_peer(struct uplink *u, bool was_useful)
{
    if (!was_useful)
        u->peer = (u->peer + 1) % u->n_peers;
    else if (u->peers[u->peer].listed != 0)
        u->peer = 0;
}

static void back_off(struct uplink *u, int64_t now_ns)
{
    u->backoff_ms = u->backoff_ms ? u->backoff_ms * 2 : BACKOFF_MIN_MS;
    if (u->backoff_ms > BACKOFF_MAX_MS)
        u->backoff_ms = BACKOFF_MAX_MS;
    uint64_t half_ns = (uint64_t)(u->backoff_ms * ns_per_ms / 2);
    u->retry_at_ns = now_ns + (int64_t)(half_ns + next_random(u) % half_ns);
}

void uplink_link_break(struct uplink *u, int64_t now_ns, int64_t retry_ms)
{
    const bool was_ready = u->state == LINK_READY;
    const bool was_useful = u->has_progress || (was_ready && now_ns - u->up_at_ns >= NS_PER_S);
    uplink_link_reset(u);
    uplink_take_back(u);
    if (was_useful)
        u->backoff_ms = 0;
    choose_peer(u, was_useful);
    if (retry_ms)
        u->retry_at_ns = now_ns + (retry_ms < RETRY_MAX_MS ? retry_ms : RETRY_MAX_MS) * ns_per_ms;
    else if (!was_useful && u->peer != 0)
        u->retry_at_ns = now_ns; /* the other addresses first */
    else
        back_off(u, now_ns);
    if (was_ready && u->options.ops && u->options.ops->on_down)
        u->options.ops->on_down(u->options.arg);
}

static void say_hello(struct uplink *u, int64_t now_ns)
{
    int on = 1;
    if (u->peers[u->peer].sa.ss_family != AF_UNIX)
        (void)setsockopt(u->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* slower without, not wrong */
    greeting_put(&u->out);
    frame_put_hello(&u->out, &(struct frame_hello){.minor_low = 0,
                                                   .minor_high = FRAME_MINOR,
                                                   .role = u->options.role,
                                                   .origin = u->options.origin,
                                                   .t0_ns = clock_boot_ns(),
                                                   .host = slice_str(u->options.host),
                                                   .prog = slice_str(u->options.prog)});
    u->state = LINK_HELLO;
    u->heard_at_ns = now_ns;
    if (strbuf_failed(&u->out))
        uplink_link_break(u, now_ns, 0);
}

static void dial(struct uplink *u, int64_t now_ns)
{
    const struct sockaddr *sa = (const struct sockaddr *)&u->peers[u->peer].sa;
    u->fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    u->dials++;
    if (u->fd < 0) {
        uplink_link_break(u, now_ns, 0);
        return;
    }
    u->heard_at_ns = now_ns;
    if (connect(u->fd, sa, u->peers[u->peer].len) == 0)
        say_hello(u, now_ns);
    else if (errno == EINPROGRESS || errno == EINTR)
        u->state = LINK_CONNECTING;
    else
        uplink_link_break(u, now_ns, 0);
}

static void finish_dialling(struct uplink *u, int64_t now_ns)
{
    struct pollfd p = {.fd = u->fd, .events = POLLOUT};
    if (poll(&p, 1, 0) <= 0)
        return;
    int error = 0;
    socklen_t len = sizeof error;
    if (getsockopt(u->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error)
        uplink_link_break(u, now_ns, 0);
    else
        say_hello(u, now_ns);
}

static int on_welcome(struct uplink *u, struct slice payload, int64_t now_ns)
{
    struct frame_welcome w;
    if (u->state != LINK_HELLO || frame_get_welcome(payload, &w) < 0 || w.minor > FRAME_MINOR)
        return E_PROTO;
    u->state = LINK_READY;
    u->window = w.window;
    u->held_seq = w.seq;
    u->up_at_ns = now_ns;
    u->counts_at_ns = now_ns;
    if (u->options.ops && u->options.ops->on_ready)
        u->options.ops->on_ready(u->options.arg, &w);
    return 0;
}

static int on_ack(struct uplink *u, struct slice payload)
{
    struct frame_ack a;
    if (u->state != LINK_READY || frame_get_ack(payload, &a) < 0)
        return E_PROTO;
    u->has_progress = true;
    uplink_acknowledge(u, &a.origin, a.seq);
    return 0;
}

/* 1: the connection was given up, to be dialled again when the peer wants the events again. */
static int on_refuse(struct uplink *u, struct slice payload, int64_t now_ns)
{
    struct frame_refuse r;
    if (u->state != LINK_READY || frame_get_refuse(payload, &r) < 0)
        return E_PROTO;
    if (r.retry_ms) {
        uplink_link_break(u, now_ns, r.retry_ms);
        return 1;
    }
    uplink_refuse(u, &r);
    return 0;
}

static int on_ping(struct uplink *u, struct slice payload)
{
    struct frame_ping p;
    if (frame_get_ping(payload, &p) < 0)
        return E_PROTO;
    if (u->out.n - u->out_at > UPLINK_OUTPUT_GOAL)
        return 0; /* it does not read: no more answers */
    int64_t now = clock_boot_ns();
    frame_put_pong(&u->out, &(struct frame_pong){p.token, p.t0_ns, now, now});
    return 0;
}

static int on_pong(struct slice payload)
{
    struct frame_pong p;
    return frame_get_pong(payload, &p);
}

/* What is the owner's to know. */
static int on_other(struct uplink *u, const struct frame *f)
{
    if (u->options.ops && u->options.ops->on_frame && u->state == LINK_READY)
        return u->options.ops->on_frame(u->options.arg, f) < 0 ? E_PROTO : 0;
    return f->type < FRAME_OPTIONAL ? E_PROTO : 0;
}

/* 0; 1: the connection is gone; or an error, after which it must go. */
static int on_frame(struct uplink *u, const struct frame *f, int64_t now_ns)
{
    u->heard_at_ns = now_ns;
    u->pinged_at_ns = 0;
    switch (f->type) {
    case FRAME_WELCOME:
        return on_welcome(u, f->payload, now_ns);
    case FRAME_ACK:
        return on_ack(u, f->payload);
    case FRAME_REFUSE:
        return on_refuse(u, f->payload, now_ns);
    case FRAME_PING:
        return on_ping(u, f->payload);
    case FRAME_PONG:
        return on_pong(f->payload);
    case FRAME_BYE:
        uplink_link_break(u, now_ns, 0);
        return 1;
    default:
        return on_other(u, f);
    }
}

/* The frames that are whole. As on_frame. */
static int take_frames(struct uplink *u, int64_t now_ns)
{
    size_t at = 0;
    int64_t n;
    struct frame f;
    while ((n = frame_read(slice_from(strbuf_slice(&u->in), at), UPLINK_INPUT_MAX - FRAME_HEAD, &f)) > 0) {
        int r = on_frame(u, &f, now_ns);
        if (r != 0)
            return r;
        at += (size_t)n;
    }
    strbuf_consume(&u->in, at);
    return (int)n;
}

static void receive(struct uplink *u, int64_t now_ns)
{
    for (size_t total = 0; u->fd >= 0 && total < RECEIVE_MAX;) {
        size_t room = UPLINK_INPUT_MAX - u->in.n; /* never 0: a frame that fills it is whole */
        char *to = strbuf_room(&u->in, room);
        ssize_t n = to ? recv(u->fd, to, room, 0) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            uplink_link_break(u, now_ns, 0);
            return;
        }
        strbuf_advance(&u->in, (size_t)n);
        total += (size_t)n;
        u->bytes_received += (uint64_t)n;
        if (take_frames(u, now_ns) < 0)
            uplink_link_break(u, now_ns, 0);
    }
}

bool uplink_link_is_waiting(const struct uplink *u)
{
    return u->state == LINK_CONNECTING || u->state == LINK_HELLO ||
           (u->state == LINK_READY && (u->flight.head || u->out_at < u->out.n));
}

/* While nothing is owed the clock of silence stands still. What was launched since the last pump is owed from
 * now on. */
static void watch(struct uplink *u, int64_t now_ns)
{
    bool is_waiting = uplink_link_is_waiting(u);
    if (!is_waiting || !u->was_waiting)
        u->heard_at_ns = now_ns;
    if (!is_waiting)
        return;
    int64_t silent_ns = now_ns - u->heard_at_ns;
    if (silent_ns >= SILENCE_MS * ns_per_ms) {
        uplink_link_break(u, now_ns, 0);
    } else if (u->state == LINK_READY && silent_ns >= PING_MS * ns_per_ms && !u->pinged_at_ns) {
        u->pinged_at_ns = now_ns;
        frame_put_ping(&u->out, &(struct frame_ping){++u->pings, clock_boot_ns()});
    }
}

void uplink_link_pump(struct uplink *u, int64_t now_ns)
{
    if (u->state == LINK_DOWN && now_ns >= u->retry_at_ns)
        dial(u, now_ns);
    if (u->state == LINK_CONNECTING)
        finish_dialling(u, now_ns);
    if (u->state == LINK_HELLO || u->state == LINK_READY)
        receive(u, now_ns);
    watch(u, now_ns);
}

/* What is sent need not be kept; moving the rest costs little if it is done seldom. */
static void keep_small(struct uplink *u)
{
    if (u->out_at < UPLINK_OUTPUT_GOAL)
        return;
    strbuf_consume(&u->out, u->out_at);
    u->out_at = 0;
}

void uplink_link_flush(struct uplink *u, int64_t now_ns)
{
    while (u->state >= LINK_HELLO && u->out_at < u->out.n) {
        ssize_t n = send(u->fd, u->out.p + u->out_at, u->out.n - u->out_at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            keep_small(u);
            return;
        }
        if (n < 0) {
            uplink_link_break(u, now_ns, 0);
            return;
        }
        u->out_at += (size_t)n;
        u->bytes_sent += (uint64_t)n;
    }
    if (u->state >= LINK_HELLO && strbuf_failed(&u->out))
        uplink_link_break(u, now_ns, 0); /* a frame is missing from the middle: no memory */
    u->out_at = 0;
    strbuf_reset(&u->out);
}

int64_t uplink_link_next_ns(const struct uplink *u)
{
    if (u->state == LINK_DOWN)
        return u->retry_at_ns;
    if (!uplink_link_is_waiting(u))
        return INT64_MAX;
    bool may_ping = u->state == LINK_READY && !u->pinged_at_ns;
    return u->heard_at_ns + (may_ping ? PING_MS : SILENCE_MS) * ns_per_ms;
}
