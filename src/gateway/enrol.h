/* SPDX-License-Identifier: Apache-2.0 */
/* enrol.h - how hosts get their certificates: JOIN with a one-time token, CERTIFY with the certificate they have
 * (docs/protocol.md, "Joining"). The gateway signs with the CA's key if the folder `ca` has it; without, it refuses
 * and says where to join. Tokens are kept as hashes in a folder, one file each; using one removes it before the
 * certificate is signed, so that it is used once whatever crashes. */
#ifndef GRIDLINE_GATEWAY_ENROL_H
#define GRIDLINE_GATEWAY_ENROL_H

#include "gateway/access.h"
#include "net/join.h"

struct enrol;
/* dir: the site's folder (`gridline init`). */
int enrol_create(const char *dir, struct enrol **out, struct diag *why);
void enrol_destroy(struct enrol *e); /* NULL is fine */
/* The answer is in *out; out->chain is borrowed until the next call. Wrong tokens cost the asker its connection, are
 * counted, and are slowed down by the caller. */
void enrol_join(struct enrol *e, const struct frame_join *join, int64_t now_ns, struct frame_certified *out);
void enrol_certify(struct enrol *e, const struct access_identity *who, const struct frame_certify *ask, int64_t now_ns,
                   struct frame_certified *out);

#endif
