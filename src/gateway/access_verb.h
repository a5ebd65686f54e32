/* SPDX-License-Identifier: Apache-2.0 */
/* access_verb.h - the question `access`: what an identity may do here, as rows (docs/access.md). */
#ifndef GRIDLINE_GATEWAY_ACCESS_VERB_H
#define GRIDLINE_GATEWAY_ACCESS_VERB_H

#include "gateway/control.h"

/* Everybody who gets to ask may ask it of itself; of others (`who`) those who may control. -ENOMEM. */
int access_verb_add(struct control *c, const struct access *table);

#endif
