/* SPDX-License-Identifier: Apache-2.0 */
/* interfaces.h - the network interfaces of a host as an inventory: what they are, not what passes through them. */
#ifndef GRIDLINE_SENSOR_INTERFACES_H
#define GRIDLINE_SENSOR_INTERFACES_H

#include "sensor/sensor.h"

enum { INTERFACES_MAX = 256, INTERFACES_FIELDS = 8 };

extern const struct field interfaces_fields[INTERFACES_FIELDS];

struct interfaces {
    char names[INTERFACES_MAX][16]; /* NUL-terminated, sorted */
    size_t n_names;
    uint64_t total; /* found, those over INTERFACES_MAX included */
    struct strbuf path, text, address, state, driver, addresses;
};

void interfaces_fini(struct interfaces *s);
/* Lists them in order of name. E_NODATA: there is no /sys/class/net. Cost: a directory. */
int interfaces_list(struct interfaces *s, struct sensor_env *env);
/* A row of interfaces_fields for each one listed. Cost: five files each, and on this host two netlink dumps. */
void interfaces_emit(struct interfaces *s, struct sensor_env *env, struct sensor_out *out, unsigned schema);

#endif
