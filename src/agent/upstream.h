/* SPDX-License-Identifier: Apache-2.0 */
/* upstream.h - the agent's connection to its gateway: the lease, samples as differences, events with
 * acknowledgement, control.
 *
 * Two producers, each with its own sequence and ledger (DESIGN.md, "Delivery"): samples are sent when the
 * gateway is there and otherwise go to the ring (ring.h), or without one are dropped and counted; events go
 * to the spool first, where there is one, and stay until they are acknowledged. A round's rows leave together
 * in upstream_flush. Nothing waits.
 *
 * Ledger of the samples: taken = passed + dropped, where passed means handed to the connection or, as a
 * datagram, to the network; what was lost of that the receiver knows by the sequence numbers.
 *
 * The lease: an agent that is welcome registers, and renews. A question of the lease that is not answered for
 * a third of it ends the connection, and so does a refusal: the next address is tried. So another gateway has
 * the worker before the lease is over. A resident goes on for ever; a guest hears on_over when its time has
 * come (upstream_lease.c).
 *
 * Samples go by datagrams where the lease offers that and they arrive, else over the connection
 * (upstream_datagram.c). Orders are handed to on_control only from a gateway that may give them: at the other
 * end of a Unix socket, on loopback, or of TLS, where the transport has checked its name; otherwise only with
 * takes_insecure_control. */
#ifndef GRIDLINE_AGENT_UPSTREAM_H
#define GRIDLINE_AGENT_UPSTREAM_H

#include "agent/streams.h"
#include "base/timesync.h"
#include "event/batch.h"
#include "net/control.h"
#include "net/demand.h"
#include "net/lease.h"
#include "net/secure.h"
#include "net/uplink.h"

enum upstream_way { WAY_STREAM, WAY_DATAGRAMS };

/* Each may be NULL. They are called from within upstream_pump and must not pump or destroy. */
struct upstream_ops {
    /* The newest position that an earlier run left for a sensor; within upstream_create. */
    void (*on_mark)(void *arg, struct slice name, struct slice position);
    /* The connection came (true) or went; for the log and for renewing what the gateway knows. */
    void (*on_state)(void *arg, bool is_up, const char *address);
    /* For REGISTER: static properties, proposed settings. */
    void (*describe)(void *arg, struct args_writer *properties, struct args_writer *settings);
    /* The lease is held on this connection, for so long. */
    void (*on_lease)(void *arg, uint32_t worker, const char *address, uint32_t lease_ms);
    /* A gateway does not grant it; told once until another answer comes. why is safe to print. */
    void (*on_refused)(void *arg, const char *address, bool is_denied, struct slice why);
    /* All settings that the gateway assigns from now on. */
    void (*on_settings)(void *arg, struct args settings);
    void (*on_exchange)(void *arg, const struct timesync_exchange *x);
    /* Answered by upstream_answer, now or later on this connection. */
    void (*on_control)(void *arg, const struct frame_control *c);
    /* All that the gateway's consumers ask of sensors on request from now on; n 0: nothing, as after the end
     * of the connection, and while it registers. No order: it starts only what this host's configuration
     * leaves to requests, no more often than that allows, and what it starts goes to who asks. So any gateway
     * may. */
    void (*on_demand)(void *arg, const struct frame_demand *d);
    /* Samples go another way now. */
    void (*on_way)(void *arg, enum upstream_way way, const char *why);
    /* The certificate was renewed, or why not. */
    void (*on_certificate)(void *arg, bool is_renewed, struct slice why);
    /* The guest's lease is over: it is to end now. */
    void (*on_over)(void *arg, const char *why);
    /* For the heads of blocks and packets; NULL = not known. */
    struct batch_clock (*clock)(void *arg);
};

struct upstream_options {
    const char *gateways; /* addresses in order */
    const char *host;
    const char *spool_dir; /* NULL = none */
    uint64_t spool_max, queue_max;
    const char
        *ring_dir; /* of samples that wait; NULL = none. One that can't be had is done without, and logged */
    uint64_t ring_max;
    bool keeps_order; /* while samples wait in the ring, new ones go behind them */
    bool is_guest;
    uint32_t lease_ms; /* wanted; 0 = the gateway's choice */
    bool takes_insecure_control;
    const struct secure_ops *secure; /* NULL: no TLS and no seals */
    struct secure *identity;         /* borrowed; NULL without secure */
    const struct upstream_ops *ops;  /* borrowed */
    void *arg;
};

struct upstream_counts {
    struct uplink_counts events;
    struct uplink_counts samples; /* queued: in the ring */
    uint64_t bytes_sent, bytes_received;
    uint64_t datagrams;
    uint64_t control_refused; /* orders of a gateway that may give none */
};

struct upstream;
int upstream_create(const struct upstream_options *o, struct upstream **out, struct diag *why);
/* Gives back the lease and says goodbye with the final counts, as far as that goes without waiting. NULL is
 * fine. */
void upstream_destroy(struct upstream *u);

/* A row of a stream. */
void upstream_sample(struct upstream *u, struct stream *s, int64_t time_ns, const struct value *values);
/* A row of a stream above a limit is dropped. */
void upstream_overflow(struct upstream *u);
void upstream_event(struct upstream *u, const struct event *e);
/* What came before of this sensor's events is kept together with its position. */
void upstream_mark(struct upstream *u, const char *sensor, struct slice position);
/* Ends a round: everything taken is made durable or handed to the connection. */
void upstream_flush(struct upstream *u);

/* -ENOTCONN: the connection of the question is gone, and the asker knows that; -EAGAIN: it does not read. */
int upstream_answer(struct upstream *u, const struct frame_answer *a);
/* SENSORS, whole frames one after the other (net/sensors.h); within a registration. As upstream_answer. */
int upstream_sensors(struct upstream *u, struct slice frames);
/* Counts registrations that were granted; 0: none holds now. */
uint32_t upstream_registration(const struct upstream *u);
/* Counts connections: a question of an earlier one can't be answered any more. */
uint32_t upstream_connection(const struct upstream *u);

/* As uplink's. */
int upstream_pump(struct upstream *u, int64_t now_ns);
int upstream_wait_fd(const struct upstream *u, short *events);
uint32_t upstream_dials(const struct upstream *u);
bool upstream_is_up(const struct upstream *u);
const char *upstream_why(const struct upstream *u);
void upstream_counts(const struct upstream *u, struct upstream_counts *out);
/* Nothing waits to be acknowledged. */
bool upstream_is_idle(const struct upstream *u);

#endif
