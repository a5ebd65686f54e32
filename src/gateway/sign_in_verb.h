/* SPDX-License-Identifier: Apache-2.0 */
/* sign_in_verb.h - the question `viewer.key`: a fresh one-time address of the viewer, for who asks it. It
 * needs no action: who comes in by it is who asked. */
#ifndef GRIDLINE_GATEWAY_SIGN_IN_VERB_H
#define GRIDLINE_GATEWAY_SIGN_IN_VERB_H

#include "gateway/control.h"
#include "gateway/sign_in.h"

/* Borrowed for life. address: http://HOST:PORT, as people reach it; NULL = there is no
 * viewer. */
struct sign_in_verb {
    struct sign_in *keys;
    const char *address;
};
/* -ENOMEM. */
int sign_in_verb_add(struct control *c, struct sign_in_verb *v);

#endif
