/* SPDX-License-Identifier: Apache-2.0 */
/* netstat.h - the counters of /proc/net/snmp and /proc/net/netstat: pairs of lines, names and values by position.
 *
 *     Tcp: ActiveOpens PassiveOpens ...
 *     Tcp: 121 9 ...
 *
 * Kernels differ in which names there are and in their order. A group remembers the line of names that it saw last and
 * where each wanted name stood, so that in the usual case a line of names costs one memcmp. */
#ifndef GRIDLINE_SENSOR_NETSTAT_H
#define GRIDLINE_SENSOR_NETSTAT_H

#include "base/slice.h"
#include "base/strbuf.h"
#include "event/value.h"

#include <stdint.h>

enum {
    NETSTAT_COLUMNS_MAX = 512, /* of one line; TcpExt has 135 today */
    NETSTAT_UNWANTED = 0xffff
};

struct netstat_group {
    const char *prefix;       /* "Tcp:" */
    const char *const *names; /* n of them, the kernel's; values go to values[i] */
    size_t n;
    struct strbuf header;     /* the line of names that `at` is for */
    uint16_t at[NETSTAT_COLUMNS_MAX]; /* column -> index in names, or NETSTAT_UNWANTED */
    size_t n_columns;
};

void netstat_fini(struct netstat_group *g);
/* Fills values[0..n) from the text; a name that the kernel does not have is VALUE_NONE. False, and all are
 * VALUE_NONE, when the group is not there as a whole pair of lines with as many values as names. No allocation unless
 * the names changed. */
bool netstat_take(struct netstat_group *g, struct slice text, struct value *values);

#endif
