/* SPDX-License-Identifier: Apache-2.0 */
/* A request goes: evhttp has read it whole -> is it for us (Host, Origin)? -> is there such a path? -> who
 * asks (token, certificate, address)? -> parameters -> the endpoint, which asks access.h by way of control
 * and subscriptions.
 *
 * What evhttp refuses by itself (a head that is too large or no HTTP, a body that is too large) it answers by
 * itself, with a status and a page of its own, and closes the connection.
 *
 * evhttp and lifetimes: when a client leaves while its request is answered, evhttp takes the request off the
 * connection and leaves it to us to free; when the answer has been handed over whole, it is evhttp's. */
#include "gateway/http.h"

#include "base/clock.h"
#include "base/mem.h"
#include "event/json.h"
#include "gateway/http_host.h"
#include "gateway/http_internal.h"
#include "net/listen.h"

#include <errno.h>
#include <event2/keyvalq_struct.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/queue.h>
#include <unistd.h>

enum { BACKLOG = 128, TLS_AGAIN_S = 3600 };

/* ---------------------------------------------------------------- the end of a request */

static void log_request(const struct http_request *r)
{
    char who[ACCESS_NAME_MAX + 32];
    struct slice path = log_safe(r->path);
    if (!r->options->has_log)
        return;
    size_t n = access_print(who, sizeof who, &r->identity);
    log_info("http #%" PRIu64 " %s %.*s: %s %.*s: %u in %" PRId64 " us", r->id, r->peer, (int)n, who,
             r->is_head              ? "HEAD"
             : r->method == HTTP_GET ? "GET"
                                     : "POST",
             SLICE_ARG(path), r->status, (clock_mono_ns() - r->began_ns) / 1000);
}

/* Frees ours; evhttp's is somebody else's by now. */
static void destroy(struct http_request *r)
{
    struct http *h = r->http;
    if (r->gone)
        r->gone(r);
    log_request(r);
    if (r->is_stream)
        h->counts.streams--;
    if (r->connection)
        r->connection->request = NULL;
    if (r->wake)
        event_free(r->wake);
    http_query_fini(&r->query);
    mem_free(r);
}

void request_gone(struct http_request *r)
{
    struct evhttp_request *e = r->evhttp;
    r->status = r->status ? r->status : 499; /* for the log: the client has left */
    destroy(r);
    if (!evhttp_request_get_connection(e))
        evhttp_request_free(e);
}

/* The answer was handed over; what is left is evhttp's work. */
static void complete(struct http_request *r)
{
    connection_phase(r->connection, PHASE_WRITING);
    destroy(r);
}

/* evhttp has written all of it, and reads on. */
static void on_complete(struct evhttp_request *e, void *arg)
{
    struct http_connection *c = arg;
    (void)e;
    bool has_more = evbuffer_get_length(bufferevent_get_input(c->io)) > 0;
    connection_phase(c, has_more ? PHASE_READING : PHASE_IDLE);
}

static void on_close(struct evhttp_connection *of, void *arg)
{
    (void)of;
    connection_gone(arg);
}

/* ---------------------------------------------------------------- answers */

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
    http_set_header(r, "Gridline-Request", id);
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
    complete(r);
    evhttp_send_reply(e, status, phrase(status), buffer);
    if (buffer)
        evbuffer_free(buffer);
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
    complete(r);
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

struct http_counts *http_count(struct http *h)
{
    return &h->counts;
}

struct http_sums *http_sums(struct http *h)
{
    return &h->sums;
}

/* ---------------------------------------------------------------- a request */

static size_t count_headers(const struct evkeyvalq *headers, const char *name)
{
    size_t n = 0;
    const struct evkeyval *one;
    TAILQ_FOREACH(one, headers, next)
    n += evutil_ascii_strcasecmp(one->key, name) == 0;
    return n;
}

