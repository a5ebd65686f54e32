/* SPDX-License-Identifier: Apache-2.0 */
/* listen.h - where a daemon takes connections: tcp://HOST[:PORT], HOST[:PORT], tls://HOST[:PORT] or
 * unix:PATH. HOST `*` is every address of this host, IPv6 and IPv4. An address that is not a loopback one
 * must be tls://, unless the caller says LISTEN_INSECURE; the TLS itself is the caller's (tls.h). Out of
 * descriptors, it still takes each caller off the queue (and hangs up) by a descriptor kept in reserve;
 * otherwise the loop would spin on a queue that it can't empty. */
#ifndef GRIDLINE_NET_LISTEN_H
#define GRIDLINE_NET_LISTEN_H

#include "base/err.h"
#include "base/strbuf.h"

#include <event2/event.h>
#include <sys/socket.h>

/* Who called, and where. */
struct listen_peer {
    const char *name; /* "192.0.2.7:40122", "unix"; borrowed for the call */
    bool is_unix, is_tls;
    bool is_local; /* the caller is on this host, as far as its address says: loopback, or is_unix */
};

/* Takes fd. */
typedef void (*listen_accept)(void *arg, evutil_socket_t fd, const struct listen_peer *peer);

enum listen_flags { LISTEN_INSECURE = 1 /* any address without TLS */ };

struct listener;
/* On failure *why says what is wrong with which address. -EACCES: not a loopback address. */
int listener_create(struct event_base *base, struct slice address, unsigned flags, listen_accept accept,
                    void *arg, struct listener **out, struct diag *why);
/* NULL is fine. Removes the socket file. */
void listener_destroy(struct listener *l);
/* tcp://127.0.0.1:14830 (or tls://) with the port it got, or unix:PATH. */
const char *listener_address(const struct listener *l);
bool listener_is_tls(const struct listener *l);

/* What a socket of another kind shares with it: HOST[:PORT], where HOST may be in brackets or `*` and PORT is
 * 14830 if it is not given; freeaddrinfo is the caller's. -EINVAL. */
struct addrinfo;
int listen_resolve(struct slice address, int socktype, struct addrinfo **out, struct diag *why);
/* 127.0.0.0/8 or ::1, also as an IPv4 address within IPv6. */
bool listen_is_loopback(const struct sockaddr *sa);
/* Appends HOST:PORT in numbers; nothing for what is not an IP address. */
void listen_print(const struct sockaddr *sa, socklen_t len, struct strbuf *out);

#endif
