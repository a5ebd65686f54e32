/* SPDX-License-Identifier: Apache-2.0 */
/* A session's life: GREETING (what does it speak?) -> HELLO -> READY, or GREETING -> LINES; then CLOSING, in
 * which nothing is read any more and the last answers are written. The one timer limits HELLO and CLOSING.
 *
 * libevent's bufferevent reads no more than the high-water mark, which is the bound on input: a frame or line
 * that does not fit is an error known from its head. */
#include "gateway/session.h"

#include "base/clock.h"
#include "base/cursor.h"
#include "base/log.h"
#include "base/mem.h"
#include "event/encoding.h"
#include "event/samples.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <inttypes.h>
#include <sys/socket.h>

enum { CLOSING_MS = 1000 };

enum session_state { SESSION_GREETING, SESSION_HELLO, SESSION_READY, SESSION_LINES, SESSION_CLOSING };

struct session {
    struct ingest_source source; /* first: the callbacks get it */
    struct sessions *all;
    struct session *next, *previous;
    uint64_t id;
    struct bufferevent *io;
    struct event *timer;
    enum session_state state;
    bool has_counts; /* its own, on this connection */
    uint8_t role;    /* from HELLO, as origin and host */
    struct frame_origin origin;
    struct strbuf host;
    struct frame_samples_origin samples_origin; /* of an agent, as the next two */
    bool has_samples_counts;
    struct samples_reader *samples; /* NULL: no SAMPLES_ORIGIN yet */
    struct strbuf name;             /* for the log */
    struct strbuf out;              /* a frame being written */
    struct decoder *decoder;        /* LINES */
    uint64_t bad_lines;
};

static void destroy(struct session *s)
{
    if (!s)
        return;
    if (s->previous)
        s->previous->next = s->next;
    else if (s->all->first == s)
        s->all->first = s->next;
    if (s->next)
        s->next->previous = s->previous;
    ingest_forget(s->all->ingest, &s->source);
    s->all->n--;
    if (s->timer)
        event_free(s->timer);
    if (s->io)
        bufferevent_free(s->io);
    decoder_destroy(s->decoder);
    samples_reader_destroy(s->samples);
    strbuf_fini(&s->host);
    strbuf_fini(&s->name);
    strbuf_fini(&s->out);
    mem_free(s);
}

static void start_timer(struct session *s, int ms)
{
    const struct timeval after = {ms / 1000, ms % 1000 * 1000};
    (void)evtimer_add(s->timer, &after); /* fails only without memory; the limit is then not enforced */
}

/* No more reading; goes when the answers are written or time is up. */
static void close_soon(struct session *s)
{
    s->state = SESSION_CLOSING;
    (void)bufferevent_disable(s->io, EV_READ);
    start_timer(s, evbuffer_get_length(bufferevent_get_output(s->io)) ? CLOSING_MS : 0);
}

/* Sends what frame_put_* left in s->out. */
static void send_out(struct session *s)
{
    bool is_lost = strbuf_failed(&s->out) || bufferevent_write(s->io, s->out.p, s->out.n) < 0;
    strbuf_reset(&s->out);
    size_t waiting = evbuffer_get_length(bufferevent_get_output(s->io));
    if (s->state == SESSION_CLOSING || (!is_lost && waiting <= SESSION_OUTPUT_MAX))
        return;
    log_info("%s: closed: %s", s->name.p, is_lost ? "no memory" : "it does not read its answers");
    close_soon(s);
}

static void say_bye(struct session *s, enum frame_bye reason, const char *text)
{
    close_soon(s);
    frame_put_bye(&s->out, (uint16_t)reason, slice_str(text));
    send_out(s);
    start_timer(s, CLOSING_MS);
}

static void protocol_error(struct session *s, const char *text)
{
    s->all->bad_frames++;
    log_info("%s: closed: protocol error: %s", s->name.p, text);
    say_bye(s, BYE_PROTOCOL, text);
}

static void source_ack(struct ingest_source *source, const struct frame_ack *ack)
{
    struct session *s = (struct session *)source;
    if (s->state == SESSION_CLOSING)
        return;
    frame_put_ack(&s->out, ack);
    send_out(s);
}

