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

#include "base/child.h"
#include "base/clock.h"
#include "base/mem.h"
#include "gateway/http_internal.h"
#include "net/listen.h"
#include "pki/folder.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
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
             r->is_head                 ? "HEAD"
             : r->method == HTTP_GET    ? "GET"
             : r->method == HTTP_DELETE ? "DELETE"
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
void request_complete(struct http_request *r)
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

/* ---------------------------------------------------------------- what endpoints ask of the server */

bool http_test_begins(struct http *h)
{
    bool may = !h->is_testing;
    h->is_testing = true;
    return may;
}

void http_test_ended(struct http *h)
{
    h->is_testing = false;
}

struct sign_in *http_sign_in(struct http *h)
{
    return h->sign_in;
}

void http_keep_sessions(struct http *h)
{
    int r = sign_in_save(h->sign_in, clock_mono_ns(), clock_utc_ns());
    if (r < 0 && !h->is_forgetful)
        log_error("%s: %s; who is signed in now will not be after a restart", h->options.sessions_file,
                  err_text(r));
    h->is_forgetful = r < 0;
}

bool http_is_secure(const struct http_request *r)
{
    return r->http->tls != NULL;
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

/* NULL: there is none. */
static const struct http_route *find_route(const struct http_request *r)
{
    const struct http_route *one = api_routes;
    while (one->path && !is_path(r->path, one->path))
        one++;
    return one->path ? one : NULL;
}

/* false: answered. */
static bool is_there(struct http_request *r, const struct http_route *route)
{
    if (!route) {
        http_problem(r, 404, "there is nothing here; /api/v1/openapi.json lists what there is");
        return false;
    }
    if (route->methods & r->method)
        return true;
    static const char *const allow[] = {
        [HTTP_GET] = "GET, HEAD",
        [HTTP_POST] = "POST",
        [HTTP_GET | HTTP_POST] = "GET, HEAD, POST",
        [HTTP_GET | HTTP_POST | HTTP_DELETE] = "GET, HEAD, POST, DELETE",
    };
    http_set_header(r, "Allow", allow[route->methods & ~(unsigned)HTTP_ANYBODY]);
    http_problem(r, 405, "this address does not take that method; the header Allow says which it takes");
    return false;
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
                : type == EVHTTP_REQ_DELETE                         ? HTTP_DELETE
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
    const struct http_route *route = find_route(r);
    if (!request_is_for_us(r, route) || !request_identify(r, route)) { /* r is gone */
        h->counts.refused += h->counts.replies[4] - refused;
        return;
    }
    if (!is_there(r, route) || !request_is_no_form(r) || !read_query(r)) /* as before */
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

/* As people reach it: who listens at all addresses is called by its name. */
static int add_page(struct http *h, struct diag *why)
{
    static const char *const all[] = {"http://0.0.0.0", "https://0.0.0.0", "http://[::]", "https://[::]"};
    const char *address = h->address.p, *port = strrchr(address, ':');
    strbuf_add_str(&h->page, address);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if ((size_t)(port - address) != strlen(all[i]) || strncmp(address, all[i], strlen(all[i])) != 0)
            continue;
        strbuf_reset(&h->page);
        strbuf_printf(&h->page, "%s://%s%s", h->tls ? "https" : "http",
                      h->tls ? tls_server_name(h->tls) : h->host, port);
    }
    h->sign_in_verb =
        (struct sign_in_verb){.keys = h->sign_in, .address = h->options.assets ? h->page.p : NULL};
    int r = strbuf_failed(&h->page) ? -ENOMEM : sign_in_verb_add(h->options.control, &h->sign_in_verb);
    return r < 0 ? diag_set(why, r, 0, "%s", err_text(r)) : 0;
}

/* Who was signed in before the restart still is. What is wrong with the file keeps nobody from starting. */
static void open_sessions(struct http *h)
{
    const struct http_options *o = &h->options;
    struct strbuf site = {0};
    struct diag why = {0};
    if (!o->sessions_file || !*o->sessions_file)
        return;
    if (o->identity && *o->identity && folder_get(o->identity, "ca.pem", 0, &site, &why) < 0)
        strbuf_reset(&site); /* then there are no certificates, and whoever needs it says so */
    const struct sign_in_kept kept = {.path = o->sessions_file,
                                      .table = o->access,
                                      .owner = slice_str(h->token),
                                      .site = strbuf_slice(&site),
                                      .now_ns = clock_mono_ns(),
                                      .utc_ns = clock_utc_ns()};
    if (sign_in_keep(h->sign_in, &kept, &why) < 0)
        log_error("%s; who was signed in has to do it again", why.message);
    strbuf_fini(&site);
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
    (void)child_settle(0); /* tests whose clients have left */
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
    if (r == 0 && compressor_create("gzip", &h->gzip) < 0)
        r = diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    if (r == 0)
        r = make_server(h, why);
    h->sign_in = sign_in_create();
    if (r == 0 && !h->sign_in)
        r = diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    if (r == 0)
        open_sessions(h);
    if (r == 0)
        r = listen_on(h, why);
    if (r == 0)
        r = add_page(h, why);
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
    (void)child_settle(CHILD_GRACE);
    if (h->look)
        event_free(h->look);
    if (h->sweep)
        event_free(h->sweep);
    tls_server_destroy(h->tls);
    compressor_destroy(h->gzip);
    sign_in_destroy(h->sign_in);
    strbuf_fini(&h->page);
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
