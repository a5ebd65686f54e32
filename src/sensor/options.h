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
/* "duration", "list", ...: for help. */
const char *options_type_name(enum sensor_option_type type);
/* "10s, 5m, 250ms", ...: what to write, for messages. */
const char *options_type_example(enum sensor_option_type type);
/* One text of any type but a list, to the C type that sensor.h gives it. E_PROTO, -ERANGE: it is not of that type;
 * -ENOMEM. *at is untouched on failure. */
int options_parse_text(enum sensor_option_type type, struct slice text, struct arena *arena, void *at);

#endif
