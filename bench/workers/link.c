/* SPDX-License-Identifier: Apache-2.0 */
#include "link.h"

#include "base/num.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>

int link_target_parse(struct link_target *t, const char *address, struct diag *why)
{
    struct slice a = slice_str(address);
    struct slice tcp = SLICE_LIT("tcp://"), tls = SLICE_LIT("tls://");
    t->is_tls = slice_starts(a, tls);
    if (!t->is_tls && !slice_starts(a, tcp))
        return diag_set(why, -EINVAL, 0, "%s is not tcp://HOST:PORT or tls://HOST:PORT", address);
    const char *host = a.p + tcp.n, *colon = strrchr(host, ':');
    char text[INET_ADDRSTRLEN] = "";
    uint64_t port = 0;
    if (!colon || (size_t)(colon - host) >= sizeof text || num_parse_uint(slice_str(colon + 1), &port) < 0 ||
        port > UINT16_MAX)
        return diag_set(why, -EINVAL, 0, "%s: no address and port of IPv4", address);
    memcpy(text, host, (size_t)(colon - host));
    t->to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, text, &t->to.sin_addr) != 1)
        return diag_set(why, -EINVAL, 0, "%s: '%s' is not an address of IPv4", address, text);
    return 0;
}

/* The ticket of the session belongs to the link that the connection is of. */
static int on_session(SSL *tls, SSL_SESSION *session)
{
    struct link *l = SSL_get_app_data(tls);
    SSL_SESSION_free(l->session);
    l->session = session;
    return 1; /* kept */
}

static int load(SSL_CTX *c, const char *dir, struct diag *why)
{
    struct strbuf path[3] = {0};
    static const char *const names[] = {"ca.pem", "cert.pem", "key.pem"};
    for (size_t i = 0; i < 3; i++)
        strbuf_printf(&path[i], "%s/%s", dir, names[i]);
    bool is_good = SSL_CTX_load_verify_locations(c, path[0].p, NULL) == 1 &&
                   SSL_CTX_use_certificate_chain_file(c, path[1].p) == 1 &&
                   SSL_CTX_use_PrivateKey_file(c, path[2].p, SSL_FILETYPE_PEM) == 1 &&
                   SSL_CTX_check_private_key(c) == 1;
    for (size_t i = 0; i < 3; i++)
        strbuf_fini(&path[i]);
    return is_good ? 0
                   : diag_set(why, -EINVAL, 0, "the identity %s: %s", dir,
                              ERR_reason_error_string(ERR_peek_last_error()));
}

int link_identity_load(const char *dir, SSL_CTX **out, struct diag *why)
{
    SSL_CTX *c = SSL_CTX_new(TLS_client_method());
    if (!c)
        return -ENOMEM;
    (void)SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
    (void)SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    (void)SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(c, on_session);
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
    int r = load(c, dir, why);
    if (r < 0) {
        SSL_CTX_free(c);
        return r;
    }
    *out = c;
    return 0;
}

static int bind_source(int fd, uint32_t number)
{
    const int one = 1;
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + number)};
    if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one) < 0)
        return -1;
    return bind(fd, (const struct sockaddr *)&from, sizeof from);
}

static int start_tls(struct link *l, const struct link_target *t)
{
    l->tls = SSL_new(t->identity);
    if (!l->tls || SSL_set_fd(l->tls, l->fd) != 1)
        return -ENOMEM;
    SSL_set_app_data(l->tls, l);
    SSL_set_connect_state(l->tls);
    if (t->resumes && l->session)
        (void)SSL_set_session(l->tls, l->session); /* refused: a full handshake, which is counted there */
    return 0;
}

