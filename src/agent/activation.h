/* SPDX-License-Identifier: Apache-2.0 */
/* activation.h - instrumentation of the programs on this host that use libgridline: a file of `PATTERN LEVEL`
 * lines (gridline_watch's format) that they look at once a second, unless they follow a control file of their
 * own. It is replaced by rename, so they see the old list or the new one. It is gone with the agent; programs
 * then fall back. */
#ifndef GRIDLINE_AGENT_ACTIVATION_H
#define GRIDLINE_AGENT_ACTIVATION_H

#include "base/err.h"
#include "base/slice.h"

enum { ACTIVATION_MAX = 64 }; /* patterns */

struct activation;
/* dir is borrowed; nothing is there before the first set. */
struct activation *activation_create(const char *dir);
void activation_destroy(struct activation *a); /* removes the file; NULL is fine */
/* level: a level's name, "off", or "default": the pattern is taken out. -EINVAL, E_LIMIT (too many patterns),
 * or that of the disk; *why says what. */
int activation_set(struct activation *a, struct slice pattern, struct slice level, struct diag *why);

#endif
