/* SPDX-License-Identifier: Apache-2.0 */
/* portmon.h - which of some ports have traffic (JM-3), so that sensors can run only while something is
 * transferred.
 *
 *     struct portmon *m = portmon_create();
 *     portmon_set(m, ports, n);
 *     at portmon_next_ns(m): portmon_look(m, now_ns);
 *     if portmon_wait_fd(m) is readable: portmon_read(m, now_ns);
 *     if (portmon_is_active(m, 5001, now_ns, hold_ns)) ...
 *
 * TCP by comparing the kernel's sockets on these ports every PORTMON_EVERY: a socket that is new, gone, in
 * another state or with other byte counts is traffic; a connection that came and went in between has left a
 * socket in TIME_WAIT. UDP, and the first packet of each TCP connection, by a packet socket with a filter,
 * where CAP_NET_RAW allows one. Both directions, local and remote ports, IPv4 and IPv6, this network
 * namespace. Found within PORTMON_EVERY.
 *
 * Times are CLOCK_MONOTONIC, given by the caller. Nothing waits. One thread. */
#ifndef GRIDLINE_AGENT_PORTMON_H
#define GRIDLINE_AGENT_PORTMON_H

#include "base/slice.h"

#include <stdint.h>

#define PORTMON_EVERY    (INT64_C(500) * 1000 * 1000)
#define PORTMON_HOLD_MIN (INT64_C(2) * 1000 * 1000 * 1000)
enum { PORTMON_PORTS_MAX = 1024 };

struct portmon;

struct portmon *portmon_create(void);
void portmon_destroy(struct portmon *m); /* NULL is fine */

/* The ports from now on; what is known of those that stay is kept, and connections that a new port has
 * already count only when something moves on them. Twice the same is once. E_LIMIT: more than
 * PORTMON_PORTS_MAX, nothing is changed. */
int portmon_set(struct portmon *m, const uint16_t *ports, size_t n);
/* Compares. A dump that fails is tried again at the next look; portmon_why tells. */
void portmon_look(struct portmon *m, int64_t now_ns);
/* When to look next: a whole multiple of PORTMON_EVERY, as the sensors' periods are, so that they share
 * wake-ups. */
int64_t portmon_next_ns(const struct portmon *m);
/* Readable when there was traffic that the packet socket sees: to know it at once and not at the next look.
 * -1 = there is none. */
int portmon_wait_fd(const struct portmon *m);
void portmon_read(struct portmon *m, int64_t now_ns);

/* Was there traffic in the last hold_ns (at least PORTMON_HOLD_MIN counts)? False for a port that is not set.
 */
bool portmon_is_active(const struct portmon *m, uint16_t port, int64_t now_ns, int64_t hold_ns);

struct portmon_cost {
    uint64_t looks;
    uint64_t ns;      /* of wall time in look and read */
    uint64_t sockets; /* compared */
    uint64_t packets; /* read */
};
struct portmon_cost portmon_cost(const struct portmon *m);
/* What is not seen here and why, or "". Valid until the next call with m. */
const char *portmon_why(struct portmon *m);

/* For tests: the two ports of a packet from its IP header on; false for what has none. */
bool portmon_packet_ports(struct slice packet, uint16_t ports[2]);

#endif
