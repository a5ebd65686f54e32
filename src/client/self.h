/* SPDX-License-Identifier: Apache-2.0 */
/* self.h - what the calling process uses, as fields of the event process.self. */
#ifndef GRIDLINE_CLIENT_SELF_H
#define GRIDLINE_CLIENT_SELF_H

#include "gridline/gridline.h"

enum { SELF_FIELDS_MAX = 16 };

/* Fills out with what can be known and returns how many. proc is where /proc/self is ("/proc/self").
 * Allocates nothing. */
size_t self_fields(const char *proc, struct gridline_value out[SELF_FIELDS_MAX]);

#endif
