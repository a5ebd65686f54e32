/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSSL's error queue is the thread's: it is emptied before each call, so that what is in it afterwards is
 * of that call. errno likewise: SSL_ERROR_SYSCALL without one is an end of file in the middle of something.
 */
#include "net/tls_link.h"

#include "base/mem.h"
#include "net/bio.h"

#include <errno.h>
#include <openssl/err.h>
#include <poll.h>

int tls_link_start(SSL_CTX *ctx, int fd, bool is_server, struct transport **out, struct diag *why)
{
    struct transport *t = mem_try_alloc(sizeof *t);
    SSL *ssl = SSL_new(ctx);
    BIO *bio = bio_of_socket(fd);
    if (!t || !ssl || !bio || SSL_set_app_data(ssl, t) != 1) {
        BIO_free(bio);
        SSL_free(ssl);
        mem_free(t);
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    }
    SSL_set_bio(ssl, bio, bio); /* takes it */
    if (is_server)
        SSL_set_accept_state(ssl);
    else
        SSL_set_connect_state(ssl);
    t->ssl = ssl;
    t->why = "";
    *out = t;
    return 0;
}

static void begin(void)
{
    ERR_clear_error();
    errno = 0;
}

/* What it means that a call did not succeed: -EAGAIN with *wants, 0 for the end, or an error. */
static int outcome(struct transport *t, int result, short *wants)
{
    int saved = errno;
    switch (SSL_get_error(t->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        *wants = POLLIN;
        return -EAGAIN;
    case SSL_ERROR_WANT_WRITE:
        *wants = POLLOUT;
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        return saved ? -saved : -ECONNRESET;
    default:
        t->why = tls_context_why(t->ssl, ERR_peek_error());
        ERR_clear_error();
        return -EPROTO;
    }
}

int tls_link_handshake(struct transport *t, short *wants, struct diag *why)
{
    begin();
    int n = SSL_do_handshake(t->ssl);
    int r = n == 1 ? 0 : outcome(t, n, wants);
    if (n == 1 || r == -EAGAIN)
        return r;
    if (r == 0 || r == -ECONNRESET)
        return diag_set(why, -ECONNRESET, 0, "the other end hung up during the handshake");
    return diag_set(why, r, 0, "%s", t->why[0] ? t->why : err_text(r));
}

ssize_t tls_link_send(struct transport *t, const void *p, size_t n, short *wants)
{
    size_t sent;
    if (n == 0)
        return 0;
    begin();
    int r = SSL_write_ex(t->ssl, p, n, &sent);
    if (r == 1)
        return (ssize_t)sent;
    r = outcome(t, r, wants);
    return r ? r : -EPIPE;
}

ssize_t tls_link_receive(struct transport *t, void *p, size_t n, short *wants)
{
    size_t got;
    begin();
    int r = SSL_read_ex(t->ssl, p, n, &got);
    return r == 1 ? (ssize_t)got : outcome(t, r, wants);
}

void tls_link_end(struct transport *t)
{
    if (!t)
        return;
    /* Without a word; and without this OpenSSL would take it for a failure, after which a session is not
     * resumed. */
    SSL_set_shutdown(t->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(t->ssl);
    mem_free(t);
}

const char *tls_link_why(struct transport *t)
{
    return t->why;
}

bool tls_link_has_more(struct transport *t)
{
    return SSL_has_pending(t->ssl) == 1;
}
