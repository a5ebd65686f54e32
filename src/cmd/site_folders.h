/* SPDX-License-Identifier: Apache-2.0 */
/* site_folders.h - where the commands keep a site and identities unless told otherwise. Root's are the host's
 * own, others' are in their home folder. */
#ifndef GRIDLINE_CMD_SITE_FOLDERS_H
#define GRIDLINE_CMD_SITE_FOLDERS_H

#include "base/strbuf.h"
#include "pki/identity.h"

/* /var/lib/gridline/site, or ~/.local/share/gridline/site. */
void site_folder(struct strbuf *out);
/* An agent's: /var/lib/gridline/identity, or ~/.local/share/gridline/identity. An operator's:
 * dial_default_identity. A gateway's: site_folder. */
void identity_folder(enum tls_role role, struct strbuf *out);
/* This host's name, as agents have it. */
const char *host_name(void);

#endif
