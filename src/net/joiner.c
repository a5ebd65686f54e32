/* SPDX-License-Identifier: Apache-2.0 */
/* Joining: a new key, TLS to a gateway of the token, JOIN, CERTIFIED, and the identity on disk.
 *
 * Whom to believe is known by the token alone: among the certificates that the gateway shows must be a CA
 * with the token's fingerprint, and the gateway's own must be issued by it. The secret is sent only after
 * that. */
#include "net/joiner.h"

#include "base/clock.h"
#include "net/address.h"
#include "net/join.h"
#include "net/tls_link.h"
#include "pki/token.h"

#include <errno.h>
#include <netdb.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_MAX = JOIN_CHAIN_MAX + 4096, READ_BYTES = 16 << 10 };

struct joiner {
    const struct secure_join *options;
    struct token token;
    const char *name;
    EVP_PKEY *key;
    struct strbuf request, answer; /* the answer's frame */
    SSL_CTX *ctx;
    STACK_OF(X509) * cas; /* the token's, from the gateway's chain */
    int fd;
    struct transport *link;
    int64_t deadline_ns; /* CLOCK_MONOTONIC, of the attempt */
    bool is_foreign;     /* the gateway showed no CA with the token's fingerprint */
};

/* ---------------------------------------------------------------- whom to believe */

static X509 *find_ca(STACK_OF(X509) * shown, const unsigned char fingerprint[TOKEN_CA])
{
    unsigned char hash[CERTIFICATE_FINGERPRINT];
    for (int i = 0; i < sk_X509_num(shown); i++) {
        X509 *c = sk_X509_value(shown, i);
        if (certificate_fingerprint(c, hash) == 0 && memcmp(hash, fingerprint, sizeof hash) == 0)
            return c;
    }
    return NULL;
}

/* In place of OpenSSL's own: the CA is taken from what the gateway shows, if it is the token's. */
static int on_chain(X509_STORE_CTX *store, void *arg)
{
    struct joiner *j = arg;
    X509 *ca = find_ca(X509_STORE_CTX_get0_untrusted(store), j->token.ca);
    j->is_foreign = ca == NULL;
    if (!ca || !(j->cas = sk_X509_new_null()) || !X509_add_cert(j->cas, ca, X509_ADD_FLAG_UP_REF)) {
        X509_STORE_CTX_set_error(store, ca ? X509_V_ERR_OUT_OF_MEM : X509_V_ERR_CERT_UNTRUSTED);
        return 0;
    }
    X509_STORE_CTX_set0_trusted_stack(store, j->cas);
    return X509_verify_cert(store);
}

/* ---------------------------------------------------------------- the connection */

/* Waits until fd is as wanted: 0, or -ETIMEDOUT. */
static int wait_for(const struct joiner *j, short wants)
{
    for (;;) {
        int64_t left_ms = (j->deadline_ns - clock_mono_ns()) / 1000000;
        struct pollfd p = {.fd = j->fd, .events = wants};
        int n = left_ms > 0 ? poll(&p, 1, (int)left_ms) : 0;
        if (n > 0)
            return 0;
        if (n == 0)
            return -ETIMEDOUT;
        if (errno != EINTR)
            return -errno;
    }
}

static void hang_up(struct joiner *j)
{
    tls_link_end(j->link);
    j->link = NULL;
    if (j->fd >= 0)
        (void)close(j->fd); /* nothing more is asked of it */
    j->fd = -1;
    sk_X509_pop_free(j->cas, X509_free);
    j->cas = NULL;
}

