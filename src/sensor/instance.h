/* SPDX-License-Identifier: Apache-2.0 */
/* instance.h - one sensor that runs: its state, its options, its failures and what it costs.
 *
 * The instance opens the sensor when it is first sampled, and again after a failure, with a back-off that
 * doubles from one period to INSTANCE_BACKOFF_MAX. close is called exactly once for each open. A helper
 * sensor (.is_helper) is run by remote.c in gridline-helper; the caller sees no difference. One thread, no
 * timers: the caller decides when. */
#ifndef GRIDLINE_SENSOR_INSTANCE_H
#define GRIDLINE_SENSOR_INSTANCE_H

#include "sensor/sensor.h"

#define INSTANCE_BACKOFF_MAX (INT64_C(300) * 1000 * 1000 * 1000) /* ns */

struct instance_stats {
    uint64_t runs, failures, no_data;
    uint64_t rows;                 /* rows and events emitted */
    uint64_t wall_ns, wall_max_ns; /* of all runs; the longest */
    uint64_t cpu_ns, cpu_runs;     /* thread CPU time of those runs in which it was measured (one of 16) */
    int last_error;                /* 0: the last run went well; E_NODATA */
    char last_why[200];            /* what it said */
};

struct instance;

/* Copies everything. Options are parsed here: *why names the option and what is wrong with it. name is the
 * instance's (the sensor's own for those that are not multi). *out is untouched on failure. env is borrowed.
 */
int instance_create(const struct sensor_ops *ops, const char *name, const struct parameter_setting *settings,
                    size_t n, struct sensor_env *env, struct instance **out, struct diag *why);
void instance_destroy(struct instance *i); /* closes; NULL is fine */
/* Only looks whether the settings can be used. */
int instance_check(const struct sensor_ops *ops, const struct parameter_setting *settings, size_t n,
                   struct diag *why);

const struct sensor_ops *instance_ops(const struct instance *i);
const char *instance_name(const struct instance *i);
/* The position (sensor_mark) with which it opens; copied. */
void instance_set_position(struct instance *i, struct slice position);
struct slice instance_position(const struct instance *i); /* the newest; borrowed */
/* Closes the sensor; it opens again when it is next sampled. What was counted stays. */
void instance_close(struct instance *i);
/* Runs it now unless it is backing off (-EAGAIN). every_ns is its period, for the back-off. out's row, event
 * and mark are the caller's; the rest is filled in here. */
int instance_sample(struct instance *i, struct sensor_out *out, bool is_due, int64_t every_ns);
/* Measures the CPU time of each of the next runs, not only of some. */
void instance_measure(struct instance *i, unsigned runs);
int instance_wait_fd(struct instance *i); /* -1 = none */
/* Did the last sample begin something whose result a later one gives (SENSOR_UNDERWAY)? */
bool instance_is_underway(const struct instance *i);
const struct instance_stats *instance_stats(const struct instance *i);
/* When a sensor that backs off may be tried again (monotonic ns); 0: it is not backing off. */
int64_t instance_retry_at(const struct instance *i);

#endif
