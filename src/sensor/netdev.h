/* SPDX-License-Identifier: Apache-2.0 */
/* netdev.h - the lines of /proc/net/dev, and what kind of interface a name is. For `network` and `vector`.
 *
 *     "  eth0: 256027005    6360    0    0    0     0          0         0   328474    4204 ..."
 *
 * A name, a colon (with or without a blank behind it), 16 numbers; two lines of headings. */
#ifndef GRIDLINE_SENSOR_NETDEV_H
#define GRIDLINE_SENSOR_NETDEV_H

#include "sensor/env.h"
#include "sensor/qdisc.h"
#include "sensor/scan.h"

/* In the file's order; all are counters. */
enum {
    NET_IN_BYTES,
    NET_IN_PACKETS,
    NET_IN_ERRORS,
    NET_IN_DROPPED,
    NET_IN_FIFO,
    NET_IN_FRAME,
    NET_IN_COMPRESSED,
    NET_IN_MULTICAST,
    NET_OUT_BYTES,
    NET_OUT_PACKETS,
    NET_OUT_ERRORS,
    NET_OUT_DROPPED,
    NET_OUT_FIFO,
    NET_OUT_COLLISIONS,
    NET_OUT_CARRIER,
    NET_OUT_COMPRESSED,
    NET_FIELDS
};

/* The interface's name; the numbers are next. Empty: a heading. */
struct slice netdev_name(struct scan *line);
/* The numbers behind the name; VALUE_NONE where there is none. */
void netdev_values(struct scan *line, struct value v[NET_FIELDS]);

/* Hardware, or what a hypervisor shows as such: it has /sys/class/net/NAME/device. So neither lo nor bridges, bonds,
 * VLANs, tunnels, veth. */
bool netdev_is_physical(struct sensor_env *env, struct slice name);

/* An interface's place in the dump of queues. Zeroed = not looked up yet. */
struct netdev_link {
    uint32_t index; /* its number; 0 = not known */
    uint32_t age;   /* samples since it was looked up, or last proved right */
};
/* Its queue (qdisc_find); false: none. The number is looked up once, and now and then while there is no queue: the
 * interface may have been made anew under its name. */
bool netdev_queue(struct sensor_env *env, struct slice name, struct netdev_link *link, struct slice dump, size_t *at,
                  struct qdisc *out);

#endif
