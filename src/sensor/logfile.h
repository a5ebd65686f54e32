/* SPDX-License-Identifier: Apache-2.0 */
/* logfile.h - the state of the logfile sensor: its options, which the agent's table fills in, and what
 * src/helper/logfile.c keeps behind them. */
#ifndef GRIDLINE_SENSOR_LOGFILE_H
#define GRIDLINE_SENSOR_LOGFILE_H

#include "base/strbuf.h"

#include <stdint.h>

struct follow;
struct logfilter;
struct sensor_env;
struct sensor_out;
struct diag;

enum { LOGFILE_READING, LOGFILE_GAP }; /* its schemas */

struct logfile {
    const char *path, *filter, *event, *from, *zone;
    int64_t grace_ns;

    struct strbuf full_path; /* with the environment's root */
    struct follow *follow;
    struct logfilter *lines;
    struct strbuf position; /* scratch */
    struct strbuf safe;     /* where the record starts that the filter holds; empty = it holds none */
    int64_t held_ns;        /* monotonic: when it got its last line */
    int64_t lost;           /* bytes in gaps of known size */
    int more_fd;            /* always readable: there is more to read than one call may take; -1 = not open */
    bool is_open, has_more, was_woken, is_started;
};

#endif
