/* SPDX-License-Identifier: Apache-2.0 */
/* dying.h - writing out in a signal handler, right before the signal ends the process. */
#ifndef GRIDLINE_CLIENT_DYING_H
#define GRIDLINE_CLIENT_DYING_H

#include "gridline/gridline.h"

#include <stdbool.h>

/* Tries for at most timeout_ms to get what this thread has in its rings to the destinations: by itself, or by
 * the writer thread if !may_encode (there is little stack). From then on this thread gets its memory from a
 * reserve and never calls malloc (mem_last_words): call it only when the process ends next. */
void dying_flush(gridline *g, bool may_encode, int timeout_ms);

#endif
