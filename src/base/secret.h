/* SPDX-License-Identifier: Apache-2.0 */
/* secret.h - passwords in files: one line that only the file's owner may read. */
#ifndef GRIDLINE_BASE_SECRET_H
#define GRIDLINE_BASE_SECRET_H

#include "base/err.h"

#include <stddef.h>

enum { SECRET_MAX = 1023 };

struct secret {
    size_t n;
    char text[SECRET_MAX + 1]; /* NUL behind it */
};

/* The file's first line, without its end. -EACCES with *why: others may read the file; E_PROTO: it is empty,
 * too long or has a NUL; or what open and read say. Wipe it soon. */
int secret_read(const char *path, struct secret *out, struct diag *why);
void secret_wipe(struct secret *s);

#endif
