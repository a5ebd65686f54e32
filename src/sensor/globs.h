/* SPDX-License-Identifier: Apache-2.0 */
/* globs.h - a list option that holds patterns of names. */
#ifndef GRIDLINE_SENSOR_GLOBS_H
#define GRIDLINE_SENSOR_GLOBS_H

#include "base/text.h"
#include "sensor/sensor.h"

/* Does one of them match? An empty list matches nothing. */
static inline bool globs_match(const struct parameter_list *globs, struct slice name)
{
    for (size_t i = 0; i < globs->n; i++)
        if (text_glob(slice_str(globs->v[i]), name))
            return true;
    return false;
}

#endif
