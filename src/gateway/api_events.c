/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/v1/events: a subscription as an answer that does not end.
 *
 * The chunks of subscription.h are what is sent: their bytes are referred to, not copied, but for Server-Sent
 * Events, whose lines begin with "data: ". What goes between them, of gaps and positions:
 *
 *   ndjson     lines {"gap":{"lost":12,"reason":"slow","from":"...","to":"..."}}, and with positions=true
 *              {"position":"..."} behind each piece
 *   sse        event: gap, with the same object as data. `id:` is the position: with each event of a piece
 *              from which nothing was filtered, else with its last (a client that is cut off within gets
 *              that piece again), and alone where nothing passed for a while. A comment each KEEP_ALIVE_S
 *   the others an event subscription.gap of prog gridline-gateway with the same fields
 *
 * Back-pressure: when HTTP_OUTPUT_HIGH bytes wait, the subscription's queue fills instead. */
#include "gateway/api.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "event/encoding.h"
#include "event/xml.h"
#include "gateway/api_position.h"
#include "gateway/chunk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum {
    KEEP_ALIVE_S = 15,
    COPIED_MAX = 1024 /* smaller pieces are copied: that is cheaper than to refer to them */
};

/* In the order in which Accept and the default choose. */
enum stream_format { STREAM_NDJSON, STREAM_SSE, STREAM_ULM, STREAM_BP, STREAM_XML, STREAM_BINARY };
static const struct api_format formats[] = {{"ndjson", "application/x-ndjson"},
                                            {"sse", "text/event-stream"},
                                            {"ulm", "text/x-ulm"},
                                            {"bp", "text/x-netlogger-bp"},
                                            {"xml", "application/xml"},
                                            {"binary", "application/vnd.gridline.block"}};
enum { FORMATS = sizeof formats / sizeof *formats };

struct stream {
    struct subscriber subscriber; /* first: the callbacks get it */
    struct http_request *request;
    struct subscriptions *all;
    enum stream_format format;
    struct evbuffer *out; /* until the flush */
    struct event *timer;
    int64_t until_ns; /* monotonic; INT64_MAX = for ever */
    int64_t sent_ns;
    uint64_t left;    /* events until it ends */
    uint64_t journal; /* what positions are places in */
    bool has_positions;
    bool is_elsewhere; /* it was somewhere in another journal */
    bool is_over;
};

static struct stream *of(struct subscriber *s)
{
    return (struct stream *)(void *)s;
}

/* From the loop, with all that has been given. */
static void end_soon(struct stream *s)
{
    if (s->is_over)
        return;
    s->is_over = true;
    if (s->format == STREAM_XML)
        (void)evbuffer_add_printf(s->out, "</events>\n"); /* no memory: it has no good end */
    http_send_buffer(s->request, s->out);
    http_end_soon(s->request);
}

/* Of a stream that lacks something: no good end. */
static void out_of_memory(struct stream *s)
{
    s->is_over = true;
    http_end_soon(s->request);
}

/* ---------------------------------------------------------------- events */

/* The first n events of text: how many bytes. Each is a line, of XML an element. */
static size_t first_events(const struct stream *s, struct slice text, uint64_t n)
{
    struct slice end = s->format == STREAM_XML ? SLICE_LIT("</event>\n") : SLICE_LIT("\n");
    const char *at = text.p;
    for (; n; n--) {
        const char *found = memmem(at, (size_t)(text.p + text.n - at), end.p, end.n);
        if (!found)
            return text.n;
        at = found + end.n;
    }
    return (size_t)(at - text.p);
}

/* Where the i-th event of a chunk, from 0, is. false: only of the last it is known, as others lie between. */
static bool place(const struct chunk *c, uint32_t i, struct position *out)
{
    *out = c->last;
    out->event -= c->count - 1 - i;
    return i + 1 == c->count || c->last.event - c->first.event + 1 == c->count;
}

static int put_sse(struct stream *s, const struct chunk *c, struct slice text)
{
    char id[API_POSITION_MAX];
    struct position at;
    int r = 0;
    for (uint32_t i = 0; text.n && r == 0; i++) {
        const char *end = memchr(text.p, '\n', text.n);
        struct slice line = slice_of(text.p, end ? (size_t)(end - text.p) : text.n);
        text = slice_from(text, line.n + 1);
        if (place(c, i, &at))
            r = evbuffer_add_printf(s->out, "id: %.*s\n", (int)api_position_print(id, s->journal, at), id);
        if (r >= 0)
            r = evbuffer_add(s->out, "data: ", 6);
        if (r == 0)
            r = evbuffer_add(s->out, line.p, line.n);
        if (r == 0)
            r = evbuffer_add(s->out, "\n\n", 2);
    }
    return r;
}

