/* SPDX-License-Identifier: Apache-2.0 */
/* tls_context.h - what both ends of our TLS have in common: version, ciphers, what is trusted, and why a
 * certificate or a connection was refused, in words. Needs libssl. */
#ifndef GRIDLINE_NET_TLS_CONTEXT_H
#define GRIDLINE_NET_TLS_CONTEXT_H

#include "pki/folder.h"

#include <openssl/ssl.h>

enum { TLS_WHY_MAX = 200 };

/* TLS 1.3 only; the other end's certificate must be of the CAs, valid, and name an identity (certificate.h).
 * A server asks for a certificate but takes none, too. f NULL: a client without an identity, whose CAs come
 * from SSL_CTX_set_cert_verify_callback. The self-signed CA is sent by servers only: whoever joins needs it,
 * nobody else does. */
int tls_context_create(const struct folder *f, bool is_server, SSL_CTX **out, struct diag *why);

/* Why the handshake on ssl failed, or the connection broke; error is from ERR_get_error (0 = none). "" when
 * it is not a matter of TLS. Borrowed from ssl, or static. */
const char *tls_context_why(SSL *ssl, unsigned long error);

#endif
