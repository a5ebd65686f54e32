/* SPDX-License-Identifier: Apache-2.0 */
/* door.h - where connections come in and who they are: the listeners, TLS, certificates and joining. What
 * comes in is handed to the sessions with its identity; what that may do is access.h's to say. On the loop.
 */
#ifndef GRIDLINE_GATEWAY_DOOR_H
#define GRIDLINE_GATEWAY_DOOR_H

#include "gateway/session.h"

struct door_options {
    const char *listen;   /* addresses (listen.h), separated by commas or spaces */
    const char *socket;   /* a Unix socket for commands and local programs; NULL or "" = none */
    const char *identity; /* the site's folder (`gridline init`); NULL or "" = no TLS */
    bool is_insecure;     /* other hosts may come without TLS */
};

struct door;
/* Listens; from then on sessions get connections. Sets identify and enrol of the sessions. *why says what is
 * wrong. */
int door_create(struct event_base *base, struct sessions *sessions, const struct door_options *o,
                struct door **out, struct diag *why);
/* Stops listening. */
void door_close(struct door *d);
void door_destroy(struct door *d); /* NULL is fine; after the sessions' end */

/* The i-th address that is listened on; NULL behind the last. */
const char *door_address(const struct door *d, size_t i);
/* HOST:PORT of the first that is TCP or TLS; "" = none. */
const char *door_first_host(const struct door *d);
/* Until when our certificate is valid; 0 = there is none. */
int64_t door_certificate_until(const struct door *d);
/* Now and then: renews our own certificate when that is due. utc. */
void door_tick(struct door *d, int64_t now_ns);

#endif
