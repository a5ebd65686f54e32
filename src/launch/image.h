/* SPDX-License-Identifier: Apache-2.0 */
/* image.h - the agent's program as a descriptor to execute: what it names can't be exchanged between looking at it
 * and running it. */
#ifndef GRIDLINE_LAUNCH_IMAGE_H
#define GRIDLINE_LAUNCH_IMAGE_H

#include "base/err.h"

#include <stdbool.h>

/* The file itself, for who trusts where it lies: it has to be root's or this user's, and nobody else's to write. */
int image_open(const char *path, int *fd, struct diag *why);
/* A copy in memory, sealed: what runs from it holds no file of the folder that it came with, which can be removed
 * or unmounted at once. */
int image_carry(const char *path, int *fd, struct diag *why);

#endif
