/* SPDX-License-Identifier: Apache-2.0 */
/* err.h - error codes and the place of an error in a text.
 *
 * A function that can fail returns int: 0 (or a count), or a negative code: -errno, or one of ours below.
 * Parsers of text that a person wrote also fill a struct diag. Library code never logs. */
#ifndef GRIDLINE_BASE_ERR_H
#define GRIDLINE_BASE_ERR_H

#include <stddef.h>
#include <stdint.h>

enum {
    E_PROTO = -10001,  /* the bytes do not follow the format */
    E_LIMIT = -10002,  /* well formed, but larger than the model allows */
    E_NODATA = -10003, /* there is nothing to give; not a failure */
    E_DAMAGE = -10004, /* a checksum says the bytes are not what was written */
    E_VERSION = -10005 /* a later version of the format than this program knows */
};

/* Text for any negative code of ours or errno's. Never NULL, never allocates; thread-safe. */
const char *err_text(int code);

/* Where and why an input was refused. line and col count from 1; 0 = not known. */
struct diag {
    uint64_t line;
    uint32_t col;
    char message[200];
};

/* Fills *d (NULL is fine) and returns code, so that a parser can `return diag_set(...)`. */
int diag_set(struct diag *d, int code, uint32_t col, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
