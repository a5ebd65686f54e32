/* SPDX-License-Identifier: Apache-2.0 */
/* link.h - one connection to a gateway: a socket that does not block, with TLS or without, and what waits to
 * be sent. Bytes only; conn.c speaks the protocol.
 *
 * The owner registers the descriptor (LINK_WANTS_*) and calls link_pump whenever it is ready. One thread. */
#ifndef GRIDLINE_BENCH_LINK_H
#define GRIDLINE_BENCH_LINK_H

#include "base/err.h"
#include "base/strbuf.h"

#include <netinet/in.h>
#include <openssl/ssl.h>

/* Where connections go, and as whom. Shared by many links. */
struct link_target {
    struct sockaddr_in to;
    bool is_tls;
    bool resumes;      /* TLS: with the ticket of the connection before */
    uint32_t sources;  /* dial from that many addresses in turn, 127.0.0.1 on; 0 = the system's choice */
    SSL_CTX *identity; /* NULL without TLS */
};

/* "tcp://127.0.0.1:14830" or "tls://...", an address of IPv4. -EINVAL: *why says what. */
int link_target_parse(struct link_target *t, const char *address, struct diag *why);
/* A TLS context from an identity folder (src/net/tls.h): 1.3, mutual, nothing but the site's CA is trusted.
 */
int link_identity_load(const char *dir, SSL_CTX **out, struct diag *why);

enum link_state { LINK_CLOSED, LINK_CONNECTING, LINK_HANDSHAKE, LINK_OPEN };

struct link {
    int fd; /* -1 when closed */
    enum link_state state;
    bool wants_write; /* to be polled for writing */
    SSL *tls;
    SSL_SESSION *session; /* the newest ticket; kept over connections */
    struct strbuf out;    /* what waits from out_at on */
    size_t out_at;
};

/* Begins to connect; number chooses the source address. -errno: nothing is open. The link must be closed. */
int link_dial(struct link *l, const struct link_target *t, uint32_t number);
/* Goes on: connecting, handshake, then writes what waits. 0; or -errno, E_PROTO (TLS failed): close it. */
int link_pump(struct link *l);
/* Up to n bytes: how many; -EAGAIN: none now; 0: the end; -errno, E_PROTO. Only when open. */
ssize_t link_read(struct link *l, void *to, size_t n);
/* Takes the socket away without a word, as when a process dies; the ticket stays. */
void link_close(struct link *l);
void link_fini(struct link *l);

#endif
