/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.h - `gridline-helper fetch`: one document by HTTP or HTTPS, and whether the site signed it.
 *
 * Reads one frame FETCH from in and writes one frame FETCHED to out (sensor/wire.h); what is asked for does
 * not come as arguments, for an address may hold a password, and arguments can be read by everyone on the
 * host. A document that is not changed since the given ETag is E_NODATA. With a CA file the document's
 * signature is asked for, at the same address with .sig behind its path: none there (404, 410) = not signed;
 * one that is not good (verify.h) = failed. The CA is also trusted, besides the system's, for HTTPS. */
#ifndef GRIDLINE_HELPER_FETCH_H
#define GRIDLINE_HELPER_FETCH_H

#include "base/err.h"
#include "base/slice.h"
#include "base/strbuf.h"

enum { FETCH_DOCUMENT_MAX = 1 << 20, FETCH_SIGNATURE_MAX = 64 << 10, FETCH_REDIRECTS_MAX = 3 };

/* 0, or what went wrong with in or out. */
int fetch_serve(int in, int out, struct diag *why);

/* The address of the signature: ".sig" before ? or #, or at the end. */
void fetch_signature_url(const char *url, struct strbuf *out);

#endif
