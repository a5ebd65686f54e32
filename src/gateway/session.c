/* SPDX-License-Identifier: Apache-2.0 */
/* A session's life: GREETING (what does it speak?) -> HELLO -> READY, or GREETING -> LINES; then CLOSING, in
 * which nothing is read any more and the last answers are written. GREETING, HELLO and CLOSING are limited in
 * time: those sessions are in a list in the order in which that began, and a timer looks at its front. */
#include "gateway/session.h"

#include "base/clock.h"
#include "base/mem.h"
#include "event/encoding.h"
#include "gateway/channel.h"
#include "gateway/session_consumer.h"
#include "gateway/session_query.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { CLOSING_MS = 1000, SWEEP_MS = 200, RELAY_GROWTH = 64 };
static const int64_t ns_per_ms = 1000000;

enum { DRAIN_ROUNDS = 256 /* of at least STREAM_READ bytes, or all there is */ };
enum session_state { SESSION_GREETING, SESSION_HELLO, SESSION_READY, SESSION_LINES, SESSION_CLOSING };

struct session {
    struct ingest_source source; /* first: the callbacks get it */
    struct control_asker asker;
    struct sessions *all;
    struct session *next, *previous;
    struct session *later, *earlier; /* in the list of those whose time is limited */
    int64_t until_ns;                /* monotonic; 0 = in no such list */
    uint64_t id;
    struct stream *io;
    struct access_identity who;
    struct access_view *says; /* what it may publish; NULL = anything, if may_publish */
    char *name;               /* for the log */
    char *host;               /* as HELLO said; NULL before */
    struct channel own;
    struct channel **relayed; /* by number, n_relayed of them; NULL where there is none */
    size_t n_relayed;
    struct session_consumer *consumer; /* NULL: it has not subscribed */
    struct session_queries *queries;   /* NULL: it has not queried */
    struct decoder *decoder;           /* LINES */
    uint64_t bad_lines;
    uint8_t state; /* enum session_state */
    uint8_t role;  /* from HELLO */
    bool has_transport;
    bool may_publish; /* something, at least */
};

/* ---------------------------------------------------------------- limits in time */

static void unlimit(struct session *s)
{
    struct sessions *all = s->all;
    if (!s->until_ns)
        return;
    *(s->earlier ? &s->earlier->later : &all->longest) = s->later;
    *(s->later ? &s->later->earlier : &all->latest) = s->earlier;
    s->until_ns = 0;
    all->n_waiting--;
}

static void start_sweep(struct sessions *all)
{
    static const struct timeval often = {0, SWEEP_MS * 1000};
    if (all->sweep && !evtimer_pending(all->sweep, NULL))
        (void)evtimer_add(all->sweep, &often); /* fails only without memory; the next one tries again */
}

static void limit(struct session *s, int ms)
{
    struct sessions *all = s->all;
    unlimit(s);
    s->until_ns = clock_mono_ns() + ms * ns_per_ms;
    s->later = NULL;
    s->earlier = all->latest;
    *(all->latest ? &all->latest->later : &all->longest) = s;
    all->latest = s;
    all->n_waiting++;
    start_sweep(all);
}

/* ---------------------------------------------------------------- going */

static void close_channels(struct session *s)
{
    channel_close(&s->own);
    for (size_t i = 0; i < s->n_relayed; i++) {
        if (s->relayed[i])
            channel_close(s->relayed[i]);
        mem_free(s->relayed[i]);
    }
    mem_free(s->relayed);
    s->relayed = NULL;
    s->n_relayed = 0;
}

static void destroy(struct session *s)
{
    struct sessions *all = s->all;
    close_channels(s);
    unlimit(s);
    *(s->previous ? &s->previous->next : &all->first) = s->next;
    if (s->next)
        s->next->previous = s->previous;
    ingest_forget(all->ingest, &s->source);
    session_consumer_destroy(s->consumer);
    session_query_destroy(s->queries);
    if (all->control)
        control_forget(all->control, &s->asker);
    all->n--;
    stream_destroy(s->io);
    access_view_destroy(s->says);
    decoder_destroy(s->decoder);
    mem_free(s->host);
    mem_free(s->name);
    mem_free(s);
}

