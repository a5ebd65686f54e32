/* SPDX-License-Identifier: Apache-2.0 */
/* format.h - the printf-like formats of gridline_write: "name=%conv name=text …" and arguments to named
 * values. */
#ifndef GRIDLINE_CLIENT_FORMAT_H
#define GRIDLINE_CLIENT_FORMAT_H

#include "event/limits.h"
#include "event/schema.h"

#include <stdarg.h>

/* Text made from an argument (%c, %p): lives with the values. */
enum { FORMAT_SCRATCH = 1024 };

struct format_values {
    size_t n;
    size_t scratch_n;
    struct named_value at[EVENT_FIELDS_MAX];
    char scratch[FORMAT_SCRATCH];
};

/* Fills *out; text is borrowed from the arguments, names and constant text from the format. A NULL %s is left
 * out. -EINVAL: not such a format; E_LIMIT: more than the model or the scratch space holds. */
int format_parse(const char *format, va_list *ap, struct format_values *out);

#endif
