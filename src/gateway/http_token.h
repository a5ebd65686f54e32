/* SPDX-License-Identifier: Apache-2.0 */
/* http_token.h - the owner's token: a file of mode 0600 that the gateway makes at start, unless there is a
 * good one: whoever can read it is the gateway's own user, or root. And how tokens come with a request. */
#ifndef GRIDLINE_GATEWAY_HTTP_TOKEN_H
#define GRIDLINE_GATEWAY_HTTP_TOKEN_H

#include "base/err.h"
#include "base/slice.h"

enum {
    HTTP_TOKEN_TEXT = 43, /* characters: 32 random bytes in base64 for addresses, unpadded */
    HTTP_TOKEN_MAX = 512  /* characters of any token */
};
#define HTTP_TOKEN_COOKIE "gridline-token"

/* Reads the file, or makes it; text has room for the token and a NUL. A file that others may read, is not
 * this user's or does not hold a token is replaced. *why says what is wrong. */
int http_token_open(const char *path, char text[HTTP_TOKEN_TEXT + 1], struct diag *why);
/* A new one. -EIO: there are no random bytes. */
int http_token_make(char text[HTTP_TOKEN_TEXT + 1]);
/* In a time that does not depend on where they differ. */
bool http_token_same(struct slice a, struct slice b);
/* What the headers hold ("" = no such header; "Bearer ..." and "name=value; ..."): E_NODATA: no token;
 * E_PROTO: an Authorization that is none of ours. The header's token counts, then the cookie's. */
int http_token_find(struct slice authorization, struct slice cookies, struct slice *out);

#endif