int link_dial(struct link *l, const struct link_target *t, uint32_t number)
{
    const int one = 1;
    l->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0)
        return -errno;
    (void)setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int r = t->sources ? bind_source(l->fd, number % t->sources) : 0;
    if (r == 0)
        r = connect(l->fd, (const struct sockaddr *)&t->to, sizeof t->to);
    r = r < 0 && errno != EINPROGRESS ? -errno : 0;
    if (r == 0 && t->is_tls)
        r = start_tls(l, t);
    if (r < 0) {
        link_close(l);
        return r;
    }
    l->state = LINK_CONNECTING;
    l->wants_write = true;
    return 0;
}

/* What an operation of OpenSSL that did not succeed means. */
static int tls_result(struct link *l, int r)
{
    int e = SSL_get_error(l->tls, r), error = errno;
    ERR_clear_error();
    if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) {
        l->wants_write = e == SSL_ERROR_WANT_WRITE;
        return -EAGAIN;
    }
    if (e == SSL_ERROR_ZERO_RETURN)
        return 0;
    return e == SSL_ERROR_SYSCALL && error ? -error : E_PROTO;
}

static int finish_connect(struct link *l)
{
    int error = 0;
    socklen_t n = sizeof error;
    if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0)
        error = errno;
    l->state = l->tls ? LINK_HANDSHAKE : LINK_OPEN;
    return -error;
}

static int handshake(struct link *l)
{
    int r = SSL_do_handshake(l->tls);
    if (r == 1) {
        l->state = LINK_OPEN;
        return 0;
    }
    r = tls_result(l, r);
    return r == 0 ? -ECONNRESET : r;
}

static ssize_t write_some(struct link *l, const char *p, size_t n)
{
    if (!l->tls) {
        ssize_t k = send(l->fd, p, n, MSG_NOSIGNAL);
        return k < 0 ? -errno : k;
    }
    int k = SSL_write(l->tls, p, n > 65536 ? 65536 : (int)n);
    if (k > 0)
        return k;
    k = tls_result(l, k);
    return k == 0 ? -ECONNRESET : k;
}

static int flush(struct link *l)
{
    l->wants_write = false;
    while (l->out_at < l->out.n) {
        ssize_t k = write_some(l, l->out.p + l->out_at, l->out.n - l->out_at);
        if (k == -EAGAIN) {
            l->wants_write = l->wants_write || !l->tls; /* TLS has said what it waits for */
            return 0;
        }
        if (k < 0)
            return (int)k;
        l->out_at += (size_t)k;
    }
    strbuf_reset(&l->out);
    l->out_at = 0;
    return 0;
}

int link_pump(struct link *l)
{
    int r = 0;
    if (l->state == LINK_CONNECTING)
        r = finish_connect(l);
    if (r == 0 && l->state == LINK_HANDSHAKE)
        r = handshake(l);
    if (r == -EAGAIN)
        return 0;
    if (strbuf_failed(&l->out))
        return -ENOMEM;
    return r == 0 && l->state == LINK_OPEN ? flush(l) : r;
}

ssize_t link_read(struct link *l, void *to, size_t n)
{
    if (!l->tls) {
        ssize_t k = recv(l->fd, to, n, 0);
        return k < 0 ? -errno : k;
    }
    bool waits_to_write = l->wants_write;
    int k = SSL_read(l->tls, to, n > INT32_MAX ? INT32_MAX : (int)n);
    if (k > 0)
        return k;
    k = tls_result(l, k);
    l->wants_write = l->wants_write || waits_to_write;
    return k;
}

void link_close(struct link *l)
{
    if (l->tls) {
        SSL_set_shutdown(l->tls,
                         SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN); /* else the ticket is not used again */
        SSL_free(l->tls);
    }
    if (l->fd >= 0)
        close(l->fd);
    l->tls = NULL;
    l->fd = -1;
    l->state = LINK_CLOSED;
    l->wants_write = false;
    strbuf_reset(&l->out);
    l->out_at = 0;
}

void link_fini(struct link *l)
{
    link_close(l);
    SSL_SESSION_free(l->session);
    strbuf_fini(&l->out);
}
