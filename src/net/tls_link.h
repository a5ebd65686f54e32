/* SPDX-License-Identifier: Apache-2.0 */
/* tls_link.h - one TLS connection as a transport (transport.h), either end. The ends differ in how it is
 * started and in what they ask of the other end once hands are shaken; the rest is here. */
#ifndef GRIDLINE_NET_TLS_LINK_H
#define GRIDLINE_NET_TLS_LINK_H

#include "net/tls_context.h"
#include "net/transport.h"

struct transport {
    SSL *ssl;
    const char *why; /* of the last failure; borrowed from ssl, or static */
    void *owner;     /* the end's own, with the next */
    const char *name;
    bool is_checked;
};

/* A connection on fd in the context; accepting or connecting. -ENOMEM. */
int tls_link_start(SSL_CTX *ctx, int fd, bool is_server, struct transport **out, struct diag *why);
/* The calls of transport_ops. */
int tls_link_handshake(struct transport *t, short *wants, struct diag *why);
ssize_t tls_link_send(struct transport *t, const void *p, size_t n, short *wants);
ssize_t tls_link_receive(struct transport *t, void *p, size_t n, short *wants);
void tls_link_end(struct transport *t);
const char *tls_link_why(struct transport *t);
bool tls_link_has_more(struct transport *t);

#endif