/* false: refused, and said so. */
static bool is_for_us(struct http_request *r)
{
    const struct http *h = r->http;
    const struct evkeyvalq *headers = evhttp_request_get_input_headers(r->evhttp);
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(r->evhttp);
    const char *names[] = {h->host, h->options.names, h->tls ? tls_server_name(h->tls) : NULL};
    struct slice host = http_header(r, "Host"), site = http_header(r, "Sec-Fetch-Site");
    if (evhttp_uri_get_scheme(uri) || evhttp_uri_get_host(uri) || count_headers(headers, "Host") != 1) {
        http_problem(r, 400, "a request names its host once, in the header Host; this is no proxy");
        return false;
    }
    if (!http_host_is_ours(host, names, sizeof names / sizeof *names)) {
        http_problem(
            r, 421,
            "this gateway does not have the name in the header Host; use its own name or address, or add "
            "the name to http_names in its configuration");
        return false;
    }
    if (http_origin_is_ours(http_header(r, "Origin"), host) && !slice_eq_str(site, "cross-site") &&
        !slice_eq_str(site, "same-site"))
        return true;
    http_problem(r, 403, "a page of another site asks; only pages of this gateway may, and programs");
    return false;
}

/* Who asks. false: a token that is nobody's, or the like; said so. */
static bool identify(struct http_request *r)
{
    struct slice token;
    int found = http_token_find(http_header(r, "Authorization"), http_header(r, "Cookie"), &token);
    int known = connection_identify(r->connection, &r->identity);
    bool is_over = r->identity.not_after_ns && r->identity.not_after_ns < clock_utc_ns();
    if (known < 0 || is_over) {
        http_problem(r, 401, "the certificate %s; renew it with `gridline join`",
                     is_over ? "has expired" : "is not one of this site's");
        return false;
    }
    if (found == E_NODATA)
        return true;
    if (found == 0 && http_token_same(token, slice_str(r->http->token))) {
        r->identity = (struct access_identity){
            .kind = ACCESS_OWNER, .uid = UINT32_MAX, .table = r->options->access, .interface = "http"};
        return true;
    }
    if (found == 0 && access_by_token(r->options->access, token, &r->identity) == 0) {
        r->identity.interface = "http";
        return true;
    }
    http_problem(r, 401, "the token is not known here; the owner's is in the file http.token of the gateway");
    return false;
}

/* A part of the route's path in braces is any part that is not empty. */
static bool is_path(struct slice path, const char *route)
{
    size_t at = 0;
    for (; *route && at < path.n; route++) {
        if (*route != '{') {
            if (path.p[at++] != *route)
                return false;
            continue;
        }
        size_t from = at;
        while (at < path.n && path.p[at] != '/')
            at++;
        route += strcspn(route, "}");
        if (at == from)
            return false;
    }
    return !*route && at == path.n;
}

/* NULL: answered. */
static const struct http_route *find_route(struct http_request *r)
{
    for (const struct http_route *one = api_routes; one->path; one++) {
        if (!is_path(r->path, one->path))
            continue;
        if (one->methods & r->method)
            return one;
        http_set_header(r, "Allow",
                        one->methods == HTTP_POST                ? "POST"
                        : one->methods == (HTTP_GET | HTTP_POST) ? "GET, HEAD, POST"
                                                                 : "GET, HEAD");
        http_problem(r, 405, "this address does not take that method; the header Allow says which it takes");
        return NULL;
    }
    http_problem(r, 404, "there is nothing here; /api/v1/openapi.json lists what there is");
    return NULL;
}

/* Method and address. false: answered. */
static bool read_head(struct http_request *r)
{
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(r->evhttp);
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
    enum evhttp_cmd_type type = evhttp_request_get_command(r->evhttp);
    r->path = path ? slice_str(path) : SLICE_LIT("");
    r->is_head = type == EVHTTP_REQ_HEAD;
    r->method = type == EVHTTP_REQ_POST                             ? HTTP_POST
                : type == EVHTTP_REQ_GET || type == EVHTTP_REQ_HEAD ? HTTP_GET
                                                                    : (enum http_method)0;
    if (strlen(evhttp_request_get_uri(r->evhttp)) <= HTTP_URL_MAX)
        return true;
    r->path = SLICE_LIT("");
    http_problem(r, 414, "the address is longer than %d bytes", HTTP_URL_MAX);
    return false;
}

