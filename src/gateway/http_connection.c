/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of the HTTP server: how many, of whom, and for how long.
 *
 * Time: evhttp's own limit begins anew with each byte; a request must be whole HTTP_REQUEST_S after its first
 * byte, so the input buffer's callback notes when that was, and a sweep a second looks at all. A connection
 * is ended by telling evhttp that it broke, which works in every state it can be in. */
#include "gateway/http_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/listen.h"

#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdio.h>

/* A body waits in the input buffer until it is whole. */
enum { INPUT_MAX = HTTP_BODY_MAX + (64 << 10), KEEPALIVE_IDLE_S = 60 };

void connection_phase(struct http_connection *c, enum connection_phase phase)
{
    c->phase = (uint8_t)phase;
    c->since_ns = clock_mono_ns();
}

static void on_input(struct evbuffer *input, const struct evbuffer_cb_info *info, void *arg)
{
    struct http_connection *c = arg;
    (void)input;
    if (info->n_added && (c->phase == PHASE_NEW || c->phase == PHASE_IDLE))
        connection_phase(c, PHASE_READING);
}

static void on_output(struct evbuffer *output, const struct evbuffer_cb_info *info, void *arg)
{
    struct http_connection *c = arg;
    const struct http_request *r = c->request;
    if (info->n_deleted == 0)
        return;
    if (c->phase == PHASE_WRITING)
        c->since_ns = clock_mono_ns();
    /* Not from here, which is inside of the write. */
    if (r && r->drained && r->wake && evbuffer_get_length(output) <= HTTP_OUTPUT_LOW)
        event_active(r->wake, EV_TIMEOUT, 0);
}

static void release(struct http_connection *c)
{
    struct http *h = c->http;
    *(c->previous ? &c->previous->next : &h->first) = c->next;
    *(c->next ? &c->next->previous : &h->last) = c->previous;
    h->counts.connections--;
    (void)evbuffer_remove_cb(bufferevent_get_input(c->io), on_input, c);
    (void)evbuffer_remove_cb(bufferevent_get_output(c->io), on_output, c);
    (void)bufferevent_decref(c->io); /* whether it was the last is not our concern */
    mem_free(c);
}

void connection_gone(struct http_connection *c)
{
    if (c->request)
        request_gone(c->request);
    release(c);
}

/* Has evhttp freed it? */
static bool is_over(const struct http_connection *c)
{
    bufferevent_event_cb event = NULL;
    bufferevent_getcb(c->io, NULL, NULL, &event, NULL);
    return c->is_looked_at && !event;
}

static void drop_those_over(struct http *h)
{
    for (struct http_connection *c = h->first, *next; c; c = next) {
        next = c->next;
        if (is_over(c))
            connection_gone(c);
    }
}

void connection_close(struct http_connection *c)
{
    /* c may be gone afterwards: by its close callback. Without one it is found over, later. */
    bufferevent_trigger_event(c->io, BEV_EVENT_READING | BEV_EVENT_EOF, 0);
}

/* ---------------------------------------------------------------- new ones */

static struct bufferevent *make_io(const struct http *h, struct event_base *base)
{
    const enum bufferevent_options options = BEV_OPT_CLOSE_ON_FREE;
    if (!h->tls)
        return bufferevent_socket_new(base, -1, options);
    SSL *ssl = tls_server_ssl(h->tls);
    struct bufferevent *io =
        ssl ? bufferevent_openssl_socket_new(base, -1, ssl, BUFFEREVENT_SSL_ACCEPTING, options) : NULL;
    if (ssl && !io)
        SSL_free(ssl);
    if (io)
        bufferevent_openssl_set_allow_dirty_shutdown(io, 1); /* lengths say where a request ends */
    return io;
}

/* NULL, for want of memory: evhttp makes a plain one then, which connection_find does not know: nothing is
 * answered on it. */
struct bufferevent *connections_new(struct event_base *base, void *arg)
{
    struct http *h = arg;
    struct http_connection *c = mem_try_alloc(sizeof *c);
    struct bufferevent *io = c ? make_io(h, base) : NULL;
    if (!io) {
        mem_free(c);
        return NULL;
    }
    c->http = h;
    c->io = io;
    c->is_tls = h->tls != NULL;
    c->previous = h->last;
    *(h->last ? &h->last->next : &h->first) = c;
    h->last = c;
    h->counts.connections++;
    h->counts.accepted++;
    connection_phase(c, PHASE_NEW);
    bufferevent_incref(io);
    bufferevent_setwatermark(io, EV_READ, 0, INPUT_MAX);
    if (!evbuffer_add_cb(bufferevent_get_input(io), on_input, c) ||
        !evbuffer_add_cb(bufferevent_get_output(io), on_output, c))
        c->since_ns = 0;                  /* no memory to watch it: its time is over */
    event_active(h->look, EV_TIMEOUT, 0); /* the socket comes after this call */
    return io;
}

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    if (a->ss_family != b->ss_family)
        return false;
    if (a->ss_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)(const void *)b)->sin_addr.s_addr;
    /* Of IPv6 the network: its hosts have as many addresses as they like. */
    return memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr, 8) == 0;
}