static void source_refuse(struct ingest_source *source, const struct frame_refuse *refuse)
{
    struct session *s = (struct session *)source;
    if (s->state == SESSION_CLOSING)
        return;
    frame_put_refuse(&s->out, refuse);
    send_out(s);
}

static void on_hello(struct session *s, struct slice payload)
{
    struct frame_hello h;
    if (frame_get_hello(payload, &h) < 0) {
        protocol_error(s, "malformed HELLO");
        return;
    }
    if (h.minor_low > FRAME_MINOR) {
        protocol_error(s, "no version in common");
        return;
    }
    struct frame_welcome w = {
        .minor = FRAME_MINOR, .session = s->id, .window = SESSION_WINDOW, .t0_ns = h.t0_ns};
    w.t1_ns = clock_utc_ns();
    s->origin = h.origin;
    s->role = h.role;
    strbuf_add_slice(&s->host, h.host);
    strbuf_printf(&s->name, " (%.*s on %.*s)", SLICE_ARG(h.prog), SLICE_ARG(h.host));
    s->state = SESSION_READY;
    (void)evtimer_del(s->timer);
    bufferevent_setwatermark(s->io, EV_READ, 0, FRAME_HEAD + FRAME_PAYLOAD_MAX);
    w.seq = ingest_held(s->all->ingest, &h.origin);
    w.t2_ns = clock_utc_ns();
    frame_put_welcome(&s->out, &w);
    send_out(s);
    log_info("%s: connected, held up to %" PRIu64, s->name.p, w.seq);
}

/* Out of memory, or the peer is wrong. */
static void failed(struct session *s, int r, const char *text)
{
    if (r != -ENOMEM) {
        protocol_error(s, text);
        return;
    }
    log_error("%s: closed: %s", s->name.p, err_text(r));
    close_soon(s);
}

static void on_batch(struct session *s, struct slice payload)
{
    int r = ingest_block(s->all->ingest, &s->source, payload);
    if (r < 0)
        failed(s, r, "BATCH without a whole block");
}

static void on_samples_origin(struct session *s, struct slice payload)
{
    struct frame_samples_origin o;
    if (frame_get_samples_origin(payload, &o) < 0 ||
        memcmp(o.origin.producer, s->origin.producer, sizeof o.origin.producer) == 0) {
        protocol_error(s, "malformed SAMPLES_ORIGIN, or that of HELLO");
        return;
    }
    samples_reader_destroy(s->samples);
    s->samples = samples_reader_create(batch_builder_registry(ingest_builder(s->all->ingest)));
    s->samples_origin = o;
    s->has_samples_counts = false;
    if (!s->samples || strbuf_failed(&s->host))
        failed(s, -ENOMEM, "");
}

static void on_schema(struct session *s, struct slice payload)
{
    struct diag why = {0};
    int r = samples_reader_schema(s->samples, payload, &why);
    struct cursor c = cursor_of(payload);
    if (r < 0) {
        failed(s, r, why.message);
    } else if (s->samples_origin.wants_ok) {
        frame_put_schema_ok(&s->out, cursor_u32(&c));
        send_out(s);
    }
}

static void on_stream(struct session *s, struct slice payload)
{
    struct diag why = {0};
    int r = samples_reader_stream(s->samples, payload, &why);
    struct cursor c = cursor_of(payload);
    if (r < 0) {
        failed(s, r, why.message);
    } else if (s->samples_origin.wants_ok) {
        struct frame_stream_ok ok = {.stream = cursor_u32(&c)};
        (void)cursor_u32(&c); /* the schema */
        ok.baseline = cursor_u32(&c);
        frame_put_stream_ok(&s->out, &ok);
        send_out(s);
    }
}

static void on_samples(struct session *s, struct slice payload)
{
    struct diag why = {0};
    struct ingest *in = s->all->ingest;
    struct batch_origin origin = {.epoch = s->samples_origin.origin.epoch};
    uint32_t unknown;
    memcpy(origin.producer, s->samples_origin.origin.producer, sizeof origin.producer);
    int r = samples_reader_packet(s->samples, payload, strbuf_slice(&s->host), ingest_builder(in), &origin,
                                  &unknown, &why);
    if (r == 0)
        r = ingest_samples(in, &origin, unknown);
    if (r < 0)
        failed(s, r, why.message);
}

