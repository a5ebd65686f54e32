/* SPDX-License-Identifier: Apache-2.0 */
/* echo.h - ICMP echo messages, of IPv4 and IPv6: making a request, and finding ours among what comes
 * back. */
#ifndef GRIDLINE_NET_ECHO_H
#define GRIDLINE_NET_ECHO_H

#include "base/slice.h"

#include <stdint.h>

enum { ECHO_BYTES = 24 };

struct echo {
    uint16_t id;     /* of who asks; sockets of the kernel's ping kind put their own */
    uint16_t seq;    /* of the probe */
    uint64_t cookie; /* random, of who asks: nobody else's answers are taken for ours */
    uint32_t target; /* which one was asked */
    uint32_t probe;  /* its number */
};

/* Writes ECHO_BYTES. */
void echo_build(const struct echo *e, bool is_v6, unsigned char *to);
/* 0; E_PROTO: not the reply to such a request, or cut. has_ip: an IPv4 header comes first, as raw sockets
 * give it. The sender's checksum was looked at by the kernel. */
int echo_parse(struct slice packet, bool is_v6, bool has_ip, struct echo *out);

#endif
