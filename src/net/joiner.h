/* SPDX-License-Identifier: Apache-2.0 */
/* joiner.h - how a host gets its first certificate: what `gridline join` does. Waits. */
#ifndef GRIDLINE_NET_JOINER_H
#define GRIDLINE_NET_JOINER_H

#include "net/secure.h"

/* As secure_site_ops.join. */
int joiner_join(const struct secure_join *o, struct tls_identity *out, struct diag *why);

#endif
