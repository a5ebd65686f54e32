/* SPDX-License-Identifier: Apache-2.0 */
/* How a request is answered: heads, whole answers and problems, answers in pieces. */
#include "gateway/http_internal.h"

#include "event/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

struct slice http_header(const struct http_request *r, const char *name)
{
    const char *text = evhttp_find_header(evhttp_request_get_input_headers(r->evhttp), name);
    return text ? slice_str(text) : SLICE_LIT("");
}

void http_set_header(struct http_request *r, const char *name, const char *value)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(r->evhttp);
    (void)evhttp_remove_header(headers, name);
    (void)evhttp_add_header(headers, name, value); /* fails only without memory; then it is not said */
}

static const char *phrase(int status)
{
    static const struct {
        int status;
        const char *text;
    } all[] = {{200, "OK"},
               {304, "Not Modified"},
               {400, "Bad Request"},
               {401, "Unauthorized"},
               {403, "Forbidden"},
               {404, "Not Found"},
               {405, "Method Not Allowed"},
               {406, "Not Acceptable"},
               {409, "Conflict"},
               {413, "Content Too Large"},
               {414, "URI Too Long"},
               {415, "Unsupported Media Type"},
               {421, "Misdirected Request"},
               {422, "Unprocessable Content"},
               {503, "Service Unavailable"},
               {504, "Gateway Timeout"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].status == status)
            return all[i].text;
    return "Internal Server Error";
}

/* What every answer says: not for other sites, not for caches (unless its endpoint has said so), and what it
 * is. */
