/* SPDX-License-Identifier: Apache-2.0 */
/* udp.h - the gateway's datagram socket: receives in batches (recvmmsg, UDP GRO), reads heads, finds the
 * worker, opens the seal, and hands on what is authentic and new. Everything else is counted and forgotten:
 * nothing is answered by UDP, so nothing can be amplified.
 *
 * received = passed + malformed + unknown + level + forged + replayed, always. Of each fate but passed a line
 * is logged at most once a minute, with the count and the last sender.
 *
 * No allocation and no system call per datagram; 1 MiB of buffers at most. On the loop; a wake-up ends with
 * the batch that makes UDP_ROUND datagrams or more, so that a flood does not starve the connections. */
#ifndef GRIDLINE_GATEWAY_UDP_H
#define GRIDLINE_GATEWAY_UDP_H

#include "gateway/worker.h"

#include <event2/event.h>

enum { UDP_ROUND = 4096, UDP_DRAIN = 256 << 10, UDP_BUFFER = 32 << 20 };

struct udp_counts {
    uint64_t received;  /* datagrams, of GRO's too */
    uint64_t bytes;     /* of these, without the heads of UDP and IP */
    uint64_t passed;    /* given to the workers' samplers, probes included */
    uint64_t malformed; /* no head, or a packet that its sampler did not take */
    uint64_t unknown;   /* no such worker, it has no lease or no sampler, or its key is another one */
    uint64_t level;     /* not sealed as its lease says */
    uint64_t forged;    /* the seal does not fit */
    uint64_t replayed;  /* a number that had come, or too old; not opened, so perhaps forged, too */
    uint64_t
        overflow; /* dropped by the kernel for lack of room, not received; what GRO had joined counts once */
};

struct udp;
/* address: HOST:PORT as in listen.h, udp:// before it or not; any address: whether it may be one that others
 * reach is the caller's to say. Port 0 = any. *why says what is wrong. Makes the receive buffer as large as
 * it may be, up to UDP_BUFFER. Borrows workers. */
int udp_create(struct event_base *base, struct slice address, struct workers *workers, struct udp **out,
               struct diag *why);
void udp_destroy(struct udp *u); /* NULL is fine */
uint16_t udp_port(const struct udp *u);
const char *udp_address(const struct udp *u);
void udp_counts(const struct udp *u, struct udp_counts *out);
/* After each wake-up that passed something: the owner starts its commit timer. */
void udp_on_round(struct udp *u, void (*fn)(void *arg), void *arg);
/* While fn says true no more is taken from the socket, but by udp_drain: the kernel keeps what comes as long
 * as it has room, which is better than to take it and to refuse it. The owner calls udp_go_on when that may
 * be over; fn is asked again. */
void udp_hold_while(struct udp *u, bool (*fn)(void *arg), void *arg);
void udp_go_on(struct udp *u);
/* Takes all that has come by now, UDP_DRAIN datagrams or a few more at most: what a worker sent before it
 * said goodbye is still its own. One system call where nothing has come. Not from on_round. */
void udp_drain(struct udp *u);
/* What a wake-up does, on a datagram that is already in memory (fuzzing, tests). It is opened in place. */
void udp_take(struct udp *u, unsigned char *datagram, size_t n);

#endif
