/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h - the frames by which an agent becomes a worker and stays one (docs/protocol.md, "Leases"):
 * REGISTER and RENEW from the agent, LEASE back. As frame.h: pure functions, slices borrowed from the
 * payload. */
#ifndef GRIDLINE_NET_LEASE_H
#define GRIDLINE_NET_LEASE_H

#include "net/args.h"
#include "net/frame.h"

enum lease_frame { FRAME_REGISTER = 24, FRAME_RENEW = 25, FRAME_LEASE = 26 };

/* How datagrams are protected (IP-4). On the wire: never change the numbers. */
enum seal_level {
    SEAL_NONE = 0,
    SEAL_AUTHENTIC = 1, /* signed, readable */
    SEAL_PRIVATE = 2    /* signed and encrypted */
};

enum { LEASE_KEY = 16 }; /* bytes: AES-128 */

enum lease_mode { LEASE_RESIDENT = 0, LEASE_GUEST = 1 };

struct frame_register {
    uint8_t mode;               /* enum lease_mode */
    uint32_t lease_ms;          /* wanted; 0 = the gateway's choice */
    int64_t t0_ns;              /* CLOCK_BOOTTIME when it was sent */
    int64_t utc_ns;             /* the local clock, at the same moment */
    struct frame_origin origin; /* of its events; HELLO's on a connection of its own */
    struct slice host;
    struct args properties; /* static: cpus, memory, kernel, ... */
    struct args settings;   /* proposed thresholds: "vector.every" = "1s", ... */
    uint64_t datagrams;     /* sent before, under its samples origin */
};

enum { RENEW_LEAVING = 1 }; /* the last one: the worker deregisters */

struct frame_renew {
    uint32_t number; /* from 1, one more each time */
    uint8_t flags;
    int64_t t0_ns;      /* CLOCK_BOOTTIME when it was sent */
    uint64_t datagrams; /* sent so far under this samples origin, probes too */
};

/* The answer to both. */
enum lease_status {
    LEASE_GRANTED = 0,
    LEASE_REFUSED = 1, /* not now, or not here: text says why; try another gateway */
    LEASE_DENIED = 2,  /* never: this host is not yours to speak for */
    LEASE_UNKNOWN = 3, /* RENEW without a lease (the gateway forgot): register again */
    LEASE_ENDED = 4    /* the answer to RENEW_LEAVING */
};

struct frame_lease {
    uint16_t status;
    uint32_t number; /* RENEW's; 0 = answers REGISTER */
    uint32_t worker; /* its id, for life */
    uint32_t lease_ms, renew_ms;
    int64_t t0_ns;        /* as it came */
    int64_t t1_ns, t2_ns; /* global time when the question came and when this was sent */
    uint64_t datagrams;   /* received so far, each counted once */
    uint16_t udp_port;    /* 0 = this gateway takes no datagrams */
    uint8_t level;        /* enum seal_level */
    uint32_t key_id;
    struct slice key; /* LEASE_KEY bytes; "" = as before, or none (SEAL_NONE) */
    bool has_settings;
    struct args settings; /* assigned, all of them; only if has_settings */
    struct slice text;
};

/* worker is the frame's: 0, or a relay's number of it. */
void frame_put_register(struct strbuf *out, uint32_t worker, const struct frame_register *r);
int frame_get_register(struct slice payload, struct frame_register *out);
void frame_put_renew(struct strbuf *out, uint32_t worker, const struct frame_renew *r);
int frame_get_renew(struct slice payload, struct frame_renew *out);
void frame_put_lease(struct strbuf *out, uint32_t worker, const struct frame_lease *l);
int frame_get_lease(struct slice payload, struct frame_lease *out);

#endif
