/* SPDX-License-Identifier: Apache-2.0 */
/* A connection's life: AWAY -> QUEUED (at most `dials` are opened at once) -> DIALLING -> HELLO -> OPEN ->
 * CLOSING (BYE was said) -> AWAY or OVER. Whatever ends it early leads to AWAY and, by the timer, to QUEUED
 * again.
 *
 * Frames are appended to the link's output by whoever makes them (conn_dirty) and sent at the end of the
 * round, all of a connection at once. */
#include "base/clock.h"
#include "emulator.h"

#include <errno.h>
#include <sys/epoll.h>

enum { READ_BYTES = 1 << 18, REDIAL_MIN_MS = 50, REDIAL_DOUBLINGS = 5, BARE_BYTES = 64 };

bool conn_is_relay(const struct emulator *e)
{
    return e->o.relay > 0;
}

struct conn *conn_of(struct emulator *e, const struct worker *w)
{
    return &e->conns[conn_is_relay(e) ? w->index / e->o.relay : w->index];
}

uint32_t conn_number(const struct emulator *e, const struct worker *w)
{
    return conn_is_relay(e) ? w->index % (uint32_t)e->o.relay + 1 : 0;
}

/* ---------------------------------------------------------------- dialling */

void conn_enqueue(struct emulator *e, struct conn *c)
{
    c->state = CONN_QUEUED;
    c->next = NULL;
    *e->queue_end = c;
    e->queue_end = &c->next;
}

static void on_redial(void *arg, struct timer *t)
{
    struct conn *c = (struct conn *)((char *)t - offsetof(struct conn, timer));
    conn_enqueue(arg, c);
}

static int64_t backoff_ns(struct emulator *e, const struct conn *c)
{
    uint32_t doublings = c->failures < REDIAL_DOUBLINGS ? c->failures : REDIAL_DOUBLINGS;
    int64_t most = ((int64_t)REDIAL_MIN_MS << doublings) * 1000000;
    return most / 2 + (int64_t)(emulator_random(e) % (uint64_t)most);
}

static void leave_workers(struct emulator *e, struct conn *c)
{
    for (uint32_t i = 0; i < c->n_workers; i++)
        worker_lost(e, &e->workers[c->first + i]);
}

static void close_conn(struct emulator *e, struct conn *c, enum conn_state state)
{
    if (c->state == CONN_DIALLING || c->state == CONN_HELLO)
        e->n_dialling--;
    link_close(&c->link);
    c->is_watched = c->watches_write = false;
    strbuf_reset(&c->in);
    c->state = (uint8_t)state;
    leave_workers(e, c);
}

void conn_cut(struct emulator *e, struct conn *c, int64_t away_ns)
{
    close_conn(e, c, CONN_AWAY);
    if (away_ns < 0)
        away_ns = backoff_ns(e, c);
    if (away_ns == 0)
        conn_enqueue(e, c);
    else
        timer_set(&e->timers, &c->timer, e->now_ns + away_ns, on_redial);
}

void conn_hang_up(struct emulator *e, struct conn *c)
{
    close_conn(e, c, CONN_AWAY);
}

/* --session: is its only worker gone? Then nobody is there to dial again. */
static bool is_absent(const struct emulator *e, const struct conn *c)
{
    return !conn_is_relay(e) && e->workers[c->first].standing != STANDING_LIVE;
}

/* The other end, or the way to it, has ended the connection. */
static void lost(struct emulator *e, struct conn *c, int r)
{
    bool was_open = c->state == CONN_OPEN;
    if (is_absent(e, c)) {
        close_conn(e, c, e->phase >= PHASE_LEAVE ? CONN_OVER : CONN_AWAY);
        return;
    }
    if (c->state == CONN_CLOSING) { /* as it should be */
        if (e->phase >= PHASE_LEAVE)
            close_conn(e, c, CONN_OVER);
        else
            conn_cut(e, c, e->o.away_ns);
        return;
    }
    if (was_open)
        e->tally.disconnected++;
    else
        e->tally.dials_failed++;
    c->failures++;
    if (r == E_PROTO && c->failures == 1)
        (void)snprintf(e->why, e->why[0] ? 0 : sizeof e->why, "connection %u: TLS failed", c->index);
    conn_cut(e, c, -1);
}

static void watch(struct emulator *e, struct conn *c)
{
    struct epoll_event ev = {.events = EPOLLIN | (c->link.wants_write ? EPOLLOUT : 0u), .data.ptr = c};
    if (c->is_watched && c->watches_write == c->link.wants_write)
        return;
    int op = c->is_watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(e->epoll, op, c->link.fd, &ev) < 0) {
        lost(e, c, -errno);
        return;
    }
    c->is_watched = true;
    c->watches_write = c->link.wants_write;
}

