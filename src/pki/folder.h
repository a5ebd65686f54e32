/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - an identity on disk: a folder of mode 0700 with
 *
 *     key.pem      0600, the private key
 *     cert.pem     the chain, own certificate first
 *     ca.pem       what is trusted, and nothing else is
 *     renewed.pem  0600, key and chain; only for the moment in which both are replaced
 *
 * Key and certificate must change together, and there is no call that renames two files at once: so the new
 * pair is first written to renewed.pem, which counts as soon as it is there, then moved to its places.
 * Whoever reads between the two finds renewed.pem. Every file is synced before it gets its name. */
#ifndef GRIDLINE_PKI_FOLDER_H
#define GRIDLINE_PKI_FOLDER_H

#include "pki/certificate.h"

enum { FOLDER_FILE_MAX = 256 << 10 };

struct folder {
    EVP_PKEY *key;
    STACK_OF(X509) * chain; /* own certificate first */
    STACK_OF(X509) * cas;
    struct tls_identity who;
};

/* Reads and checks: the key fits the certificate and is readable by nobody else, the certificate was issued
 * by the CA and says who. It may have expired: that is the owner's to judge. On failure *why says which file
 * and what to do, and *out is untouched. */
int folder_read(const char *dir, struct folder *out, struct diag *why);
void folder_fini(struct folder *f);       /* zeroed is fine */
X509 *folder_own(const struct folder *f); /* borrowed */
/* -EKEYEXPIRED with *why: when, and what to do. */
int folder_check_time(const struct folder *f, int64_t now_ns, struct diag *why);

/* Is there an identity, or a part of one? */
bool folder_is_used(const char *dir);
/* Makes the folder (its parents too) if it is not there, and the three files. -EEXIST: it is used. */
int folder_create(const char *dir, EVP_PKEY *key, struct slice chain_pem, struct slice ca_pem,
                  struct diag *why);
/* Replaces key and chain of an identity that is there. */
int folder_replace(const char *dir, EVP_PKEY *key, struct slice chain_pem, struct diag *why);

/* For the other folders of a site. folder_put: a file as a whole, synced, in place of an old one. */
int folder_make(const char *dir, struct diag *why); /* with its parents; an existing one is fine */
int folder_put(const char *dir, const char *name, unsigned mode, struct slice content, struct diag *why);
/* At most FOLDER_FILE_MAX bytes. mode_forbidden: bits that the file must not have. */
int folder_get(const char *dir, const char *name, unsigned mode_forbidden, struct strbuf *out,
               struct diag *why);
int folder_sync(const char *dir);

#endif