/* No more reading; goes when the answers are written or time is up. The workers are gone now. */
static void close_soon(struct session *s)
{
    if (s->state == SESSION_CLOSING)
        return;
    s->state = SESSION_CLOSING;
    close_channels(s);
    stream_pause(s->io);
    limit(s, CLOSING_MS);
}

/* ---------------------------------------------------------------- what channels use */

void session_send(struct session *s)
{
    struct strbuf *out = &s->all->out;
    bool is_lost = strbuf_failed(out) || stream_send(s->io, strbuf_slice(out)) < 0;
    strbuf_reset(out);
    size_t max = SESSION_OUTPUT_MAX +
                 (s->consumer ? FRAME_PAYLOAD_MAX : 0) + /* a frame of events may be there */
                 session_query_room(s->queries);
    if (s->state == SESSION_CLOSING || (!is_lost && stream_waiting(s->io) <= max))
        return;
    log_info("%s: closed: %s", s->name, is_lost ? "no memory" : "it does not read its answers");
    close_soon(s);
}

static void say_bye(struct session *s, enum frame_bye reason, const char *text)
{
    close_soon(s);
    frame_put_bye(&s->all->out, (uint16_t)reason, slice_str(text));
    session_send(s);
}

void session_protocol_error(struct session *s, const char *text)
{
    s->all->bad_frames++;
    log_info("%s: closed: protocol error: %s", s->name, text);
    say_bye(s, BYE_PROTOCOL, text);
}

void session_failed(struct session *s, int r, const char *text)
{
    if (r != -ENOMEM) {
        session_protocol_error(s, text);
        return;
    }
    log_error("%s: closed: %s", s->name, err_text(r));
    close_soon(s);
}

void session_deny(struct session *s, const char *text)
{
    s->all->not_allowed++;
    log_info("%s: closed: not allowed: %s", s->name, text);
    say_bye(s, BYE_NOT_ALLOWED, text);
}

struct sessions *session_all(const struct session *s)
{
    return s->all;
}

const struct access_identity *session_who(const struct session *s)
{
    return &s->who;
}

const char *session_name(const struct session *s)
{
    return s->name;
}

struct stream *session_stream(const struct session *s)
{
    return s->io;
}

bool session_is_ready(const struct session *s)
{
    return s->state == SESSION_READY;
}

struct slice session_host(const struct session *s)
{
    return slice_str(s->host ? s->host : "");
}

struct ingest_source *session_limit(struct session *s, struct slice host)
{
    return s->may_publish && access_view_is_whole_of(s->says, host) ? NULL : &s->source;
}

bool session_is_relay(const struct session *s)
{
    return s->role == PEER_RELAY;
}

bool session_is_sealed(const struct session *s)
{
    return s->has_transport;
}

/* ---------------------------------------------------------------- answers of ingest and control */

static void source_ack(struct ingest_source *source, const struct frame_ack *ack)
{
    struct session *s = (struct session *)source;
    if (s->state == SESSION_CLOSING)
        return;
    frame_put_ack(&s->all->out, ack);
    session_send(s);
}

static void source_refuse(struct ingest_source *source, const struct frame_refuse *refuse)
{
    struct session *s = (struct session *)source;
    if (s->state == SESSION_CLOSING)
        return;
    frame_put_refuse(&s->all->out, refuse);
    session_send(s);
}

static struct session *of_asker(struct control_asker *a)
{
    return (struct session *)((char *)a - offsetof(struct session, asker));
}

static void asker_answer(struct control_asker *a, const struct frame_answer *answer)
{
    struct session *s = of_asker(a);
    if (s->state == SESSION_CLOSING)
        return;
    frame_put_answer(&s->all->out, 0, answer);
    session_send(s);
}

/* ---------------------------------------------------------------- frames */