static void drop_chunk(const void *data, size_t n, void *chunk)
{
    (void)data, (void)n;
    chunk_unref(chunk);
}

static int put_chunk(struct stream *s, struct chunk *c, struct slice text)
{
    if (s->format == STREAM_SSE)
        return put_sse(s, c, text);
    if (text.n <= COPIED_MAX)
        return evbuffer_add(s->out, text.p, text.n);
    int r = evbuffer_add_reference(s->out, text.p, text.n, drop_chunk, chunk_ref(c));
    if (r < 0)
        chunk_unref(c);
    return r;
}

static void put_position(struct stream *s, struct position p)
{
    char text[API_POSITION_MAX];
    int n = (int)api_position_print(text, s->journal, p);
    if (s->format == STREAM_SSE)
        (void)evbuffer_add_printf(s->out, "id: %.*s\n\n", n, text); /* the next one will do as well */
    else if (s->has_positions)
        (void)evbuffer_add_printf(s->out, "{\"position\":\"%.*s\"}\n", n, text);
}

static void on_events(struct subscriber *to, uint32_t id, struct chunk *c)
{
    struct stream *s = of(to);
    (void)id; /* it has one */
    if (s->is_over)
        return;
    bool is_last = c->count >= s->left;
    struct slice text = c->data;
    if (c->count > s->left)
        text.n = first_events(s, text, s->left);
    uint64_t n = is_last ? s->left : c->count;
    if (put_chunk(s, c, text) < 0) {
        out_of_memory(s);
        return;
    }
    if (s->format == STREAM_NDJSON && c->count <= s->left)
        put_position(s, c->last);
    http_count(s->request->http)->events_given += n;
    s->left -= n;
    if (is_last)
        end_soon(s);
}

static void on_position(struct subscriber *to, uint32_t id, struct position p)
{
    (void)id;
    if (!of(to)->is_over)
        put_position(of(to), p);
}

static bool is_writable(const struct subscriber *to)
{
    const struct stream *s = (const struct stream *)(const void *)to;
    return !s->is_over && evbuffer_get_length(s->out) + http_waiting(s->request) <= HTTP_OUTPUT_HIGH;
}

static void on_flush(struct subscriber *to)
{
    struct stream *s = of(to);
    if (s->is_over || evbuffer_get_length(s->out) == 0)
        return;
    http_send_buffer(s->request, s->out);
    s->sent_ns = clock_mono_ns();
}

static void on_drained(struct http_request *r)
{
    struct stream *s = r->state;
    subscriptions_writable(s->all, &s->subscriber);
}

/* ---------------------------------------------------------------- gaps */

struct gap_text {
    char from[API_POSITION_MAX], to[API_POSITION_MAX];
    size_t from_n, to_n;
    const char *reason;
};

static struct gap_text gap_text(const struct stream *s, const struct subscription_gap *gap)
{
    struct gap_text t = {.reason = gap->reason == GAP_SLOW ? "slow" : "gone"};
    t.from_n = api_position_print(t.from, s->journal, gap->from);
    t.to_n = api_position_print(t.to, s->journal, gap->to);
    return t;
}

static void give_gap(void *arg, struct chunk *c)
{
    struct stream *s = arg;
    if (evbuffer_add(s->out, c->data.p, c->data.n) < 0)
        out_of_memory(s);
    chunk_unref(c);
}

/* In the formats that have nothing but events. Gaps are rare: what is made for it is not kept. */
static bool put_gap_event(struct stream *s, const struct subscription_gap *gap)
{
    static const enum chunk_format chunks[FORMATS] = {[STREAM_ULM] = CHUNK_ULM,
                                                      [STREAM_BP] = CHUNK_BP,
                                                      [STREAM_XML] = CHUNK_XML,
                                                      [STREAM_BINARY] = CHUNK_BINARY};
    struct gap_text t = gap_text(s, gap);
    const struct named_value values[] = {{SLICE_LIT("lost"), value_uint(gap->lost)},
                                         {SLICE_LIT("reason"), value_text(slice_str(t.reason))},
                                         {SLICE_LIT("from"), value_text(slice_of(t.from, t.from_n))},
                                         {SLICE_LIT("to"), value_text(slice_of(t.to, t.to_n))}};
    const struct event_head head = {.time_ns = clock_utc_ns(),
                                    .name = SLICE_LIT("subscription.gap"),
                                    .prog = SLICE_LIT("gridline-gateway"),
                                    .level = LEVEL_WARNING};
    struct registry *registry = registry_create();
    struct batch_builder *builder = registry ? batch_builder_create(registry, 0) : NULL;
    struct chunk_maker *maker = chunk_maker_create();
    struct batch *b = NULL;
    uint64_t lost;
    bool is_good = builder && maker &&
                   batch_builder_add(builder, &head, values, sizeof values / sizeof *values, NULL) == 0 &&
                   (b = batch_builder_finish(builder, NULL)) != NULL;
    if (is_good) {
        chunk_maker_begin(maker, b, gap->to);
        is_good =
            chunk_maker_run(maker, chunks[s->format], (const uint32_t[]){0}, NULL, 1, give_gap, s, &lost);
        chunk_maker_end(maker);
    }
    batch_unref(b);
    chunk_maker_destroy(maker);
    batch_builder_destroy(builder);
    registry_destroy(registry);
    return is_good;
}

