/* SPDX-License-Identifier: Apache-2.0 */
/* A consumer's life: GREETING -> HELLO -> READY; any malformed byte ends it with BYE 2. */
#include "agent/local.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "event/block.h"
#include "event/select.h"
#include "net/listen.h"
#include "net/subscribe.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <sys/socket.h>
#include <unistd.h>

enum consumer_state { CONSUMER_GREETING, CONSUMER_HELLO, CONSUMER_READY, CONSUMER_CLOSING };

struct subscription {
    uint32_t id;
    struct selector *selector;
    bool asks;     /* has patterns of event names */
    uint64_t lost; /* not told yet */
};

struct consumer {
    struct consumer *next;
    struct local *local;
    struct bufferevent *io;
    struct event *timer;
    enum consumer_state state;
    struct subscription subscriptions[LOCAL_SUBSCRIPTIONS_MAX];
    size_t n;
};

struct local {
    struct event_base *base;
    struct listener *listener;
    void (*on_change)(void *arg);
    void *arg;
    struct consumer *first;
    size_t n_consumers;
    struct block_writer *writer;
    struct strbuf frame, block;
    uint64_t passed, dropped;
};

static void subscription_fini(struct subscription *s)
{
    selector_destroy(s->selector);
    *s = (struct subscription){0};
}

static void destroy(struct consumer *c)
{
    struct local *l = c->local;
    struct consumer **at = &l->first;
    bool had_any = c->n > 0;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    l->n_consumers--;
    for (size_t i = 0; i < c->n; i++)
        subscription_fini(&c->subscriptions[i]);
    if (c->timer)
        event_free(c->timer);
    if (c->io)
        bufferevent_free(c->io);
    mem_free(c);
    if (had_any)
        l->on_change(l->arg);
}

static void start_timer(struct consumer *c, int ms)
{
    const struct timeval after = {ms / 1000, ms % 1000 * 1000};
    (void)evtimer_add(c->timer, &after); /* fails only without memory; the limit is then not enforced */
}

static void send_frame(struct consumer *c)
{
    struct strbuf *f = &c->local->frame;
    if (strbuf_failed(f) || bufferevent_write(c->io, f->p, f->n) < 0)
        start_timer(c, 0); /* no memory: it goes */
    strbuf_reset(f);
}

static void say_bye(struct consumer *c, enum frame_bye reason, const char *text)
{
    c->state = CONSUMER_CLOSING;
    (void)bufferevent_disable(c->io, EV_READ);
    frame_put_bye(&c->local->frame, (uint16_t)reason, slice_str(text));
    send_frame(c);
    start_timer(c, 1000);
}

static void on_hello(struct consumer *c, const struct frame *f)
{
    struct frame_hello h;
    if (f->type != FRAME_HELLO || frame_get_hello(f->payload, &h) < 0) {
        say_bye(c, BYE_PROTOCOL, "the first frame is not a HELLO that can be read");
        return;
    }
    if (h.role != PEER_CONSUMER) {
        say_bye(c, BYE_NOT_ALLOWED, "this agent takes subscriptions here, no events");
        return;
    }
    struct frame_welcome w = {.minor = FRAME_MINOR, .t0_ns = h.t0_ns, .t1_ns = clock_utc_ns()};
    w.t2_ns = clock_utc_ns();
    c->state = CONSUMER_READY;
    (void)evtimer_del(c->timer);
    frame_put_welcome(&c->local->frame, &w);
    send_frame(c);
}

static void answer(struct consumer *c, uint32_t id, uint16_t status, const char *text)
{
    frame_put_subscribed(&c->local->frame,
                         &(struct frame_subscribed){.id = id, .status = status, .text = slice_str(text)});
    send_frame(c);
}

static void unsubscribe(struct consumer *c, uint32_t id)
{
    for (size_t i = 0; i < c->n; i++) {
        if (c->subscriptions[i].id != id)
            continue;
        subscription_fini(&c->subscriptions[i]);
        c->subscriptions[i] = c->subscriptions[--c->n];
        return;
    }
}

