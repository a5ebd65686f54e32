/* SPDX-License-Identifier: Apache-2.0 */
/* stream_options.h - how much of streams a gateway keeps (latest.h, summary.h): what the configuration says.
 */
#ifndef GRIDLINE_GATEWAY_STREAM_OPTIONS_H
#define GRIDLINE_GATEWAY_STREAM_OPTIONS_H

#include "base/clock.h"
#include "base/num.h"

struct latest_options {
    uint32_t streams; /* at most; 0 = none is kept */
    uint64_t memory;  /* bytes of all, about */
};

enum {
    SUMMARY_WINDOWS_MAX = 8,
    SUMMARY_WINDOW_TEXT_MAX = 24, /* bytes of one, and a NUL */
    SUMMARY_WINDOW_UNIT_S = 6,    /* windows are multiples of this, so that their steps are whole seconds */
    SUMMARY_WINDOW_MAX_S = 7 * 24 * 3600
};

struct summary_options {
    uint32_t streams;    /* at most; 0 = none is kept */
    uint64_t memory;     /* bytes of all, about */
    const char *windows; /* durations by commas: "1m,10m,60m"; "" = none is kept */
    const char *events;  /* patterns of event names by commas; "" = all. Borrowed */
};

/* One window's text. */
static inline bool summary_window_parse(struct slice text, int64_t *ns)
{
    int64_t length;
    if (text.n >= SUMMARY_WINDOW_TEXT_MAX || num_parse_duration(text, &length) < 0 || length <= 0 ||
        length % (SUMMARY_WINDOW_UNIT_S * NS_PER_S) != 0 || length > SUMMARY_WINDOW_MAX_S * NS_PER_S)
        return false;
    *ns = length;
    return true;
}

#endif
