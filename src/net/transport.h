/* SPDX-License-Identifier: Apache-2.0 */
/* transport.h - how an uplink's bytes get through a socket when not plainly: TLS. uplink.c is part of
 * libgridline, which links libc only, so it knows TLS by this table; the agent gives it one (net/secure.h).
 *
 * Nothing here waits. wants is POLLIN or POLLOUT: what to poll for before trying again. */
#ifndef GRIDLINE_NET_TRANSPORT_H
#define GRIDLINE_NET_TRANSPORT_H

#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

struct transport; /* one connection */

struct transport_ops {
    /* fd is connected, non-blocking and borrowed. name: whom it must be; NULL = any gateway of the site. */
    int (*start)(void *ctx, int fd, const char *name, struct transport **out, struct diag *why);
    /* 0: done; -EAGAIN: *wants; else it failed and *why says why in words ("the gateway's certificate has
     * expired"). Also finishes the handshake. */
    int (*handshake)(struct transport *t, short *wants, struct diag *why);
    /* As send and recv: bytes, or -EAGAIN with *wants, 0 from receive is the end, or an error. */
    ssize_t (*send)(struct transport *t, const void *p, size_t n, short *wants);
    ssize_t (*receive)(struct transport *t, void *p, size_t n, short *wants);
    void (*end)(struct transport *t); /* NULL is fine; without a word on the wire */
};

#endif
