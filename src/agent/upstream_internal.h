/* SPDX-License-Identifier: Apache-2.0 */
/* upstream_internal.h - what the files of upstream share. Nobody else includes it (its unit tests do).
 *
 *   upstream.c           life, the connection's callbacks, events, control
 *   upstream_lease.c     registering, renewing, giving up
 *   upstream_samples.c   streams and their packets, and which way each goes
 *   upstream_datagram.c  the datagram socket, and whether datagrams arrive
 *   upstream_certificate.c  the next certificate */
#ifndef GRIDLINE_AGENT_UPSTREAM_INTERNAL_H
#define GRIDLINE_AGENT_UPSTREAM_INTERNAL_H

#include "agent/ring.h"
#include "agent/upstream.h"
#include "event/samples.h"

#include <sys/socket.h>

enum {
    UPSTREAM_LEASE_MS =
        30000, /* while none is known: how long a guest tries, and what deadlines are parts of */
    UPSTREAM_VECTOR_MAX = 128, /* bytes of a datagram with the row of `vector`, all included (DG-6) */
    UPSTREAM_REBASE_S = 600,   /* a baseline is renewed after that */
    UPSTREAM_REBASE_MIN_S = 30 /* and not more often than that, however differences grow */
};

/* A stream as it is announced on this connection; its number - 1 is the index. */
struct wire {
    uint32_t baseline;
    bool is_known;       /* STREAM_OK came for that baseline: datagrams may be relative to it */
    uint16_t bytes;      /* of the last row */
    uint16_t bytes_base; /* of the first row with differences; 0 = none yet */
    int64_t announced_ns;
};

struct lease {
    bool is_held;           /* granted on this connection */
    bool is_wanted;         /* REGISTER is to be sent */
    bool must_break;        /* this gateway is of no use: the next one */
    bool is_over;           /* a guest's, and told */
    uint8_t told;           /* the last refusal (enum lease_status) that was told; 0 = none */
    uint32_t registrations; /* that were granted */
    uint32_t wanted_ms;
    uint32_t worker, lease_ms, renew_ms;
    uint32_t number;  /* of the last RENEW */
    int64_t asked_ns; /* monotonic, of the oldest question without an answer; 0 = none */
    int64_t t0_ns;    /* CLOCK_BOOTTIME of the newest question, until it is answered; 0 = none */
    int64_t sent_ns;  /* monotonic, the same question: a lease counts from there */
    int64_t renew_at_ns;
    int64_t over_ns; /* a guest's end; INT64_MAX for a resident */
};

struct datagrams {
    int fd; /* -1: none; connected to the gateway */
    uint16_t port;
    enum upstream_way way;
    uint8_t level;
    bool has_key;         /* one for this samples origin */
    bool is_counted;      /* the gateway has answered the last SAMPLES_ORIGIN: datagrams may be sent */
    uint32_t origins_due; /* answers to SAMPLES_ORIGIN that are still to come */
    uint32_t key_id;
    unsigned char key[LEASE_KEY];
    void *seal;           /* secure_ops'; NULL = not made yet */
    uint64_t total;       /* of all origins before this one */
    uint64_t sent;        /* under this one: the number of the last */
    uint64_t told;        /* as the last RENEW said */
    uint64_t sent_before; /* as the LEASE before the last RENEW found them: sent, and */
    uint64_t received;    /* arrived */
    unsigned tries;       /* early renewals still to come, to learn whether probes arrive */
    unsigned char buffer[DATAGRAM_MAX];
};

struct upstream {
    struct uplink *link;
    const char *host; /* borrowed */
    bool keeps_order, takes_insecure_control, is_guest;
    const struct upstream_ops *ops; /* borrowed; never NULL */
    void *arg;
    const struct secure_ops *secure;
    struct secure *identity;
    int64_t certify_ns; /* UTC: when to ask for the next certificate; INT64_MAX = never */
    int64_t now_ns;     /* of the last pump */

