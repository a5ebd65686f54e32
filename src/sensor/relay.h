/* SPDX-License-Identifier: Apache-2.0 */
/* relay.h - events that somebody else made (a program, a helper) go out as a sensor's own. */
#ifndef GRIDLINE_SENSOR_RELAY_H
#define GRIDLINE_SENSOR_RELAY_H

#include "sensor/sensor.h"

/* Gives one event to out, as it is. Results as sensor_event. */
int relay_event(struct sensor_out *out, const struct event *e, struct diag *why);

#endif
