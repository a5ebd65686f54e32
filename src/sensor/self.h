/* SPDX-License-Identifier: Apache-2.0 */
/* self.h - what the agent tells its sensor `self`: the ledger, and what each sensor costs. */
#ifndef GRIDLINE_SENSOR_SELF_H
#define GRIDLINE_SENSOR_SELF_H

#include <stdint.h>

struct self_counts {
    uint64_t samples_taken, samples_passed, samples_dropped;
    uint64_t events_taken, events_passed, events_queued, events_dropped;
    uint64_t local_passed, local_dropped; /* to consumers on this host */
    uint64_t output_passed, output_dropped; /* to files and standard output */
    uint64_t bytes_sent, bytes_received;
    uint64_t streams, consumers, sensors;
    uint64_t port_looks, port_ns; /* the port monitor's: how often, and the time that took */
    uint64_t slowed; /* sensors that run less often than configured, to keep the budget */
};

struct self_cost {
    const char *sensor; /* name, or type/name */
    const char *state;  /* "running", "idle", "failed" */
    const char *why;    /* of a failure; "" */
    const char *mode;   /* as configured: "always", "on-request", "port", "off" */
    uint64_t runs, failures, no_data, rows;
    uint64_t wall_ns;
    uint64_t cpu_ns, cpu_runs; /* of those runs that were measured */
    double every_s;
    double predicted; /* microseconds of CPU a second at this period, from what a run cost when it was tried
                         first */
    double observed;  /* the same, from all runs measured; negative: none yet */
};

struct sensor_self {
    void *arg;
    void (*counts)(void *arg, struct self_counts *out);
    void (*each)(void *arg, void (*fn)(void *fn_arg, const struct self_cost *cost), void *fn_arg);
};

#endif
