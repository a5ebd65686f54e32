/* SPDX-License-Identifier: Apache-2.0 */
/* The module gridline-secure.so: TLS from the dialling end, the renewal of a certificate, seals, and what
 * `gridline init`, `token` and `join` do. It shows the two tables of secure.h and nothing else.
 *
 * TLS 1.3 has one peculiarity that shows here: a client is done with its handshake before the server has
 * looked at its certificate. So a refusal arrives with the first receive; `why` tells it. */
#include "net/secure.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/joiner.h"
#include "net/seal.h"
#include "net/tls_link.h"
#include "pki/site.h"

#include <errno.h>
#include <openssl/x509v3.h>

struct secure {
    char *dir;
    char *allowed; /* names by commas; "" = any gateway */
    SSL_CTX *ctx;
    SSL_SESSION *session; /* of the last connection, to resume; NULL = none */
    struct tls_identity who;
    int64_t renew_at_ns;
    EVP_PKEY *next_key; /* of the last request; NULL = none is out */
    struct strbuf request;
};

/* ---------------------------------------------------------------- identity */

/* A ticket came: the next connection may begin with it. */
static int on_session(SSL *ssl, SSL_SESSION *session)
{
    struct transport *t = SSL_get_app_data(ssl);
    if (!t->is_checked)
        return 0;
    struct secure *s = t->owner;
    SSL_SESSION_free(s->session);
    s->session = session;
    return 1; /* ours now */
}

