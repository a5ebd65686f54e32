/* SPDX-License-Identifier: Apache-2.0 */
/* flow.h - from what sensors say to whoever takes it: the gateway, consumers on this host, files.
 *
 * Rows and events of a round are collected and leave together in flow_end: one wake-up, one packet, one sync.
 * Samples go straight into the gateway's packet; they become a batch only if somebody on this host wants one.
 * Every sensor's mark is kept with the events before it. No stage beyond here knows sensors.
 *
 * Times come in as local UTC and leave as global time: here, once, with the one clock that a round has. So raw time is
 * time - offset of the block's head, to the nanosecond. If local UTC is set in the middle of a round nobody can tell by
 * which clock its rows were taken: their bound is not known then. */
#ifndef GRIDLINE_AGENT_FLOW_H
#define GRIDLINE_AGENT_FLOW_H

#include "agent/local.h"
#include "agent/outputs.h"
#include "agent/streams.h"
#include "agent/upstream.h"

struct flow;
struct timekeeper;

/* Each may be NULL; all are borrowed, as is host. They can be changed at run time. */
struct flow_sinks {
    struct upstream *upstream;
    struct outputs *outputs;
    struct local *local;
};

struct flow *flow_create(const char *host); /* NULL: no memory */
void flow_destroy(struct flow *f);          /* NULL is fine */
void flow_set_sinks(struct flow *f, const struct flow_sinks *sinks);
/* Whose time rows are stamped with: t is borrowed. Without one it is local UTC. */
void flow_set_clock(struct flow *f, const struct timekeeper *t);
/* The clock of the rows since the last flow_end, for the heads of their blocks. */
struct batch_clock flow_clock(const struct flow *f);
/* A built-in schema, so that learned events of its name have its roles and units. */
void flow_declare(struct flow *f, const struct schema *schema);

/* time_ns is local UTC in all three. */
void flow_sample(struct flow *f, struct stream *s, int64_t time_ns, const struct value *values);
/* A row of a stream above the limit: dropped, and counted where the gateway hears of it. */
void flow_overflow(struct flow *f);
/* An event of a known schema. */
void flow_known(struct flow *f, const struct schema *schema, int64_t time_ns, uint8_t level,
                const struct value *values);
/* Any event; an empty host is this one's, an empty prog becomes prog. */
int flow_event(struct flow *f, const struct event_head *head, const struct named_value *values, size_t n,
               const char *prog, struct diag *why);
void flow_mark(struct flow *f, const char *sensor, struct slice position);
/* Ends a round. */
void flow_end(struct flow *f);

/* Rows over a limit of the model, or without memory: dropped. */
uint64_t flow_refused(const struct flow *f);

/* The agent about itself: event `agent.state` (state, why), and `sensor.state` with the key sensor. */
void flow_agent_state(struct flow *f, uint8_t level, const char *state, const char *why);
void flow_sensor_state(struct flow *f, uint8_t level, const char *sensor, const char *state, const char *why);

/* Event `samples.way`: how samples go to the gateway from now on, "datagrams" or "stream". */
void flow_samples_way(struct flow *f, const char *way, const char *why);

#endif
