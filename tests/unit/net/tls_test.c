/* SPDX-License-Identifier: Apache-2.0 */
/* TLS end to end in one thread: streams with the gateway's transport on a loop, against uplinks with the
 * module's. Nothing is faked: certificates are made by the site's own CA, sockets are real, and the reasons
 * that people read are checked on both ends. */
#include "unit/test.h"

#include "net/listen.h"
#include "net/secure.h"
#include "net/stream.h"
#include "net/tls.h"
#include "net/tls_link.h"
#include "net/uplink.h"
#include "unit/net/tls_site.h"

#include <errno.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

extern const struct secure_ops gridline_secure_ops;
static const struct secure_ops *const ops = &gridline_secure_ops;

enum { LINKS = 64, PATIENCE_S = 20, INPUT_MAX = 4 << 20 };
static const int64_t day_ns = 24 * 3600 * NS_PER_S;

/* ---------------------------------------------------------------- the gateway's side */

struct server;
struct link {
    struct server *server;
    struct stream *stream; /* NULL: ended */
    bool is_ready, is_resumed;
    struct tls_identity who;
    int error;
    char why[256];
};

struct server {
    struct event_base *base;
    struct stream_loop *loop;
    struct listener *listener;
    struct tls_server *tls;
    struct link links[LINKS];
    size_t n;
    size_t flood; /* bytes of frames that follow WELCOME */
};

/* Answers HELLO; everything else is swallowed. */
static size_t on_data(void *arg, struct slice data)
{
    struct link *l = arg;
    size_t at = slice_starts(data, SLICE_LIT("GRDL")) ? FRAME_GREETING : 0;
    struct frame f;
    int64_t n;
    while ((n = frame_read(slice_from(data, at), FRAME_PAYLOAD_MAX, &f)) > 0) {
        struct strbuf out = {0};
        struct frame_hello h;
        if (f.type == FRAME_HELLO && frame_get_hello(f.payload, &h) == 0)
            frame_put_welcome(&out,
                              &(struct frame_welcome){.session = 1, .window = 1 << 20, .t0_ns = h.t0_ns});
        if (f.type == FRAME_HELLO) {
            static const char zeros[16384];
            for (size_t sent = 0; sent < l->server->flood; sent += FRAME_HEAD + sizeof zeros)
                frame_put(&out, 200, 0, slice_of(zeros, sizeof zeros));
        }
        if (out.n)
            assert_int_equal(stream_send(l->stream, strbuf_slice(&out)), 0);
        strbuf_fini(&out);
        at += (size_t)n;
    }
    return at;
}

static void on_ready(void *arg)
{
    struct link *l = arg;
    l->is_ready = true;
    l->is_resumed = tls_is_resumed(stream_transport(l->stream));
    assert_int_equal(tls_identify(stream_transport(l->stream), &l->who), 0);
}

static void on_end(void *arg, int error, const char *why)
{
    struct link *l = arg;
    l->error = error;
    (void)snprintf(l->why, sizeof l->why, "%s", why);
    stream_destroy(l->stream);
    l->stream = NULL;
}

static const struct stream_ops callbacks = {.on_data = on_data, .on_ready = on_ready, .on_end = on_end};

static void on_accept(void *arg, evutil_socket_t fd, const struct listen_peer *peer)
{
    struct server *s = arg;
    assert_true(peer->is_tls && peer->is_local && !peer->is_unix);
    assert_true(s->n < LINKS);
    struct link *l = &s->links[s->n++];
    *l = (struct link){.server = s};
    assert_int_equal(stream_create(s->loop, fd, INPUT_MAX, &callbacks, l, &l->stream), 0);
    stream_set_transport(l->stream, &tls_server_transport, s->tls);
}

static void server_open(struct server *s, const char *dir)
{
    struct diag why = {0};
    *s = (struct server){.base = event_base_new()};
    s->loop = stream_loop_create(s->base);
    if (tls_server_create(dir, &s->tls, &why) < 0)
        fail_msg("tls_server_create: %s", why.message);
    assert_int_equal(
        listener_create(s->base, SLICE_LIT("tls://127.0.0.1:0"), 0, on_accept, s, &s->listener, &why), 0);
}

