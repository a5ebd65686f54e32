/* SPDX-License-Identifier: Apache-2.0 */
/* qdisc.h - the queue of packets that wait in front of a network interface, from the source "/netlink/qdisc". */
#ifndef GRIDLINE_SENSOR_QDISC_H
#define GRIDLINE_SENSOR_QDISC_H

#include "base/slice.h"

#include <stdint.h>

#define QDISC_SOURCE "/netlink/qdisc"

/* As the kernel counts: 32 bits. */
struct qdisc {
    uint32_t packets, bytes; /* waiting */
    uint32_t dropped, requeued, over_limit;
};

/* What stands before the interface of that number: its root queue, which has the sum of those below it (one for each of
 * the device's own queues). Looks from *at on, and round; *at is left behind what was found, so that asking for all
 * interfaces in the dump's order (that of their numbers, mostly) goes through it once. False: there is none; an
 * interface that is down has none. */
bool qdisc_find(struct slice dump, size_t *at, uint32_t index, struct qdisc *out);

#endif
