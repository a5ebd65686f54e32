/* SPDX-License-Identifier: Apache-2.0 */
/* completion.h - scripts that complete the command line in bash, zsh and fish, made from the option tables.
 */
#ifndef GRIDLINE_CMD_COMPLETION_H
#define GRIDLINE_CMD_COMPLETION_H

#include "base/slice.h"
#include "base/strbuf.h"
#include "cmd/manual.h"

/* shell is bash, zsh or fish; E_NODATA for another. */
int completion_write(struct strbuf *out, struct slice shell, struct verb_list all);

#endif
