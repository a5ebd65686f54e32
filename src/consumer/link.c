/* SPDX-License-Identifier: Apache-2.0 */
/* DOWN (a pause) -> DIALLING -> HELLO -> READY, and DOWN again when it fails.
 *
 * Pauses double from PAUSE_MIN_MS to PAUSE_MAX_MS, half of each is random, so that a thousand consumers don't
 * come back at once; a connection on which a subscription ran starts them over. A gateway that has said
 * nothing for PING_MS is asked, and given up if that goes unanswered for SILENCE_MS. Both count from when
 * this program looked: one that was busy elsewhere for a minute finds what came meanwhile first. */
#include "consumer/internal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <sys/random.h>

enum {
    DIAL_MS = 10000, /* until welcomed */
    PING_MS = 15000,
    SILENCE_MS = 15000,
    PAUSE_MIN_MS = 100,
    PAUSE_MAX_MS = 5000,
    READS = 8 /* in one step: others have their turn, whatever this gateway sends */
};
static const int64_t ns_per_ms = 1000000;

int link_init(struct link *l, struct gridline_consumer *c, size_t index, struct slice address)
{
    *l = (struct link){.consumer = c, .index = index, .polled_fd = -1};
    l->address = mem_try_alloc(address.n + 1);
    if (!l->address)
        return -ENOMEM;
    memcpy(l->address, address.p, address.n);
    return 0;
}

static struct feed *feed_of(const struct link *l, uint32_t id)
{
    struct subscription *s = consumer_find(l->consumer, id);
    return s ? &s->feeds[l->index] : NULL;
}

/* ---------------------------------------------------------------- the end of a connection */

static void reset(struct link *l)
{
    struct gridline_consumer *c = l->consumer;
    dial_close(l->dial);
    l->dial = NULL;
    l->state = LINK_DOWN;
    l->polled_fd = -1; /* closing takes it out of the epoll */
    l->tell = NULL;
    l->done = l->out_sent = 0;
    l->pinged_ns = 0;
    l->is_hasty = false;
    strbuf_fini(&l->in); /* memory of a connection goes with it */
    strbuf_fini(&l->out);
    for (size_t i = 0; i < CONSUMER_SUBSCRIPTIONS_MAX; i++)
        if (c->subscriptions[i])
            feed_reset(&c->subscriptions[i]->feeds[l->index]);
}

static void pause_for(struct link *l, int64_t now_ns)
{
    uint64_t random = 0;
    l->pause_ms = l->was_useful || l->pause_ms == 0 ? PAUSE_MIN_MS : l->pause_ms * 2;
    if (l->pause_ms > PAUSE_MAX_MS)
        l->pause_ms = PAUSE_MAX_MS;
    uint64_t half_ns = (uint64_t)(l->pause_ms * ns_per_ms / 2);
    (void)!getrandom(&random, sizeof random, GRND_NONBLOCK); /* without, it is half the pause */
    l->retry_ns = now_ns + (int64_t)(half_ns + random % half_ns);
    l->was_useful = false;
}

/* Why it failed: 1, to be told; 0, told already. */
static int fail(struct link *l, int64_t now_ns, int r, const struct diag *why, struct gridline_item *out)
{
    const bool was_ready = l->state == LINK_READY;
    reset(l);
    pause_for(l, now_ns);
    if (!was_ready && strcmp(why->message, l->told.message) == 0)
        return 0;
    l->told = *why;
    item_set(out, was_ready ? GRIDLINE_ITEM_BROKEN : GRIDLINE_ITEM_RETRY, l, 0, r, slice_str(why->message));
    return 1;
}

static int fail_code(struct link *l, int64_t now_ns, int r, struct gridline_item *out)
{
    struct diag why = {0};
    return fail(l, now_ns, dial_explain(l->address, r, &why), &why, out);
}

/* ---------------------------------------------------------------- sending */