/* As "10.0.0.7:4711 #12 (gridline-agent on node7)". */
static void set_name(struct session *s, const char *peer, const struct frame_hello *h)
{
    struct strbuf name = {0};
    if (h)
        strbuf_printf(&name, "%s (%.*s on %.*s)", s->name, SLICE_ARG(h->prog), SLICE_ARG(h->host));
    else
        strbuf_printf(&name, "%s #%" PRIu64, peer, s->id);
    if (strbuf_failed(&name)) { /* the shorter one stays, or none is needed any more */
        strbuf_fini(&name);
        return;
    }
    mem_free(s->name);
    s->name = name.p;
}

static char *copy_text(struct slice s)
{
    char *p = mem_try_alloc(s.n + 1);
    if (p && s.n)
        memcpy(p, s.p, s.n);
    return p;
}

/* Is there anything that it may ask for? */
static bool may_consume(const struct session *s)
{
    static const enum access_action asked[] = {ACCESS_LOOKUP, ACCESS_SUBSCRIBE, ACCESS_QUERY, ACCESS_SUMMARY,
                                               ACCESS_CONTROL};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        if (access_allows(&s->who, asked[i], SLICE_LIT("")))
            return true;
    access_tell_denied(&s->who, ACCESS_LOOKUP, SLICE_LIT(""), SLICE_LIT(""));
    return false;
}

/* A program may be anybody's; agents and relays need to be somebody. */
static bool may_say_hello(const struct session *s, const struct frame_hello *h)
{
    bool is_consumer = h->role == PEER_CONSUMER;
    if (is_consumer)
        return may_consume(s);
    if (h->role == PEER_RELAY && s->who.kind == ACCESS_AGENT)
        return false;
    /* A relay speaks for other hosts than its own: each is looked at when it registers, each event when it
     * comes. */
    return access_check(&s->who, h->role == PEER_AGENT ? ACCESS_REGISTER : ACCESS_PUBLISH,
                        h->role == PEER_RELAY ? SLICE_LIT("") : h->host, SLICE_LIT(""));
}

static bool source_may(struct ingest_source *source, const struct event *e)
{
    struct session *s = (struct session *)source;
    struct value room[EVENT_FIELDS_MAX];
    struct event seen;
    if (s->may_publish && access_view_event(s->says, e, &seen, room))
        return true;
    access_tell_denied(&s->who, ACCESS_PUBLISH, e->host, e->schema->name);
    return false;
}

/* Asked once: rights do not change while a connection lasts. */
static int set_what_it_may_say(struct session *s)
{
    int r = access_view_create(&s->who, ACCESS_PUBLISH, &s->says);
    s->may_publish = r == 0;
    s->source.may = s->may_publish && !s->says ? NULL : source_may;
    s->source.may_keep = access_allows(&s->who, ACCESS_CONTROL, SLICE_LIT(""));
    return r == -EACCES ? 0 : r;
}

static void on_hello(struct session *s, struct slice payload)
{
    struct frame_hello h;
    struct frame_welcome w = {.minor = FRAME_MINOR, .session = s->id, .window = SESSION_WINDOW};
    w.t1_ns = clock_utc_ns();
    if (frame_get_hello(payload, &h) < 0) {
        session_protocol_error(s, "malformed HELLO");
        return;
    }
    if (h.minor_low > FRAME_MINOR) {
        session_protocol_error(s, "no version in common");
        return;
    }
    if (!may_say_hello(s, &h)) {
        session_deny(s, s->who.kind == ACCESS_NOBODY
                            ? "without a certificate one may only join: gridline join"
                            : "its identity may not speak for that host, or not in that role");
        return;
    }
    s->host = copy_text(h.host);
    if (!s->host) {
        session_failed(s, -ENOMEM, "");
        return;
    }
    s->own.origin = h.origin;
    s->role = h.role;
    s->who.is_agent = (h.role == PEER_AGENT || h.role == PEER_RELAY) &&
                      access_allows(&s->who, ACCESS_REGISTER, h.role == PEER_RELAY ? SLICE_LIT("") : h.host);
    int r = set_what_it_may_say(s);
    if (r < 0) {
        session_failed(s, r, "");
        return;
    }
    set_name(s, NULL, &h);
    s->state = SESSION_READY;
    unlimit(s);
    stream_set_input_max(s->io, FRAME_HEAD + FRAME_PAYLOAD_MAX);
    w.t0_ns = h.t0_ns;
    if (h.role != PEER_CONSUMER) {
        w.seq = ingest_held(s->all->ingest, &h.origin); /* which opens an account */
        w.held = ingest_held_count(s->all->ingest, &h.origin);
    }
    w.t2_ns = clock_utc_ns();
    frame_put_welcome(&s->all->out, &w);
    session_send(s);
    log_info("%s: connected, held up to %" PRIu64, s->name, w.seq);
}

