/* SPDX-License-Identifier: Apache-2.0 */
#include "sensor/sensor.h"

#define SENSOR(name) extern const struct sensor_ops sensor_##name;
#include "sensor/list.def"
#undef SENSOR

#define SENSOR(name) &sensor_##name,
const struct sensor_ops *const sensor_list[] = {
#include "sensor/list.def"
    NULL};
#undef SENSOR

const struct sensor_ops *sensor_find(struct slice name)
{
    for (size_t i = 0; sensor_list[i]; i++)
        if (slice_eq_str(name, sensor_list[i]->name))
            return sensor_list[i];
    return NULL;
}
