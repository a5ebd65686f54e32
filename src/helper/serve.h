/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h - the helper's side of sensor/wire.h: one sensor, run on request and when its descriptor is
 * readable. */
#ifndef GRIDLINE_HELPER_SERVE_H
#define GRIDLINE_HELPER_SERVE_H

#include "helper/helper.h"

/* The sensor of that name, with its functions: 0, or E_NODATA. */
typedef int (*helper_find_fn)(const char *name, struct sensor_ops *out);

/* helper_list and sensor_list put together. */
int helper_find(const char *name, struct sensor_ops *out);

/* Reads frames from in and writes to out until in ends. Both may block. 0, or what went wrong with the
 * agent's end: then *why says it. */
int helper_serve(int in, int out, helper_find_fn find, struct diag *why);

#endif