static bool put_gap_object(struct stream *s, const struct subscription_gap *gap)
{
    struct gap_text t = gap_text(s, gap);
    bool is_sse = s->format == STREAM_SSE;
    return evbuffer_add_printf(
               s->out, "%s{%s\"lost\":%" PRIu64 ",\"reason\":\"%s\",\"from\":\"%s\",\"to\":\"%s\"%s}\n%s",
               is_sse ? "event: gap\ndata: " : "", is_sse ? "" : "\"gap\":{", gap->lost, t.reason, t.from,
               t.to, is_sse ? "" : "}", is_sse ? "\n" : "") > 0;
}

static void on_gap(struct subscriber *to, uint32_t id, const struct subscription_gap *gap)
{
    struct stream *s = of(to);
    (void)id;
    if (s->is_over)
        return;
    http_count(s->request->http)->events_lost += gap->lost;
    bool is_object = s->format == STREAM_NDJSON || s->format == STREAM_SSE;
    if (!(is_object ? put_gap_object(s, gap) : put_gap_event(s, gap)))
        out_of_memory(s); /* rather no stream than one with a gap that is not told */
}

static void on_ended(struct subscriber *to, uint32_t id, const char *why)
{
    struct stream *s = of(to);
    (void)id;
    if (s->format == STREAM_SSE)
        (void)evbuffer_add_printf(s->out, "event: end\ndata: {\"text\":\"%s\"}\n\n", why);
    else if (s->format == STREAM_NDJSON)
        (void)evbuffer_add_printf(s->out, "{\"end\":{\"text\":\"%s\"}}\n", why);
    end_soon(s);
}

/* ---------------------------------------------------------------- life */

static const struct subscriber_ops ops = {.is_writable = is_writable,
                                          .events = on_events,
                                          .gap = on_gap,
                                          .position = on_position,
                                          .flush = on_flush,
                                          .ended = on_ended};

static void on_gone(struct http_request *r)
{
    struct stream *s = r->state;
    subscriptions_forget(s->all, &s->subscriber);
    if (s->timer)
        event_free(s->timer);
    if (s->out)
        evbuffer_free(s->out);
    mem_free(s);
}

/* The next of: the end of its time, a sign of life. */
static void start_timer(struct stream *s)
{
    int64_t now = clock_mono_ns(),
            next = s->format == STREAM_SSE ? s->sent_ns + KEEP_ALIVE_S * NS_PER_S : INT64_MAX;
    next = s->until_ns < next ? s->until_ns : next;
    if (next == INT64_MAX)
        return;
    int64_t us = next > now ? (next - now) / 1000 + 1 : 1;
    const struct timeval in = {us / 1000000, us % 1000000};
    (void)evtimer_add(s->timer, &in); /* without memory: until the client leaves */
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct stream *s = arg;
    int64_t now = clock_mono_ns();
    (void)fd, (void)what; /* a timer's */
    if (s->is_over)
        return;
    if (now >= s->until_ns) {
        end_soon(s);
        return;
    }
    if (s->format == STREAM_SSE && now >= s->sent_ns + KEEP_ALIVE_S * NS_PER_S &&
        is_writable(&s->subscriber)) {
        http_send(s->request, SLICE_LIT(":\n\n"));
        s->sent_ns = now;
    }
    start_timer(s);
}

/* ---------------------------------------------------------------- what is asked for */

