/* SPDX-License-Identifier: Apache-2.0 */
/* archive_verbs.h - the archive beside the gateway, as people ask for it:
 *
 *     archive           a row: what it holds, from when to when, its size, and how far it lags
 *     baseline.set      name, label, where: text; from, to: int, ns. Kept soon; the SQL table `baselines`
 * says when baseline.remove   name */
#ifndef GRIDLINE_GATEWAY_ARCHIVE_VERBS_H
#define GRIDLINE_GATEWAY_ARCHIVE_VERBS_H

#include "gateway/control.h"
#include "gateway/gateway.h"

/* Borrows the archive for good. -ENOMEM. */
int archive_verbs_add(struct control *c, const struct gateway_archive *archive);

#endif