/* 0: all of it, or as much as goes now. */
static int flush(struct link *l)
{
    if (strbuf_failed(&l->out))
        return -ENOMEM;
    while (l->dial && l->out_sent < l->out.n) {
        ssize_t n = dial_send(l->dial, slice_from(strbuf_slice(&l->out), l->out_sent), &l->write_wants);
        if (n == -EAGAIN)
            return l->out.n - l->out_sent > LINK_OUTPUT_MAX ? -ETIMEDOUT : 0;
        if (n < 0 && n != -EINTR)
            return (int)n;
        l->out_sent += n > 0 ? (size_t)n : 0;
    }
    if (l->dial) {
        l->out_sent = 0;
        strbuf_reset(&l->out);
    }
    return 0;
}

/* What the feeds have to say. */
static void ask(struct link *l)
{
    struct gridline_consumer *c = l->consumer;
    for (size_t i = 0; i < CONSUMER_SUBSCRIPTIONS_MAX; i++)
        if (c->subscriptions[i])
            feed_ask(&c->subscriptions[i]->feeds[l->index], &l->out);
}

/* ---------------------------------------------------------------- frames */

static int on_welcome(struct link *l, struct slice payload, struct gridline_item *out)
{
    struct frame_welcome w;
    if (frame_get_welcome(payload, &w) < 0 || w.minor > FRAME_MINOR)
        return E_PROTO;
    l->state = LINK_READY;
    l->told = (struct diag){0};
    ask(l);
    item_set(out, GRIDLINE_ITEM_CONNECTED, l, 0, 0, slice_of("", 0));
    return 1;
}

static int on_subscribed(struct link *l, struct slice payload, struct gridline_item *out)
{
    struct frame_subscribed s;
    bool tell;
    if (frame_get_subscribed(payload, &s) < 0)
        return E_PROTO;
    struct feed *f = feed_of(l, s.id);
    if (!f)
        return 0; /* it was taken back meanwhile */
    int r = feed_subscribed(f, &s, out, &tell);
    l->was_useful |= f->state == FEED_RUNNING;
    l->tell = tell ? f : NULL;
    feed_ask(f, &l->out);
    return r;
}

static int on_events(struct link *l, struct slice payload, struct gridline_item *out)
{
    struct frame_events e;
    if (frame_get_events(payload, &e) < 0)
        return E_PROTO;
    struct feed *f = feed_of(l, e.id);
    return f ? feed_events(f, &e, l->consumer->builder, out) : 0;
}

static int on_gap(struct link *l, struct slice payload, struct gridline_item *out)
{
    struct frame_gap g;
    if (frame_get_gap(payload, &g) < 0)
        return E_PROTO;
    struct feed *f = feed_of(l, g.id);
    return f ? feed_gap(f, &g, out) : 0;
}

static int on_position(struct link *l, struct slice payload)
{
    uint32_t id;
    struct position p;
    if (frame_get_position(payload, &id, &p) < 0)
        return E_PROTO;
    struct feed *f = feed_of(l, id);
    if (f)
        feed_position(f, p);
    return 0;
}

static int on_ping(struct link *l, struct slice payload)
{
    struct frame_ping p;
    if (frame_get_ping(payload, &p) < 0)
        return E_PROTO;
    int64_t now = clock_utc_ns();
    frame_put_pong(&l->out, &(struct frame_pong){p.token, p.t0_ns, now, now});
    return l->out.n > LINK_OUTPUT_MAX ? E_LIMIT : 0;
}

