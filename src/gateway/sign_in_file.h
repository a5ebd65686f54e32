/* SPDX-License-Identifier: Apache-2.0 */
/* sign_in_file.h - sessions as a file, so that who has a page open is not signed out by a restart of the
 * gateway. The file is of mode 0600 and has no secrets: of each session the SHA-256 of its token, whose it is
 * and until when.
 *
 * What a session hangs on (struct sign_in_bond) is in the file as well. Where that is another one now, what
 * hung on it is left out: sessions that the owner's token made, when that was replaced; those of
 * certificates, when the site was. Sessions of the configuration's tokens are not kept at all: who takes a
 * token out of the configuration starts the gateway again, and means it. */
#ifndef GRIDLINE_GATEWAY_SIGN_IN_FILE_H
#define GRIDLINE_GATEWAY_SIGN_IN_FILE_H

#include "base/strbuf.h"
#include "gateway/access.h"

enum { SIGN_IN_HASH = 32 };

struct sign_in_bond {
    unsigned char owner[SIGN_IN_HASH]; /* of the owner's token; zeros = there is none */
    unsigned char site[SIGN_IN_HASH];  /* of the CA's certificate; the same */
};

struct sign_in_session {
    unsigned char hash[SIGN_IN_HASH]; /* of its token */
    int64_t until_ns;                 /* utc */
    struct access_identity who;       /* table, interface: not in the file */
};

/* Without those that are not kept. */
void sign_in_file_print(struct strbuf *out, const struct sign_in_bond *bond,
                        const struct sign_in_session *all, size_t n);
/* How many are good, at most max, in *out, whether their time is over or not. E_PROTO: the bytes are not as
 * they were written; *out is not to be used then. */
int sign_in_file_parse(struct slice bytes, const struct sign_in_bond *bond, struct sign_in_session *out,
                       size_t max);

/* How many, as above; 0: there is no file. *why says what is wrong with it: E_PROTO, -EPERM (others may read
 * or write it, it is not this user's or no file), or what open and read say. */
int sign_in_file_read(const char *path, const struct sign_in_bond *bond, struct sign_in_session *out,
                      size_t max, struct diag *why);
/* As a whole or not at all. It is not synced: a loss of power may cost the newest sessions. */
int sign_in_file_write(const char *path, const struct sign_in_bond *bond, const struct sign_in_session *all,
                       size_t n);

#endif