/* The frames of samples, from an agent. */
static void on_agent_frame(struct session *s, const struct frame *f)
{
    if (f->type == FRAME_SAMPLES_ORIGIN)
        on_samples_origin(s, f->payload);
    else if (!s->samples)
        protocol_error(s, "samples before SAMPLES_ORIGIN");
    else if (f->type == FRAME_SCHEMA)
        on_schema(s, f->payload);
    else if (f->type == FRAME_STREAM)
        on_stream(s, f->payload);
    else
        on_samples(s, f->payload);
}

static void on_counts(struct session *s, struct slice payload)
{
    struct frame_counts counts;
    if (frame_get_counts(payload, &counts) < 0) {
        protocol_error(s, "malformed COUNTS, or they do not add up");
        return;
    }
    s->has_counts = s->has_counts || frame_same_origin(&counts.origin, &s->origin);
    s->has_samples_counts =
        s->has_samples_counts || (s->samples && frame_same_origin(&counts.origin, &s->samples_origin.origin));
    ingest_counts(s->all->ingest, payload, &counts);
}

static void on_ping(struct session *s, struct slice payload)
{
    struct frame_ping ping;
    int64_t now = clock_utc_ns();
    if (frame_get_ping(payload, &ping) < 0) {
        protocol_error(s, "malformed PING");
        return;
    }
    frame_put_pong(&s->out, &(struct frame_pong){ping.token, ping.t0_ns, now, clock_utc_ns()});
    send_out(s);
}

static void on_bye(struct session *s, struct slice payload)
{
    struct frame_bye_reason bye;
    if (frame_get_bye(payload, &bye) < 0) {
        protocol_error(s, "malformed BYE");
        return;
    }
    if (bye.reason == BYE_DONE && s->has_counts)
        ingest_end_epoch(s->all->ingest, &s->origin);
    if (bye.reason == BYE_DONE && s->has_samples_counts)
        ingest_end_epoch(s->all->ingest, &s->samples_origin.origin);
    struct slice why = log_safe(bye.text);
    log_info("%s: said goodbye%s%.*s", s->name.p, why.n ? ": " : "", SLICE_ARG(why));
    close_soon(s);
}

static bool is_agent_frame(uint8_t type)
{
    return type == FRAME_SCHEMA || type == FRAME_STREAM || type == FRAME_SAMPLES ||
           type == FRAME_SAMPLES_ORIGIN;
}

/* What one may send who is welcome. */
static void on_frame(struct session *s, const struct frame *f)
{
    if (f->type == FRAME_BATCH)
        on_batch(s, f->payload);
    else if (f->type == FRAME_COUNTS)
        on_counts(s, f->payload);
    else if (f->type == FRAME_PING)
        on_ping(s, f->payload);
    else if (f->type == FRAME_BYE)
        on_bye(s, f->payload);
    else if (s->role == PEER_AGENT && is_agent_frame(f->type))
        on_agent_frame(s, f);
    else if (f->type < FRAME_OPTIONAL && f->type != FRAME_PONG)
        protocol_error(s, "a frame that is not expected here");
}

/* The first n bytes of input in one piece; p is NULL when memory is short, and the session is closing then.
 */
static struct slice pull(struct session *s, size_t n)
{
    const char *p = (const char *)evbuffer_pullup(bufferevent_get_input(s->io), (ev_ssize_t)n);
    if (!p) {
        log_error("%s: closed: no memory for its input", s->name.p);
        close_soon(s);
    }
    return slice_of(p, p ? n : 0);
}

