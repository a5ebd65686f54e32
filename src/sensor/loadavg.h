/* SPDX-License-Identifier: Apache-2.0 */
/* loadavg.h - the line of /proc/loadavg, for `load` and `vector`:
 *
 *     "0.01 0.11 1.02 1/92 32527"    averages over 1, 5 and 15 minutes; threads that run / all of them; the last pid */
#ifndef GRIDLINE_SENSOR_LOADAVG_H
#define GRIDLINE_SENSOR_LOADAVG_H

#include "base/num.h"
#include "sensor/scan.h"

enum { LOADAVG_AVERAGES = 3 };

struct loadavg {
    struct value averages[LOADAVG_AVERAGES]; /* VALUE_FLOAT */
    struct value running, threads;           /* VALUE_UINT; both or none */
};

/* All VALUE_NONE when the line is cut. */
static inline struct loadavg loadavg_read(struct slice text)
{
    struct loadavg l = {0};
    struct scan s = scan_of(text);
    struct slice line;
    uint64_t running, threads;
    if (!scan_whole_line(&s, &line))
        return l;
    s = scan_of(line);
    for (size_t i = 0; i < LOADAVG_AVERAGES; i++) {
        double average;
        if (num_parse_float(scan_word(&s), &average) == 0)
            l.averages[i] = value_float(average);
    }
    struct slice word = scan_word(&s);
    const char *slash = memchr(word.p, '/', word.n);
    size_t n = slash ? (size_t)(slash - word.p) : word.n;
    if (num_parse_uint(slice_of(word.p, n), &running) == 0 &&
        num_parse_uint(slice_from(word, n + 1), &threads) == 0) {
        l.running = value_uint(running);
        l.threads = value_uint(threads);
    }
    return l;
}

#endif