static size_t count_address(const struct http *h, const struct sockaddr_storage *address)
{
    size_t n = 0;
    for (const struct http_connection *c = h->first; c; c = c->next)
        n += c->is_looked_at && same_address(&c->peer, address);
    return n;
}

/* An answer that needs no reading of what was asked, before the end. */
static void turn_away(struct http_connection *c, evutil_socket_t fd)
{
    static const char answer[] =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\nContent-Length: 0\r\n"
        "Connection: close\r\n\r\n";
    struct http *h = c->http;
    h->counts.turned_away++;
    if (!c->is_tls)
        (void)send(fd, answer, sizeof answer - 1, MSG_DONTWAIT | MSG_NOSIGNAL); /* if it goes, it goes */
    log_info("http: %s turned away: too many connections", c->name);
    connection_close(c);
}

static void look_at(struct http_connection *c)
{
    struct http *h = c->http;
    evutil_socket_t fd = bufferevent_getfd(c->io);
    socklen_t len = sizeof c->peer;
    struct strbuf name = {0};
    c->is_looked_at = true;
    if (fd < 0 || getpeername(fd, (struct sockaddr *)&c->peer, &len) < 0) { /* gone already */
        connection_close(c);
        return;
    }
    c->is_local = listen_is_loopback((const struct sockaddr *)&c->peer);
    listen_print((const struct sockaddr *)&c->peer, len, &name);
    (void)snprintf(c->name, sizeof c->name, "%.*s", SLICE_ARG(strbuf_slice(&name))); /* cut to fit is fine */
    strbuf_fini(&name);
    /* Slower without, or noticed later, not wrong. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){KEEPALIVE_IDLE_S}, sizeof(int));
    if (h->counts.connections > HTTP_CONNECTIONS_MAX || count_address(h, &c->peer) > HTTP_ADDRESS_MAX)
        turn_away(c, fd);
}

void connections_look(evutil_socket_t fd, short what, void *arg)
{
    struct http *h = arg;
    (void)fd, (void)what; /* a timer's */
    drop_those_over(h);
    for (struct http_connection *c = h->first, *next; c; c = next) {
        next = c->next;
        if (!c->is_looked_at)
            look_at(c);
    }
}

/* ---------------------------------------------------------------- time */

static bool is_late(const struct http_connection *c, int64_t now_ns)
{
    static const int64_t limits_s[] = {[PHASE_NEW] = HTTP_REQUEST_S,
                                       [PHASE_READING] = HTTP_REQUEST_S,
                                       [PHASE_WRITING] = HTTP_REQUEST_S,
                                       [PHASE_IDLE] = HTTP_IDLE_S};
    return c->phase != PHASE_ANSWERING && now_ns - c->since_ns > limits_s[c->phase] * NS_PER_S;
}

void connections_sweep(struct http *h, int64_t now_ns)
{
    drop_those_over(h);
    for (struct http_connection *c = h->first, *next; c; c = next) {
        next = c->next;
        if (!is_late(c, now_ns))
            continue;
        h->counts.timed_out += c->phase != PHASE_IDLE;
        connection_close(c);
    }
}

void connections_destroy_all(struct http *h)
{
    while (h->first)
        connection_gone(h->first);
}

/* ---------------------------------------------------------------- who it is */

struct http_connection *connection_find(struct http *h, const struct evhttp_request *e)
{
    struct evhttp_connection *of = evhttp_request_get_connection((struct evhttp_request *)(uintptr_t)e);
    const struct bufferevent *io = of ? evhttp_connection_get_bufferevent(of) : NULL;
    for (struct http_connection *c = h->first; c; c = c->next)
        if (c->io == io)
            return c;
    return NULL;
}

int connection_identify(const struct http_connection *c, struct access_identity *out)
{
    static const enum access_kind kinds[] = {[TLS_NOBODY] = ACCESS_NOBODY,
                                             [TLS_AGENT] = ACCESS_AGENT,
                                             [TLS_GATEWAY] = ACCESS_GATEWAY,
                                             [TLS_OPERATOR] = ACCESS_OPERATOR};
    struct tls_identity who = {.role = TLS_NOBODY};
    *out = (struct access_identity){.uid = UINT32_MAX, .table = c->http->options.access, .interface = "http"};
    const SSL *ssl = c->is_tls ? bufferevent_openssl_get_ssl(c->io) : NULL;
    int r = ssl ? tls_identify_ssl(ssl, &who) : 0;
    if (r < 0)
        return r;
    out->kind = c->is_tls ? kinds[who.role] : ACCESS_INSECURE;
    if (who.role == TLS_NOBODY && c->is_local)
        out->kind = ACCESS_LOCAL;
    out->not_after_ns = who.not_after_ns;
    _Static_assert(sizeof out->name >= sizeof who.name, "a name fits");
    memcpy(out->name, who.name, sizeof who.name);
    return 0;
}
