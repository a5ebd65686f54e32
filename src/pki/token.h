/* SPDX-License-Identifier: Apache-2.0 */
/* token.h - one-time tokens: what `gridline token` prints, and what the site keeps of it.
 *
 * As text, for a person to carry: "gl1_" and in base64url without padding
 *
 *     20 bytes  secret, random
 *     32        SHA-256 of the CA's certificate in DER: whom to believe before the secret is told
 *     u8        role (enum tls_role)
 *     text      name it is for; empty = any host
 *     text      addresses of gateways, by commas; may be empty
 *     u32       CRC32C of the bytes before: a token that was not copied whole is known as such
 *
 * The site keeps a file for each in its folder `tokens`, mode 0600, named by the SHA-256 of the secret in
 * hex, so that whoever reads the folder can't join:
 *
 *     expires 2026-11-15T21:20:28.000000Z
 *     role agent
 *     name node1            ("*": any host)
 *
 * Taking a token removes the file, and syncs the folder, first: only the one who removed it has it. */
#ifndef GRIDLINE_PKI_TOKEN_H
#define GRIDLINE_PKI_TOKEN_H

#include "base/err.h"
#include "base/slice.h"
#include "base/strbuf.h"
#include "pki/identity.h"

enum { TOKEN_SECRET = 20, TOKEN_CA = 32, TOKEN_ADDRESSES_MAX = 1024, TOKEN_TEXT_MAX = 4096 };

struct token {
    unsigned char secret[TOKEN_SECRET];
    unsigned char ca[TOKEN_CA];
    enum tls_role role;
    char name[TLS_NAME_MAX]; /* "" = any host */
    char addresses[TOKEN_ADDRESSES_MAX];
};

void token_print(const struct token *t, struct strbuf *out);
/* E_PROTO: no token, or not all of it; -ENOMEM. */
int token_parse(struct slice text, struct token *out, struct diag *why);

/* Draws the secret and keeps the rest in the folder until expires_ns; tokens that have expired are removed.
 */
int token_make(const char *folder, struct token *t, int64_t now_ns, int64_t expires_ns, struct diag *why);

/* A token for HTTP (docs/access.md): "glh_" and 32 random bytes in base64url; and its SHA-256 in hex, which
 * is what a gateway's configuration has. -ENOMEM, -EIO. */
int token_make_http(struct strbuf *token, struct strbuf *sha256);

/* What a token that was taken allows. */
struct token_grant {
    enum tls_role role;
    char name[TLS_NAME_MAX];
};

/* Takes the token of that secret for that name. -ENOENT: there is none (used, or never made here);
 * -EKEYEXPIRED: it was removed; -EACCES: it is another name's, and stays; others: the disk. Then nothing was
 * granted. */
int token_take(const char *folder, struct slice secret, struct slice name, int64_t now_ns,
               struct token_grant *out, struct diag *why);

/* The content of a token's file. E_PROTO. */
int token_parse_file(struct slice text, struct token_grant *grant, int64_t *expires_ns);

#endif
