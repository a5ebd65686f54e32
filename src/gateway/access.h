/* SPDX-License-Identifier: Apache-2.0 */
/* access.h - who is at the other end of a connection, and the one place that says what it may do (JM-10).
 * Default: no. The table of issue 5 replaces the rules in access.c, not this interface. */
#ifndef GRIDLINE_GATEWAY_ACCESS_H
#define GRIDLINE_GATEWAY_ACCESS_H

#include "base/slice.h"

#include <stdint.h>

enum { ACCESS_NAME_MAX = 256 };

enum access_kind {
    ACCESS_NOBODY,   /* TLS without a certificate */
    ACCESS_OWNER,    /* the gateway's own user or root, by the Unix socket's credentials */
    ACCESS_LOCAL,    /* anybody else on this host: Unix socket of another user, or TCP on loopback */
    ACCESS_INSECURE, /* another host without TLS, where `insecure = true` allows it */
    ACCESS_AGENT,    /* certificates: */
    ACCESS_GATEWAY,
    ACCESS_OPERATOR
};

struct access_identity {
    enum access_kind kind;
    uint32_t uid;               /* OWNER, LOCAL by Unix socket; else UINT32_MAX */
    char name[ACCESS_NAME_MAX]; /* of a certificate */
    int64_t not_after_ns;       /* of a certificate: when it is over */
};

enum access_action {
    ACCESS_JOIN,      /* ask for a certificate with a token */
    ACCESS_PUBLISH,   /* events; resource: the host they are about */
    ACCESS_REGISTER,  /* as a worker; resource: its host */
    ACCESS_DIRECTORY, /* see workers and the ledger */
    ACCESS_CONTROL    /* act on workers; resource: the worker's host, "" = any at all */
};

bool access_allows(const struct access_identity *who, enum access_action action, struct slice resource);
/* "operator ann", "user 1000 here", for logs and events. */
size_t access_print(char *to, size_t n, const struct access_identity *who);

#endif