    /* Of this connection: */
    uint32_t connection; /* counts them and begin_samples: streams are announced anew */
    uint32_t n_up;       /* counts connections */
    bool is_down;
    bool has_flushed; /* since the last look at the lease: we are awake for a round */
    bool is_unix, has_tls, is_trusted; /* is_trusted: orders are taken */
    struct sockaddr_storage peer;
    uint64_t control_refused;
    bool has_demand; /* the last that was told is not empty */
    struct lease lease;
    struct datagrams datagrams;

    /* Events: */
    struct frame_origin origin;
    uint64_t seq; /* the last one given */
    struct block_writer *block;
    struct strbuf bytes;
    uint64_t too_large;

    /* Samples: */
    struct frame_origin samples_origin;
    struct ring *ring; /* NULL: none */
    struct samples_writer *samples;
    bool is_rolling; /* each row is the next one's baseline: only the connection carries that */
    bool has_begun;  /* SAMPLES_ORIGIN was sent on this one */
    struct wire *wires;
    size_t n_wires, cap_wires;
    enum upstream_way packet_way; /* of the packet being made */
    bool packet_is_alone;         /* no other row may be in it */
    struct batch_clock packet_clock;
    struct strbuf frame, packet, schema, stream;
    struct uplink_counts counts;
    uint64_t counts_told; /* taken + passed, as COUNTS last said */
    int64_t counts_at_ns;
};

/* upstream.c */
struct batch_clock upstream_clock(const struct upstream *u);
/* u->frame holds one whole frame made by frame_put_*: sent, and forgotten. As uplink_send. */
int upstream_send_frame(struct upstream *u);
/* What was asked for is no longer: a registration begins without, and without a connection nobody hears. */
void upstream_end_demand(struct upstream *u);

/* upstream_lease.c */
void upstream_lease_up(struct upstream *u);
void upstream_lease_down(struct upstream *u);
int upstream_lease_frame(struct upstream *u, struct slice payload); /* LEASE */
/* Asks, renews, gives up: whatever is due. */
void upstream_lease_keep(struct upstream *u, int64_t now_ns);
int64_t upstream_lease_next_ns(const struct upstream *u); /* INT64_MAX: nothing is due */
/* A renewal is wanted at that time, or earlier. */
void upstream_lease_hasten(struct upstream *u, int64_t at_ns);
void upstream_lease_leave(struct upstream *u);

/* upstream_certificate.c */
void upstream_certificate_up(struct upstream *u);
void upstream_certificate_keep(struct upstream *u);
int upstream_certified(struct upstream *u, struct slice payload);

/* upstream_samples.c */
/* The receiver knows nothing of our streams, or must forget them. */
void upstream_begin_samples(struct upstream *u);
/* Rolling baselines, or announced ones as datagrams need them. What was announced must then be announced
 * anew. */
int upstream_set_rolling(struct upstream *u, bool is_rolling);
int upstream_stream_ok(struct upstream *u, struct slice payload);
void upstream_send_packet(struct upstream *u);
void upstream_tell_samples(struct upstream *u, bool is_final); /* COUNTS */

/* upstream_datagram.c */
void upstream_datagram_init(struct upstream *u);
void upstream_datagram_fini(struct upstream *u);
void upstream_datagram_down(struct upstream *u);
/* SAMPLES_ORIGIN was sent. */
void upstream_datagram_begin(struct upstream *u);
/* A lease that is granted: what it says of datagrams, and if it answers a renewal, how many have come. */
void upstream_datagram_lease(struct upstream *u, const struct frame_lease *l, bool is_renewal);
/* Sends a packet; empty = a probe. 0; else it did not leave. */
int upstream_datagram_send(struct upstream *u, struct slice packet);
/* Bytes of rows that fit into a datagram of that size. */
size_t upstream_datagram_room(const struct upstream *u, size_t datagram, uint64_t first_seq);

#endif
