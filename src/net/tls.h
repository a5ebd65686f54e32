/* SPDX-License-Identifier: Apache-2.0 */
/* tls.h - TLS 1.3 for the gateway, and identities: who a certificate says that somebody is (pki/identity.h).
 *
 * An identity on disk is a folder of mode 0700 with key.pem (0600), cert.pem (the chain, own first) and
 * ca.pem (pki/folder.h). The role is in the URI and in the extended key usage as well (agents: client;
 * gateways: server and client; operators: client). Nothing but the site's own CA (ca.pem) is trusted.
 *
 *     stream_set_transport(stream, &tls_server_transport, server);
 *     ...
 *     r = tls_identify(stream_transport(stream), &who);                 (in on_ready)
 *
 * A connection is resumed by a ticket, which holds the peer's certificate: it is looked at again, and one
 * that has expired meanwhile gets a full handshake, which refuses it. Nobody but the owner limits the time
 * that a handshake takes. One thread. */
#ifndef GRIDLINE_NET_TLS_H
#define GRIDLINE_NET_TLS_H

#include "base/err.h"
#include "net/transport.h"
#include "pki/identity.h"

struct tls_server;
/* Reads dir: a gateway's identity that is valid now. Tickets for resumption; OpenSSL's memory per connection
 * as small as it goes (release buffers). */
int tls_server_create(const char *dir, struct tls_server **out, struct diag *why);
/* NULL is fine. Connections may outlive it. */
void tls_server_destroy(struct tls_server *s);
/* Reads the folder again; on failure the old one stays in use. Tickets given before are worth nothing then.
 */
int tls_server_reload(struct tls_server *s, struct diag *why);
int64_t tls_server_not_after_ns(const struct tls_server *s);
/* Our own name. */
const char *tls_server_name(const struct tls_server *s);

/* The accepting end; ctx is the struct tls_server, and name must be NULL. Its handshake refuses every
 * certificate that is not of the site, has expired, or names nobody, and says why; none at all is fine
 * (TLS_NOBODY). */
extern const struct transport_ops tls_server_transport;

/* After the handshake: who it is. E_PROTO: a certificate, but not one of ours. */
int tls_identify(struct transport *t, struct tls_identity *out);
/* For those who have a loop of their own do the work (libevent's bufferevents): an accepting end like that of
 * the transport, the caller's to free. NULL: no memory. */
struct ssl_st *tls_server_ssl(const struct tls_server *s);
int tls_identify_ssl(const struct ssl_st *ssl, struct tls_identity *out);
/* By a ticket? */
bool tls_is_resumed(struct transport *t);

#endif