static void set_head(struct http_request *r, int status, const char *type)
{
    char id[24];
    (void)snprintf(id, sizeof id, "%" PRIu64, r->id); /* fits */
    r->status = (uint16_t)status;
    r->http->counts.replies[status / 100 % 6]++;
    http_set_header(r, "Content-Type", type);
    if (!evhttp_find_header(evhttp_request_get_output_headers(r->evhttp), "Cache-Control"))
        http_set_header(r, "Cache-Control", "no-store");
    http_set_header(r, "X-Content-Type-Options", "nosniff");
    http_set_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    if (!evhttp_find_header(evhttp_request_get_output_headers(r->evhttp), "Content-Security-Policy"))
        http_set_header(r, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
    http_set_header(r, "Gridline-Request", id);
}

bool http_takes_gzip(const struct http_request *r)
{
    struct slice accept = http_header(r, "Accept-Encoding"), name = SLICE_LIT("gzip"),
                 none = SLICE_LIT(";q=0");
    for (size_t i = 0; i + name.n <= accept.n; i++) {
        if (!slice_eq_nocase(slice_of(accept.p + i, name.n), name))
            continue;
        struct slice rest = slice_from(accept, i + name.n);
        bool is_refused = slice_starts(rest, none) && (rest.n == none.n || rest.p[none.n] != '.');
        return !is_refused;
    }
    return false;
}

void http_set_etag(struct http_request *r, const char *etag, bool is_packed)
{
    char weak[128];
    (void)snprintf(weak, sizeof weak, "W/%s", etag); /* fits: ours are short */
    http_set_header(r, "ETag", is_packed ? weak : etag);
}

bool http_has_etag(const struct http_request *r, const char *etag)
{
    struct slice have = http_header(r, "If-None-Match"), ours = slice_str(etag);
    if (slice_eq_str(have, "*"))
        return true;
    for (size_t i = 0; i + ours.n <= have.n; i++)
        if (slice_eq(slice_of(have.p + i, ours.n), ours))
            return true;
    return false;
}

void http_reply(struct http_request *r, int status, const char *type, struct slice body)
{
    struct evhttp_request *e = r->evhttp;
    char length[24];
    struct evbuffer *buffer = evbuffer_new();
    if (!buffer || (!r->is_head && evbuffer_add(buffer, body.p, body.n) < 0)) {
        status = 503;
        body = SLICE_LIT("");
    }
    (void)snprintf(length, sizeof length, "%zu", body.n); /* fits */
    set_head(r, status, type);
    if (status != 304) /* which would speak of what the client has */
        http_set_header(r, "Content-Length", length);
    request_complete(r);
    evhttp_send_reply(e, status, phrase(status), buffer);
    if (buffer)
        evbuffer_free(buffer);
}

/* false: it is not, and *out is empty. */
static bool pack(const struct http_request *r, struct slice body, struct strbuf *out)
{
    if (body.n < HTTP_PACK_MIN || body.n > HTTP_PACK_MAX || !http_takes_gzip(r) ||
        compressor_frame(r->http->gzip, body, out) < 0)
        return false;
    return out->n < body.n;
}

void http_reply_packed(struct http_request *r, const char *type, const char *etag, struct slice body)
{
    struct strbuf packed = {0};
    bool is_packed = pack(r, body, &packed);
    if (etag)
        http_set_etag(r, etag, is_packed);
    http_set_header(r, "Vary", "Authorization, Cookie, Accept-Encoding");
    if (is_packed)
        http_set_header(r, "Content-Encoding", "gzip");
    http_reply(r, 200, type, is_packed ? strbuf_slice(&packed) : body);
    strbuf_fini(&packed);
}

static void put_member(struct strbuf *out, const char *name, struct slice text)
{
    strbuf_printf(out, ",\"%s\":", name);
    json_add_string(out, text);
}

static void reply_problem(struct http_request *r, int status, struct slice detail)
{
    struct strbuf out = {0};
    strbuf_printf(&out, "{\"type\":\"about:blank\",\"status\":%d", status);
    put_member(&out, "title", slice_str(phrase(status)));
    put_member(&out, "detail", detail);
    put_member(&out, "instance", r->path);
    strbuf_printf(&out, ",\"request\":%" PRIu64 "}\n", r->id);
    if (status == 401)
        http_set_header(r, "WWW-Authenticate", "Bearer realm=\"gridline\"");
    if (status == 503)
        http_set_header(r, "Retry-After", "1");
    http_reply(r, status, "application/problem+json", strbuf_slice(&out));
    strbuf_fini(&out);
}

void http_problem(struct http_request *r, int status, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    reply_problem(r, status,
                  slice_of(text, n < 0                     ? 0
                                 : (size_t)n < sizeof text ? (size_t)n
                                                           : sizeof text - 1));
}

int http_status_of(uint16_t control_status)
{
    switch (control_status) {
    case CONTROL_DONE:
    case CONTROL_PARTLY: /* which the body says */
        return 200;
    case CONTROL_USAGE:
        return 400;
    case CONTROL_NOT_FOUND:
        return 404;
    case CONTROL_NOT_ALLOWED:
        return 403;
    default:
        return 503;
    }
}

void http_problem_control(struct http_request *r, uint16_t status, struct slice text)
{
    /* Somebody without a name may have one: a token. */
    bool is_unknown = r->identity.kind == ACCESS_NOBODY || r->identity.kind == ACCESS_INSECURE;
    int code = status == CONTROL_NOT_ALLOWED && is_unknown ? 401 : http_status_of(status);
    reply_problem(r, code, text.n ? text : slice_str("the gateway could not do that; try again"));
}

void http_problem_error(struct http_request *r, int error, const struct diag *why)
{
    uint16_t status = error == -EACCES                        ? CONTROL_NOT_ALLOWED
                      : error == E_PROTO || error == E_LIMIT  ? CONTROL_USAGE
                      : error == E_NODATA || error == -ENOENT ? CONTROL_NOT_FOUND
                                                              : CONTROL_FAILED;
    http_problem_control(r, status, slice_str(why && why->message[0] ? why->message : err_text(error)));
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct http_request *r = arg;
    (void)fd, (void)what; /* a timer's */
    if (r->is_ending)
        http_end(r);
    else if (r->drained)
        r->drained(r);
}

/* For answers that come in pieces or later. */
static bool make_wake(struct http_request *r)
{
    if (!r->wake)
        r->wake = evtimer_new(r->options->base, on_wake, r);
    return r->wake != NULL;
}

void http_start(struct http_request *r, int status, const char *type)
{
    (void)make_wake(r); /* without memory for it, back-pressure ends with the next piece */
    set_head(r, status, type);
    r->is_started = true;
    evhttp_send_reply_start(r->evhttp, status, phrase(status));
}

void http_send_buffer(struct http_request *r, struct evbuffer *piece)
{
    if (r->is_head)
        (void)evbuffer_drain(piece, evbuffer_get_length(piece));
    else
        evhttp_send_reply_chunk(r->evhttp, piece);
}

void http_send(struct http_request *r, struct slice piece)
{
    struct evbuffer *buffer = r->is_head || piece.n == 0 ? NULL : evbuffer_new();
    if (!buffer)
        return;
    if (evbuffer_add(buffer, piece.p, piece.n) == 0)
        evhttp_send_reply_chunk(r->evhttp, buffer);
    evbuffer_free(buffer);
}

void http_end(struct http_request *r)
{
    struct evhttp_request *e = r->evhttp;
    request_complete(r);
    evhttp_send_reply_end(e);
}

void http_abort(struct http_request *r)
{
    connection_close(r->connection);
}

void http_end_soon(struct http_request *r)
{
    r->is_ending = true;
    if (make_wake(r))
        event_active(r->wake, EV_TIMEOUT, 0);
    else
        connection_phase(r->connection, PHASE_WRITING); /* no memory: its time ends it */
}

/* evhttp does not read while a request is answered, and would not know what to do with bytes that come then:
 * they stay where they are until it reads on, up to the watermark. It does the same once it writes. */
void http_watch(struct http_request *r)
{
    struct bufferevent *io = r->connection->io;
    bufferevent_data_cb on_write = NULL;
    bufferevent_event_cb on_event = NULL;
    void *arg = NULL;
    bufferevent_getcb(io, NULL, &on_write, &on_event, &arg);
    bufferevent_setcb(io, NULL, on_write, on_event, arg);
    (void)bufferevent_enable(io,
                             EV_READ); /* without, the client's leaving is noticed when it is written to */
}

size_t http_waiting(const struct http_request *r)
{
    return evbuffer_get_length(bufferevent_get_output(r->connection->io));
}

bool http_be_stream(struct http_request *r)
{
    struct http *h = r->http;
    if (h->counts.streams >= HTTP_STREAMS_MAX || !make_wake(r)) {
        http_problem(r, 503, "%d streams are open, which is as many as there may be; try again later",
                     HTTP_STREAMS_MAX);
        return false;
    }
    h->counts.streams++;
    r->is_stream = true;
    /* Nothing more is asked on this connection: what comes all the same need not be kept. */
    http_set_header(r, "Connection", "close");
    bufferevent_setwatermark(r->connection->io, EV_READ, 0, HTTP_HEADERS_MAX);
    return true;
}