static int connect_to(struct joiner *j, const struct addrinfo *a)
{
    j->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (j->fd < 0)
        return -errno;
    if (connect(j->fd, a->ai_addr, a->ai_addrlen) == 0)
        return 0;
    if (errno != EINPROGRESS && errno != EINTR)
        return -errno;
    int r = wait_for(j, POLLOUT), error = 0;
    socklen_t n = sizeof error;
    if (r == 0 && getsockopt(j->fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0)
        r = -errno;
    return r < 0 ? r : -error;
}

static int dial(struct joiner *j, struct slice address, struct diag *why)
{
    const struct slice scheme = SLICE_LIT("tls://");
    char host[ADDRESS_HOST_MAX], port[ADDRESS_PORT_MAX];
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct slice rest = slice_from(address, slice_starts(address, scheme) ? scheme.n : 0);
    if (address_split(rest, host, port) < 0)
        return diag_set(why, -EINVAL, 0, "'%.*s' is not an address: write tls://HOST or tls://HOST:PORT",
                        (int)(address.n < 100 ? address.n : 100), address.p);
    int g = getaddrinfo(host, port, &hints, &found);
    if (g != 0)
        return diag_set(why, -EHOSTUNREACH, 0, "%.100s: %s", host, gai_strerror(g));
    int r = -EHOSTUNREACH;
    for (const struct addrinfo *a = found; a && r < 0; a = a->ai_next) {
        hang_up(j);
        r = connect_to(j, a);
    }
    freeaddrinfo(found);
    return r < 0 ? diag_set(why, r, 0, "can't reach the gateway at %.100s:%s: %s", host, port, err_text(r))
                 : 0;
}

static int secure(struct joiner *j, struct diag *why)
{
    short wants;
    int r = tls_link_start(j->ctx, j->fd, false, &j->link, why);
    while (r == 0 && (r = tls_link_handshake(j->link, &wants, why)) == -EAGAIN)
        if ((r = wait_for(j, wants)) < 0)
            return diag_set(why, r, 0, "the gateway does not answer");
    if (r < 0 && j->is_foreign)
        return diag_set(why, -EKEYREJECTED, 0,
                        "the gateway is not of the token's site: its CA is another one");
    struct tls_identity who = {0};
    if (r == 0)
        r = certificate_identity(SSL_get0_peer_certificate(j->link->ssl), &who, why);
    if (r == 0 && who.role != TLS_GATEWAY)
        r = diag_set(why, -EKEYREJECTED, 0, "the other end is %s %.60s, not a gateway",
                     identity_role_name(who.role), who.name);
    return r;
}

static int send_all(struct joiner *j, struct slice s)
{
    while (s.n) {
        short wants;
        ssize_t n = tls_link_send(j->link, s.p, s.n, &wants);
        int r = n == -EAGAIN ? wait_for(j, wants) : n < 0 ? (int)n : 0;
        if (r < 0)
            return r;
        s = slice_from(s, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

/* The next frame; it is borrowed from j->answer. */
static int receive_frame(struct joiner *j, struct frame *f)
{
    for (;;) {
        int64_t size = frame_read(strbuf_slice(&j->answer), ANSWER_MAX, f);
        if (size != 0)
            return size < 0 ? (int)size : 0;
        short wants;
        char *to = strbuf_room(&j->answer, READ_BYTES);
        ssize_t n = to ? tls_link_receive(j->link, to, READ_BYTES, &wants) : -ENOMEM;
        int r = n == -EAGAIN ? wait_for(j, wants) : n == 0 ? -ECONNRESET : n < 0 ? (int)n : 0;
        if (r < 0)
            return r;
        if (n > 0)
            strbuf_advance(&j->answer, (size_t)n);
    }
}

static int read_answer(const struct frame *f, struct frame_certified *out, struct diag *why)
{
    struct frame_bye_reason bye;
    if (f->type == FRAME_BYE && frame_get_bye(f->payload, &bye) == 0)
        return diag_set(why, -EACCES, 0, "the gateway hung up: %.*s",
                        (int)(bye.text.n < 150 ? bye.text.n : 150), bye.text.p);
    if (f->type != FRAME_CERTIFIED || frame_get_certified(f->payload, out) < 0)
        return diag_set(why, E_PROTO, 0, "the gateway's answer can't be read");
    if (out->status != 0)
        return diag_set(why, -EACCES, 0, "the gateway refused: %.*s",
                        (int)(out->text.n < 170 ? out->text.n : 170), out->text.p);
    return 0;
}

static int ask(struct joiner *j, struct frame_certified *out, struct diag *why)
{
    struct strbuf question = {0};
    struct frame f;
    greeting_put(&question);
    frame_put_join(&question, &(struct frame_join){
                                  .token = slice_of((const char *)j->token.secret, sizeof j->token.secret),
                                  .name = slice_str(j->name),
                                  .request = strbuf_slice(&j->request)});
    int r = strbuf_failed(&question) ? -ENOMEM : send_all(j, strbuf_slice(&question));
    if (r == 0)
        r = receive_frame(j, &f);
    certificate_wipe(&question);
    if (r < 0)
        return diag_set(why, r, 0, "the gateway gave no answer: %s",
                        j->link->why[0] ? j->link->why : err_text(r));
    return read_answer(&f, out, why);
}

/* Tries the addresses in order; the first gateway of the site decides. */
static int ask_any(struct joiner *j, struct frame_certified *out, struct diag *why)
{
    const char *list = j->options->gateway ? j->options->gateway : j->token.addresses;
    struct slice rest = slice_str(list), one;
    int r = diag_set(why, -EDESTADDRREQ, 0, "the token has no address of a gateway: give --gateway");
    while (address_next(&rest, &one)) {
        if (one.n == 0)
            continue;
        hang_up(j);
        j->deadline_ns = clock_mono_ns() + j->options->timeout_ms * INT64_C(1000000);
        r = dial(j, one, why);
        if (r == 0)
            r = secure(j, why);
        if (r == 0)
            return ask(j, out, why);
    }
    return r;
}

/* ---------------------------------------------------------------- the identity */

static int check_answer(const struct joiner *j, STACK_OF(X509) * chain, struct tls_identity *who,
                        struct diag *why)
{
    X509 *own = sk_X509_value(chain, 0);
    struct diag what = {0};
    int r = certificate_identity(own, who, why);
    if (r == 0 && (who->role != j->token.role || strcmp(who->name, j->name) != 0))
        r = diag_set(why, -EKEYREJECTED, 0, "the gateway gave a certificate for %s %.60s",
                     identity_role_name(who->role), who->name);
    if (r == 0 && X509_check_private_key(own, j->key) != 1) {
        (void)certificate_reason(); /* empties the queue */
        r = diag_set(why, -EKEYREJECTED, 0, "the gateway gave a certificate for another key");
    }
    if (r == 0 && (r = certificate_verify(own, chain, j->cas, X509_PURPOSE_SSL_CLIENT, 0, &what)) < 0)
        (void)diag_set(why, r, 0, "the new certificate is not good here: %.80s: is this host's clock right?",
                       what.message);
    return r;
}

static int keep(struct joiner *j, struct slice chain_pem, struct tls_identity *who, struct diag *why)
{
    STACK_OF(X509) *chain = NULL;
    struct strbuf ca = {0};
    const char *dir = j->options->dir;
    int r = certificate_read_pem(chain_pem, &chain, why);
    if (r == 0)
        r = check_answer(j, chain, who, why);
    if (r == 0 && certificate_add_pem(sk_X509_value(j->cas, 0), &ca) < 0)
        r = diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    if (r == 0 && folder_is_used(dir)) /* one that has expired, as check_dir saw */
        r = folder_put(dir, "ca.pem", 0644, strbuf_slice(&ca), why);
    if (r == 0)
        r = folder_is_used(dir) ? folder_replace(dir, j->key, chain_pem, why)
                                : folder_create(dir, j->key, chain_pem, strbuf_slice(&ca), why);
    strbuf_fini(&ca);
    sk_X509_pop_free(chain, X509_free);
    return r;
}

/* An identity that is good is not thrown away; one that has expired is replaced. */
static int check_dir(const char *dir, struct diag *why)
{
    struct folder f = {0};
    if (!folder_is_used(dir))
        return folder_make(dir, why); /* before the token is used up */
    int r = folder_read(dir, &f, why);
    if (r == 0 && folder_check_time(&f, clock_utc_ns(), NULL) == 0)
        r = diag_set(why, -EEXIST, 0, "%.80s has the identity of %s %.50s, which is valid: remove it first",
                     dir, identity_role_name(f.who.role), f.who.name);
    folder_fini(&f);
    return r;
}

static int prepare(struct joiner *j, struct diag *why)
{
    int r = token_parse(slice_str(j->options->token), &j->token, why);
    if (r < 0)
        return r;
    j->name = j->token.name[0] ? j->token.name : j->options->name;
    if (!j->name)
        return diag_set(why, -EINVAL, 0, "the token is for any host: give a name");
    r = check_dir(j->options->dir, why);
    if (r < 0)
        return r;
    r = certificate_new_key(&j->key);
    if (r == 0)
        r = certificate_new_request(j->key, &j->request);
    if (r < 0)
        return diag_set(why, r, 0, "no key can be made: %s", certificate_reason());
    r = tls_context_create(NULL, false, &j->ctx, why);
    if (r == 0)
        SSL_CTX_set_cert_verify_callback(j->ctx, on_chain, j);
    return r;
}

int joiner_join(const struct secure_join *o, struct tls_identity *out, struct diag *why)
{
    struct joiner j = {.options = o, .fd = -1};
    struct frame_certified answer;
    int r = prepare(&j, why);
    if (r == 0)
        r = ask_any(&j, &answer, why);
    if (r == 0)
        r = keep(&j, answer.chain, out, why);
    hang_up(&j);
    SSL_CTX_free(j.ctx);
    EVP_PKEY_free(j.key);
    strbuf_fini(&j.request);
    strbuf_fini(&j.answer);
    OPENSSL_cleanse(&j.token, sizeof j.token);
    return r;
}
