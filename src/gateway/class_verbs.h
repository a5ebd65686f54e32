/* SPDX-License-Identifier: Apache-2.0 */
/* class_verbs.h - the classes of fields (event/class.h) as people set them:
 *
 *     schema.set   event, field, class: "number" or "text". An event `control` in the audit
 *
 * and the configuration's `classes`, applied at start; one whose event or field has not been seen yet waits for it. */
#ifndef GRIDLINE_GATEWAY_CLASS_VERBS_H
#define GRIDLINE_GATEWAY_CLASS_VERBS_H

#include "event/class.h"
#include "gateway/control.h"

struct class_verbs;
/* All borrowed; classes NULL: there is no archive, which the asker is told. given: as gateway_config's classes; NULL = none.
 * -ENOMEM. */
int class_verbs_create(struct control *c, const struct class_source *classes, const char *given, struct class_verbs **out);
void class_verbs_destroy(struct class_verbs *v); /* NULL is fine; after the control */
/* Tries again what waits, if classes have changed; about once a second. */
void class_verbs_tick(struct class_verbs *v);

#endif