/* 1: an item; 0; E_PROTO or another error that ends the connection; -ENOMEM does not. */
static int on_frame(struct link *l, const struct frame *f, struct gridline_item *out)
{
    if (l->state == LINK_HELLO)
        return f->type == FRAME_WELCOME   ? on_welcome(l, f->payload, out)
               : f->type < FRAME_OPTIONAL ? E_PROTO
                                          : 0;
    switch (f->type) {
    case FRAME_SUBSCRIBED:
        return on_subscribed(l, f->payload, out);
    case FRAME_EVENTS:
        return on_events(l, f->payload, out);
    case FRAME_GAP:
        return on_gap(l, f->payload, out);
    case FRAME_POSITION:
        return on_position(l, f->payload);
    case FRAME_PING:
        return on_ping(l, f->payload);
    case FRAME_PONG:
        return 0; /* heard of is all that counts */
    default:
        return f->type < FRAME_OPTIONAL ? E_PROTO : 0;
    }
}

/* Takes frames until one is an item: 1; 0 when there is none whole; an error. -ENOMEM: the frame stays. */
static int take_frames(struct link *l, int64_t now_ns, struct gridline_item *out)
{
    struct frame f;
    int64_t n;
    while ((n = frame_read(slice_from(strbuf_slice(&l->in), l->done), FRAME_PAYLOAD_MAX, &f)) > 0) {
        struct diag why = {0};
        l->heard_ns = now_ns;
        l->pinged_ns = 0;
        if (f.type == FRAME_BYE)
            return fail(l, now_ns, dial_explain_bye(l->address, f.payload, &why), &why, out) ? 1 : -ENOTCONN;
        out->link = l;
        int r = on_frame(l, &f, out);
        if (r == -ENOMEM)
            return r;
        l->done += (size_t)n;
        if (r != 0)
            return r;
    }
    return (int)n;
}

/* Frees the bytes of frames that are done with. */
static void consume(struct link *l)
{
    if (l->done)
        strbuf_consume(&l->in, l->done);
    l->done = 0;
}

/* Reads once: 1; 0 there is nothing now; an error. */
static int receive(struct link *l)
{
    char *room = strbuf_room(&l->in, LINK_READ);
    if (!room) {
        l->in.failed = false; /* what is there is whole: it may be tried again */
        return -ENOMEM;
    }
    ssize_t n;
    do
        n = dial_receive(l->dial, room, LINK_READ, &l->read_wants);
    while (n == -EINTR);
    if (n <= 0)
        return n == 0 ? -ECONNRESET : n == -EAGAIN ? 0 : (int)n;
    strbuf_advance(&l->in, (size_t)n);
    return 1;
}

static int exchange(struct link *l, int64_t now_ns, struct gridline_item *out)
{
    consume(l);
    if (l->state == LINK_READY)
        ask(l);
    int r, sent = flush(l);
    if (sent == -ENOMEM)
        return fail_code(l, now_ns, sent, out); /* a part of a frame may be in out: begin anew */
    r = take_frames(l, now_ns, out);
    for (int i = 0; r == 0 && i < READS; i++) {
        consume(l);
        r = receive(l);
        l->is_hasty = r == 1;
        if (r != 1)
            break;
        r = take_frames(l, now_ns, out);
    }
    if (r == -ENOTCONN)
        return 0;
    if (r == 1 || r == -ENOMEM)
        return r;
    if (r == 0 && sent < 0) /* what it said before it hung up was read */
        r = sent;
    return r < 0 ? fail_code(l, now_ns, r, out) : 0;
}

/* ---------------------------------------------------------------- steps */

static int begin(struct link *l, int64_t now_ns, struct gridline_item *out)
{
    struct diag why = {0};
    l->since_ns = now_ns;
    int r = dial_open(l->address, l->consumer->identity, &l->dial, &why);
    if (r < 0)
        return fail(l, now_ns, r, &why, out);
    l->state = LINK_DIALLING;
    return 0;
}

static int go_on_dialling(struct link *l, int64_t now_ns, struct gridline_item *out)
{
    struct diag why = {0};
    int r = dial_step(l->dial, &l->read_wants, &why);
    if (r == -EAGAIN)
        return 0;
    if (r == 0)
        r = dial_hello(&l->out, l->consumer->prog);
    if (r < 0)
        return why.message[0] ? fail(l, now_ns, r, &why, out) : fail_code(l, now_ns, r, out);
    l->state = LINK_HELLO;
    l->read_wants = POLLIN;
    l->write_wants = POLLOUT;
    l->heard_ns = now_ns;
    return 0;
}