static bool read_query(struct http_request *r)
{
    const char *query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(r->evhttp));
    struct diag why = {0};
    int e = http_query_parse(query ? slice_str(query) : SLICE_LIT(""), &r->query, &why);
    if (e == 0)
        return true;
    http_problem_error(r, e, &why);
    return false;
}

static void read_body(struct http_request *r)
{
    struct evbuffer *input = evhttp_request_get_input_buffer(r->evhttp);
    size_t n = evbuffer_get_length(input);
    const unsigned char *p = n ? evbuffer_pullup(input, -1) : NULL;
    r->body = p ? slice_of((const char *)p, n) : SLICE_LIT("");
}

static void serve(struct http_request *r)
{
    struct http *h = r->http;
    uint64_t refused = h->counts.replies[4];
    if (!read_head(r))
        return;
    if (h->is_closing) {
        http_problem(r, 503, "the gateway is stopping");
        return;
    }
    if (!is_for_us(r) || !identify(r)) { /* r is gone */
        h->counts.refused += h->counts.replies[4] - refused;
        return;
    }
    const struct http_route *route = find_route(r);
    if (!route || !read_query(r)) /* as before */
        return;
    r->route = route;
    read_body(r);
    route->run(r);
}

static void on_request(struct evhttp_request *e, void *arg)
{
    struct http *h = arg;
    struct http_connection *c = connection_find(h, e);
    struct http_request *r = c ? mem_try_alloc(sizeof *r) : NULL;
    if (!r) { /* no memory, for this or for its connection */
        evhttp_send_error(e, 503, NULL);
        return;
    }
    if (!c->has_close_callback)
        evhttp_connection_set_closecb(evhttp_request_get_connection(e), on_close, c);
    c->has_close_callback = true;
    evhttp_request_set_on_complete_cb(e, on_complete, c);
    connection_phase(c, PHASE_ANSWERING);
    h->counts.requests++;
    r->http = h;
    r->options = &h->options;
    r->connection = c;
    r->evhttp = e;
    r->who = &r->identity;
    r->peer = c->name;
    r->id = ++h->next_id;
    r->began_ns = clock_mono_ns();
    c->request = r;
    serve(r);
}

/* ---------------------------------------------------------------- listening */

/* Out of descriptors, mostly: without a pause the loop would spin on a queue that it can't empty. */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
    (void)arg; /* evhttp's */
    log_error("http: %s: nobody new is taken for a second", err_text(-EVUTIL_SOCKET_ERROR()));
    (void)evconnlistener_disable(listener); /* the sweep enables it */
}

static int bind_to(struct http *h, const struct addrinfo *at)
{
    const unsigned flags = LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE;
    errno = 0;
    h->listener = evconnlistener_new_bind(h->options.base, NULL, NULL, flags, BACKLOG, at->ai_addr,
                                          (int)at->ai_addrlen);
    if (!h->listener)
        return errno ? -errno : -ENOMEM;
    evconnlistener_set_error_cb(h->listener, on_accept_error);
    if (evhttp_bind_listener(h->evhttp, h->listener))
        return 0;
    evconnlistener_free(h->listener);
    h->listener = NULL;
    return -ENOMEM;
}

static int listen_on(struct http *h, struct diag *why)
{
    const char *address = strstr(h->options.address, "://");
    struct addrinfo *found;
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    address = address ? address + 3 : h->options.address;
    int r = listen_resolve(slice_str(address), SOCK_STREAM, &found, why);
    if (r < 0)
        return r;
    bool may = h->tls || h->options.is_insecure || listen_is_loopback(found->ai_addr);
    r = may ? bind_to(h, found) : 0;
    freeaddrinfo(found);
    if (!may)
        return diag_set(why, -EACCES, 0,
                        "http address %s is not a loopback address: other hosts need https://%s, or "
                        "`insecure = true`",
                        address, address);
    if (r < 0)
        return diag_set(why, r, 0, "http address %s: %s", address, err_text(r));
    strbuf_add_str(&h->address, h->tls ? "https://" : "http://");
    if (getsockname(evconnlistener_get_fd(h->listener), (struct sockaddr *)&bound, &len) == 0)
        listen_print((const struct sockaddr *)&bound, len, &h->address);
    return strbuf_failed(&h->address) ? diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM)) : 0;
}

