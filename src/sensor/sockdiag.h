/* SPDX-License-Identifier: Apache-2.0 */
/* sockdiag.h - the TCP sockets of this network namespace that use one of some ports, from the kernel's sock_diag.
 *
 *     struct sockdiag *d;
 *     if (sockdiag_open(&d) == 0)
 *         r = sockdiag_dump(d, &(struct sockdiag_query){.ports = ports, .n_ports = n, .states = SOCKDIAG_CONNECTED},
 *                           on_socket, arg);
 *
 * The kernel filters by port, so only sockets that match are copied; it still walks its whole table of connections,
 * which costs about 1 ns an empty bucket. Nothing waits: the kernel makes each part of the answer in the call that
 * reads it. Needs no privilege. One thread.
 *
 * Includes <linux/tcp.h>, whose struct tcp_info has the newer fields; it can't be used together with <netinet/tcp.h>.
 * */
#ifndef GRIDLINE_SENSOR_SOCKDIAG_H
#define GRIDLINE_SENSOR_SOCKDIAG_H

#include "base/slice.h"
#include "base/strbuf.h"

#include <stdint.h>

#include <linux/inet_diag.h>
#include <linux/tcp.h>

/* The kernel's numbers of a TCP socket's state (msg->idiag_state); the user space headers have them only in
 * <netinet/tcp.h>. */
enum sockdiag_state {
    SOCKDIAG_ESTABLISHED = 1,
    SOCKDIAG_SYN_SENT,
    SOCKDIAG_SYN_RECV,
    SOCKDIAG_FIN_WAIT1,
    SOCKDIAG_FIN_WAIT2,
    SOCKDIAG_TIME_WAIT,
    SOCKDIAG_CLOSE,
    SOCKDIAG_CLOSE_WAIT,
    SOCKDIAG_LAST_ACK,
    SOCKDIAG_LISTEN,
    SOCKDIAG_CLOSING,
    SOCKDIAG_STATES
};
/* "established", ...; "unknown" for a number that is not a state. */
const char *sockdiag_state_name(unsigned state);

enum {
    SOCKDIAG_PORTS_MAX = 256,
    SOCKDIAG_SOCKETS_MAX = 65536, /* of one dump */
    /* Every state in which both ends are known and the socket has a tcp_info. */
    SOCKDIAG_CONNECTED = (1 << SOCKDIAG_ESTABLISHED) | (1 << SOCKDIAG_SYN_SENT) | (1 << SOCKDIAG_FIN_WAIT1) |
                         (1 << SOCKDIAG_FIN_WAIT2) | (1 << SOCKDIAG_CLOSE_WAIT) | (1 << SOCKDIAG_LAST_ACK) |
                         (1 << SOCKDIAG_CLOSING)
};

struct sockdiag_query {
    const uint16_t *ports; /* host byte order; a socket matches when its local or its remote port is one of them */
    size_t n_ports;        /* 1 to SOCKDIAG_PORTS_MAX */
    uint32_t states;       /* 1 << state, or-ed */
};

/* One socket, IPv4 or IPv6; ports and addresses in msg->id are in network byte order. info has info_len bytes from
 * the kernel (the rest is zero): an older kernel has fewer fields, ask SOCKDIAG_HAS. info_len is 0 when the socket
 * has none. All borrowed for the call. A result other than 0 ends the dump, which returns it. */
typedef int (*sockdiag_fn)(void *arg, const struct inet_diag_msg *msg, const struct tcp_info *info, size_t info_len);
#define SOCKDIAG_HAS(info_len, field) \
    ((info_len) >= offsetof(struct tcp_info, field) + sizeof(((struct tcp_info *)0)->field))

struct sockdiag;
int sockdiag_open(struct sockdiag **out);
void sockdiag_close(struct sockdiag *d); /* NULL is fine */
/* All sockets that match, in no order. 0; fn's result; E_LIMIT: there are more than SOCKDIAG_SOCKETS_MAX, or too many
 * ports; E_PROTO: not what the kernel promises; or the kernel's own -errno. Every result leaves d ready for the next
 * dump. */
int sockdiag_dump(struct sockdiag *d, const struct sockdiag_query *query, sockdiag_fn fn, void *arg);
/* Bytes read from the kernel by the last dump, for env_note. */
size_t sockdiag_last_bytes(const struct sockdiag *d);

/* "192.0.2.1:80", "[2001:db8::1]:80"; an IPv4 address in IPv6 clothes is written as IPv4. Appends to out. */
void sockdiag_add_address(struct strbuf *out, uint8_t family, const uint32_t address[4], uint16_t port_be);

/* For tests: one datagram of an answer. 1: the answer is over; 0: more comes; else as sockdiag_dump. */
int sockdiag_parse(struct slice datagram, uint32_t seq, sockdiag_fn fn, void *arg);

#endif
