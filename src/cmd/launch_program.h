/* SPDX-License-Identifier: Apache-2.0 */
/* launch_program.h - which agent is to be started. */
#ifndef GRIDLINE_CMD_LAUNCH_PROGRAM_H
#define GRIDLINE_CMD_LAUNCH_PROGRAM_H

#include "base/strbuf.h"

/* given, or one beside this program, or the installed one; empty: there is none. *is_carried: it is not the
 * installed one, so its file may go with the job's. */
void launch_program(const char *given, struct strbuf *out, bool *is_carried);

/* The path as it is from another folder; returns owned memory of libc's. NULL stays NULL; a path that is not there
 * stays as it is. */
char *launch_path(const char *given);

#endif
