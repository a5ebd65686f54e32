/* SPDX-License-Identifier: Apache-2.0 */
/* The settings. X25519 first, then P-256, because both ends are ours and the first is offered with a key
 * share; AES-128-GCM first, because it costs least where the processor has AES. Buffers are released while a
 * connection is idle (SSL_MODE_RELEASE_BUFFERS saves 34 KiB each). The chain is not looked for in the store
 * (SSL_MODE_NO_AUTO_CHAIN): that would verify our own certificate again in every handshake.
 *
 * A refused certificate's reason is kept with the SSL, made when it is refused: afterwards OpenSSL has only a
 * number, and the certificate is gone. */
#include "net/tls_context.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>

enum { SUBJECT_MAX = 64 };

/* ---------------------------------------------------------------- reasons */

static int reason_index = -1; /* of a char[TLS_WHY_MAX] in an SSL's extra data */

static void free_reason(void *parent, void *reason, CRYPTO_EX_DATA *data, int index, long number,
                        void *pointer)
{
    (void)parent, (void)data, (void)index, (void)number, (void)pointer; /* one index, no arguments */
    mem_free(reason);
}

static void make_index(void)
{
    reason_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, free_reason);
}

/* The bearer for a message: "agent node1", else the subject's common name if it can be printed. */
static void print_subject(X509 *c, char out[SUBJECT_MAX])
{
    struct tls_identity who;
    char name[SUBJECT_MAX] = "";
    if (certificate_identity(c, &who, NULL) == 0) {
        (void)snprintf(out, SUBJECT_MAX, "%s %.50s", identity_role_name(who.role), who.name);
        return;
    }
    (void)X509_NAME_get_text_by_NID(X509_get_subject_name(c), NID_commonName, name, sizeof name);
    struct slice s = slice_str(name);
    bool is_printable = s.n && text_is_utf8(s) && !text_has_control(s);
    (void)snprintf(out, SUBJECT_MAX, "%s", is_printable ? name : "nobody");
}

static void print_reason(char out[TLS_WHY_MAX], X509 *c, int error, const struct diag *ours)
{
    char subject[SUBJECT_MAX], when[CLOCK_TEXT_MAX];
    print_subject(c, subject);
    switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        (void)snprintf(out, TLS_WHY_MAX, "the certificate of %s expired at %.*s", subject,
                       (int)clock_print_iso(when, certificate_not_after_ns(c)), when);
        return;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        (void)snprintf(out, TLS_WHY_MAX, "the certificate of %s is valid only from %.*s: is a clock wrong?",
                       subject, (int)clock_print_iso(when, certificate_not_before_ns(c)), when);
        return;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        (void)snprintf(out, TLS_WHY_MAX, "the certificate of %s is not of this site's CA", subject);
        return;
    case X509_V_ERR_INVALID_PURPOSE:
        (void)snprintf(out, TLS_WHY_MAX, "the certificate of %s is not for this: %.99s", subject,
                       ours->message[0] ? ours->message : "wrong extended key usage");
        return;
    case X509_V_ERR_APPLICATION_VERIFICATION:
        (void)snprintf(out, TLS_WHY_MAX, "the certificate of %s: %.99s", subject, ours->message);
        return;
    default:
        (void)snprintf(out, TLS_WHY_MAX, "the certificate of %s: %s", subject,
                       X509_verify_cert_error_string(error));
        return;
    }
}

/* Without memory for it the reason is OpenSSL's. */
static void keep_reason(SSL *ssl, X509 *c, int error, const struct diag *ours)
{
    char *text = SSL_get_ex_data(ssl, reason_index);
    if (text || !c)
        return; /* the first one is the cause */
    text = mem_try_alloc(TLS_WHY_MAX);
    if (text && SSL_set_ex_data(ssl, reason_index, text) == 1)
        print_reason(text, c, error, ours);
    else
        mem_free(text);
}

/* Whose certificate it is about: where a chain leads nowhere the bearer's, not the last one found. */
static X509 *subject_of(X509_STORE_CTX *store, int error)
{
    bool is_time = error == X509_V_ERR_CERT_HAS_EXPIRED || error == X509_V_ERR_CERT_NOT_YET_VALID;
    return is_time ? X509_STORE_CTX_get_current_cert(store) : X509_STORE_CTX_get0_cert(store);
}

