/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/site_folders.h"

#include "net/dial.h"

#include <unistd.h>

static void folder(struct strbuf *out, const char *name)
{
    const char *home = getenv("HOME");
    if (geteuid() == 0 || !home || !home[0])
        strbuf_printf(out, "/var/lib/gridline/%s", name);
    else
        strbuf_printf(out, "%s/.local/share/gridline/%s", home, name);
}

void site_folder(struct strbuf *out)
{
    folder(out, "site");
}

void identity_folder(enum tls_role role, struct strbuf *out)
{
    if (role == TLS_OPERATOR)
        dial_default_identity(out);
    else
        folder(out, role == TLS_GATEWAY ? "site" : "identity");
}

const char *host_name(void)
{
    static char name[256];
    if (gethostname(name, sizeof name - 1) < 0)
        name[0] = '\0';
    return name;
}
