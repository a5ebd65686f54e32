/* SPDX-License-Identifier: Apache-2.0 */
/* manager.h - the sensor manager: which sensors run, when, and what becomes of their rows (JM-2).
 *
 * Sensors are sampled at multiples of their period on the monotonic clock, so that all of one period, and
 * longer ones with them, share a wake-up: waking a cold processor costs more than the reading. A round is
 * everything that is due (manager_run), then one flow_end. A sensor with a descriptor is also sampled when
 * that becomes readable.
 *
 * Modes: always; on request, while a subscription on this host or at the gateway asks for its events, as
 * often as who asks for it most often wants it, but no more often than its configuration allows; port, while
 * a listed port has traffic, and for the hold time after. Reloading keeps every sensor whose configuration
 * did not change; changed ones are replaced, with their position; others go or come. */
#ifndef GRIDLINE_AGENT_MANAGER_H
#define GRIDLINE_AGENT_MANAGER_H

#include "agent/config.h"
#include "agent/flow.h"
#include "sensor/self.h"

#include <event2/event.h>

struct manager;

struct manager_stats {
    size_t running, configured, slowed;
    uint64_t streams;
    uint64_t refused_rows; /* of streams beyond STREAMS_MAX */
};

/* Everything is borrowed. */
struct manager *manager_create(struct event_base *base, struct sensor_env *env, struct flow *flow);
void manager_destroy(struct manager *m); /* NULL is fine */

/* Takes the sensors of c, which stays borrowed until the next call or destroy. A sensor that can't be created
 * is left out and reported: c has been checked, so that is for lack of memory alone. */
void manager_configure(struct manager *m, const struct agent_config *c);
/* What an earlier run left: the position for the sensor of that name ("logfile/NAME"). Before
 * manager_configure. */
void manager_set_position(struct manager *m, struct slice name, struct slice position);

/* Runs what is due at now (monotonic), and ends the round. */
void manager_run(struct manager *m, int64_t now_ns);
int64_t manager_next_ns(const struct manager *m); /* INT64_MAX: nothing is due ever */

/* Looks again at who asks for what: starts and stops sensors on request, and sets their periods. asks gives
 * the smallest period that somebody wants events of that name in, where own_ns stands for the sensor's own; 0
 * = nobody asks. */
typedef int64_t (*manager_asks)(void *arg, const char *event, int64_t own_ns);
void manager_set_requests(struct manager *m, manager_asks asks, void *arg);
/* The same for ports: is_active(arg, port, hold). */
void manager_set_ports(struct manager *m, bool (*is_active)(void *arg, uint16_t port, int64_t hold_ns),
                       void *arg);
/* The ports that sensors wait for, each once; how many. */
size_t manager_ports(const struct manager *m, uint16_t *out, size_t max);

/* The budget: makes the least important sensor that can still be slowed run half as often; NULL: there is
 * none. The other way: the most important slowed one twice as often again. Its name. */
const char *manager_slow_one(struct manager *m);
const char *manager_hasten_one(struct manager *m);

/* While it is suspended no sensor runs (DG-10). */
void manager_suspend(struct manager *m, bool is_suspended);
bool manager_is_suspended(const struct manager *m);
/* What that sensor would cost, in microseconds of CPU a second at its period: by its runs so far, or by
 * trying it twice now, with its rows going nowhere. Negative: not known, for a program is not run and a host
 * not pinged to see what that costs. */
double manager_predict(struct manager *m, const struct sensor_config *c);
/* The next runs of that sensor ("exec/root-disk") are measured, each. */
void manager_measure(struct manager *m, const char *sensor, unsigned runs);

/* Everything is sent anew at the next sample: the gateway is a new one. */
void manager_renew(struct manager *m);
void manager_stats(const struct manager *m, struct manager_stats *out);
/* Counts whatever changes what manager_list tells. */
uint64_t manager_changes(const struct manager *m);
/* One sensor as others may know it. Borrowed for the call. */
struct manager_sensor {
    const char *name;                    /* "cpu", "exec/root-disk" */
    const char *mode;                    /* as self_cost's */
    const char *status;                  /* "running", "idle", "suspended", "failed", "stopped" */
    const char *why;                     /* of "failed"; "" */
    int64_t every_ns;                    /* its period as it is now */
    const struct sensor_schema *schemas; /* of its events, up to one without a name; NULL: not known before */
    const struct streams *streams;
};
void manager_list(const struct manager *m, void (*fn)(void *arg, const struct manager_sensor *s), void *arg);
void manager_each(struct manager *m, void (*fn)(void *arg, const struct self_cost *cost), void *arg);

#endif
