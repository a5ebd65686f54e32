/* SPDX-License-Identifier: Apache-2.0 */
/* ping.h - asks hosts by ICMP echo whether they are there: three times, a second apart, before one is
 * unanswered.
 *
 * Many at a time: what is asked while a batch is out goes together in the next, with one socket and on one
 * thread (errand.h), so that ten thousand hosts that are lost at once are ten batches of 3 s. Names are
 * resolved there, too, but apart from addresses: a slow resolver holds up nobody else.
 *
 * Not the sensor `ping`: what is behind gridline/sensor.h may start programs (getent) and ends those of the
 * whole process when it is closed, which is not for a thread of a program that runs actions; and a sample of
 * several targets is over with the first answer. The messages (net/echo.h) are shared.
 *
 * Rights: the kernel's ping sockets (net.ipv4.ping_group_range) or raw ones (CAP_NET_RAW). With neither every
 * host is answered with -EACCES, and that is logged once. On the loop; bounded by PINGS_MAX. */
#ifndef GRIDLINE_GUARD_PING_H
#define GRIDLINE_GUARD_PING_H

#include "base/slice.h"
#include "guard/errand.h"

#include <stdint.h>

enum { PINGS_MAX = 8192 };

/* code 0: answered, in rtt_ns. -ETIMEDOUT, -EHOSTUNREACH, -ENETUNREACH, ...: unanswered. -EACCES: no right to
 * ask; -ENOENT: its name has no address; others: it could not be asked. */
typedef void (*pings_fn)(void *arg, struct slice host, int code, int64_t rtt_ns);

struct pings;
int pings_create(struct event_base *base, struct errands *errands, pings_fn fn, void *arg,
                 struct pings **out);
/* Those that were asked are not answered any more. Before or after errands_destroy. NULL is fine. */
void pings_destroy(struct pings *p);
/* host comes back with the answer. address: "10.0.0.7:4711", "[fe80::1]:4711", a name; "" or what is none of
 * these (of a Unix socket): the host's name. 0: fn will be called, later. E_LIMIT: too many wait. -EINVAL: no
 * address and no name of a host. */
int pings_ask(struct pings *p, struct slice host, struct slice address);

#endif