static void dial(struct emulator *e, struct conn *c)
{
    struct link_target t = e->target;
    if (c->identity)
        t.identity = c->identity;
    e->tally.dials++;
    e->n_dialling++;
    c->state = CONN_DIALLING;
    int r = link_dial(&c->link, &t, c->index);
    if (r < 0)
        lost(e, c, r);
    else
        watch(e, c);
}

void conns_dial(struct emulator *e)
{
    if (e->o.reconnects && e->phase != PHASE_LOAD)
        return; /* dialling is the load, and it is over */
    while (e->queue && e->n_dialling < e->o.dials) {
        struct conn *c = e->queue;
        e->queue = c->next;
        if (!e->queue)
            e->queue_end = &e->queue;
        dial(e, c);
    }
}

/* ---------------------------------------------------------------- output */

void conn_dirty(struct emulator *e, struct conn *c)
{
    if (c->has_dirty)
        return;
    c->has_dirty = true;
    c->next_dirty = e->dirty;
    e->dirty = c;
}

void conns_flush(struct emulator *e)
{
    struct conn *c;
    while ((c = e->dirty)) {
        e->dirty = c->next_dirty;
        c->has_dirty = false;
        if (c->link.state != LINK_OPEN)
            continue;
        int r = link_pump(&c->link);
        if (r < 0)
            lost(e, c, r);
        else
            watch(e, c);
    }
}

void conn_bye(struct emulator *e, struct conn *c)
{
    frame_put_bye(&c->link.out, BYE_DONE, (struct slice){"", 0});
    c->state = CONN_CLOSING;
    conn_dirty(e, c);
}

void conn_ask_bare(struct emulator *e, struct conn *c)
{
    static const char question[BARE_BYTES] = "lease?";
    strbuf_add(&c->link.out, question, sizeof question);
    conn_dirty(e, c);
}

static void say_hello(struct emulator *e, struct conn *c)
{
    char host[64];
    struct frame_hello h = {
        .minor_high = FRAME_MINOR, .role = PEER_AGENT, .prog = SLICE_LIT("gridline-agent")};
    h.origin = worker_origin(e, &e->workers[c->first], CLASS_EVENTS);
    emulator_host(e, c->first, host);
    if (conn_is_relay(e)) {
        h.role = PEER_RELAY;
        h.prog = SLICE_LIT("gridline-gateway");
        h.origin = (struct frame_origin){.epoch = 1};
        memcpy(h.origin.producer, e->run, sizeof e->run);
        memcpy(h.origin.producer + sizeof e->run, &c->index, sizeof c->index);
        h.origin.producer[15] = 'r';
        (void)snprintf(host, sizeof host, "%.40s-relay%u", e->o.name, c->index);
    }
    h.host = slice_str(host);
    h.t0_ns = c->t0_ns = clock_boot_ns();
    greeting_put(&c->link.out);
    frame_put_hello(&c->link.out, &h);
    conn_dirty(e, c);
}

static void opened(struct emulator *e, struct conn *c)
{
    if (c->link.tls && SSL_session_reused(c->link.tls))
        e->tally.resumed++;
    c->state = CONN_HELLO;
    if (e->o.is_bare)
        conn_ask_bare(e, c);
    else
        say_hello(e, c);
}

/* ---------------------------------------------------------------- input */

static void on_welcome(struct emulator *e, struct conn *c, struct slice payload)
{
    struct frame_welcome welcome;
    if (frame_get_welcome(payload, &welcome) < 0 || welcome.t0_ns != c->t0_ns ||
        welcome.t2_ns < welcome.t1_ns) {
        emulator_wrong(e, &e->workers[c->first], "WELCOME is malformed or not the answer to HELLO");
        lost(e, c, 0);
        return;
    }
    e->tally.welcomed++;
    e->n_dialling--;
    c->failures = 0;
    c->state = CONN_OPEN;
    if (!conn_is_relay(e))
        worker_acknowledge(e, &e->workers[c->first], welcome.seq);
    for (uint32_t i = 0; i < c->n_workers; i++) {
        struct worker *w = &e->workers[c->first + i];
        if (w->state == WORKER_AWAY && !w->timer.next && w->standing == STANDING_LIVE)
            worker_register(e, w);
    }
}

static void on_bye(struct emulator *e, struct conn *c, struct slice payload)
{
    struct frame_bye_reason bye = {.reason = BYE_PROTOCOL};
    (void)frame_get_bye(payload, &bye); /* malformed: a protocol error, too */
    if (bye.reason != BYE_DONE && bye.reason != BYE_SHUTDOWN)
        emulator_wrong(e, &e->workers[c->first], "BYE %u: %.*s", bye.reason, SLICE_ARG(bye.text));
    lost(e, c, 0);
}

