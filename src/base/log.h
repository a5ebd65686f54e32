/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - a daemon's lines on stderr, one for each change of state. Text from a peer goes through
 * log_safe. */
#ifndef GRIDLINE_BASE_LOG_H
#define GRIDLINE_BASE_LOG_H

#include "base/slice.h"

#include <stdint.h>

/* Who speaks: "gridline-agent". Borrowed. */
void log_start(const char *program);
/* Leaves out everything but errors. */
void log_quiet(bool is_quiet);
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* For lines that a peer can cause: at most LOG_BURST in a second pass; those left out are counted and said in
 * one line when the next one passes. Zeroed to begin with. */
enum { LOG_BURST = 20 };
struct log_limit {
    int64_t second; /* of CLOCK_MONOTONIC */
    unsigned said;
    uint64_t left_out;
};
bool log_limit_pass(struct log_limit *l);
/* s if it is printable and short, else "". */
struct slice log_safe(struct slice s);

#endif
