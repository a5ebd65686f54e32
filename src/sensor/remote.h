/* SPDX-License-Identifier: Apache-2.0 */
/* remote.h - a helper sensor (.is_helper) as the agent runs it: a gridline-helper of its own that has the
 * sensor, fed through pipes (wire.h), never waited for.
 *
 * To whoever runs it, sensor_remote is a sensor like any other: instance.c uses it in place of the helper
 * sensor's own table, and fills in struct remote_setup where other sensors have their options. What the
 * helper sends goes out when it is whole: events and the position that belongs to them (sensor_mark) in one
 * call of sample, so that both are kept or neither. A helper that does not answer for REMOTE_PERIODS periods,
 * and at least REMOTE_DEADLINE, fails, is killed, and is started again after the instance's back-off; so does
 * one that ends or says what can't be. */
#ifndef GRIDLINE_SENSOR_REMOTE_H
#define GRIDLINE_SENSOR_REMOTE_H

#include "base/strbuf.h"
#include "sensor/instance.h"

enum {
    REMOTE_PERIODS = 3,
    REMOTE_HELD_MAX = 4 << 20 /* bytes of memory for events whose end has not come */
};
#define REMOTE_DEADLINE (INT64_C(10) * 1000 * 1000 * 1000) /* ns */

/* The beginning of sensor_remote's state; all borrowed until close. */
struct remote_setup {
    const struct sensor_ops *ops; /* the helper sensor's */
    const char *name;             /* of the instance */
    const struct parameter_setting *settings;
    size_t n;
    int64_t deadline_ns; /* REMOTE_DEADLINE */
};

extern const struct sensor_ops sensor_remote;

/* The path of gridline-helper: $GRIDLINE_HELPER, or beside this program, or as installed. -ENOMEM. */
int remote_helper_path(struct strbuf *out);

#endif
