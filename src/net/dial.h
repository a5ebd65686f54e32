/* SPDX-License-Identifier: Apache-2.0 */
/* dial.h - the dialling end of a consumer's or a command's connection to a gateway: address, socket, TLS;
 * then bytes both ways. Nothing here waits (but the resolver, for a name) or prints.
 *
 *     r = dial_open(address, identity, &d, &why);
 *     while ((r = dial_step(d, &wants, &why)) == -EAGAIN) ... poll dial_fd(d) for wants ...
 *     n = dial_receive(d, to, size, &wants);
 *     dial_close(d);
 *
 * Addresses: unix:PATH, tcp://HOST[:PORT] or HOST[:PORT], tls://HOST[:PORT] with an identity. A name of
 * several addresses: each is tried, in the resolver's order. For one thread. */
#ifndef GRIDLINE_NET_DIAL_H
#define GRIDLINE_NET_DIAL_H

#include "base/err.h"
#include "base/strbuf.h"
#include "net/frame.h"

#include <sys/types.h>

struct dial;

/* Is that an address at all? -EINVAL with *why. Asks nobody. */
int dial_check(const char *address, struct diag *why);
/* identity: folder (net/tls.h) for tls://; NULL or "": GRIDLINE_IDENTITY, or else in the home folder. Both
 * are borrowed for the call. Resolves a name: that takes as long as the resolver does. *out is untouched on
 * failure. */
int dial_open(const char *address, const char *identity, struct dial **out, struct diag *why);
void dial_close(struct dial *d); /* NULL is fine; without a word on the wire */

/* 0: connected, TLS included; -EAGAIN: poll dial_fd for *wants and call again; else it failed, and *why says
 * in whole sentences what to do: -EACCES: the socket belongs to another user. */
int dial_step(struct dial *d, short *wants, struct diag *why);
/* May be another one after each step. */
int dial_fd(const struct dial *d);
/* Bytes, or -EAGAIN with *wants, or an error; receive: 0 is the end. Only when connected. */
ssize_t dial_send(struct dial *d, struct slice s, short *wants);
ssize_t dial_receive(struct dial *d, void *to, size_t n, short *wants);

/* What a code of the calls above or of a frame means here, in words; returns it. */
int dial_explain(const char *address, int r, struct diag *why);
/* BYE in place of what was expected: -EACCES, -ECONNRESET, or E_PROTO. */
int dial_explain_bye(const char *address, struct slice payload, struct diag *why);

/* Appends the greeting and HELLO of a consumer. -errno: there are no random bytes. */
int dial_hello(struct strbuf *out, const char *prog);

/* Where this user's gateway has its socket by default: "unix:/run/gridline/gateway.sock", ... */
void dial_default_gateway(struct strbuf *out);
/* And its agent, and its guard. */
void dial_default_agent(struct strbuf *out);
void dial_default_guard(struct strbuf *out);
/* Where this user's identity is by default; empty: there is no home folder. */
void dial_default_identity(struct strbuf *out);

#endif
