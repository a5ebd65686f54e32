/* SPDX-License-Identifier: Apache-2.0 */
/* certificate.h - keys (ECDSA P-256), requests (PKCS#10) and certificates of a site, over OpenSSL 3.
 *
 * The extended key usage says the role as the URI does: agents and operators client, gateways server and
 * client, the signer of configuration documents codeSigning (and no URI: it is nobody's end of a connection).
 * Serial numbers are random. No revocation lists: agents' certificates are short-lived instead.
 *
 * Results are owned by the caller. Errors of OpenSSL's own (no memory, nearly always) are -ENOMEM. */
#ifndef GRIDLINE_PKI_CERTIFICATE_H
#define GRIDLINE_PKI_CERTIFICATE_H

#include "base/err.h"
#include "base/slice.h"
#include "base/strbuf.h"
#include "pki/identity.h"

#include <openssl/evp.h>
#include <openssl/x509.h>

enum {
    CERTIFICATE_FINGERPRINT = 32, /* SHA-256 of the certificate in DER */
    CERTIFICATE_SKEW_S = 3600,    /* issued as of that long ago, for hosts whose clocks are behind */
    CERTIFICATE_HOSTS_MAX = 32
};

/* What a certificate says. */
struct certificate_terms {
    enum tls_role role; /* TLS_NOBODY: the signer of documents */
    const char *name;
    const char *const *hosts; /* DNS names and addresses, besides the URI; checked by certificate_is_host */
    size_t n_hosts;
    int64_t now_ns,
        life_ns; /* valid from now_ns - CERTIFICATE_SKEW_S to now_ns + life_ns, or to the CA's own end */
};

int certificate_new_key(EVP_PKEY **out);
/* Appends a request for the key's certificate, in DER. It names nobody: who asks is known by other means. */
int certificate_new_request(EVP_PKEY *key, struct strbuf *der);
/* The public key of a request that was signed with its private key; only P-256. E_PROTO with *why. */
int certificate_read_request(struct slice der, EVP_PKEY **out, struct diag *why);

/* A CA's own certificate. */
int certificate_new_ca(EVP_PKEY *key, const char *name, int64_t now_ns, int64_t life_ns, X509 **out);
/* -EINVAL: a name that can't be; -EKEYEXPIRED: the CA's certificate is over. */
int certificate_issue(X509 *ca, EVP_PKEY *ca_key, EVP_PKEY *public_key, const struct certificate_terms *t,
                      X509 **out);
/* A DNS name or a numeric address. */
bool certificate_is_host(const char *text);

/* Who it says that its bearer is. E_PROTO: nobody of a site; -EKEYREJECTED: its extended key usage is not the
 * role's. Whether it is genuine is another question. */
int certificate_identity(X509 *c, struct tls_identity *out, struct diag *why);
int64_t certificate_not_before_ns(const X509 *c);
int64_t certificate_not_after_ns(const X509 *c);
/* When it should be renewed: at 2/3 of its life. */
int64_t certificate_renew_at_ns(const X509 *c);
int certificate_fingerprint(const X509 *c, unsigned char out[CERTIFICATE_FINGERPRINT]);
/* Appends its DNS names and addresses, each followed by a comma. */
void certificate_add_hosts(const X509 *c, struct strbuf *out);
/* Was it issued by one of the CAs, and for this use (X509_PURPOSE_SSL_CLIENT, ...), and is it valid now? flags: 0, or
 * X509_V_FLAG_NO_CHECK_TIME. */
int certificate_verify(X509 *c, STACK_OF(X509) *between, STACK_OF(X509) *cas, int purpose, unsigned long flags,
                       struct diag *why);

/* PEM. The text of a private key is wiped with certificate_wipe. */
int certificate_add_pem(X509 *c, struct strbuf *out);
int certificate_add_key_pem(EVP_PKEY *key, struct strbuf *out);
void certificate_wipe(struct strbuf *text);
/* Certificates in order, at least one; other things in the text are skipped. E_PROTO. */
int certificate_read_pem(struct slice text, STACK_OF(X509) * *out, struct diag *why);
/* A private key without a pass phrase. */
int certificate_read_key_pem(struct slice text, EVP_PKEY **out, struct diag *why);

/* The last error of OpenSSL's queue in short, and empties the queue. */
const char *certificate_reason(void);

#endif