static void on_ping(struct emulator *e, struct conn *c, struct slice payload)
{
    struct frame_ping ping;
    if (frame_get_ping(payload, &ping) < 0)
        return;
    int64_t now = clock_utc_ns();
    frame_put_pong(&c->link.out, &(struct frame_pong){ping.token, ping.t0_ns, now, now});
    conn_dirty(e, c);
}

/* Which of its workers a frame is for: n_workers when none. ACK and REFUSE name the origin, which is enough.
 */
static uint32_t worker_of(const struct emulator *e, const struct conn *c, const struct frame *f)
{
    uint32_t index;
    struct cursor k = cursor_of(f->payload);
    bool names_origin = f->type == FRAME_ACK || f->type == FRAME_REFUSE;
    if (!conn_is_relay(e))
        return f->worker;
    if (f->worker || !names_origin)
        return f->worker - 1;
    struct frame_origin o = frame_get_origin(&k);
    memcpy(&index, o.producer + sizeof e->run, sizeof index);
    return index - c->first;
}

static void on_frame(struct emulator *e, struct conn *c, const struct frame *f)
{
    uint32_t number = worker_of(e, c, f);
    if (is_absent(e, c))
        return; /* the machine is off: nobody reads it */
    if (f->type == FRAME_BYE)
        on_bye(e, c, f->payload);
    else if (c->state == CONN_HELLO && f->type == FRAME_WELCOME)
        on_welcome(e, c, f->payload);
    else if (c->state == CONN_HELLO)
        emulator_wrong(e, &e->workers[c->first], "frame %u before WELCOME", f->type);
    else if (f->type == FRAME_PING)
        on_ping(e, c, f->payload);
    else if (number >= c->n_workers)
        emulator_wrong(e, NULL, "frame %u for worker %u of connection %u, which it has not", f->type,
                       f->worker, c->index);
    else
        worker_frame(e, &e->workers[c->first + number], f);
}

/* Bytes of whole frames at the front of data; what they say may end the connection. */
static size_t take_frames(struct emulator *e, struct conn *c, struct slice data)
{
    size_t at = 0;
    while (c->link.state == LINK_OPEN) {
        struct frame f;
        int64_t n = frame_read(slice_from(data, at), FRAME_PAYLOAD_MAX, &f);
        if (n == 0)
            break;
        if (n < 0) {
            emulator_wrong(e, &e->workers[c->first], "a frame that can't be read: %s", err_text((int)n));
            lost(e, c, 0);
            break;
        }
        at += (size_t)n;
        on_frame(e, c, &f);
    }
    return at;
}

/* The control server's answer: the next question, or a new connection for it. */
static size_t take_bare(struct emulator *e, struct conn *c, struct slice data)
{
    if (data.n < BARE_BYTES)
        return 0;
    if (c->state == CONN_HELLO) {
        e->n_dialling--;
        e->tally.welcomed++;
        c->state = CONN_OPEN;
        c->failures = 0;
    }
    e->tally.answers++;
    if (e->o.reconnects)
        conn_cut(e, c, 0);
    else if (e->phase == PHASE_LOAD)
        conn_ask_bare(e, c);
    return BARE_BYTES;
}

static void take(struct emulator *e, struct conn *c, struct slice data)
{
    size_t (*fn)(struct emulator *, struct conn *, struct slice) = e->o.is_bare ? take_bare : take_frames;
    if (c->in.n == 0) {
        size_t used = fn(e, c, data);
        if (c->link.state == LINK_OPEN)
            strbuf_add_slice(&c->in, slice_from(data, used));
        return;
    }
    strbuf_add_slice(&c->in, data);
    size_t used = fn(e, c, strbuf_slice(&c->in));
    if (c->link.state == LINK_OPEN)
        strbuf_consume(&c->in, used);
}

static void read_all(struct emulator *e, struct conn *c)
{
    static char bytes[READ_BYTES];
    while (c->link.state == LINK_OPEN) {
        ssize_t n = link_read(&c->link, bytes, sizeof bytes);
        if (n == -EAGAIN)
            return;
        if (n <= 0) {
            lost(e, c, (int)n);
            return;
        }
        take(e, c, slice_of(bytes, (size_t)n));
        if (!c->link.tls && (size_t)n < sizeof bytes)
            return; /* there was no more */
    }
}

void conn_event(struct emulator *e, struct conn *c, uint32_t events)
{
    if (c->link.state == LINK_CLOSED)
        return; /* cut in this round */
    int r = c->link.state != LINK_OPEN || (events & EPOLLOUT) ? link_pump(&c->link) : 0;
    if (r < 0) {
        lost(e, c, r);
        return;
    }
    if (c->link.state == LINK_OPEN && c->state == CONN_DIALLING)
        opened(e, c);
    if (c->link.state == LINK_OPEN && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        read_all(e, c);
    if (c->link.state != LINK_CLOSED)
        watch(e, c);
}
