/* SPDX-License-Identifier: Apache-2.0 */
/* udp.h - the gateway's datagram socket: receives in batches (recvmmsg, UDP GRO), reads heads, finds the worker,
 * opens the seal, and hands on what is authentic and new. Everything else is counted and forgotten: nothing is
 * answered by UDP, so nothing can be amplified.
 *
 * No allocation and no system call per datagram. On the loop; one wake-up receives at most UDP_ROUND datagrams, so
 * that a flood does not starve the connections. */
#ifndef GRIDLINE_GATEWAY_UDP_H
#define GRIDLINE_GATEWAY_UDP_H

#include "gateway/worker.h"

#include <event2/event.h>

enum { UDP_ROUND = 4096, UDP_BUFFER = 32 << 20 };

struct udp_counts {
    uint64_t received;  /* datagrams, of GRO's too */
    uint64_t passed;    /* given to the workers' samplers, probes included */
    uint64_t malformed; /* no head, or a packet that can't be read */
    uint64_t unknown;   /* no such worker, or it has no lease */
    uint64_t level;     /* not sealed as its lease says */
    uint64_t forged;    /* the seal does not fit */
    uint64_t replayed;  /* a number that had come, or too old */
    uint64_t overflow;  /* dropped by the kernel for lack of room (SO_RXQ_OVFL) */
};

struct udp;
/* address: HOST:PORT as in listen.h. Port 0 = any. *why says what is wrong. Makes the receive buffer as large as it
 * may be, up to UDP_BUFFER. */
int udp_create(struct event_base *base, struct slice address, struct workers *workers, struct udp **out,
               struct diag *why);
void udp_destroy(struct udp *u); /* NULL is fine */
uint16_t udp_port(const struct udp *u);
const char *udp_address(const struct udp *u);
void udp_counts(const struct udp *u, struct udp_counts *out);
/* After each wake-up that passed something: the owner starts its commit timer. */
void udp_on_round(struct udp *u, void (*fn)(void *arg), void *arg);
/* What a wake-up does, on datagrams that are already in memory (fuzzing, tests). */
void udp_take(struct udp *u, unsigned char *datagram, size_t n);

#endif
