/* SPDX-License-Identifier: Apache-2.0 */
/* directory_verbs.h - the directory as people ask for it, through what each may look up (access.h,
 * ACCESS_LOOKUP):
 *
 *     sensors   host, event, sensor: patterns by commas; where: a predicate over the columns; after
 *     schemas   event, where, after; fields = 1: a row a field in place of a row a version
 *
 * docs/directory.md has the columns. */
#ifndef GRIDLINE_GATEWAY_DIRECTORY_VERBS_H
#define GRIDLINE_GATEWAY_DIRECTORY_VERBS_H

#include "directory/directory.h"
#include "gateway/control.h"
#include "gateway/subscription.h"

struct directory_verbs;
/* All borrowed; subscriptions: who consumes what, NULL = nobody. -ENOMEM. */
int directory_verbs_create(struct control *c, const struct directory *d, struct subscriptions *subscriptions,
                           struct directory_verbs **out);
void directory_verbs_destroy(struct directory_verbs *v); /* NULL is fine; after the control */

#endif
