/* SPDX-License-Identifier: Apache-2.0 */
/* Resumption. What a ticket names is kept here, in OpenSSL's cache of CACHE_MAX sessions, the oldest of which
 * go first: 1 KiB each, and 4 more for the certificate of one who is gone (SSL_OP_NO_TICKET is OpenSSL's word
 * for that). The other way, all of the session in the ticket under a key of ours, was measured (OpenSSL 3.0,
 * server CPU): making a ticket 0.25 ms and a resumed handshake as dear as a full one, because the peer's
 * certificate is written and read again for each; this way 0.27 ms instead of 0.75 ms. */
#include "net/tls.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/tls_link.h"

#include <errno.h>

enum {
    TICKETS = 1, /* a connection: one is enough, a new one comes with each resumption */
    TICKET_S = 24 * 3600,
    CACHE_MAX = 16384
};

struct tls_server {
    char *dir;
    SSL_CTX *ctx;
    struct tls_identity who;
};

/* A ticket is about to be made, for a full handshake or a resumed one: it ends with the certificate, or after
 * TICKET_S. After that OpenSSL does not resume, and a full handshake looks at the certificate again. */
static int on_ticket(SSL *ssl, void *arg)
{
    (void)arg; /* all is in the session */
    SSL_SESSION *session = SSL_get_session(ssl);
    X509 *c = SSL_SESSION_get0_peer(session);
    int64_t left_s = c ? (certificate_not_after_ns(c) - clock_utc_ns()) / NS_PER_S : TICKET_S;
    long life_s = left_s > TICKET_S ? TICKET_S : left_s > 0 ? (long)left_s : 0;
    return SSL_SESSION_set_timeout(session, life_s) == 1;
}

static int set_tickets(SSL_CTX *ctx, struct diag *why)
{
    static const unsigned char context[] = "gridline gateway";
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_SERVER | SSL_SESS_CACHE_NO_AUTO_CLEAR);
    (void)SSL_CTX_sess_set_cache_size(ctx, CACHE_MAX);
    (void)SSL_CTX_set_timeout(ctx, TICKET_S);
    if (SSL_CTX_set_num_tickets(ctx, TICKETS) == 1 &&
        SSL_CTX_set_session_id_context(ctx, context, sizeof context - 1) == 1 &&
        SSL_CTX_set_session_ticket_cb(ctx, on_ticket, NULL, NULL) == 1)
        return 0;
    return diag_set(why, -EIO, 0, "TLS can't be set up: %s", certificate_reason());
}

static int load(struct tls_server *s, struct diag *why)
{
    struct folder f = {0};
    SSL_CTX *ctx = NULL;
    int r = folder_read(s->dir, &f, why);
    if (r == 0 && f.who.role != TLS_GATEWAY)
        r = diag_set(why, -EKEYREJECTED, 0, "%.100s is the identity of %s %.60s, not of a gateway", s->dir,
                     identity_role_name(f.who.role), f.who.name);
    if (r == 0)
        r = folder_check_time(&f, clock_utc_ns(), why);
    if (r == 0)
        r = tls_context_create(&f, true, &ctx, why);
    if (r == 0)
        r = set_tickets(ctx, why);
    if (r == 0) {
        SSL_CTX_free(s->ctx); /* connections that have it keep it */
        s->ctx = ctx;
        s->who = f.who;
    } else {
        SSL_CTX_free(ctx);
    }
    folder_fini(&f);
    return r;
}

int tls_server_create(const char *dir, struct tls_server **out, struct diag *why)
{
    size_t n = strlen(dir) + 1;
    struct tls_server *s = mem_alloc(sizeof *s);
    s->dir = mem_alloc(n);
    memcpy(s->dir, dir, n);
    int r = load(s, why);
    if (r < 0) {
        tls_server_destroy(s);
        return r;
    }
    *out = s;
    return 0;
}

void tls_server_destroy(struct tls_server *s)
{
    if (!s)
        return;
    SSL_CTX_free(s->ctx);
    mem_free(s->dir);
    mem_free(s);
}

int tls_server_reload(struct tls_server *s, struct diag *why)
{
    return load(s, why);
}

int64_t tls_server_not_after_ns(const struct tls_server *s)
{
    return s->who.not_after_ns;
}

const char *tls_server_name(const struct tls_server *s)
{
    return s->who.name;
}

static int start(void *ctx, int fd, const char *name, struct transport **out, struct diag *why)
{
    const struct tls_server *s = ctx;
    (void)name; /* whoever calls */
    return tls_link_start(s->ctx, fd, true, out, why);
}

const struct transport_ops tls_server_transport = {.start = start,
                                                   .handshake = tls_link_handshake,
                                                   .send = tls_link_send,
                                                   .receive = tls_link_receive,
                                                   .end = tls_link_end,
                                                   .why = tls_link_why,
                                                   .has_more = tls_link_has_more};

struct ssl_st *tls_server_ssl(const struct tls_server *s)
{
    SSL *ssl = SSL_new(s->ctx);
    if (ssl)
        SSL_set_accept_state(ssl);
    return ssl;
}

int tls_identify_ssl(const struct ssl_st *ssl, struct tls_identity *out)
{
    X509 *c = SSL_get0_peer_certificate(ssl);
    if (!c) {
        *out = (struct tls_identity){.role = TLS_NOBODY};
        return 0;
    }
    if (SSL_get_verify_result(ssl) != X509_V_OK || certificate_identity(c, out, NULL) < 0)
        return E_PROTO;
    return 0;
}

int tls_identify(struct transport *t, struct tls_identity *out)
{
    return tls_identify_ssl(t->ssl, out);
}

bool tls_is_resumed(struct transport *t)
{
    return SSL_session_reused(t->ssl) == 1;
}