static void on_join(struct session *s, struct slice payload)
{
    struct frame_join join;
    struct frame_certified answer = {.status = CONTROL_FAILED, .chain = SLICE_LIT("")};
    if (frame_get_join(payload, &join) < 0) {
        session_protocol_error(s, "malformed JOIN");
        return;
    }
    answer.text = SLICE_LIT("this gateway does not sign certificates");
    if (s->all->enrol)
        enrol_join(s->all->enrol, &join, clock_utc_ns(), &answer);
    bool is_good = answer.status == CONTROL_DONE;
    (*(is_good ? &s->all->joined : &s->all->join_refused))++;
    log_info("%s: %.*s %s%s%.*s", s->name, SLICE_ARG(log_safe(join.name)),
             is_good ? "joined" : "did not join", is_good ? "" : ": ", SLICE_ARG(answer.text));
    frame_put_certified(&s->all->out, &answer);
    session_send(s);
    close_soon(s); /* one try a connection */
}

static void on_batch(struct session *s, struct slice payload)
{
    int r = ingest_block(s->all->ingest, &s->source, payload);
    if (r < 0)
        session_failed(s, r, "BATCH without a whole block");
}

static void on_ping(struct session *s, struct slice payload)
{
    struct frame_ping ping;
    int64_t now = clock_utc_ns();
    if (frame_get_ping(payload, &ping) < 0) {
        session_protocol_error(s, "malformed PING");
        return;
    }
    frame_put_pong(&s->all->out, &(struct frame_pong){ping.token, ping.t0_ns, now, clock_utc_ns()});
    session_send(s);
}

static void on_bye(struct session *s, struct channel *c, struct slice payload)
{
    struct frame_bye_reason bye;
    if (frame_get_bye(payload, &bye) < 0) {
        session_protocol_error(s, "malformed BYE");
        return;
    }
    channel_bye(c, bye.reason);
    if (c != &s->own) { /* one worker of a relay's */
        s->relayed[c->number] = NULL;
        channel_close(c);
        mem_free(c);
        return;
    }
    struct slice why = log_safe(bye.text);
    log_info("%s: said goodbye%s%.*s", s->name, why.n ? ": " : "", SLICE_ARG(why));
    close_soon(s);
}

static void on_control(struct session *s, struct slice payload)
{
    struct frame_control c;
    if (frame_get_control(payload, &c) < 0) {
        session_protocol_error(s, "malformed CONTROL");
        return;
    }
    if (s->all->control)
        control_ask(s->all->control, &s->asker, &c);
}

/* Room for the number in relayed. */
static int reserve_relayed(struct session *s, uint32_t number)
{
    if (number < s->n_relayed)
        return 0;
    size_t n = (number / RELAY_GROWTH + 1) * RELAY_GROWTH;
    if (n < s->n_relayed * 2)
        n = s->n_relayed * 2;
    struct channel **relayed = mem_try_resize(s->relayed, n * sizeof *relayed);
    if (!relayed)
        return -ENOMEM;
    memset(relayed + s->n_relayed, 0, (n - s->n_relayed) * sizeof *relayed);
    s->relayed = relayed;
    s->n_relayed = n;
    return 0;
}