/* Called for every certificate of the chain; the bearer's comes last. */
static int on_verify(int is_good, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    X509 *c = X509_STORE_CTX_get_current_cert(store);
    struct tls_identity who;
    struct diag ours = {0};
    if (is_good && X509_STORE_CTX_get_error_depth(store) == 0) {
        int r = certificate_identity(c, &who, &ours);
        if (r < 0)
            X509_STORE_CTX_set_error(store, r == -EKEYREJECTED ? X509_V_ERR_INVALID_PURPOSE
                                                               : X509_V_ERR_APPLICATION_VERIFICATION);
        is_good = r == 0;
    }
    int error = X509_STORE_CTX_get_error(store);
    if (!is_good)
        keep_reason(ssl, subject_of(store, error), error, &ours);
    return is_good;
}

/* What the other end said with an alert, and what garbage looks like. */
static const struct {
    int reason;
    const char *text;
} words[] = {
    {SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED,
     "the other end says that our certificate has expired: is a clock wrong?"},
    {SSL_R_TLSV1_ALERT_UNKNOWN_CA, "the other end says that our certificate is not of its site's CA"},
    {SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE,
     "the other end says that our certificate is not for this use"},
    {SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, "the other end says that our certificate is bad: is a clock wrong?"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, "the other end does not take our certificate"},
    {SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE,
     "the other end refuses our certificate: it names nobody of its site"},
    {SSL_R_TLSV1_ALERT_DECRYPT_ERROR, "the other end says that a signature is wrong"},
    {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, "the other end does not speak TLS 1.3"},
    {SSL_R_UNSUPPORTED_PROTOCOL, "the other end does not speak TLS 1.3"},
    {SSL_R_WRONG_VERSION_NUMBER, "what came is not TLS"},
    {SSL_R_HTTP_REQUEST, "what came is HTTP, not TLS"},
    {SSL_R_HTTPS_PROXY_REQUEST, "what came is HTTP, not TLS"},
    {SSL_R_UNEXPECTED_EOF_WHILE_READING, ""},
};

const char *tls_context_why(SSL *ssl, unsigned long error)
{
    const char *kept = SSL_get_ex_data(ssl, reason_index);
    if (kept)
        return kept;
    if (error == 0 || ERR_SYSTEM_ERROR(error))
        return "";
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) == words[i].reason)
            return words[i].text;
    const char *text = ERR_reason_error_string(error);
    return text ? text : "TLS failed";
}

/* ---------------------------------------------------------------- settings */

static bool set_trust(SSL_CTX *ctx, STACK_OF(X509) * cas)
{
    X509_STORE *store = X509_STORE_new();
    for (int i = 0; store && i < sk_X509_num(cas); i++) {
        if (X509_STORE_add_cert(store, sk_X509_value(cas, i)) != 1) {
            X509_STORE_free(store);
            return false;
        }
    }
    if (store)
        SSL_CTX_set_cert_store(ctx, store); /* takes it */
    return store != NULL;
}

static bool set_own(SSL_CTX *ctx, const struct folder *f, bool with_root)
{
    bool is_set =
        SSL_CTX_use_certificate(ctx, folder_own(f)) == 1 && SSL_CTX_use_PrivateKey(ctx, f->key) == 1;
    for (int i = 1; is_set && i < sk_X509_num(f->chain); i++) {
        X509 *c = sk_X509_value(f->chain, i);
        if (with_root || X509_self_signed(c, 0) != 1)
            is_set = SSL_CTX_add1_chain_cert(ctx, c) == 1;
    }
    return is_set;
}

static bool set_all(SSL_CTX *ctx, const struct folder *f, bool is_server)
{
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN |
                                    SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* Our frames say themselves when something is cut off. */
    (void)SSL_CTX_set_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, on_verify);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                         "TLS_CHACHA20_POLY1305_SHA256") == 1 &&
           SSL_CTX_set1_groups_list(ctx, "X25519:P-256") == 1 &&
           (!f || (set_trust(ctx, f->cas) && set_own(ctx, f, is_server)));
}

int tls_context_create(const struct folder *f, bool is_server, SSL_CTX **out, struct diag *why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_index); /* can't fail with a valid control */
    ERR_clear_error();
    SSL_CTX *ctx =
        reason_index < 0 ? NULL : SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
    if (!ctx || !set_all(ctx, f, is_server)) {
        SSL_CTX_free(ctx);
        return diag_set(why, -EIO, 0, "TLS can't be set up: %s", certificate_reason());
    }
    *out = ctx;
    return 0;
}
