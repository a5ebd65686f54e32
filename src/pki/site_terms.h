/* SPDX-License-Identifier: Apache-2.0 */
/* site_terms.h - what a site or a token is asked to be: for commands, which reach site.h through
 * net/secure.h. No OpenSSL here. */
#ifndef GRIDLINE_PKI_SITE_TERMS_H
#define GRIDLINE_PKI_SITE_TERMS_H

#include "pki/identity.h"

struct site_init {
    const char *dir;
    const char *name;         /* of the gateway */
    const char *const *hosts; /* its DNS names and addresses */
    size_t n_hosts;
    const char *operator_name;
    const char *operator_dir; /* NULL or one that is used: DIR/operator */
};

struct site_token {
    const char *dir;
    enum tls_role role;
    const char *name;      /* NULL = any host, agents only */
    const char *addresses; /* by commas; NULL: those of the gateway's certificate */
    int64_t ttl_ns;
};

#endif
