/* SPDX-License-Identifier: Apache-2.0 */
/* upstream.h - the agent's connection to its gateway: samples as differences, events with acknowledgement.
 *
 * Two producers, each with its own sequence and ledger (DESIGN.md, "Delivery"): samples are sent when the
 * gateway is there and otherwise dropped and counted (or, with spool_samples, kept like events); events go to
 * the spool first, where there is one, and stay until they are acknowledged. A round's rows leave together in
 * upstream_flush. Nothing waits.
 *
 * Ledger of the samples: taken = passed + dropped, where passed means handed to the connection; what a
 * breaking connection lost of that the receiver knows by the sequence numbers. */
#ifndef GRIDLINE_AGENT_UPSTREAM_H
#define GRIDLINE_AGENT_UPSTREAM_H

#include "agent/streams.h"
#include "net/uplink.h"

struct upstream_options {
    const char *gateways; /* addresses in order */
    const char *host;
    const char *spool_dir; /* NULL = none */
    uint64_t spool_max, queue_max;
    bool spools_samples;
    /* The newest position that an earlier run left for a sensor. */
    void (*on_mark)(void *arg, struct slice name, struct slice position);
    /* The connection came (true) or went; for the log and for renewing what the gateway knows. */
    void (*on_state)(void *arg, bool is_up, const char *address);
    void *arg;
};

struct upstream_counts {
    struct uplink_counts events;
    struct uplink_counts samples; /* queued is 0 */
    uint64_t bytes_sent, bytes_received;
};

struct upstream;
int upstream_create(const struct upstream_options *o, struct upstream **out, struct diag *why);
/* Says goodbye with the final counts, as far as that goes without waiting. NULL is fine. */
void upstream_destroy(struct upstream *u);

/* A row of a stream. */
void upstream_sample(struct upstream *u, struct stream *s, int64_t time_ns, const struct value *values);
void upstream_event(struct upstream *u, const struct event *e);
/* What came before of this sensor's events is kept together with its position. */
void upstream_mark(struct upstream *u, const char *sensor, struct slice position);
/* Ends a round: everything taken is made durable or handed to the connection. */
void upstream_flush(struct upstream *u);

/* As uplink's. */
int upstream_pump(struct upstream *u, int64_t now_ns);
int upstream_wait_fd(const struct upstream *u, short *events);
uint32_t upstream_dials(const struct upstream *u);
bool upstream_is_up(const struct upstream *u);
void upstream_counts(const struct upstream *u, struct upstream_counts *out);
/* Nothing waits to be acknowledged. */
bool upstream_is_idle(const struct upstream *u);

#endif