static void reload_certificate(struct http *h)
{
    struct diag why = {0};
    if (!h->tls || clock_utc_ns() < h->tls_again_ns)
        return;
    h->tls_again_ns = clock_utc_ns() + TLS_AGAIN_S * NS_PER_S;
    if (tls_server_reload(h->tls, &why) < 0)
        log_error("http: our own certificate: %s", why.message);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
    struct http *h = arg;
    (void)fd, (void)what; /* a timer's */
    connections_sweep(h, clock_mono_ns());
    reload_certificate(h);
    if (!h->is_closing)
        (void)evconnlistener_enable(h->listener);
}

static int make_server(struct http *h, struct diag *why)
{
    static const struct timeval each_second = {1, 0};
    const ev_uint16_t methods = EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD | EVHTTP_REQ_PUT |
                                EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS |
                                EVHTTP_REQ_PATCH; /* for a 405 of ours */
    h->evhttp = evhttp_new(h->options.base);
    h->look = event_new(h->options.base, -1, 0, connections_look, h);
    h->sweep = event_new(h->options.base, -1, EV_PERSIST, on_sweep, h);
    if (!h->evhttp || !h->look || !h->sweep || event_add(h->sweep, &each_second) < 0)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    evhttp_set_bevcb(h->evhttp, connections_new, h);
    evhttp_set_gencb(h->evhttp, on_request, h);
    evhttp_set_max_headers_size(h->evhttp, HTTP_HEADERS_MAX);
    evhttp_set_max_body_size(h->evhttp, HTTP_BODY_MAX);
    evhttp_set_allowed_methods(h->evhttp, methods);
    evhttp_set_default_content_type(h->evhttp, NULL);
    return 0;
}

int http_create(const struct http_options *o, struct http **out, struct diag *why)
{
    struct http *h = mem_alloc(sizeof *h);
    h->options = *o;
    if (gethostname(h->host, sizeof h->host - 1) < 0)
        h->host[0] = '\0'; /* it has other names */
    int r = o->token_file && *o->token_file ? http_token_open(o->token_file, h->token, why) : 0;
    if (r == 0 && slice_starts(slice_str(o->address), SLICE_LIT("https://")))
        r = tls_server_create(o->identity ? o->identity : "", &h->tls, why);
    h->tls_again_ns = clock_utc_ns() + TLS_AGAIN_S * NS_PER_S;
    if (r == 0)
        r = make_server(h, why);
    if (r == 0)
        r = listen_on(h, why);
    if (r < 0) {
        http_destroy(h);
        return r;
    }
    log_info("HTTP on %s", h->address.p);
    *out = h;
    return 0;
}

void http_shut_down(struct http *h)
{
    h->is_closing = true;
    (void)evconnlistener_disable(h->listener);
    for (struct http_connection *c = h->first, *next; c; c = next) {
        next = c->next;
        if (!c->request)
            connection_close(c);
        else if (c->request->is_stream && c->request->is_started)
            http_end(c->request);
    }
}

void http_destroy(struct http *h)
{
    if (!h)
        return;
    h->is_closing = true;
    if (h->evhttp)
        evhttp_free(h->evhttp); /* with its listener and connections */
    connections_destroy_all(h);
    if (h->look)
        event_free(h->look);
    if (h->sweep)
        event_free(h->sweep);
    tls_server_destroy(h->tls);
    strbuf_fini(&h->address);
    mem_free(h);
}

const char *http_address(const struct http *h)
{
    return h->address.p;
}

void http_counts(const struct http *h, struct http_counts *out)
{
    *out = h->counts;
}