/* The member of that name that an agent knows; NULL: it knows none. */
static struct slice *find_option(struct select_spec *spec, struct slice name)
{
    const struct {
        const char *name;
        struct slice *at;
    } known[] = {{"host", &spec->hosts},
                 {"on_change", &spec->on_change},
                 {"cross", &spec->cross},
                 {"delta", &spec->delta},
                 {"every", &spec->every}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (slice_eq_str(name, known[i].name))
            return known[i].at;
    return NULL;
}

static int read_options(struct args options, struct select_spec *out, struct diag *why)
{
    struct arg a;
    while (args_next(&options, &a)) {
        struct slice *at = find_option(out, a.name);
        if (!at)
            return diag_set(
                why, E_PROTO, 0,
                "%.*s: an agent does not know this option of a subscription, only host, on_change, "
                "cross, delta and every; ask a gateway",
                (int)(a.name.n < 32 ? a.name.n : 32), a.name.p);
        *at = value_slice(a.value); /* text: frame_get_subscribe looks */
    }
    return 0;
}

static void on_subscribe(struct consumer *c, struct slice payload)
{
    struct frame_subscribe f;
    struct diag why = {0};
    if (frame_get_subscribe(payload, &f) < 0) {
        say_bye(c, BYE_PROTOCOL, "malformed SUBSCRIBE");
        return;
    }
    unsubscribe(c, f.id); /* the same number again replaces it */
    if (c->n == LOCAL_SUBSCRIPTIONS_MAX) {
        answer(c, f.id, 1, "too many subscriptions on one connection");
        return;
    }
    struct subscription s = {.id = f.id, .asks = f.events.n > 0};
    struct select_spec spec = {.events = f.events, .where = f.where};
    if (read_options(f.options, &spec, &why) < 0 ||
        selector_create(&spec, clock_utc_ns(), &s.selector, &why) < 0) {
        answer(c, f.id, 2, why.message);
        return;
    }
    c->subscriptions[c->n++] = s;
    answer(c, f.id, 0, "");
    c->local->on_change(c->local->arg);
}

static void on_frame(struct consumer *c, const struct frame *f)
{
    uint32_t id;
    struct frame_ping ping;
    if (f->type == FRAME_SUBSCRIBE) {
        on_subscribe(c, f->payload);
    } else if (f->type == FRAME_UNSUBSCRIBE && frame_get_unsubscribe(f->payload, &id) == 0) {
        unsubscribe(c, id);
        c->local->on_change(c->local->arg);
    } else if (f->type == FRAME_PING && frame_get_ping(f->payload, &ping) == 0) {
        int64_t now = clock_utc_ns();
        frame_put_pong(&c->local->frame, &(struct frame_pong){ping.token, ping.t0_ns, now, now});
        send_frame(c);
    } else if (f->type == FRAME_BYE) {
        c->state = CONSUMER_CLOSING;
        start_timer(c, 0);
    } else if (f->type < FRAME_OPTIONAL) {
        say_bye(c, BYE_PROTOCOL, "a frame that is malformed or not expected here");
    }
}

static bool take_greeting(struct consumer *c, struct evbuffer *input)
{
    char head[FRAME_GREETING];
    if (evbuffer_get_length(input) < sizeof head)
        return false;
    (void)evbuffer_remove(input, head, sizeof head); /* they are there */
    if (greeting_detect(slice_of(head, sizeof head)) == GREETING_FRAMES)
        c->state = CONSUMER_HELLO;
    else
        say_bye(c, BYE_PROTOCOL, "not the greeting of this protocol");
    return c->state == CONSUMER_HELLO;
}

static void on_read(struct bufferevent *io, void *arg)
{
    struct consumer *c = arg;
    struct evbuffer *input = bufferevent_get_input(io);
    if (c->state == CONSUMER_GREETING && !take_greeting(c, input))
        return;
    while (c->state == CONSUMER_HELLO || c->state == CONSUMER_READY) {
        size_t have = evbuffer_get_length(input);
        const char *p = have ? (const char *)evbuffer_pullup(input, -1) : NULL;
        struct frame f;
        if (!p)
            return;
        int64_t n = frame_read(slice_of(p, have), LOCAL_INPUT_MAX - FRAME_HEAD, &f);
        if (n < 0)
            say_bye(c, BYE_PROTOCOL, "no frame starts here");
        if (n <= 0)
            return;
        if (c->state == CONSUMER_HELLO)
            on_hello(c, &f);
        else
            on_frame(c, &f);
        (void)evbuffer_drain(input, (size_t)n); /* they are there */
    }
}

static void on_event(struct bufferevent *io, short what, void *arg)
{
    (void)io;
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        destroy(arg);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what; /* it is over in any case */
    destroy(arg);
}

static bool is_allowed(evutil_socket_t fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

static void on_accept(void *arg, evutil_socket_t fd, const struct listen_peer *peer)
{
    struct local *l = arg;
    (void)peer; /* it is always "unix" */
    if (l->n_consumers >= LOCAL_CONSUMERS_MAX || !is_allowed(fd)) {
        log_error("a local consumer was turned away: %s",
                  l->n_consumers >= LOCAL_CONSUMERS_MAX ? "too many" : "another user");
        evutil_closesocket(fd);
        return;
    }
    struct consumer *c = mem_alloc(sizeof *c);
    *c = (struct consumer){.next = l->first, .local = l};
    l->first = c;
    l->n_consumers++;
    (void)evutil_make_socket_nonblocking(fd); /* accepted so already */
    c->io = bufferevent_socket_new(l->base, fd, BEV_OPT_CLOSE_ON_FREE);
    c->timer = evtimer_new(l->base, on_timer, c);
    if (!c->io || !c->timer) {
        if (!c->io)
            evutil_closesocket(fd);
        destroy(c);
        return;
    }
    bufferevent_setcb(c->io, on_read, NULL, on_event, c);
    bufferevent_setwatermark(c->io, EV_READ, 0, LOCAL_INPUT_MAX);
    start_timer(c, LOCAL_HELLO_MS);
    (void)bufferevent_enable(c->io, EV_READ | EV_WRITE); /* fails only for what this is not */
}

int local_create(struct event_base *base, const char *path, void (*on_change)(void *arg), void *arg,
                 struct local **out, struct diag *why)
{
    struct local *l = mem_alloc(sizeof *l);
    struct strbuf address = {0};
    *l = (struct local){.base = base, .on_change = on_change, .arg = arg, .writer = block_writer_create()};
    strbuf_printf(&address, "unix:%s", path);
    int r = l->writer && !strbuf_failed(&address)
                ? listener_create(base, strbuf_slice(&address), 0, on_accept, l, &l->listener, why)
                : -ENOMEM;
    strbuf_fini(&address);
    if (r < 0) {
        local_destroy(l);
        return r;
    }
    *out = l;
    return 0;
}

static void no_change(void *arg)
{
    (void)arg; /* nobody is told while everything goes */
}

void local_destroy(struct local *l)
{
    if (!l)
        return;
    l->on_change = no_change;
    while (l->first)
        destroy(l->first);
    listener_destroy(l->listener);
    block_writer_destroy(l->writer);
    strbuf_fini(&l->frame);
    strbuf_fini(&l->block);
    mem_free(l);
}

bool local_has_any(const struct local *l)
{
    for (const struct consumer *c = l->first; c; c = c->next)
        if (c->n)
            return true;
    return false;
}

bool local_asks(const struct local *l, const char *event)
{
    for (const struct consumer *c = l->first; c; c = c->next)
        for (size_t i = 0; i < c->n; i++)
            if (c->subscriptions[i].asks &&
                selector_wants_event(c->subscriptions[i].selector, slice_str(event)))
                return true;
    return false;
}

static void lose(struct consumer *c, struct subscription *s, size_t n)
{
    if (s->lost == 0)
        log_info("a local consumer is slow: events are dropped for it");
    s->lost += n;
    c->local->dropped += n;
}

/* What is in the writer, as one EVENTS. The block has no origin: its events are some of several producers'.
 */
static void deliver(struct consumer *c, struct subscription *s, const struct batch_clock *clock)
{
    struct local *l = c->local;
    size_t n = block_writer_count(l->writer);
    const struct batch_origin none = {.clock = *clock};
    strbuf_reset(&l->block);
    if (n == 0)
        return;
    if (block_writer_finish(l->writer, &none, &l->block) < 0 ||
        evbuffer_get_length(bufferevent_get_output(c->io)) > LOCAL_QUEUE_MAX) {
        lose(c, s, n);
        return;
    }
    if (s->lost) {
        frame_put_gap(&l->frame, &(struct frame_gap){.id = s->id, .lost = s->lost});
        s->lost = 0;
    }
    frame_put_events(&l->frame, &(struct frame_events){
                                    .id = s->id, .count = (uint32_t)n, .data = strbuf_slice(&l->block)});
    l->passed += n;
    send_frame(c);
}

static void select_events(struct consumer *c, struct subscription *s, const struct batch *b)
{
    struct block_writer *w = c->local->writer;
    for (size_t i = 0; i < b->n; i++) {
        const struct event *e = &b->events[i];
        if (!selector_test(s->selector, e))
            continue;
        int r = block_writer_add(w, e);
        if (r == E_LIMIT) {
            deliver(c, s, &b->origin.clock);
            r = block_writer_add(w, e);
        }
        if (r < 0)
            lose(c, s, 1);
    }
    deliver(c, s, &b->origin.clock);
}

void local_batch(struct local *l, const struct batch *b)
{
    for (struct consumer *c = l->first; c; c = c->next)
        for (size_t i = 0; i < c->n && c->state == CONSUMER_READY; i++)
            select_events(c, &c->subscriptions[i], b);
}

void local_counts(const struct local *l, struct local_counts *out)
{
    *out = (struct local_counts){.consumers = l->n_consumers, .passed = l->passed, .dropped = l->dropped};
    for (const struct consumer *c = l->first; c; c = c->next)
        out->subscriptions += c->n;
}
