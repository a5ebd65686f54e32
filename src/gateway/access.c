/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/access.h"

#include <inttypes.h>
#include <stdio.h>

/* A certificate of an agent speaks for the host that it names, and for no other. */
static bool is_own(const struct access_identity *who, struct slice host)
{
    return slice_eq_nocase(slice_str(who->name), host);
}

bool access_allows(const struct access_identity *who, enum access_action action, struct slice resource)
{
    switch (who->kind) {
    case ACCESS_NOBODY:
        return action == ACCESS_JOIN;
    case ACCESS_OWNER:
    case ACCESS_OPERATOR:
        return true;
    case ACCESS_LOCAL: /* no ceremony on loopback, but no free pass: nothing that acts */
        return action == ACCESS_PUBLISH || action == ACCESS_REGISTER || action == ACCESS_DIRECTORY;
    case ACCESS_INSECURE: /* whoever wrote `insecure = true` trusts that network to say who it is, not to give
                             orders */
        return action == ACCESS_PUBLISH || action == ACCESS_REGISTER;
    case ACCESS_AGENT:
        return (action == ACCESS_PUBLISH || action == ACCESS_REGISTER) && is_own(who, resource);
    case ACCESS_GATEWAY: /* a relay speaks for its workers */
        return action == ACCESS_PUBLISH || action == ACCESS_REGISTER || action == ACCESS_DIRECTORY;
    }
    return false;
}

size_t access_print(char *to, size_t n, const struct access_identity *who)
{
    static const char *const kinds[] = {"nobody", "the owner", "a local program", "another host without TLS",
                                        "agent ", "gateway ",  "operator "};
    int length;
    if (who->uid != UINT32_MAX && (who->kind == ACCESS_OWNER || who->kind == ACCESS_LOCAL))
        length = snprintf(to, n, "user %" PRIu32 " here", who->uid);
    else
        length = snprintf(to, n, "%s%s", kinds[who->kind], who->kind >= ACCESS_AGENT ? who->name : "");
    return length < 0 ? 0 : (size_t)length < n ? (size_t)length : n - 1;
}
