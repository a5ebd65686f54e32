/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - the other programs of gridline: in the folder this one is in, or in that of
 * those which people do not run by hand, or else in PATH. */
#ifndef GRIDLINE_CMD_PROGRAM_H
#define GRIDLINE_CMD_PROGRAM_H

#include "base/strbuf.h"

/* Its path, without looking in PATH: for a program that has rights. -ENOENT, ...: in neither folder. */
int program_find(const char *name, struct strbuf *out);
/* Becomes that program; argv[0] is there for its name. Returns only if that failed: -errno. */
int program_become(const char *name, char **argv);

#endif