/* Whose frame it is; NULL after the session was closed. */
static struct channel *find_channel(struct session *s, uint32_t number)
{
    if (s->role != PEER_RELAY || number == 0)
        return &s->own;
    if (number < s->n_relayed && s->relayed[number])
        return s->relayed[number];
    if (number > RELAY_WORKERS_MAX) {
        session_protocol_error(s, "a worker's number that is too large");
        return NULL;
    }
    struct channel *c = reserve_relayed(s, number) < 0 ? NULL : mem_try_alloc(sizeof *c);
    if (!c) {
        session_failed(s, -ENOMEM, "");
        return NULL;
    }
    *c = (struct channel){.session = s, .number = number};
    s->relayed[number] = c;
    return c;
}

static bool is_of_workers(const struct session *s)
{
    return (s->role == PEER_AGENT || s->role == PEER_RELAY) && s->all->workers;
}

/* Those who only ask have no account. */
static void on_counts(struct session *s, struct channel *c, struct slice payload)
{
    if (s->role != PEER_CONSUMER || s->may_publish) {
        channel_counts(c, payload);
        return;
    }
    access_tell_denied(&s->who, ACCESS_PUBLISH, SLICE_LIT(""), SLICE_LIT(""));
    session_deny(s, "it may not publish here");
}

/* What one may send who is welcome. */
static void on_frame(struct session *s, const struct frame *f)
{
    struct channel *c = find_channel(s, f->worker);
    if (!c)
        return;
    if (f->type == FRAME_BATCH)
        on_batch(s, f->payload);
    else if (f->type == FRAME_COUNTS)
        on_counts(s, c, f->payload);
    else if (f->type == FRAME_PING)
        on_ping(s, f->payload);
    else if (f->type == FRAME_BYE)
        on_bye(s, c, f->payload);
    else if (is_of_workers(s) && channel_takes(f->type))
        channel_frame(c, f);
    else if (s->role == PEER_CONSUMER && f->type == FRAME_CONTROL)
        on_control(s, f->payload);
    else if (s->role == PEER_CONSUMER && s->all->subscriptions && session_consumer_takes(f->type))
        session_consumer_frame(&s->consumer, s, f);
    else if (s->role == PEER_CONSUMER && session_query_takes(f->type))
        session_query_frame(&s->queries, s, f);
    else if (f->type < FRAME_OPTIONAL && f->type != FRAME_PONG)
        session_protocol_error(s, "a frame that is not expected here");
}

static void on_first_frame(struct session *s, const struct frame *f)
{
    if (f->type == FRAME_HELLO)
        on_hello(s, f->payload);
    else if (f->type != FRAME_JOIN)
        session_protocol_error(s, "the first frame is neither HELLO nor JOIN");
    else if (access_check(&s->who, ACCESS_JOIN, SLICE_LIT(""), SLICE_LIT("")))
        on_join(s, f->payload);
    else
        session_deny(s, "it may not join here");
}

/* Takes what frames are whole; how many bytes. */
static size_t read_frames(struct session *s, struct slice data)
{
    size_t at = 0;
    while (s->state == SESSION_HELLO || s->state == SESSION_READY) {
        bool is_first = s->state == SESSION_HELLO;
        uint32_t max = is_first ? SESSION_HELLO_MAX - FRAME_HEAD : FRAME_PAYLOAD_MAX;
        struct frame f;
        int64_t size = frame_read(slice_from(data, at), max, &f);
        if (size < 0)
            session_protocol_error(s, size == E_LIMIT ? "a frame that is too large" : "no frame starts here");
        if (size <= 0)
            return at;
        at += (size_t)size;
        if (is_first)
            on_first_frame(s, &f);
        else
            on_frame(s, &f);
    }
    return at;
}

/* ---------------------------------------------------------------- lines */

/* Counted always, logged once a connection. */
static void bad_line(struct session *s, const struct diag *why)
{
    s->all->bad_lines++;
    if (s->bad_lines++ == 0)
        log_info("%s: line %" PRIu64 " is skipped, as all like it: %s", s->name, why->line, why->message);
}

