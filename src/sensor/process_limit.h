/* SPDX-License-Identifier: Apache-2.0 */
/* process_limit.h - limits on the moving average of what a process uses: "cpu 80% 30s", "rss 2GiB 60s",
 * "threads 500 30s".
 *
 * The average over a window is the area under the curve between now and one window ago, divided by the
 * window. Where a sum is kept by the kernel (CPU time) the area is exact however seldom it is read; a gauge
 * counts as unchanged between two samples. There is no average before the process was watched for a whole
 * window. Passing the limit is `over`; falling below nine tenths of it is `back`, so that a value that swings
 * around the limit does not tell each time. */
#ifndef GRIDLINE_SENSOR_PROCESS_LIMIT_H
#define GRIDLINE_SENSOR_PROCESS_LIMIT_H

#include "base/err.h"
#include "base/slice.h"

#include <stdint.h>

enum limit_what { LIMIT_CPU, LIMIT_RSS, LIMIT_VSIZE, LIMIT_THREADS, LIMIT_FILES, LIMIT_WHATS };

struct limit_rule {
    enum limit_what what;
    double limit; /* LIMIT_CPU: percent of one processor; bytes; or a number */
    int64_t window_ns;
};

enum { LIMIT_RULES_MAX = 16, LIMIT_POINTS = 17 };

/* The curve of one rule and one process: areas at up to LIMIT_POINTS times at least a 16th of the window
 * apart, so that its size does not depend on how often samples come; between them the area counts as a
 * straight line. Zeroed = no sample yet. */
struct limit_curve {
    int64_t at_ns[LIMIT_POINTS]; /* a ring; the newest is at `last` */
    double area[LIMIT_POINTS];   /* value * s */
    uint8_t n, last;
    bool is_over;
    double value; /* of the last sample */
    int64_t now_ns;
    double now_area;
};

/* "cpu", "rss", ...; and the unit: "%", "bytes", "". */
const char *limit_what_name(enum limit_what what);
/* "WHAT LIMIT WINDOW", by blanks. cpu takes a percentage with its sign, rss and vsize a size, the others a
 * number; all are above 0. On failure *why quotes what is wrong and says what would be right. */
int limit_parse(struct slice text, struct limit_rule *out, struct diag *why);

enum limit_change { LIMIT_SAME, LIMIT_OVER, LIMIT_BACK };
/* A sample of a gauge; or of LIMIT_CPU, whose value is the CPU time in seconds since the process began. A
 * time that does not go on changes nothing. *average is written when something changed. */
enum limit_change limit_add(const struct limit_rule *rule, struct limit_curve *c, int64_t now_ns,
                            double value, double *average);

#endif
