/* SPDX-License-Identifier: Apache-2.0 */
/* enrol.h - how hosts get their certificates: JOIN with a one-time token, CERTIFY with the certificate they
 * have (docs/protocol.md, "Joining"). The gateway signs with the CA's key if the folder `ca` has it; without,
 * it refuses and says where to join. Tokens are kept as hashes in a folder, one file each; using one removes
 * it before the certificate is signed, so that it is used once whatever crashes.
 *
 * Agents get ENROL_AGENT_DAYS, or what enrol_set_life says, and renew at 2/3 of it. Signing costs about 0.1
 * ms, and joining a sync of the disk. */
#ifndef GRIDLINE_GATEWAY_ENROL_H
#define GRIDLINE_GATEWAY_ENROL_H

#include "gateway/access.h"
#include "net/join.h"

struct enrol;
/* dir: the site's folder (`gridline init`), which is the gateway's identity, too. */
int enrol_create(const char *dir, struct enrol **out, struct diag *why);
void enrol_destroy(struct enrol *e); /* NULL is fine */
/* How long agents' certificates live; 0 = the default. */
void enrol_set_life(struct enrol *e, int64_t agent_ns);
/* The answer is in *out; out->chain and out->text are borrowed until the next call. Wrong tokens cost the
 * asker its connection, are counted, and are slowed down by the caller. */
void enrol_join(struct enrol *e, const struct frame_join *join, int64_t now_ns, struct frame_certified *out);
/* A new certificate with the same role and name; an expired one does not renew. */
void enrol_certify(struct enrol *e, const struct access_identity *who, const struct frame_certify *ask,
                   int64_t now_ns, struct frame_certified *out);
/* Renews the gateway's own certificate if it is due and the CA's key is here: 1, and the caller reloads its
 * TLS; 0: not due, or no key; or an error. Before tls_server_create, and then once an hour or so. */
int enrol_renew_own(struct enrol *e, int64_t now_ns, struct diag *why);

#endif
