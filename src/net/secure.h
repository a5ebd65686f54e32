/* SPDX-License-Identifier: Apache-2.0 */
/* secure.h - everything of the agent that needs OpenSSL, behind one table, so that an agent without TLS does not
 * load it (3 to 5 MB). The table is in the module gridline-secure.so, which secure_load opens: from
 * GRIDLINE_MODULES if that is set, else from beside the program, else from the installed folder.
 *
 * The identity (tls.h, "An identity on disk") is read by open and again by reload. */
#ifndef GRIDLINE_NET_SECURE_H
#define GRIDLINE_NET_SECURE_H

#include "net/datagram.h"
#include "net/lease.h"
#include "net/transport.h"

#define SECURE_SYMBOL "gridline_secure_ops"
enum { SECURE_VERSION = 1 };

struct secure; /* an identity with its TLS context */

struct secure_ops {
    uint32_t version;
    uint32_t size; /* of this struct */
    const struct transport_ops *transport; /* ctx is the struct secure */
    /* dir: key.pem, cert.pem, ca.pem. allowed: names of gateways that may be at the other end, comma
     * separated; "" = any gateway of the site. */
    int (*open)(const char *dir, const char *allowed, struct secure **out, struct diag *why);
    void (*close)(struct secure *s); /* NULL is fine */
    /* When the certificate must be renewed (2/3 of its life), ns UTC. */
    int64_t (*renew_at_ns)(const struct secure *s);
    /* A request for a new certificate with a new key (DER, in *out); the key is kept until the answer. */
    int (*request)(struct secure *s, struct slice *out, struct diag *why);
    /* The answer (a chain in PEM): checked, written to disk with its key, and used from the next connection
     * on. */
    int (*renewed)(struct secure *s, struct slice chain, struct diag *why);
    /* seal.h's */
    void *(*seal_create)(void);
    void (*seal_destroy)(void *seal);
    int64_t (*seal_close)(void *seal, const unsigned char key[LEASE_KEY], uint32_t key_id, unsigned char *p,
                          size_t n);
};

/* NULL: *why says what is missing. Loaded once; stays. */
const struct secure_ops *secure_load(struct diag *why);

#endif