static size_t read_lines(struct session *s, struct slice data, bool at_end)
{
    struct ingest *in = s->all->ingest;
    size_t done = 0;
    int r = 1;
    while (s->state == SESSION_LINES && done < data.n && r != 0) {
        size_t used;
        struct diag why;
        struct batch_trimmed before = batch_builder_trimmed(ingest_builder(in)), now;
        r = decoder_run(s->decoder, slice_from(data, done), at_end, ingest_builder(in), &used, &why);
        done += used;
        now = batch_builder_trimmed(ingest_builder(in));
        ingest_note_trimmed(in, (struct batch_trimmed){now.events - before.events, now.fields - before.fields});
        int built = ingest_built(in, &s->source);
        if (r == -ENOMEM || built < 0)
            session_failed(s, -ENOMEM, "");
        else if (r < 0)
            bad_line(s, &why);
    }
    return done;
}

/* Those who are known by a certificate and may not say everything are to say HELLO; the lines of others are
 * looked at one by one, and what they may not say is left out and counted. */
static bool may_send_lines(struct session *s)
{
    int r = set_what_it_may_say(s);
    bool has_name =
        s->who.kind != ACCESS_OWNER && s->who.kind != ACCESS_LOCAL && s->who.kind != ACCESS_INSECURE;
    bool may = r == 0 && s->may_publish && (!has_name || access_view_is_whole(s->says));
    if (!may)
        access_tell_denied(&s->who, ACCESS_PUBLISH, SLICE_LIT(""), SLICE_LIT(""));
    return may;
}

static void start_lines(struct session *s, const char *encoding)
{
    const struct encoding *e = encoding_by_name(slice_str(encoding));
    if (!may_send_lines(s)) {
        session_deny(s, "lines are only for those who may publish everything: who sends them is not in them");
        return;
    }
    int r = e ? decoder_create(e, &s->decoder) : -ENOTSUP;
    if (r < 0) {
        log_error("%s: closed: can't read %s: %s", s->name, encoding, err_text(r));
        close_soon(s);
        return;
    }
    decoder_set_escapes(s->decoder, s->all->escapes, NULL, NULL);
    s->state = SESSION_LINES;
    unlimit(s);
    stream_set_input_max(s->io, DECODE_UNIT_MAX);
    log_info("%s: connected, sends %s lines", s->name, encoding);
}

/* How many bytes the greeting took. */
static size_t read_greeting(struct session *s, struct slice data)
{
    switch (greeting_detect(slice_of(data.p, data.n < FRAME_GREETING ? data.n : FRAME_GREETING))) {
    case GREETING_MORE:
        return 0;
    case GREETING_FRAMES:
        s->state = SESSION_HELLO;
        return FRAME_GREETING;
    case GREETING_ULM:
        start_lines(s, "ulm");
        return FRAME_GREETING;
    case GREETING_LINES:
        start_lines(s, data.p[0] == '{' ? "ndjson" : data.p[0] == 't' ? "bp" : "ulm");
        return 0;
    case GREETING_VERSION:
        session_protocol_error(s, "a version of the protocol that this gateway does not speak");
        return 0;
    case GREETING_UNKNOWN:
        session_protocol_error(s, "neither frames nor ULM, BP or NDJSON lines");
        return 0;
    }
    return 0;
}

/* ---------------------------------------------------------------- the stream's callbacks */

void sessions_commit(struct sessions *all)
{
    int ms = ingest_delay_ms(all->ingest);
    if (ms < 0 || (evtimer_pending(all->commit, NULL) && all->commit_ms <= ms))
        return;
    const struct timeval delay = {ms / 1000, ms % 1000 * 1000};
    all->commit_ms = ms;
    if (evtimer_add(all->commit, &delay) < 0)
        ingest_commit(all->ingest);
}

static size_t read_input(struct session *s, struct slice data, bool at_end)
{
    size_t at = 0;
    if (s->state == SESSION_GREETING && data.n)
        at = read_greeting(s, data);
    if (s->state == SESSION_LINES)
        at += read_lines(s, slice_from(data, at), at_end);
    else
        at += read_frames(s, slice_from(data, at));
    sessions_commit(s->all);
    return s->state == SESSION_CLOSING ? data.n : at;
}

