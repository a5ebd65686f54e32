/* SPDX-License-Identifier: Apache-2.0 */
/* ready.h - a file that says that a daemon runs: for whoever started it and waits. */
#ifndef GRIDLINE_BASE_READY_H
#define GRIDLINE_BASE_READY_H

/* Writes it; NULL: none is wanted. -errno. */
int ready_write(const char *path);

#endif
