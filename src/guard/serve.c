/* SPDX-License-Identifier: Apache-2.0 */
/* An asker's life: GREETING -> HELLO -> READY; any malformed byte ends it with BYE 2. */
#include "guard/serve.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/listen.h"
#include "net/stream.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum asker_state { ASKER_GREETING, ASKER_HELLO, ASKER_READY, ASKER_CLOSING };

struct asker {
    struct asker *next;
    struct serve *serve;
    struct stream *stream;
    struct event *timer;
    enum asker_state state;
    char name[32];
};

struct serve {
    struct event_base *base;
    struct listener *listener;
    struct stream_loop *loop;
    serve_ask ask;
    void *arg;
    struct asker *first;
    size_t n;
    struct strbuf frame;
    struct args_writer values;
    struct strbuf text;
};

struct serve_reply {
    struct asker *asker;
    uint64_t request;
};

static void destroy(struct asker *a)
{
    struct asker **at = &a->serve->first;
    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    a->serve->n--;
    if (a->timer)
        event_free(a->timer);
    stream_destroy(a->stream);
    mem_free(a);
}

/* A connection that can't be spoken to any more goes by its timer: its caller still holds it. */
static void end_soon(struct asker *a, int ms)
{
    const struct timeval after = {ms / 1000, ms % 1000 * 1000};
    a->state = ASKER_CLOSING;
    (void)evtimer_add(a->timer, &after); /* fails only without memory: then it stays until the peer goes */
}

static void send_frame(struct asker *a)
{
    struct strbuf *f = &a->serve->frame;
    if (strbuf_failed(f) || stream_send(a->stream, strbuf_slice(f)) < 0)
        end_soon(a, 0);
    strbuf_reset(f);
}

static void say_bye(struct asker *a, enum frame_bye reason, const char *text)
{
    frame_put_bye(&a->serve->frame, (uint16_t)reason, slice_str(text));
    send_frame(a);
    end_soon(a, 1000);
}

/* ---------------------------------------------------------------- answers */

const char *serve_asker(const struct serve_reply *to)
{
    return to->asker->name;
}

bool serve_row(struct serve_reply *to, const struct args_writer *row)
{
    struct asker *a = to->asker;
    if (a->state != ASKER_READY || stream_waiting(a->stream) > SERVE_OUTPUT_MAX)
        return false;
    frame_put_answer(
        &a->serve->frame, 0,
        &(struct frame_answer){
            .request = to->request, .status = CONTROL_MORE, .text = SLICE_LIT(""), .args = args_of(row)});
    send_frame(a);
    return true;
}

static void on_control(struct asker *a, struct slice payload)
{
    struct serve *s = a->serve;
    struct frame_control c;
    if (frame_get_control(payload, &c) < 0) {
        say_bye(a, BYE_PROTOCOL, "malformed CONTROL");
        return;
    }
    struct serve_reply to = {a, c.request};
    strbuf_reset(&s->text);
    args_writer_reset(&s->values);
    uint16_t status = s->ask(s->arg, &c, &to, &s->text, &s->values);
    frame_put_answer(&s->frame, 0,
                     &(struct frame_answer){.request = c.request,
                                            .status = status,
                                            .text = strbuf_slice(&s->text),
                                            .args = args_of(&s->values)});
    send_frame(a);
}

/* ---------------------------------------------------------------- frames */

static void on_hello(struct asker *a, const struct frame *f)
{
    struct frame_hello h;
    if (f->type != FRAME_HELLO || frame_get_hello(f->payload, &h) < 0) {
        say_bye(a, BYE_PROTOCOL, "the first frame is not a HELLO that can be read");
        return;
    }
    if (h.role != PEER_CONSUMER) {
        say_bye(a, BYE_NOT_ALLOWED, "this is a guard: it answers questions and takes no events");
        return;
    }
    struct frame_welcome w = {.minor = FRAME_MINOR, .t0_ns = h.t0_ns, .t1_ns = clock_utc_ns()};
    w.t2_ns = clock_utc_ns();
    a->state = ASKER_READY;
    (void)evtimer_del(a->timer);
    frame_put_welcome(&a->serve->frame, &w);
    send_frame(a);
}

