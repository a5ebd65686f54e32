/* SPDX-License-Identifier: Apache-2.0 */
/* helper.h - the sensors that run in gridline-helper: those that can block or need a large library. One
 * process a sensor instance, started by the agent (sensor/remote.h) when the sensor is first sampled, ended
 * with it.
 *
 * A helper sensor is written like any other one, in two places. src/sensor/NAME.c has the table that the
 * agent knows (name, schemas, options, .state_size, .is_helper; no functions) and src/sensor/NAME.h its state
 * struct; src/helper/NAME.c has the functions:
 *
 *     const struct helper_ops helper_logfile = {
 *         .name = "logfile", .open = logfile_open, .sample = logfile_sample, .close = logfile_close,
 *         .wait_fd = logfile_wait_fd,
 *     };
 *
 * and list.def the line HELPER(logfile). The functions have the contract of sensor_ops (sensor/sensor.h) but
 * for one thing: they may block, for as long as the agent's deadline lets them (remote.h). */
#ifndef GRIDLINE_HELPER_HELPER_H
#define GRIDLINE_HELPER_HELPER_H

#include "sensor/sensor.h"

struct helper_ops {
    const char *name; /* of the sensor */
    int (*open)(void *state, struct sensor_env *env, struct diag *why);
    int (*sample)(void *state, struct sensor_env *env, struct sensor_out *out);
    void (*close)(void *state);
    int (*wait_fd)(void *state); /* NULL = never */
};

/* All of list.def, in its order; NULL at the end. */
extern const struct helper_ops *const helper_list[];

#endif
