/* SPDX-License-Identifier: Apache-2.0 */
/* tls.h - TLS 1.3 for the gateway, and identities: who a certificate says that somebody is.
 *
 * An identity on disk is a folder of mode 0700 with key.pem (0600), cert.pem (the chain, own first) and ca.pem.
 * A certificate of ours names its bearer in one URI of subjectAltName: gridline:agent/HOST,
 * gridline:gateway/NAME, gridline:operator/NAME; gateways also have their DNS names and addresses. The role is
 * in the extended key usage as well (agents: client; gateways: server and client; operators: client). Nothing
 * but the site's own CA (ca.pem) is trusted. */
#ifndef GRIDLINE_NET_TLS_H
#define GRIDLINE_NET_TLS_H

#include "base/err.h"

#include <event2/bufferevent.h>
#include <event2/event.h>

enum { TLS_NAME_MAX = 256 };

enum tls_role {
    TLS_NOBODY = 0, /* no certificate: may only join */
    TLS_AGENT,
    TLS_GATEWAY,
    TLS_OPERATOR
};

struct tls_identity {
    enum tls_role role;
    char name[TLS_NAME_MAX];
    int64_t not_after_ns;
};

struct tls_server;
/* Reads dir. Tickets for resumption; OpenSSL's memory per connection as small as it goes (release buffers). */
int tls_server_create(const char *dir, struct tls_server **out, struct diag *why);
void tls_server_destroy(struct tls_server *s); /* NULL is fine */
/* Reads the folder again; on failure the old one stays in use. */
int tls_server_reload(struct tls_server *s, struct diag *why);
int64_t tls_server_not_after_ns(const struct tls_server *s);
/* A bufferevent that speaks TLS on fd (accepting) and closes it when freed. NULL: no memory. */
struct bufferevent *tls_accept(struct tls_server *s, struct event_base *base, evutil_socket_t fd);
/* After BEV_EVENT_CONNECTED: who it is. E_PROTO: a certificate, but not one of ours. */
int tls_identify(struct bufferevent *b, struct tls_identity *out);
/* After BEV_EVENT_ERROR: why, in words; "" when it is not a matter of TLS. Borrowed. */
const char *tls_error(struct bufferevent *b);

#endif