static size_t on_data(void *arg, struct slice data)
{
    return read_input(arg, data, false);
}

static void on_ready(void *arg)
{
    struct session *s = arg;
    int r = s->all->identify(stream_transport(s->io), &s->who);
    s->who.table = s->all->access;
    if (r < 0)
        session_deny(s, "a certificate that is not one of gridline's");
}

static void on_end(void *arg, int error, const char *why)
{
    struct session *s = arg;
    if (error == 0 && s->state != SESSION_CLOSING)
        (void)read_input(s, stream_rest(s->io), true);
    bool is_unknown = s->state == SESSION_GREETING || s->state == SESSION_HELLO;
    if (s->has_transport && is_unknown && why[0])
        s->all->failed_handshakes++;
    if (s->state != SESSION_CLOSING) {
        if (s->state == SESSION_LINES && error == 0)
            log_info("%s: done", s->name);
        else
            log_info("%s: connection lost%s%s", s->name, error || why[0] ? ": " : "",
                     why[0]  ? why
                     : error ? err_text(error)
                             : "");
    }
    destroy(s);
}

static void on_drained(void *arg)
{
    struct session *s = arg;
    if (s->state == SESSION_CLOSING) {
        destroy(s);
        return;
    }
    session_consumer_writable(s->consumer);
    if (stream_waiting(s->io) == 0)
        session_query_writable(s->queries);
}

static const struct stream_ops stream_callbacks = {on_data, on_ready, on_end, on_drained};

/* ---------------------------------------------------------------- time is up */

static void give_up(struct session *s)
{
    if (s->state != SESSION_CLOSING) {
        s->all->silent++;
        log_info("%s: closed: it did not say who it is in time", s->name);
    }
    destroy(s);
}

/* The limits differ, so the order is not that of the ends: all are looked at. Only unknown and closing ones
 * are here. */
static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
    struct sessions *all = arg;
    (void)fd, (void)what;
    int64_t now = clock_mono_ns();
    for (struct session *s = all->longest, *later; s; s = later) {
        later = s->later;
        bool is_done = s->state == SESSION_CLOSING && stream_waiting(s->io) == 0;
        if (now >= s->until_ns || is_done)
            give_up(s);
    }
    if (all->longest)
        start_sweep(all);
}

/* ---------------------------------------------------------------- coming */

