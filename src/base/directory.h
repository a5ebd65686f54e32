/* SPDX-License-Identifier: Apache-2.0 */
/* directory.h - the folders that a daemon keeps its files in, made if need be with those above them. */
#ifndef GRIDLINE_BASE_DIRECTORY_H
#define GRIDLINE_BASE_DIRECTORY_H

#include "base/err.h"

/* Of mode 0755; the last one, unless root makes it, 0700. *why names the one that can't be made. A folder
 * that was made here outlives a loss of power, and so does what is synced in it: its name is synced, too, as
 * far as this user may. */
int directory_make(const char *path, struct diag *why);
/* Makes the names in the folder that path is in durable. Who may not read that folder can't, and some file
 * systems have nothing to sync: no error. */
int directory_sync_parent(const char *path);
/* And it has to be this user's: in /tmp anybody could have made it first. -EPERM: it is not. */
int directory_make_own(const char *path, struct diag *why);

#endif
