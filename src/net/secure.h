/* SPDX-License-Identifier: Apache-2.0 */
/* secure.h - everything of the agent and of commands that needs OpenSSL, behind tables, so that an agent
 * without TLS does not load it (3 to 5 MB), and a command like `gridline log` does not (1.3 ms). They are in
 * the module gridline-secure.so, which secure_load opens: from GRIDLINE_MODULES if that is set, else from
 * beside the program, else from the installed folder.
 *
 * The identity (pki/folder.h) is read by open; renewed replaces it, on disk and in use. */
#ifndef GRIDLINE_NET_SECURE_H
#define GRIDLINE_NET_SECURE_H

#include "base/strbuf.h"
#include "net/datagram.h"
#include "net/lease.h"
#include "net/transport.h"
#include "pki/site_terms.h"

#define SECURE_SYMBOL "gridline_secure_ops"
enum { SECURE_VERSION = 1 };

struct secure; /* an identity with its TLS context */

struct secure_ops {
    uint32_t version;
    uint32_t size;                         /* of this struct */
    const struct transport_ops *transport; /* ctx is the struct secure */
    /* dir: key.pem, cert.pem, ca.pem. allowed: names of gateways that may be at the other end, comma
     * separated; "" = any gateway of the site. */
    int (*open)(const char *dir, const char *allowed, struct secure **out, struct diag *why);
    void (*close)(struct secure *s); /* NULL is fine */
    /* When the certificate must be renewed (2/3 of its life), ns UTC. */
    int64_t (*renew_at_ns)(const struct secure *s);
    /* A request for a new certificate with a new key (DER, in *out, borrowed until the next call); the key is
     * kept until the answer. */
    int (*request)(struct secure *s, struct slice *out, struct diag *why);
    /* The answer (a chain in PEM): checked, written to disk with its key, and used from the next connection
     * on. On failure everything is as before. */
    int (*renewed)(struct secure *s, struct slice chain, struct diag *why);
    /* seal.h's */
    void *(*seal_create)(void);
    void (*seal_destroy)(void *seal);
    int64_t (*seal_close)(void *seal, const unsigned char key[LEASE_KEY], uint32_t key_id, unsigned char *p,
                          size_t n);
};

/* NULL: *why says what is missing. Loaded once; stays. */
const struct secure_ops *secure_load(struct diag *why);

/* The same for the commands that make certificates. */
#define SECURE_SITE_SYMBOL "gridline_secure_site_ops"

struct secure_join {
    const char *token;   /* as `gridline token` printed it */
    const char *name;    /* for a token that any host may use; NULL = the token's */
    const char *gateway; /* address, tls://HOST[:PORT]; NULL = the token's */
    const char *dir;     /* where the identity goes */
    int timeout_ms;
};

struct secure_site_ops {
    uint32_t version;
    uint32_t size;
    int (*init)(const struct site_init *o, int64_t now_ns, struct strbuf *operator_dir, struct diag *why);
    int (*token)(const struct site_token *o, int64_t now_ns, struct strbuf *out, struct diag *why);
    int (*http_token)(struct strbuf *token, struct strbuf *sha256); /* pki/token.h */
    /* The name and role that a token is for; "" = any host. */
    int (*read_token)(const char *token, struct tls_identity *out, struct diag *why);
    /* Joins, and writes the identity. -EEXIST: dir has one that is valid; -EACCES: the gateway refused;
     * -EKEYREJECTED: the gateway is not of the token's site; -ETIMEDOUT, -ECONNREFUSED, ...: it can't be
     * reached. */
    int (*join)(const struct secure_join *o, struct tls_identity *out, struct diag *why);
};

const struct secure_site_ops *secure_load_site(struct diag *why);

#endif
