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
#include "base/text.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

enum {
    PING_MS = 2000,
    SILENCE_MS = 5000,
    HANDSHAKE_MS = 10000, /* of silence in a handshake: a gateway that starts again has thousands of them to do */
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
    if (u->transport)
        u->options.transport->end(u->transport);
    u->transport = NULL;
    u->has_input = false;
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

/* The connection ends; what is known of why is kept for the owner. why "" = as the error says. */
static void fail(struct uplink *u, int64_t now_ns, int error, const char *why)
{
    const char *text = why[0] ? why : error ? err_text(error) : "the other end hung up";
    (void)diag_set(&u->why, error, 0, "%.80s: %s", uplink_address(u), text);
    uplink_link_break(u, now_ns, 0);
}

static void say_hello(struct uplink *u, int64_t now_ns)
{
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

static void shake_hands(struct uplink *u, int64_t now_ns)
{
    struct diag why = {0};
    int r = u->options.transport->handshake(u->transport, &u->read_wants, &why);
    if (r == 0) {
        u->read_wants = POLLIN;
        u->write_wants = POLLOUT;
        say_hello(u, now_ns);
    } else if (r != -EAGAIN) {
        fail(u, now_ns, r, why.message);
    }
}

/* The socket is connected. */
static void on_connected(struct uplink *u, int64_t now_ns)
{
    const struct uplink_peer *p = &u->peers[u->peer];
    struct diag why = {0};
    int on = 1;
    if (p->sa.ss_family != AF_UNIX)
        (void)setsockopt(u->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* slower without, not wrong */
    if (!p->is_tls) {
        say_hello(u, now_ns);
        return;
    }
    int r = u->options.transport->start(u->options.transport_ctx, u->fd, NULL, &u->transport, &why);
    if (r < 0) {
        fail(u, now_ns, r, why.message);
        return;
    }
    u->state = LINK_HANDSHAKE;
    u->heard_at_ns = now_ns;
    shake_hands(u, now_ns);
}

static void dial(struct uplink *u, int64_t now_ns)
{
    const struct sockaddr *sa = (const struct sockaddr *)&u->peers[u->peer].sa;
    u->fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    u->dials++;
    if (u->fd < 0) {
        fail(u, now_ns, -errno, "");
        return;
    }
    u->heard_at_ns = now_ns;
    if (connect(u->fd, sa, u->peers[u->peer].len) == 0)
        on_connected(u, now_ns);
    else if (errno == EINPROGRESS || errno == EINTR)
        u->state = LINK_CONNECTING;
    else
        fail(u, now_ns, -errno, "");
}

static void finish_dialling(struct uplink *u, int64_t now_ns)
{
    struct pollfd p = {.fd = u->fd, .events = POLLOUT};
    if (poll(&p, 1, 0) <= 0)
        return;
    int error = 0;
    socklen_t len = sizeof error;
    if (getsockopt(u->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error)
        fail(u, now_ns, -error, "");
    else
        on_connected(u, now_ns);
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
    u->why.message[0] = '\0';
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
    if (u->options.ops && u->options.ops->on_done)
        u->options.ops->on_done(u->options.arg, &a, false);
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
    if (u->options.ops && u->options.ops->on_done && r.count)
        u->options.ops->on_done(u->options.arg, &(struct frame_ack){r.origin, r.first_seq + r.count - 1},
                                true);
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

static void on_bye(struct uplink *u, struct slice payload, int64_t now_ns)
{
    struct frame_bye_reason bye = {.text = SLICE_LIT("")};
    char text[120] = "the other end said goodbye";
    if (frame_get_bye(payload, &bye) == 0 && bye.text.n && !text_has_control(bye.text) && text_is_utf8(bye.text))
        (void)snprintf(text, sizeof text, "%.*s", (int)(bye.text.n < sizeof text ? bye.text.n : sizeof text - 1),
                       bye.text.p);
    fail(u, now_ns, 0, text);
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
        on_bye(u, f->payload, now_ns);
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

/* As recv and send, but -EINTR is tried again and an error is negative. */
static ssize_t get_bytes(struct uplink *u, char *to, size_t n)
{
    ssize_t got;
    if (u->transport)
        return u->options.transport->receive(u->transport, to, n, &u->read_wants);
    do
        got = recv(u->fd, to, n, 0);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

static ssize_t put_bytes(struct uplink *u, const char *p, size_t n)
{
    ssize_t sent;
    if (u->transport)
        return u->options.transport->send(u->transport, p, n, &u->write_wants);
    do
        sent = send(u->fd, p, n, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

/* The transport's words, if it has any. */
static const char *words_of(const struct uplink *u)
{
    const struct transport_ops *t = u->options.transport;
    return u->transport && t->why ? t->why(u->transport) : "";
}

static void receive(struct uplink *u, int64_t now_ns)
{
    size_t total = 0;
    while (u->fd >= 0 && total < RECEIVE_MAX) {
        size_t room = UPLINK_INPUT_MAX - u->in.n; /* never 0: a frame that fills it is whole */
        char *to = strbuf_room(&u->in, room);
        ssize_t n = to ? get_bytes(u, to, room) : -ENOMEM;
        if (n == -EAGAIN)
            return;
        if (n <= 0) {
            fail(u, now_ns, (int)n, words_of(u));
            return;
        }
        strbuf_advance(&u->in, (size_t)n);
        total += (size_t)n;
        u->bytes_received += (uint64_t)n;
        if (take_frames(u, now_ns) < 0)
            fail(u, now_ns, E_PROTO, "");
    }
    u->has_input = u->fd >= 0;
}

bool uplink_link_is_waiting(const struct uplink *u)
{
    return u->state == LINK_CONNECTING || u->state == LINK_HANDSHAKE || u->state == LINK_HELLO ||
           (u->state == LINK_READY && (u->flight.head || u->out_at < u->out.n));
}

static int64_t silence_ns(const struct uplink *u)
{
    return (u->state == LINK_HANDSHAKE ? HANDSHAKE_MS : SILENCE_MS) * ns_per_ms;
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
    if (silent_ns >= silence_ns(u)) {
        fail(u, now_ns, -ETIMEDOUT, "it does not answer");
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
    else if (u->state == LINK_HANDSHAKE)
        shake_hands(u, now_ns);
    u->has_input = false;
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

/* Nothing can be sent. If the other end said why before it hung up, that is still to be read. */
static void give_up(struct uplink *u, int64_t now_ns, int error)
{
    if (u->transport && !words_of(u)[0])
        receive(u, now_ns);
    if (u->fd >= 0)
        fail(u, now_ns, error, words_of(u));
}

void uplink_link_flush(struct uplink *u, int64_t now_ns)
{
    while (u->state >= LINK_HELLO && u->out_at < u->out.n) {
        ssize_t n = put_bytes(u, u->out.p + u->out_at, u->out.n - u->out_at);
        if (n == -EAGAIN) {
            keep_small(u);
            return;
        }
        if (n < 0) {
            give_up(u, now_ns, (int)n);
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
    return u->heard_at_ns + (may_ping ? PING_MS * ns_per_ms : silence_ns(u));
}
