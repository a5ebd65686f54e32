/* SPDX-License-Identifier: Apache-2.0 */
/* verify.h - is a document signed by the site?
 *
 * The signature is a detached CMS (PKCS#7) SignedData in DER, as made by
 *
 *     openssl cms -sign -binary -outform DER -in DOCUMENT -signer CERT.pem -inkey KEY.pem -out DOCUMENT.sig
 *
 * Each of its signers must have a certificate that leads to a CA of the file, is valid now, and was issued
 * for this: its extended key usage has codeSigning, or it is a CA itself. Agents and gateways of a site have
 * certificates of the same CA; without that rule the key of any of them could sign what all others run. */
#ifndef GRIDLINE_HELPER_VERIFY_H
#define GRIDLINE_HELPER_VERIFY_H

#include "base/err.h"
#include "base/slice.h"

/* 0; -EKEYREJECTED: not by the site, with *why; -ENOENT and others: the CA file can't be used; -ENOMEM. */
int verify_signature(struct slice document, struct slice signature, const char *ca_file, struct diag *why);

#endif
