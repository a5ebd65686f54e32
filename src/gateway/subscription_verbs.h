/* SPDX-License-Identifier: Apache-2.0 */
/* subscription_verbs.h - the question `subscriptions`: who has asked for what, and how far each has got; and
 * `subscription.remove`: forgets a durable name. */
#ifndef GRIDLINE_GATEWAY_SUBSCRIPTION_VERBS_H
#define GRIDLINE_GATEWAY_SUBSCRIPTION_VERBS_H

#include "gateway/control.h"
#include "gateway/subscription.h"

/* Both borrowed. -ENOMEM. */
int subscription_verbs_add(struct control *c, struct subscriptions *all);

#endif
