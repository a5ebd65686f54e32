/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - a sensor's options: from text to the struct that has them. */
#ifndef GRIDLINE_SENSOR_OPTIONS_H
#define GRIDLINE_SENSOR_OPTIONS_H

#include "base/arena.h"
#include "sensor/instance.h"

/* Fills state with defaults, then with the settings. Texts are copied into the arena. *why names the option and what is
 * wrong: unknown (with the nearest), not of its type, needed and missing. -EINVAL, -ENOMEM. */
int options_apply(const struct sensor_ops *ops, const struct sensor_setting *settings, size_t n, struct arena *arena,
                  void *state, struct diag *why);
/* NULL when the sensor has no such option. */
const struct sensor_option *options_find(const struct sensor_ops *ops, const char *name);

#endif