static void read_frames(struct session *s)
{
    struct evbuffer *input = bufferevent_get_input(s->io);
    while (s->state == SESSION_HELLO || s->state == SESSION_READY) {
        size_t have = evbuffer_get_length(input);
        if (have < FRAME_HEAD)
            return;
        bool is_first = s->state == SESSION_HELLO;
        uint32_t max = is_first ? SESSION_HELLO_MAX - FRAME_HEAD - FRAME_GREETING : FRAME_PAYLOAD_MAX;
        struct slice head = pull(s, FRAME_HEAD);
        int64_t size = head.p ? frame_size(head, max) : 0;
        if (size < 0)
            protocol_error(s, size == E_LIMIT ? "a frame that is too large" : "no frame starts here");
        if (size <= 0 || have < (size_t)size)
            return;
        struct slice all = pull(s, (size_t)size);
        struct frame f;
        if (!all.p || frame_read(all, max, &f) <= 0)
            return;
        if (!is_first)
            on_frame(s, &f);
        else if (f.type == FRAME_HELLO)
            on_hello(s, f.payload);
        else
            protocol_error(s, "the first frame is not HELLO");
        (void)evbuffer_drain(input, (size_t)size);
    }
}

/* Counted always, logged once a connection. */
static void bad_line(struct session *s, const struct diag *why)
{
    s->all->bad_lines++;
    if (s->bad_lines++ == 0)
        log_info("%s: line %" PRIu64 " is skipped, as all like it: %s", s->name.p, why->line, why->message);
}

static void read_lines(struct session *s, bool at_end)
{
    struct evbuffer *input = bufferevent_get_input(s->io);
    struct ingest *in = s->all->ingest;
    size_t have = evbuffer_get_length(input), done = 0;
    struct slice data = have ? pull(s, have) : (struct slice){"", 0};
    int r = 1;
    while (s->state == SESSION_LINES && done < data.n && r != 0) {
        size_t used;
        struct diag why;
        r = decoder_run(s->decoder, slice_from(data, done), at_end, ingest_builder(in), &used, &why);
        done += used;
        int built = ingest_built(in);
        if (r == -ENOMEM || built < 0) {
            log_error("%s: closed: %s", s->name.p, err_text(-ENOMEM));
            close_soon(s);
        } else if (r < 0) {
            bad_line(s, &why);
        }
    }
    (void)evbuffer_drain(input, done);
}

static void start_lines(struct session *s, const char *encoding)
{
    const struct encoding *e = encoding_by_name(slice_str(encoding));
    int r = e ? decoder_create(e, &s->decoder) : -ENOTSUP;
    if (r < 0) {
        log_error("%s: closed: can't read %s: %s", s->name.p, encoding, err_text(r));
        close_soon(s);
        return;
    }
    s->state = SESSION_LINES;
    (void)evtimer_del(s->timer);
    bufferevent_setwatermark(s->io, EV_READ, 0, DECODE_UNIT_MAX);
    log_info("%s: connected, sends %s lines", s->name.p, encoding);
}

static void read_greeting(struct session *s)
{
    struct evbuffer *input = bufferevent_get_input(s->io);
    size_t have = evbuffer_get_length(input);
    struct slice head = pull(s, have < FRAME_GREETING ? have : FRAME_GREETING);
    if (!head.p)
        return;
    switch (greeting_detect(head)) {
    case GREETING_MORE:
        return;
    case GREETING_FRAMES:
        s->state = SESSION_HELLO;
        (void)evbuffer_drain(input, FRAME_GREETING);
        return;
    case GREETING_ULM:
        (void)evbuffer_drain(input, FRAME_GREETING);
        start_lines(s, "ulm");
        return;
    case GREETING_LINES:
        start_lines(s, head.p[0] == '{' ? "ndjson" : head.p[0] == 't' ? "bp" : "ulm");
        return;
    case GREETING_VERSION:
        protocol_error(s, "a version of the protocol that this gateway does not speak");
        return;
    case GREETING_UNKNOWN:
        protocol_error(s, "neither frames nor ULM, BP or NDJSON lines");
        return;
    }
}

/* Something may wait for its sync now. */
static void start_commit(struct sessions *all)
{
    int ms = ingest_delay_ms(all->ingest);
    if (ms < 0 || (evtimer_pending(all->commit, NULL) && all->commit_ms <= ms))
        return;
    const struct timeval delay = {ms / 1000, ms % 1000 * 1000};
    all->commit_ms = ms;
    if (evtimer_add(all->commit, &delay) < 0)
        ingest_commit(all->ingest);
}