/* One word to the one too many. It is not waited for: a socket that is new takes so little. */
static void turn_away(struct sessions *all, evutil_socket_t fd, const char *peer)
{
    struct strbuf out = {0};
    frame_put_bye(&out, BYE_TOO_MANY, SLICE_LIT("too many connections"));
    if (!strbuf_failed(&out))
        (void)send(fd, out.p, out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    strbuf_fini(&out);
    evutil_closesocket(fd);
    all->turned_away++;
    log_error("%s: turned away, as all above %zu connections", peer, all->n);
}

static void link_first(struct sessions *all, struct session *s)
{
    s->next = all->first;
    if (s->next)
        s->next->previous = s;
    all->first = s;
    all->n++;
    all->accepted++;
}

/* Time limits need the timer; it is made with the first connection. */
static int prepare(struct sessions *all)
{
    if (!all->sweep)
        all->sweep = evtimer_new(all->base, on_sweep, all);
    return all->sweep ? 0 : -ENOMEM;
}

void sessions_accept(struct sessions *all, evutil_socket_t fd, const char *peer,
                     const struct session_way *way)
{
    size_t max = all->max ? all->max : SESSIONS_MAX;
    bool is_full = all->n >= max || prepare(all) < 0;
    struct session *s = is_full ? NULL : mem_try_alloc(sizeof *s);
    if (!s) {
        turn_away(all, fd, peer);
        return;
    }
    s->source = (struct ingest_source){.ack = source_ack, .refuse = source_refuse};
    s->asker = (struct control_asker){.answer = asker_answer, .who = &s->who};
    s->all = all;
    s->id = ++all->next_id;
    s->own.session = s;
    s->who = way->who;
    s->who.table = all->access;
    s->has_transport = way->transport != NULL;
    link_first(all, s);
    set_name(s, peer, NULL);
    if (!s->name || stream_create(all->loop, fd, SESSION_HELLO_MAX, &stream_callbacks, s, &s->io) < 0) {
        log_error("%s: closed: no memory", peer);
        if (!s->name)
            evutil_closesocket(fd);
        destroy(s);
        return;
    }
    if (way->transport)
        stream_set_transport(s->io, way->transport, way->transport_ctx);
    limit(s, all->hello_ms ? all->hello_ms : SESSION_HELLO_MS);
    if (all->n_waiting > SESSIONS_WAITING)
        give_up(all->longest);
}

void sessions_drain_lines(struct sessions *all)
{
    uint64_t n = 0, cut = 0;
    for (struct session *s = all->first, *next; s; s = next) {
        next = s->next;
        if (s->state != SESSION_LINES)
            continue;
        bool is_alive = true;
        int waiting = 0;
        for (int i = 0;
             i < DRAIN_ROUNDS && is_alive && ioctl(stream_fd(s->io), FIONREAD, &waiting) == 0 && waiting > 0;
             i++)
            is_alive = stream_read_now(s->io);
        n++;
        cut += is_alive && stream_rest(s->io).n > 0;
    }
    all->bad_lines += cut;
    if (n)
        log_info("%" PRIu64
                 " connections of plain lines end with this gateway: what had arrived is taken, %" PRIu64
                 " lines were cut off in the middle; what their senders had under way is lost, and nobody "
                 "knows how "
                 "much",
                 n, cut);
}

void sessions_shut_down(struct sessions *all)
{
    for (struct session *s = all->first, *next; s; s = next) {
        next = s->next;
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
    if (all->sweep)
        event_free(all->sweep);
    all->sweep = NULL;
    strbuf_fini(&all->out);
    args_writer_fini(&all->settings);
}

/* ---------------------------------------------------------------- to workers and programs */

int sessions_control(struct sessions *all, struct worker *w, const struct frame_control *control)
{
    struct channel *c = w->link;
    if (!c || c->session->state != SESSION_READY)
        return -ENOTCONN;
    frame_put_control(&all->out, c->number, control);
    session_send(c->session);
    return 0;
}

int sessions_demand(struct sessions *all, struct worker *w, const struct frame_demand *demand)
{
    struct channel *c = w->link;
    if (!c || c->session->state != SESSION_READY)
        return -ENOTCONN;
    frame_put_demand(&all->out, c->number, demand);
    session_send(c->session);
    return 0;
}

size_t sessions_activate(struct sessions *all, struct slice host, struct slice list)
{
    static uint32_t number;
    size_t n = 0;
    number++;
    for (struct session *s = all->first; s; s = s->next) {
        if (s->state != SESSION_READY || s->role != PEER_PROGRAM || !slice_eq(session_host(s), host))
            continue;
        size_t at = frame_begin(&all->out, FRAME_ACTIVATE, 0);
        strbuf_add_u32(&all->out, number);
        strbuf_add_slice(&all->out, list);
        frame_end(&all->out, at);
        session_send(s);
        n++;
    }
    return n;
}

void sessions_replaced(struct sessions *all, void *link)
{
    struct channel *c = link;
    struct session *s = c->session;
    (void)all;
    c->worker = NULL; /* it has another link now */
    if (c == &s->own) {
        say_bye(s, BYE_NOT_ALLOWED, "another agent has registered this host");
        return;
    }
    size_t at = frame_begin(&s->all->out, FRAME_BYE, c->number);
    strbuf_add_u16(&s->all->out, BYE_NOT_ALLOWED);
    strbuf_add_text(&s->all->out, SLICE_LIT("another agent has registered this host"));
    frame_end(&s->all->out, at);
    session_send(s);
}
