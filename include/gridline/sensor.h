/* SPDX-License-Identifier: Apache-2.0 */
/* sensor.h - run any of gridline's sensors by name, from a program. Link with -lgridline-sensor.
 *
 *     static int show(void *arg, int64_t time_ns, int level, const char *event, const struct gridline_value *values,
 *                     size_t n) { ... return 0; }
 *
 *     char why[200];
 *     gridline_sensor *s = gridline_sensor_open("disk", (const char *[]){"devices=sd*", NULL}, NULL, why, sizeof why);
 *     int r = gridline_sensor_sample(s, 1000, show, NULL);
 *     gridline_sensor_close(s);
 *
 * What there is (names, fields with unit and kind, options) is listed by the functions below; a new sensor needs no
 * change in the programs that use them. A sensor belongs to one thread at a time. Nothing here writes to stderr. Results
 * are 0 or a negative errno value; GRIDLINE_NO_DATA means that there is nothing to read (no such device, not on this
 * kernel): that is not a failure. */
#ifndef GRIDLINE_SENSOR_H
#define GRIDLINE_SENSOR_H

#include <gridline/gridline.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GRIDLINE_NO_DATA (-10003)

/* The i-th sensor's name, NULL behind the last; and what it does, NULL when there is none of that name. */
GRIDLINE_API const char *gridline_sensor_name(size_t i);
GRIDLINE_API const char *gridline_sensor_summary(const char *sensor);

/* What a sensor's events hold. type is a letter as in struct gridline_value; kind is "counter", "gauge", "state" or
 * "text". The callback's first non-zero result ends the listing and is returned; -ENOENT: no such sensor. Sensors whose
 * events are not known beforehand (exec, logfile) list nothing. */
typedef int (*gridline_sensor_field_fn)(void *arg, const char *event, const char *field, char type, int is_key,
                                        const char *kind, const char *unit, const char *help);
GRIDLINE_API int gridline_sensor_fields(const char *sensor, gridline_sensor_field_fn fn, void *arg);

/* Its options. default_text is NULL when there is no default. */
typedef int (*gridline_sensor_option_fn)(void *arg, const char *option, const char *type, const char *default_text,
                                         const char *help);
GRIDLINE_API int gridline_sensor_options(const char *sensor, gridline_sensor_option_fn fn, void *arg);

typedef struct gridline_sensor gridline_sensor;

/* options: "name=value" strings, NULL at the end (NULL = none); a list takes its name several times. root: NULL for this
 * host, or a folder with another host's proc/ and sys/. NULL on failure, with the reason in why. */
GRIDLINE_API gridline_sensor *gridline_sensor_open(const char *sensor, const char *const *options, const char *root,
                                                   char *why, size_t why_size);
GRIDLINE_API void gridline_sensor_close(gridline_sensor *s); /* NULL is fine */

/* One event. Everything is borrowed for the call; a non-zero result ends the sample and is returned. */
typedef int (*gridline_sensor_event_fn)(void *arg, int64_t time_ns, int level, const char *event,
                                        const struct gridline_value *values, size_t n);
/* Takes a sample and gives its events to fn. Sensors that answer later (a ping, a program's output) are waited for, up to
 * timeout_ms. */
GRIDLINE_API int gridline_sensor_sample(gridline_sensor *s, int timeout_ms, gridline_sensor_event_fn fn, void *arg);
/* What the last sample that failed or had no data said. Never NULL. */
GRIDLINE_API const char *gridline_sensor_why(const gridline_sensor *s);

/* Each system call that sampling costs from now on: "pread", "/proc/stat", 1234. fn NULL = no more. */
typedef void (*gridline_sensor_call_fn)(void *arg, const char *call, const char *what, size_t bytes);
GRIDLINE_API void gridline_sensor_trace(gridline_sensor *s, gridline_sensor_call_fn fn, void *arg);

#ifdef __cplusplus
}
#endif
#endif