/* What time alone brings. */
static int keep_time(struct link *l, int64_t now_ns, struct gridline_item *out)
{
    if (l->state == LINK_DOWN)
        return 0;
    if (l->state != LINK_READY)
        return now_ns - l->since_ns >= DIAL_MS * ns_per_ms ? fail_code(l, now_ns, -ETIMEDOUT, out) : 0;
    if (l->pinged_ns && now_ns - l->pinged_ns >= SILENCE_MS * ns_per_ms)
        return fail_code(l, now_ns, -ETIMEDOUT, out);
    if (!l->pinged_ns && now_ns - l->heard_ns >= PING_MS * ns_per_ms) {
        frame_put_ping(&l->out, &(struct frame_ping){.token = (uint64_t)now_ns, .t0_ns = clock_utc_ns()});
        l->pinged_ns = now_ns;
    }
    int r = flush(l);
    return r < 0 ? fail_code(l, now_ns, r, out) : 0;
}

/* Tells of a SUBSCRIBED whose gap was told. */
static int tell_subscribed(struct link *l, struct gridline_item *out)
{
    if (!l->tell)
        return 0;
    item_set(out, GRIDLINE_ITEM_SUBSCRIBED, l, l->tell->subscription->id, 0, slice_of("", 0));
    l->tell = NULL;
    return 1;
}

int link_step(struct link *l, int64_t now_ns, struct gridline_item *out)
{
    int r = tell_subscribed(l, out);
    if (r == 0 && l->state == LINK_DOWN && now_ns >= l->retry_ns)
        r = begin(l, now_ns, out);
    if (r == 0 && l->state == LINK_DIALLING)
        r = go_on_dialling(l, now_ns, out);
    if (r == 0 && l->state >= LINK_HELLO)
        r = exchange(l, now_ns, out);
    return r == 0 ? keep_time(l, now_ns, out) : r;
}

int link_input(struct link *l, struct slice bytes, int64_t now_ns, struct gridline_item *out)
{
    if (l->state == LINK_DOWN) {
        l->state = LINK_HELLO;
        l->heard_ns = l->since_ns = now_ns;
    }
    int r = tell_subscribed(l, out);
    if (r != 0)
        return r;
    consume(l);
    strbuf_add_slice(&l->in, bytes);
    if (l->state == LINK_READY)
        ask(l);
    r = strbuf_failed(&l->in) ? -ENOMEM : take_frames(l, now_ns, out);
    return r == -ENOTCONN ? 0 : r >= 0 || r == -ENOMEM ? r : fail_code(l, now_ns, r, out);
}

int link_wants(const struct link *l, short *events)
{
    if (!l->dial || dial_fd(l->dial) < 0)
        return -1;
    *events = l->read_wants;
    if (l->out_sent < l->out.n)
        *events |= l->write_wants;
    return dial_fd(l->dial);
}

int64_t link_deadline_ns(const struct link *l)
{
    if (l->tell || l->is_hasty)
        return 0;
    if (l->state == LINK_DOWN)
        return l->retry_ns;
    if (l->state != LINK_READY)
        return l->since_ns + DIAL_MS * ns_per_ms;
    return l->pinged_ns ? l->pinged_ns + SILENCE_MS * ns_per_ms : l->heard_ns + PING_MS * ns_per_ms;
}

void link_fini(struct link *l)
{
    if (l->state == LINK_READY) {
        frame_put_bye(&l->out, BYE_DONE, slice_of("", 0));
        (void)flush(l); /* closing says the same */
    }
    dial_close(l->dial);
    strbuf_fini(&l->in);
    strbuf_fini(&l->out);
    mem_free(l->address);
}
