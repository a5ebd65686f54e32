/* SPDX-License-Identifier: Apache-2.0 */
/* transport.h - how an uplink's bytes get through a socket when not plainly: TLS. uplink.c is part of
 * libgridline, which links libc only, so it knows TLS by this table; the agent gives it one (net/secure.h).
 *
 * Nothing here waits. wants is POLLIN or POLLOUT: what to poll for before trying again. */
#ifndef GRIDLINE_NET_TRANSPORT_H
#define GRIDLINE_NET_TRANSPORT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct transport; /* one connection */

struct transport_ops {
    /* fd is connected, non-blocking and borrowed, as name is. name: whom it must be; NULL = any gateway of
     * the site. */
    int (*start)(void *ctx, int fd, const char *name, struct transport **out, struct diag *why);
    /* 0: done; -EAGAIN: *wants; else it failed and *why says why in words ("the gateway's certificate has
     * expired"). Also finishes the handshake. */
    int (*handshake)(struct transport *t, short *wants, struct diag *why);
    /* As send and recv: bytes, or -EAGAIN with *wants, 0 from receive is the end, or an error. */
    ssize_t (*send)(struct transport *t, const void *p, size_t n, short *wants);
    ssize_t (*receive)(struct transport *t, void *p, size_t n, short *wants);
    void (*end)(struct transport *t); /* NULL is fine; without a word on the wire */
    /* The others may be NULL. Why send or receive failed, in words ("the other end says that our certificate
     * has expired"); "" when it is not a matter of TLS. Borrowed until end. */
    const char *(*why)(struct transport *t);
    /* Does it hold bytes that the socket does not show? NULL: it may. */
    bool (*has_more)(struct transport *t);
};

#endif
