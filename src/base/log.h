/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - a daemon's lines on stderr, one for each change of state. Text from a peer goes through
 * log_safe.
 *
 * Rate limit: each call site writes at most LOG_BURST lines in LOG_WINDOW_S seconds. Further lines are
 * counted; when the window is over, the next line of any site is preceded by one that says how many were
 * suppressed and repeats the last of them. Any thread. */
#ifndef GRIDLINE_BASE_LOG_H
#define GRIDLINE_BASE_LOG_H

#include "base/slice.h"

#include <stdint.h>

/* Who speaks: "gridline-agent". Borrowed. */
void log_start(const char *program);
/* Leaves out everything but errors. */
void log_quiet(bool is_quiet);

enum { LOG_BURST = 100, LOG_WINDOW_S = 60, LOG_LAST_MAX = 240 };

/* A place in the code that writes lines; static and zeroed to begin with. */
struct log_site {
    struct log_site *next; /* in the list of sites that have written */
    int64_t began_ns;      /* its window, by CLOCK_MONOTONIC; 0 = it has written nothing yet */
    unsigned said;
    uint64_t suppressed;
    char last[LOG_LAST_MAX]; /* of the suppressed lines */
};
void log_line(struct log_site *site, bool is_error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define LOG_HERE(is_error, ...)                          \
    do {                                                 \
        static struct log_site log_site_here;            \
        log_line(&log_site_here, is_error, __VA_ARGS__); \
    } while (0)
#define log_info(...)  LOG_HERE(false, __VA_ARGS__)
#define log_error(...) LOG_HERE(true, __VA_ARGS__)

/* s if it is printable and short, else "". */
struct slice log_safe(struct slice s);

#endif
