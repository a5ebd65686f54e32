/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - a daemon's lines on stderr, one for each change of state. Text from a peer goes through
 * log_safe. */
#ifndef GRIDLINE_BASE_LOG_H
#define GRIDLINE_BASE_LOG_H

#include "base/slice.h"

/* Who speaks: "gridline-agent". Borrowed. */
void log_start(const char *program);
/* Leaves out everything but errors. */
void log_quiet(bool is_quiet);
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* s if it is printable and short, else "". */
struct slice log_safe(struct slice s);

#endif
