/* SPDX-License-Identifier: Apache-2.0 */
/* guest_identity.h - a guest's key and certificate, from a token: in a folder of memory that is there until they have
 * been read, and no longer. Nothing can be renewed then: a guest that outlives its certificate (seven days) ends, and
 * comes back with the next job. */
#ifndef GRIDLINE_AGENT_GUEST_IDENTITY_H
#define GRIDLINE_AGENT_GUEST_IDENTITY_H

#include "base/strbuf.h"

struct diag;

enum { GUEST_JOIN_MS = 10000 };

/* Joins with the token in that file, which only its owner may read; *dir is the folder. On failure there is none. */
int guest_identity_make(const char *token_file, struct strbuf *dir, struct diag *why);
void guest_identity_remove(struct strbuf *dir); /* an empty one is fine */

#endif