/* Reads the folder; on failure everything is as before. */
static int load(struct secure *s, struct diag *why)
{
    struct folder f = {0};
    SSL_CTX *ctx = NULL;
    int r = folder_read(s->dir, &f, why);
    if (r == 0)
        r = tls_context_create(&f, false, &ctx, why);
    if (r == 0) {
        (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(ctx, on_session);
        SSL_CTX_free(s->ctx); /* connections that have it keep it */
        SSL_SESSION_free(s->session);
        s->session = NULL;
        s->ctx = ctx;
        s->who = f.who;
        s->renew_at_ns = certificate_renew_at_ns(folder_own(&f));
    }
    folder_fini(&f);
    return r;
}

static char *copy_of(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = mem_try_alloc(n);
    if (copy)
        memcpy(copy, text, n);
    return copy;
}

static void close_secure(struct secure *s)
{
    if (!s)
        return;
    SSL_SESSION_free(s->session);
    SSL_CTX_free(s->ctx);
    EVP_PKEY_free(s->next_key);
    strbuf_fini(&s->request);
    mem_free(s->dir);
    mem_free(s->allowed);
    mem_free(s);
}

static int open_secure(const char *dir, const char *allowed, struct secure **out, struct diag *why)
{
    struct secure *s = mem_try_alloc(sizeof *s);
    if (!s)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    s->dir = copy_of(dir);
    s->allowed = copy_of(allowed);
    int r = s->dir && s->allowed ? load(s, why) : diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    if (r < 0) {
        close_secure(s);
        return r;
    }
    *out = s;
    return 0;
}

static int64_t renew_at_ns(const struct secure *s)
{
    return s->renew_at_ns;
}

static int request(struct secure *s, struct slice *out, struct diag *why)
{
    EVP_PKEY *key = NULL;
    strbuf_reset(&s->request);
    int r = certificate_new_key(&key);
    if (r == 0)
        r = certificate_new_request(key, &s->request);
    if (r < 0) {
        EVP_PKEY_free(key);
        return diag_set(why, r, 0, "no request for a certificate can be made: %s", certificate_reason());
    }
    EVP_PKEY_free(s->next_key);
    s->next_key = key;
    *out = strbuf_slice(&s->request);
    return 0;
}

/* Is the new certificate ours, and good for at least as long as the one we have? */
static int check_renewed(const struct secure *s, STACK_OF(X509) * chain, struct diag *why)
{
    X509 *own = sk_X509_value(chain, 0);
    struct tls_identity who;
    struct folder now = {0};
    int r = certificate_identity(own, &who, why);
    if (r == 0 && X509_check_private_key(own, s->next_key) != 1) {
        (void)certificate_reason(); /* empties the queue */
        r = diag_set(why, -EKEYREJECTED, 0, "the new certificate is not for the key that was asked for");
    }
    if (r == 0 && (who.role != s->who.role || strcmp(who.name, s->who.name) != 0))
        r = diag_set(why, -EKEYREJECTED, 0, "the new certificate is for %s %.60s, which we are not",
                     identity_role_name(who.role), who.name);
    if (r == 0 && who.not_after_ns < s->who.not_after_ns)
        r = diag_set(why, -EKEYREJECTED, 0, "the new certificate ends before the old one");
    if (r == 0)
        r = folder_read(s->dir, &now, why);
    if (r == 0)
        r = certificate_verify(own, chain, now.cas, X509_PURPOSE_SSL_CLIENT, 0, why);
    folder_fini(&now);
    return r;
}

static int renewed(struct secure *s, struct slice chain_pem, struct diag *why)
{
    STACK_OF(X509) *chain = NULL;
    if (!s->next_key)
        return diag_set(why, E_PROTO, 0, "a certificate that was not asked for");
    int r = certificate_read_pem(chain_pem, &chain, why);
    if (r == 0)
        r = check_renewed(s, chain, why);
    if (r == 0)
        r = folder_replace(s->dir, s->next_key, chain_pem, why);
    if (r == 0)
        r = load(s, why);
    if (r == 0) {
        EVP_PKEY_free(s->next_key);
        s->next_key = NULL;
    }
    sk_X509_pop_free(chain, X509_free);
    return r;
}

/* ---------------------------------------------------------------- connections */

static int start(void *ctx, int fd, const char *name, struct transport **out, struct diag *why)
{
    struct secure *s = ctx;
    struct transport *t;
    int r = tls_link_start(s->ctx, fd, false, &t, why);
    if (r < 0)
        return r;
    t->owner = s;
    t->name = name;
    if (s->session)
        (void)SSL_set_session(t->ssl, s->session); /* else a full handshake */
    *out = t;
    return 0;
}

static bool is_listed(const char *list, const char *name)
{
    struct slice rest = slice_str(list);
    bool is_any = true;
    while (rest.n) {
        const char *comma = memchr(rest.p, ',', rest.n);
        struct slice one = slice_of(rest.p, comma ? (size_t)(comma - rest.p) : rest.n);
        rest = slice_from(rest, one.n + 1);
        while (one.n && one.p[0] == ' ')
            one = slice_from(one, 1);
        while (one.n && one.p[one.n - 1] == ' ')
            one.n--;
        if (one.n && slice_eq_str(one, name))
            return true;
        is_any = is_any && one.n == 0;
    }
    return is_any;
}

/* A resumed session brings the certificate of the first one: its time is looked at again. */
static int check_peer(struct transport *t, const struct secure *s, struct diag *why)
{
    X509 *c = SSL_get0_peer_certificate(t->ssl);
    struct tls_identity who;
    if (!c || SSL_get_verify_result(t->ssl) != X509_V_OK)
        return diag_set(why, -EKEYREJECTED, 0, "the gateway showed no certificate of the site");
    int r = certificate_identity(c, &who, why);
    if (r < 0)
        return r;
    if (who.role != TLS_GATEWAY)
        return diag_set(why, -EKEYREJECTED, 0, "the other end is %s %.60s, not a gateway",
                        identity_role_name(who.role), who.name);
    if (t->name && strcmp(t->name, who.name) != 0)
        return diag_set(why, -EKEYREJECTED, 0, "the other end is gateway %.60s, not %.60s", who.name,
                        t->name);
    if (!is_listed(s->allowed, who.name))
        return diag_set(why, -EKEYREJECTED, 0, "gateway %.60s is not on the list: %.80s", who.name,
                        s->allowed);
    if (clock_utc_ns() >= who.not_after_ns)
        return diag_set(why, -EKEYEXPIRED, 0, "the certificate of gateway %.60s has expired", who.name);
    return 0;
}

static int handshake(struct transport *t, short *wants, struct diag *why)
{
    struct secure *s = t->owner;
    int r = tls_link_handshake(t, wants, why);
    if (r == -EAGAIN)
        return r;
    if (r == 0)
        r = check_peer(t, s, why);
    t->is_checked = r == 0;
    if (r < 0) { /* whatever was wrong with it, the next one starts anew */
        SSL_SESSION_free(s->session);
        s->session = NULL;
    }
    return r;
}

static const struct transport_ops transport = {.start = start,
                                               .handshake = handshake,
                                               .send = tls_link_send,
                                               .receive = tls_link_receive,
                                               .end = tls_link_end,
                                               .why = tls_link_why,
                                               .has_more = tls_link_has_more};

/* ---------------------------------------------------------------- seals */

static void *seal_new(void)
{
    return seal_create();
}

static void seal_free(void *seal)
{
    seal_destroy(seal);
}

static int64_t seal_one(void *seal, const unsigned char key[LEASE_KEY], uint32_t key_id, unsigned char *p,
                        size_t n)
{
    return seal_close(seal, key, key_id, p, n);
}

/* ---------------------------------------------------------------- the tables */

static int read_token(const char *text, struct tls_identity *out, struct diag *why)
{
    struct token t;
    int r = token_parse(slice_str(text), &t, why);
    if (r < 0)
        return r;
    *out = (struct tls_identity){.role = t.role};
    memcpy(out->name, t.name, sizeof out->name);
    OPENSSL_cleanse(&t, sizeof t);
    return 0;
}

extern const struct secure_ops gridline_secure_ops;
extern const struct secure_site_ops gridline_secure_site_ops;

__attribute__((visibility("default"))) const struct secure_ops gridline_secure_ops = {
    .version = SECURE_VERSION,
    .size = sizeof(struct secure_ops),
    .transport = &transport,
    .open = open_secure,
    .close = close_secure,
    .renew_at_ns = renew_at_ns,
    .request = request,
    .renewed = renewed,
    .seal_create = seal_new,
    .seal_destroy = seal_free,
    .seal_close = seal_one,
};

__attribute__((visibility("default"))) const struct secure_site_ops gridline_secure_site_ops = {
    .version = SECURE_VERSION,
    .size = sizeof(struct secure_site_ops),
    .init = site_init,
    .token = site_token,
    .http_token = token_make_http,
    .read_token = read_token,
    .join = joiner_join,
};
