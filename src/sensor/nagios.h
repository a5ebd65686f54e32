/* SPDX-License-Identifier: Apache-2.0 */
/* nagios.h - what a Nagios (Icinga, Monitoring Plugins) check prints, taken apart. Nothing is copied: results
 * are slices of the text.
 *
 *     TEXT OUTPUT | PERFDATA
 *     LONG TEXT LINE 1
 *     LONG TEXT LINE N | PERFDATA
 *     PERFDATA
 *
 * Performance data is items separated by blanks and line ends:
 *
 *     'label'=value[UOM];[warn];[crit];[min];[max]
 *
 * The quotes may be left out when the label has no blank, = or quote; a quote within is doubled. value is a
 * decimal number (or U: not known), warn and crit are ranges (10, 10:20, ~:5, @1:3) and are kept as text; min
 * and max are numbers. */
#ifndef GRIDLINE_SENSOR_NAGIOS_H
#define GRIDLINE_SENSOR_NAGIOS_H

#include "base/err.h"
#include "base/strbuf.h"
#include "event/value.h"

enum nagios_state { NAGIOS_OK = 0, NAGIOS_WARNING = 1, NAGIOS_CRITICAL = 2, NAGIOS_UNKNOWN = 3 };

struct nagios {
    struct slice output;  /* the first line before its |, without blanks around it */
    struct slice detail;  /* the further lines of text; empty = none */
    struct slice perf[2]; /* what nagios_next_perf has not yet read of the performance data */
};

struct nagios_perf {
    struct slice label;      /* without quotes; of the scratch buffer if it had some in it */
    struct value value;      /* float, or VALUE_NONE (U) */
    struct slice unit;       /* "" = none */
    struct slice warn, crit; /* "" = none */
    struct value min, max;   /* float, or VALUE_NONE */
};

/* "ok", "warning", "critical", "unknown". */
struct slice nagios_state_name(enum nagios_state state);
/* Does the first line look like a check's? It says one of the states in capitals. */
bool nagios_detect(struct slice text);

/* Any text can be taken apart. */
void nagios_read(struct slice text, struct nagios *out);
/* The next item of performance data: 1; 0 when there is none; E_PROTO for one that does not follow the form:
 * it is skipped. scratch is overwritten. -ENOMEM. */
int nagios_next_perf(struct nagios *n, struct strbuf *scratch, struct nagios_perf *out);

#endif
