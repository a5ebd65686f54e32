/* SPDX-License-Identifier: Apache-2.0 */
/* sign_in.h - how a person's browser becomes somebody: who has asked for a one-time key (`gridline viewer`,
 * by a connection that says who it is) hands it to the page, which gives it back for a session's token, kept
 * in a cookie that no script reads. The session is who asked for the key, and may what that may.
 *
 * A key works once and for SIGN_IN_KEY_S seconds; a session ends after SIGN_IN_SESSION_S, by signing out, or
 * when its identity's certificate does. Keys end with the gateway; sessions are kept over a restart
 * (sign_in_keep), by their hashes: nothing that could be used is on disk, or in memory. Both are bounded: of
 * one identity the oldest gives way; when all are taken nobody's do but those of others than the owner, for
 * the owner. Everything is compared in a time that does not depend on what is wrong. On the loop. */
#ifndef GRIDLINE_GATEWAY_SIGN_IN_H
#define GRIDLINE_GATEWAY_SIGN_IN_H

#include "gateway/access.h"
#include "gateway/http_token.h"
#include "gateway/sign_in_file.h"

enum {
    SIGN_IN_KEYS = 64, /* at a time, of one identity 8 */
    SIGN_IN_KEYS_OF_ONE = 8,
    SIGN_IN_KEY_S = 600,
    SIGN_IN_SESSIONS = 256, /* of one identity 64 */
    SIGN_IN_SESSIONS_OF_ONE = 64,
    SIGN_IN_SESSION_S = 7 * 86400
};

struct sign_in;
struct sign_in *sign_in_create(void);    /* NULL: no memory */
void sign_in_destroy(struct sign_in *s); /* NULL is fine */

/* A key for who; now_ns is monotonic, as in all of these. -EACCES: who is nobody; -EAGAIN: there are too many
 * keys; -EIO: no random bytes. */
int sign_in_make_key(struct sign_in *s, const struct access_identity *who, int64_t now_ns,
                     char key[HTTP_TOKEN_TEXT + 1]);
/* The key is of no use from now on. token: of the session, whose identity is *out. -EACCES: there is no such
 * key, or its time was up; -EAGAIN, -EIO as above. */
int sign_in_take_key(struct sign_in *s, struct slice key, int64_t now_ns, char token[HTTP_TOKEN_TEXT + 1],
                     struct access_identity *out);
/* Whose session's token that is. -EACCES: nobody's. */
int sign_in_find(const struct sign_in *s, struct slice token, int64_t now_ns, struct access_identity *out);
/* false: there is no such session. */
bool sign_in_end(struct sign_in *s, struct slice token, int64_t now_ns);

/* ---------------------------------------------------------------- over a restart */

struct sign_in_kept {
    const char *path;           /* of the file (sign_in_file.h); borrowed, for life */
    const struct access *table; /* by which sessions are judged now; borrowed, for life */
    struct slice owner, site;   /* what they hang on: the owner's token, the CA's certificate; "" = none */
    int64_t now_ns, utc_ns;
};
/* Takes the sessions of the file, once, before there are any: how many there are. Wrong, and *why says it:
 * they are lost, the file is replaced by the next sign_in_save. */
int sign_in_keep(struct sign_in *s, const struct sign_in_kept *k, struct diag *why);
/* Those there are now, and still good, into the file; after each sign_in_take_key and sign_in_end. Without
 * sign_in_keep: nothing. */
int sign_in_save(const struct sign_in *s, int64_t now_ns, int64_t utc_ns);

#endif
