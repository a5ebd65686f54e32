/* SPDX-License-Identifier: Apache-2.0 */
#include "pki/identity.h"

#include "base/err.h"
#include "base/text.h"

static const char *const roles[] = {"nobody", "agent", "gateway", "operator"};

const char *identity_role_name(enum tls_role role)
{
    return roles[role];
}

enum tls_role identity_role_of(struct slice name)
{
    for (enum tls_role r = TLS_AGENT; r <= TLS_OPERATOR; r++)
        if (slice_eq_str(name, roles[r]))
            return r;
    return TLS_NOBODY;
}

int identity_parse_uri(struct slice uri, struct tls_identity *out)
{
    const struct slice scheme = SLICE_LIT("gridline:");
    if (!slice_starts(uri, scheme))
        return E_NODATA;
    struct slice rest = slice_from(uri, scheme.n);
    const char *slash = rest.n ? memchr(rest.p, '/', rest.n) : NULL;
    if (!slash)
        return E_PROTO;
    struct slice role = slice_of(rest.p, (size_t)(slash - rest.p)), name = slice_from(rest, role.n + 1);
    enum tls_role r = identity_role_of(role);
    if (r == TLS_NOBODY || !text_is_name(name))
        return E_PROTO;
    out->role = r;
    memcpy(out->name, name.p, name.n); /* text_is_name allows 128 bytes */
    out->name[name.n] = '\0';
    return 0;
}