static void on_frame(struct asker *a, const struct frame *f)
{
    struct frame_ping ping;
    if (f->type == FRAME_CONTROL) {
        on_control(a, f->payload);
    } else if (f->type == FRAME_PING && frame_get_ping(f->payload, &ping) == 0) {
        int64_t now = clock_utc_ns();
        frame_put_pong(&a->serve->frame, &(struct frame_pong){ping.token, ping.t0_ns, now, now});
        send_frame(a);
    } else if (f->type == FRAME_BYE) {
        end_soon(a, 0);
    } else if (f->type < FRAME_OPTIONAL) {
        say_bye(a, BYE_PROTOCOL,
                "this is a guard: it takes questions (faults, ack, silence, rules) and nothing else");
    }
}

static size_t take_greeting(struct asker *a, struct slice data)
{
    if (data.n < FRAME_GREETING)
        return 0;
    if (greeting_detect(slice_of(data.p, FRAME_GREETING)) == GREETING_FRAMES)
        a->state = ASKER_HELLO;
    else
        say_bye(a, BYE_PROTOCOL, "not the greeting of this protocol");
    return FRAME_GREETING;
}

static size_t on_data(void *arg, struct slice data)
{
    struct asker *a = arg;
    size_t done = a->state == ASKER_GREETING ? take_greeting(a, data) : 0;
    while (a->state == ASKER_HELLO || a->state == ASKER_READY) {
        struct frame f;
        int64_t n = frame_read(slice_from(data, done), SERVE_INPUT_MAX - FRAME_HEAD, &f);
        if (n < 0)
            say_bye(a, BYE_PROTOCOL, "no frame starts here");
        if (n <= 0)
            break;
        done += (size_t)n;
        if (a->state == ASKER_HELLO)
            on_hello(a, &f);
        else
            on_frame(a, &f);
    }
    return a->state == ASKER_CLOSING ? data.n : done;
}

static void on_end(void *arg, int error, const char *why)
{
    (void)error, (void)why; /* the asker has gone: nobody to tell */
    destroy(arg);
}

static void on_drained(void *arg)
{
    (void)arg; /* what waits is bounded; nothing waits for it */
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what; /* it is over in any case */
    destroy(arg);
}

/* ---------------------------------------------------------------- coming in */

static bool is_allowed(evutil_socket_t fd, struct ucred *peer)
{
    socklen_t n = sizeof *peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &n) == 0 &&
           (peer->uid == geteuid() || peer->uid == 0);
}

static void on_accept(void *arg, evutil_socket_t fd, const struct listen_peer *peer)
{
    static const struct stream_ops ops = {.on_data = on_data, .on_end = on_end, .on_drained = on_drained};
    const struct timeval limit = {SERVE_HELLO_MS / 1000, 0};
    struct serve *s = arg;
    struct ucred who;
    (void)peer; /* it is always "unix" */
    bool may = is_allowed(fd, &who);
    if (s->n >= SERVE_ASKERS_MAX || !may) {
        log_error("somebody who asked was turned away: %s", may ? "too many at a time" : "another user");
        (void)evutil_closesocket(fd);
        return;
    }
    struct asker *a = mem_alloc(sizeof *a);
    *a = (struct asker){.next = s->first, .serve = s};
    (void)snprintf(a->name, sizeof a->name, "uid %u", (unsigned)who.uid); /* it fits */
    s->first = a;
    s->n++;
    a->timer = evtimer_new(s->base, on_timer, a);
    if (stream_create(s->loop, fd, SERVE_INPUT_MAX, &ops, a, &a->stream) < 0 || !a->timer ||
        evtimer_add(a->timer, &limit) < 0)
        destroy(a);
}

int serve_create(struct event_base *base, const char *path, serve_ask ask, void *arg, struct serve **out,
                 struct diag *why)
{
    struct serve *s = mem_alloc(sizeof *s);
    struct strbuf address = {0};
    *s = (struct serve){.base = base, .ask = ask, .arg = arg, .loop = stream_loop_create(base)};
    strbuf_printf(&address, "unix:%s", path);
    int r = s->loop && !strbuf_failed(&address)
                ? listener_create(base, strbuf_slice(&address), 0, on_accept, s, &s->listener, why)
                : -ENOMEM;
    strbuf_fini(&address);
    if (r < 0) {
        serve_destroy(s);
        return r;
    }
    *out = s;
    return 0;
}

void serve_destroy(struct serve *s)
{
    if (!s)
        return;
    listener_destroy(s->listener);
    while (s->first)
        destroy(s->first);
    stream_loop_destroy(s->loop);
    strbuf_fini(&s->frame);
    strbuf_fini(&s->text);
    args_writer_fini(&s->values);
    mem_free(s);
}
