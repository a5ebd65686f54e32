/* SPDX-License-Identifier: Apache-2.0 */
/* identity.h - who somebody is: a role and a name, as a certificate of the site says them. No OpenSSL here.
 *
 * A certificate of ours names its bearer in one URI of subjectAltName: gridline:agent/HOST,
 * gridline:gateway/NAME, gridline:operator/NAME. A name is [A-Za-z0-9._:-]{1,128}. */
#ifndef GRIDLINE_PKI_IDENTITY_H
#define GRIDLINE_PKI_IDENTITY_H

#include "base/slice.h"

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

/* "agent", "gateway", "operator"; "nobody". */
const char *identity_role_name(enum tls_role role);
/* The role of that name; TLS_NOBODY when there is none. */
enum tls_role identity_role_of(struct slice name);
/* E_NODATA: not a URI of ours (another scheme); E_PROTO: ours, but it names nobody. Sets role and name. */
int identity_parse_uri(struct slice uri, struct tls_identity *out);

#endif
