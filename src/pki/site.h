/* SPDX-License-Identifier: Apache-2.0 */
/* site.h - the folder of a site, as `gridline init` makes it, mode 0700:
 *
 *     key.pem cert.pem ca.pem   the gateway's identity (folder.h)
 *     ca/key.pem ca/cert.pem    the CA; without its key the gateway runs but issues nothing
 *     tokens/                   one file a token (token.h)
 *     signer/key.pem cert.pem   signs configuration documents (helper/verify.h); better kept elsewhere
 *     operator/                 the caller's identity, unless it has a place of its own
 *
 * Nothing here is ever overwritten. */
#ifndef GRIDLINE_PKI_SITE_H
#define GRIDLINE_PKI_SITE_H

#include "pki/folder.h"
#include "pki/site_terms.h"
#include "pki/token.h"

#define SITE_DAY_NS INT64_C(86400000000000)

enum {
    SITE_CA_DAYS = 3652,
    SITE_GATEWAY_DAYS = 90, /* the gateway renews it by itself */
    SITE_JOINED_DAYS = 365, /* a gateway without the CA's key: nobody renews it */
    SITE_OPERATOR_DAYS = 365,
    SITE_SIGNER_DAYS = 1826,
    SITE_AGENT_DAYS = 7
};

/* Makes a whole site or nothing: everything is made in a folder beside dir and renamed. *operator_dir: where
 * the operator's identity is. -EEXIST: there is something at dir already. */
int site_init(const struct site_init *o, int64_t now_ns, struct strbuf *operator_dir, struct diag *why);

/* Appends the text of a new token. */
int site_token(const struct site_token *o, int64_t now_ns, struct strbuf *out, struct diag *why);

/* The CA. */
struct site_ca {
    EVP_PKEY *key; /* NULL: not here */
    X509 *certificate;
};
int site_ca_read(const char *dir, struct site_ca *out, struct diag *why);
void site_ca_fini(struct site_ca *ca); /* zeroed is fine */
/* Issues, and appends the chain: the new certificate, then the CA's. -EINVAL, -EKEYEXPIRED. */
int site_ca_issue(const struct site_ca *ca, EVP_PKEY *public_key, const struct certificate_terms *terms,
                  struct strbuf *chain_pem, struct diag *why);
/* If the identity in dir is due (2/3 of its life), or over, it gets a new key and certificate with the same
 * role, name and hosts: 1; 0: not due. */
int site_ca_renew(const struct site_ca *ca, const char *dir, int64_t now_ns, struct diag *why);

#endif