static void server_close(struct server *s)
{
    for (size_t i = 0; i < s->n; i++)
        stream_destroy(s->links[i].stream);
    listener_destroy(s->listener);
    tls_server_destroy(s->tls);
    stream_loop_destroy(s->loop);
    event_base_free(s->base);
}

static struct link *last(struct server *s)
{
    assert_true(s->n > 0);
    return &s->links[s->n - 1];
}

/* Runs the loop for a moment. */
static void turn(struct server *s)
{
    static const struct timeval moment = {0, 2000};
    (void)event_base_loopexit(s->base, &moment);
    assert_true(event_base_loop(s->base, EVLOOP_ONCE) >= 0);
}

/* Until a condition holds, which must be soon. */
#define UNTIL(server, condition)                                    \
    do {                                                            \
        int64_t until_ns = clock_mono_ns() + PATIENCE_S * NS_PER_S; \
        while (!(condition)) {                                      \
            turn(server);                                           \
            if (clock_mono_ns() > until_ns)                         \
                fail_msg("not in time: %s", #condition);            \
        }                                                           \
    } while (0)

/* ---------------------------------------------------------------- the agent's side */

struct dialler {
    struct secure *secure;
    struct uplink *link;
};

static int open_secure(struct dialler *d, const char *dir, const char *allowed)
{
    struct diag why = {0};
    int r = ops->open(dir, allowed, &d->secure, &why);
    if (r < 0)
        fail_msg("open %s: %s", dir, why.message);
    return r;
}

static void dial(struct dialler *d, const struct server *s)
{
    struct uplink_options o = {.host = "node1",
                               .prog = "test",
                               .role = PEER_AGENT,
                               .transport = ops->transport,
                               .transport_ctx = d->secure};
    o.origin.epoch = 1;
    struct diag why = {0};
    if (uplink_open(slice_str(listener_address(s->listener)), &o, &d->link, &why) < 0)
        fail_msg("uplink_open: %s", why.message);
}

static bool pump(struct dialler *d)
{
    (void)uplink_pump(d->link, clock_mono_ns());
    return uplink_is_ready(d->link);
}

static bool has_failed(struct dialler *d)
{
    return !pump(d) && uplink_why(d->link)[0];
}

static void hang_up(struct dialler *d)
{
    uplink_close(d->link);
    d->link = NULL;
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/* ---------------------------------------------------------------- tests */

static void an_agent_connects_and_then_resumes(void **state)
{
    (void)state;
    struct tls_site site;
    struct server s;
    struct dialler d = {0};
    tls_site_open(&site, "gw1");
    server_open(&s, site.dir);
    assert_string_equal(tls_server_name(s.tls), "gw1");
    open_secure(&d, tls_site_identity(&site, "node1", TLS_AGENT, "node1", clock_utc_ns(), day_ns),
                "gw1, gw2");
    for (int i = 0; i < 4; i++) {
        if (i == 3) { /* tickets of before are worth nothing */
            struct diag why = {0};
            assert_int_equal(tls_server_reload(s.tls, &why), 0);
        }
        dial(&d, &s);
        UNTIL(&s, pump(&d));
        struct link *l = last(&s);
        assert_true(l->is_ready);
        assert_int_equal(l->is_resumed, i == 1 || i == 2);
        assert_int_equal(l->who.role, TLS_AGENT);
        assert_string_equal(l->who.name, "node1");
        assert_true(l->who.not_after_ns > clock_utc_ns());
        assert_string_equal(uplink_why(d.link), "");
        hang_up(&d);
        UNTIL(&s, !l->stream);
        assert_int_equal(l->error, 0);
    }
    ops->close(d.secure);
    server_close(&s);
    tls_site_close(&site);
}

/* More than one pump reads, all of it in the transport before the last poll: nothing is left lying there. */
static void what_the_transport_holds_is_read_to_the_end(void **state)
{
    (void)state;
    struct tls_site site;
    struct server s;
    struct dialler d = {0};
    uint64_t sent, received = 0;
    tls_site_open(&site, "gw1");
    server_open(&s, site.dir);
    s.flood = 3 << 20;
    open_secure(&d, tls_site_identity(&site, "node1", TLS_AGENT, "node1", clock_utc_ns(), day_ns), "");
    dial(&d, &s);
    int64_t until = clock_mono_ns() + PATIENCE_S * NS_PER_S;
    while (received < s.flood && clock_mono_ns() < until) {
        int wait = uplink_pump(d.link, clock_mono_ns());
        short events;
        struct pollfd p = {.fd = uplink_wait_fd(d.link, &events)};
        p.events = events;
        turn(&s);
        if (wait != 0) /* nothing but the socket's word, once the server has said all */
            (void)poll(&p, p.fd >= 0 ? 1 : 0,
                       s.n && last(&s)->stream && stream_waiting(last(&s)->stream) ? 0 : 5);
        uplink_bytes(d.link, &sent, &received);
    }
    assert_true(received >= s.flood);
    assert_true(uplink_is_ready(d.link));
    hang_up(&d);
    ops->close(d.secure);
    server_close(&s);
    tls_site_close(&site);
}

static void who_shows_no_certificate_is_nobody(void **state)
{
    (void)state;
    struct tls_site site;
    struct server s;
    struct diag why = {0};
    SSL_CTX *ctx = NULL;
    struct transport *t = NULL;
    tls_site_open(&site, "gw1");
    server_open(&s, site.dir);
    assert_int_equal(tls_context_create(NULL, false, &ctx, &why), 0);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sa.sin_port = htons((uint16_t)strtoul(strrchr(listener_address(s.listener), ':') + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    evutil_make_socket_nonblocking(fd);
    assert_int_equal(tls_link_start(ctx, fd, false, &t, &why), 0);
    short wants;
    UNTIL(&s, tls_link_handshake(t, &wants, &why) == 0 && s.n && last(&s)->is_ready);
    assert_int_equal(last(&s)->who.role, TLS_NOBODY);
    assert_string_equal(last(&s)->who.name, "");
    tls_link_end(t);
    (void)close(fd);
    SSL_CTX_free(ctx);
    server_close(&s);
    tls_site_close(&site);
}

/* A folder whose certificate is made by hand: what no CA of ours would issue. */
static const char *odd_identity(const struct tls_site *s, const char *folder, const char *usage,
                                const char *names)
{
    static char dir[128];
    EVP_PKEY *key = NULL;
    X509 *c = X509_new();
    X509V3_CTX context;
    struct strbuf chain = {0}, ca = {0};
    struct diag why = {0};
    (void)snprintf(dir, sizeof dir, "%s/%s", s->root, folder);
    assert_int_equal(certificate_new_key(&key), 0);
    X509_set_version(c, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(c), 7);
    X509_gmtime_adj(X509_getm_notBefore(c), -60);
    X509_gmtime_adj(X509_getm_notAfter(c), 3600);
    X509_set_issuer_name(c, X509_get_subject_name(s->ca.certificate));
    X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_ASC, (const unsigned char *)"odd", -1,
                               -1, 0);
    X509_set_pubkey(c, key);
    X509V3_set_ctx(&context, s->ca.certificate, c, NULL, NULL, 0);
    for (int i = 0; i < 2; i++) {
        const char *value = i ? names : usage;
        X509_EXTENSION *e =
            value ? X509V3_EXT_nconf_nid(NULL, &context, i ? NID_subject_alt_name : NID_ext_key_usage, value)
                  : NULL;
        assert_true(!value || X509_add_ext(c, e, -1) == 1);
        X509_EXTENSION_free(e);
    }
    assert_true(X509_sign(c, s->ca.key, EVP_sha256()) > 0);
    assert_int_equal(certificate_add_pem(c, &chain), 0);
    assert_int_equal(certificate_add_pem(s->ca.certificate, &ca), 0);
    assert_int_equal(folder_create(dir, key, strbuf_slice(&chain), strbuf_slice(&ca), &why), 0);
    X509_free(c);
    EVP_PKEY_free(key);
    strbuf_fini(&chain);
    strbuf_fini(&ca);
    return dir;
}

/* folder_read would not take an odd identity: a client with its files alone. */
static SSL_CTX *raw_client(const char *dir)
{
    struct strbuf path = {0};
    SSL_CTX *ctx = NULL;
    struct diag why = {0};
    assert_int_equal(tls_context_create(NULL, false, &ctx, &why), 0);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
    strbuf_printf(&path, "%s/cert.pem", dir);
    assert_int_equal(SSL_CTX_use_certificate_chain_file(ctx, path.p), 1);
    strbuf_reset(&path);
    strbuf_printf(&path, "%s/key.pem", dir);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, path.p, SSL_FILETYPE_PEM), 1);
    strbuf_fini(&path);
    return ctx;
}

static int connect_plain(const struct server *s)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sa.sin_port = htons((uint16_t)strtoul(strrchr(listener_address(s->listener), ':') + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(evutil_make_socket_nonblocking(fd), 0);
    return fd;
}

/* The server's reason for refusing this client, and the client's for having been refused. */
static void assert_refused(struct server *s, SSL_CTX *ctx, const char *server_says, const char *client_says)
{
    struct transport *t = NULL;
    struct diag why = {0};
    char byte;
    short wants;
    size_t before = s->n;
    ssize_t n = -EAGAIN;
    int fd = connect_plain(s), r = -EAGAIN;
    assert_int_equal(tls_link_start(ctx, fd, false, &t, &why), 0);
    UNTIL(s, r == 0 || (r = tls_link_handshake(t, &wants, &why)) != -EAGAIN);
    UNTIL(s, r < 0 || (n = tls_link_receive(t, &byte, 1, &wants)) != -EAGAIN);
    UNTIL(s, s->n > before && !last(s)->stream);
    assert_false(last(s)->is_ready);
    assert_true(last(s)->error < 0 && n < 0);
    assert_says(last(s)->why, server_says);
    assert_says(r < 0 ? why.message : tls_link_why(t), client_says);
    tls_link_end(t);
    (void)close(fd);
    SSL_CTX_free(ctx);
}

static void wrong_certificates_are_refused_with_a_reason(void **state)
{
    (void)state;
    struct tls_site site, other;
    struct server s;
    int64_t now = clock_utc_ns();
    tls_site_open(&site, "gw1");
    tls_site_open(&other, "gw1");
    server_open(&s, site.dir);
    assert_refused(&s,
                   raw_client(tls_site_identity(&site, "old", TLS_AGENT, "node2", now - 9 * day_ns, day_ns)),
                   "the certificate of agent node2 expired at 20", "our certificate has expired");
    assert_refused(&s,
                   raw_client(tls_site_identity(&site, "early", TLS_AGENT, "node3", now + day_ns, day_ns)),
                   "the certificate of agent node3 is valid only from 20", "our certificate is bad");
    assert_refused(&s, raw_client(tls_site_identity(&other, "foreign", TLS_AGENT, "node1", now, day_ns)),
                   "the certificate of agent node1 is not of this site's CA", "not of its site's CA");
    assert_refused(&s, raw_client(odd_identity(&site, "server", "serverAuth", "URI:gridline:agent/node4")),
                   "is not for this", "not for this use");
    assert_refused(
        &s, raw_client(odd_identity(&site, "both", "serverAuth,clientAuth", "URI:gridline:agent/node4")),
        "extended key usage is not clientAuth", "not for this use");
    assert_refused(&s, raw_client(odd_identity(&site, "half", "clientAuth", "URI:gridline:gateway/gw2")),
                   "extended key usage is not serverAuth,clientAuth", "not for this use");
    assert_refused(&s, raw_client(odd_identity(&site, "any", NULL, "URI:gridline:agent/node4")),
                   "extended key usage is not clientAuth", "not for this use");
    assert_refused(&s, raw_client(odd_identity(&site, "nobody", "clientAuth", "DNS:node4")),
                   "names nobody of a site", "names nobody");
    assert_refused(&s, raw_client(odd_identity(&site, "noname", "clientAuth", NULL)),
                   "names nobody of a site", "names nobody");
    assert_refused(
        &s, raw_client(odd_identity(&site, "two", "clientAuth", "URI:gridline:agent/a,URI:gridline:agent/b")),
        "names nobody of a site", "names nobody");
    assert_refused(&s, raw_client(odd_identity(&site, "king", "clientAuth", "URI:gridline:king/a")),
                   "names nobody of a site", "names nobody");
    SSL_CTX *old = raw_client(tls_site_identity(&site, "tls12", TLS_AGENT, "node5", now, day_ns));
    SSL_CTX_set_min_proto_version(old, TLS1_2_VERSION);
    SSL_CTX_set_max_proto_version(old, TLS1_2_VERSION);
    assert_refused(&s, old, "does not speak TLS 1.3", "does not speak TLS 1.3");
    assert_refused(&s, raw_client(tls_site_identity(&other, "signer", TLS_NOBODY, "s", now, day_ns)),
                   "not of this site's CA", "not of its site's CA");
    server_close(&s);
    tls_site_close(&site);
    tls_site_close(&other);
}

static void a_foreign_or_unlisted_gateway_is_not_spoken_to(void **state)
{
    (void)state;
    struct tls_site site, other;
    struct server s;
    struct dialler d = {0};
    tls_site_open(&site, "gw1");
    tls_site_open(&other, "gw9");
    server_open(&s, site.dir);

    open_secure(&d, tls_site_identity(&other, "node1", TLS_AGENT, "node1", clock_utc_ns(), day_ns), "");
    dial(&d, &s);
    UNTIL(&s, has_failed(&d));
    assert_says(uplink_why(d.link), "the certificate of gateway gw1 is not of this site's CA");
    hang_up(&d);
    ops->close(d.secure);

    open_secure(&d, tls_site_identity(&site, "node1", TLS_AGENT, "node1", clock_utc_ns(), day_ns), "gw2,gw3");
    dial(&d, &s);
    UNTIL(&s, has_failed(&d));
    assert_says(uplink_why(d.link), "gateway gw1 is not on the list: gw2,gw3");
    hang_up(&d);
    ops->close(d.secure);
    server_close(&s);
    tls_site_close(&site);
    tls_site_close(&other);
}

/* The folder of an agent does not make a gateway, nor does one that others can read. */
static void a_server_needs_a_gateways_identity(void **state)
{
    (void)state;
    struct tls_site site;
    struct tls_server *tls = NULL;
    struct diag why = {0};
    int64_t now = clock_utc_ns();
    tls_site_open(&site, "gw1");
    const char *dir = tls_site_identity(&site, "node1", TLS_AGENT, "node1", now, day_ns);
    assert_int_equal(tls_server_create(dir, &tls, &why), -EKEYREJECTED);
    assert_says(why.message, "is the identity of agent node1, not of a gateway");
    dir = tls_site_identity(&site, "gw2", TLS_GATEWAY, "gw2", now - 9 * day_ns, day_ns);
    assert_int_equal(tls_server_create(dir, &tls, &why), -EKEYEXPIRED);
    assert_says(why.message, "gateway gw2 expired at");
    assert_int_equal(tls_server_create("/nowhere/at/all", &tls, &why), -ENOENT);
    assert_null(tls);
    tls_site_close(&site);
}

static void what_is_not_tls_is_refused_and_the_silent_cost_nothing(void **state)
{
    (void)state;
    const struct slice texts[] = {SLICE_LIT("GET / HTTP/1.0\r\n\r\n"), SLICE_LIT("GRDL\1\0\0\0 and so on, and so on"),
                                  SLICE_LIT("\x16\x03\x01"),
                                  SLICE_LIT("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 half a hello")};
    struct tls_site site;
    struct server s;
    struct dialler d = {0};
    tls_site_open(&site, "gw1");
    server_open(&s, site.dir);
    for (size_t i = 0; i < 4; i++) {
        int fd = connect_plain(&s);
        size_t before = s.n;
        assert_true(send(fd, texts[i].p, texts[i].n, MSG_NOSIGNAL) > 0);
        UNTIL(&s, s.n > before && (i >= 2 || !last(&s)->stream));
        if (i < 2)
            assert_says(last(&s)->why, i == 0 ? "HTTP, not TLS" : "not TLS");
        (void)close(fd);
        UNTIL(&s, !last(&s)->stream);
        assert_false(last(&s)->is_ready);
    }
    /* One that says nothing has no transport; the owner ends it when it likes, as one in the middle of a
     * hello. */
    int silent = connect_plain(&s), half = connect_plain(&s);
    assert_true(send(half, texts[3].p, texts[3].n, MSG_NOSIGNAL) > 0);
    UNTIL(&s, s.n == 6 && (stream_transport(s.links[4].stream) || stream_transport(s.links[5].stream)));
    for (size_t i = 4; i < 6; i++) {
        stream_destroy(s.links[i].stream);
        s.links[i].stream = NULL;
    }
    char byte;
    UNTIL(&s, recv(silent, &byte, 1, MSG_DONTWAIT) == 0);
    (void)close(silent);
    (void)close(half);
    /* Nobody else is affected. */
    open_secure(&d, tls_site_identity(&site, "node1", TLS_AGENT, "node1", clock_utc_ns(), day_ns), "");
    dial(&d, &s);
    UNTIL(&s, pump(&d));
    hang_up(&d);
    ops->close(d.secure);
    server_close(&s);
    tls_site_close(&site);
}

/* A ticket does not carry anybody past the end of the certificate. */
static void a_ticket_ends_with_its_certificate(void **state)
{
    (void)state;
    struct tls_site site;
    struct server s;
    struct dialler d = {0};
    tls_site_open(&site, "gw1");
    server_open(&s, site.dir);
    open_secure(&d, tls_site_identity(&site, "node1", TLS_AGENT, "node1", clock_utc_ns(), 3 * NS_PER_S), "");
    for (int i = 0; i < 2; i++) {
        dial(&d, &s);
        UNTIL(&s, pump(&d));
        assert_int_equal(last(&s)->is_resumed, i);
        hang_up(&d);
        UNTIL(&s, !last(&s)->stream);
    }
    UNTIL(&s,
          time(NULL) > s.links[0].who.not_after_ns / NS_PER_S); /* OpenSSL's clock, which lags by a tick */
    dial(&d, &s);
    UNTIL(&s, has_failed(&d));
    UNTIL(&s, s.n >= 3 && !s.links[2].stream);
    assert_false(s.links[2].is_ready);
    assert_says(s.links[2].why, "the certificate of agent node1 expired at");
    assert_says(uplink_why(d.link), "says that our certificate has expired");
    hang_up(&d);
    ops->close(d.secure);
    server_close(&s);
    tls_site_close(&site);
}

/* What the site answers to a request, under any role and name. */
static void certify(const struct tls_site *site, struct slice request, enum tls_role role, const char *name,
                    int64_t life_ns, struct strbuf *chain)
{
    EVP_PKEY *key = NULL;
    struct diag why = {0};
    const struct certificate_terms terms = {
        .role = role, .name = name, .now_ns = clock_utc_ns(), .life_ns = life_ns};
    strbuf_reset(chain);
    assert_int_equal(certificate_read_request(request, &key, &why), 0);
    assert_int_equal(site_ca_issue(&site->ca, key, &terms, chain, &why), 0);
    EVP_PKEY_free(key);
}

static void a_certificate_renews_and_nothing_else_passes_for_one(void **state)
{
    (void)state;
    struct tls_site site, other;
    struct server s;
    struct dialler d = {0};
    struct strbuf chain = {0};
    struct slice request, stale;
    struct diag why = {0};
    int64_t now = clock_utc_ns();
    char dir[128];
    tls_site_open(&site, "gw1");
    tls_site_open(&other, "gw1");
    server_open(&s, site.dir);
    (void)snprintf(dir, sizeof dir, "%s",
                   tls_site_identity(&site, "node1", TLS_AGENT, "node1", now - day_ns, 2 * day_ns));
    open_secure(&d, dir, "");
    int64_t before = ops->renew_at_ns(d.secure);
    assert_true(before > now - day_ns && before < now + day_ns);

    assert_int_equal(ops->renewed(d.secure, SLICE_LIT("unasked"), &why), E_PROTO);
    assert_int_equal(ops->request(d.secure, &stale, &why), 0);
    certify(&site, stale, TLS_AGENT, "node1", 7 * day_ns, &chain);
    assert_int_equal(ops->request(d.secure, &request, &why), 0);
    assert_true(ops->renewed(d.secure, strbuf_slice(&chain), &why) < 0);
    assert_says(why.message, "not for the key that was asked for");
    certify(&site, request, TLS_AGENT, "node2", 7 * day_ns, &chain);
    assert_true(ops->renewed(d.secure, strbuf_slice(&chain), &why) < 0);
    assert_says(why.message, "for agent node2, which we are not");
    certify(&site, request, TLS_OPERATOR, "node1", 7 * day_ns, &chain);
    assert_true(ops->renewed(d.secure, strbuf_slice(&chain), &why) < 0);
    certify(&site, request, TLS_AGENT, "node1", day_ns / 2, &chain);
    assert_true(ops->renewed(d.secure, strbuf_slice(&chain), &why) < 0);
    assert_says(why.message, "ends before the old one");
    certify(&other, request, TLS_AGENT, "node1", 7 * day_ns, &chain);
    assert_true(ops->renewed(d.secure, strbuf_slice(&chain), &why) < 0);
    assert_true(ops->renewed(d.secure, SLICE_LIT("-----BEGIN CERTIFICATE-----\nx"), &why) < 0);
    assert_int_equal(ops->renew_at_ns(d.secure), before);

    certify(&site, request, TLS_AGENT, "node1", 7 * day_ns, &chain);
    assert_int_equal(ops->renewed(d.secure, strbuf_slice(&chain), &why), 0);
    assert_true(ops->renew_at_ns(d.secure) > before + 3 * day_ns);
    assert_int_equal(ops->renewed(d.secure, strbuf_slice(&chain), &why), E_PROTO); /* once */
    for (int i = 0; i < 2; i++) { /* in use at once, and by the next process */
        dial(&d, &s);
        UNTIL(&s, pump(&d));
        assert_true(last(&s)->who.not_after_ns > now + 6 * day_ns);
        hang_up(&d);
        ops->close(d.secure);
        open_secure(&d, dir, "");
    }
    ops->close(d.secure);
    strbuf_fini(&chain);
    server_close(&s);
    tls_site_close(&site);
    tls_site_close(&other);
}

static void without_a_transport_tls_is_refused(void **state)
{
    (void)state;
    const struct uplink_options o = {.host = "h", .prog = "p", .role = PEER_PROGRAM};
    struct uplink *u = NULL;
    struct diag why = {0};
    assert_int_equal(uplink_open(SLICE_LIT("tls://127.0.0.1:14830"), &o, &u, &why), -EPROTONOSUPPORT);
    assert_says(why.message, "no TLS here");
    assert_null(u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_connects_and_then_resumes),
        cmocka_unit_test(what_the_transport_holds_is_read_to_the_end),
        cmocka_unit_test(who_shows_no_certificate_is_nobody),
        cmocka_unit_test(wrong_certificates_are_refused_with_a_reason),
        cmocka_unit_test(a_foreign_or_unlisted_gateway_is_not_spoken_to),
        cmocka_unit_test(a_server_needs_a_gateways_identity),
        cmocka_unit_test(what_is_not_tls_is_refused_and_the_silent_cost_nothing),
        cmocka_unit_test(a_ticket_ends_with_its_certificate),
        cmocka_unit_test(a_certificate_renews_and_nothing_else_passes_for_one),
        cmocka_unit_test(without_a_transport_tls_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