/* Our own parameters, which a subscription does not have. false: answered. */
static bool read_own(struct http_request *r, struct stream *s)
{
    struct slice text;
    int64_t timeout_ns;
    s->left = UINT64_MAX;
    s->until_ns = INT64_MAX;
    if (http_query_take(&r->query, "count", &text) && (num_parse_uint(text, &s->left) < 0 || s->left == 0)) {
        http_problem(r, 400, "count: how many events, from 1 on");
        return false;
    }
    if (s->left != UINT64_MAX && s->format == STREAM_BINARY) {
        http_problem(r, 400, "count: blocks of format=binary are not cut; ask for a text format");
        return false;
    }
    if (http_query_take(&r->query, "timeout", &text)) {
        if (num_parse_duration(text, &timeout_ns) < 0 || timeout_ns <= 0) {
            http_problem(r, 400, "timeout: a time, as 500ms or 10s");
            return false;
        }
        int64_t now = clock_mono_ns();
        s->until_ns = timeout_ns < INT64_MAX - now ? now + timeout_ns : INT64_MAX;
    }
    if (http_query_take(&r->query, "positions", &text))
        s->has_positions = slice_eq_str(text, "true") && s->format == STREAM_NDJSON;
    return true;
}

/* The rest of the query is the subscription's. false: answered. */
static bool read_options(struct http_request *r, struct stream *s, struct subscription_options *o)
{
    static const char *const chunk_names[FORMATS] = {"ndjson", "ndjson", "ulm", "bp", "xml", "binary"};
    struct slice last = http_header(r, "Last-Event-ID");
    for (size_t i = 0; i < r->query.n; i++)
        if (!subscription_option(o, r->query.params[i].name, r->query.params[i].value)) {
            http_problem(
                r, 400,
                "%.*s is no parameter here; there are event, host, where, on_change, cross, delta, every, "
                "period, format, from, queue, durable, hold, count, timeout, positions",
                SLICE_ARG(r->query.params[i].name));
            return false;
        }
    if (last.n) /* it was sent again by itself: newer than the address */
        o->from = last;
    o->from = api_position_from(o->from, s->journal, &s->is_elsewhere);
    o->format = slice_str(chunk_names[s->format]);
    return true;
}

static bool make_parts(struct stream *s, struct http_request *r)
{
    s->request = r;
    s->all = r->options->subscriptions;
    s->journal = subscriptions_journal(s->all);
    s->subscriber = (struct subscriber){.ops = &ops, .who = r->who, .name = r->peer};
    s->sent_ns = clock_mono_ns();
    s->out = evbuffer_new();
    s->timer = evtimer_new(r->options->base, on_timer, s);
    return s->out && s->timer;
}

static void begin(struct http_request *r, struct stream *s, const struct subscription_options *o)
{
    char position[API_POSITION_MAX];
    struct position at;
    struct diag why = {0};
    int e = subscriptions_add(s->all, &s->subscriber, 1, o, &at, &why);
    if (e < 0) {
        http_problem_error(r, e, &why);
        return;
    }
    (void)api_position_print(position, s->journal, at);
    http_set_header(r, "Gridline-Position", position);
    if (why.message[0]) /* less than was asked for */
        http_set_header(r, "Gridline-Notice", why.message);
    http_start(r, 200, formats[s->format].mime);
    if (s->format == STREAM_XML)
        http_send(r, SLICE_LIT("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                               "<events xmlns=\"" XML_NAMESPACE "\">\n"));
    if (s->is_elsewhere) { /* what lay between nobody knows */
        on_gap(&s->subscriber, 1, &(struct subscription_gap){.reason = GAP_GONE, .to = at});
        on_flush(&s->subscriber);
    }
    start_timer(s);
    if (r->is_head)
        end_soon(s);
}

static void open_stream(struct http_request *r, struct slice events)
{
    struct subscription_options o = {.select = {.events = events}};
    int format = api_choose_format(r, formats, FORMATS);
    if (format < 0 || !http_be_stream(r))
        return;
    struct stream *s = mem_try_alloc(sizeof *s);
    if (!s) {
        http_problem(r, 503, "the gateway is out of memory");
        return;
    }
    s->format = (enum stream_format)format;
    r->state = s;
    r->gone = on_gone;
    r->drained = on_drained;
    if (!make_parts(s, r))
        http_problem(r, 503, "the gateway is out of memory");
    else if (read_own(r, s) && read_options(r, s, &o))
        begin(r, s, &o);
}

void api_events(struct http_request *r)
{
    if (r->method == HTTP_POST)
        api_publish(r);
    else
        open_stream(r, SLICE_LIT(""));
}

/* Events, but of the directory: it takes both rights. */
void api_watch(struct http_request *r)
{
    if (!access_check(r->who, ACCESS_LOOKUP, SLICE_LIT(""), SLICE_LIT(""))) {
        http_problem_control(r, CONTROL_NOT_ALLOWED, SLICE_LIT("you may not look at the directory here"));
        return;
    }
    open_stream(r, SLICE_LIT("worker.state,directory.sensor,directory.schema"));
}