static void read_input(struct session *s, bool at_end)
{
    if (s->state == SESSION_GREETING && evbuffer_get_length(bufferevent_get_input(s->io)))
        read_greeting(s);
    if (s->state == SESSION_LINES)
        read_lines(s, at_end);
    else
        read_frames(s);
    start_commit(s->all);
}

static void on_read(struct bufferevent *io, void *arg)
{
    (void)io;
    read_input(arg, false);
}

static void on_written(struct bufferevent *io, void *arg)
{
    struct session *s = arg;
    if (s->state == SESSION_CLOSING && evbuffer_get_length(bufferevent_get_output(io)) == 0)
        start_timer(s, 0);
}

static void on_event(struct bufferevent *io, short what, void *arg)
{
    (void)io;
    struct session *s = arg;
    int error = EVUTIL_SOCKET_ERROR();
    if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)))
        return;
    if (what & BEV_EVENT_EOF)
        read_input(s, true);
    if (s->state == SESSION_LINES)
        log_info("%s: done", s->name.p);
    else if (s->state != SESSION_CLOSING)
        log_info("%s: connection lost%s%s", s->name.p, what & BEV_EVENT_ERROR ? ": " : "",
                 what & BEV_EVENT_ERROR ? err_text(-error) : "");
    destroy(s);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct session *s = arg;
    if (s->state == SESSION_CLOSING) {
        destroy(s);
        return;
    }
    log_info("%s: closed: it did not say who it is in time", s->name.p);
    close_soon(s);
}

/* One word to the one too many. It is not waited for: a socket that is new takes so little. */
static void turn_away(struct sessions *all, evutil_socket_t fd, const char *peer)
{
    struct strbuf out = {0};
    frame_put_bye(&out, BYE_TOO_MANY, SLICE_LIT("too many connections"));
    if (!strbuf_failed(&out))
        (void)send(fd, out.p, out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    strbuf_fini(&out);
    evutil_closesocket(fd);
    if (all->turned_away++ == 0)
        log_error("%s: turned away, as all above %d connections", peer, SESSIONS_MAX);
}

static int open_session(struct session *s, evutil_socket_t fd)
{
    s->io = bufferevent_socket_new(s->all->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (!s->io)
        return -ENOMEM;
    s->timer = evtimer_new(s->all->base, on_timer, s);
    if (!s->timer || strbuf_failed(&s->name))
        return -ENOMEM;
    bufferevent_setcb(s->io, on_read, on_written, on_event, s);
    bufferevent_setwatermark(s->io, EV_READ, 0, SESSION_HELLO_MAX);
    start_timer(s, s->all->hello_ms ? s->all->hello_ms : SESSION_HELLO_MS);
    return bufferevent_enable(s->io, EV_READ | EV_WRITE) < 0 ? -ENOMEM : 0;
}

void sessions_accept(struct sessions *all, evutil_socket_t fd, const char *peer)
{
    struct session *s = all->n < SESSIONS_MAX ? mem_try_alloc(sizeof *s) : NULL;
    if (!s) {
        turn_away(all, fd, peer);
        return;
    }
    s->source = (struct ingest_source){.ack = source_ack, .refuse = source_refuse};
    s->all = all;
    s->id = ++all->next_id;
    s->next = all->first;
    if (s->next)
        s->next->previous = s;
    all->first = s;
    all->n++;
    all->accepted++;
    strbuf_printf(&s->name, "%s #%" PRIu64, peer, s->id);
    if (open_session(s, fd) < 0) {
        log_error("%s: closed: no memory", peer);
        if (!s->io)
            evutil_closesocket(fd);
        destroy(s);
    }
}

void sessions_shut_down(struct sessions *all)
{
    for (struct session *s = all->first; s; s = s->next) {
        if (s->state == SESSION_READY || s->state == SESSION_HELLO)
            say_bye(s, BYE_SHUTDOWN, "shutting down");
        else
            close_soon(s);
    }
}

void sessions_destroy_all(struct sessions *all)
{
    while (all->first)
        destroy(all->first);
}
