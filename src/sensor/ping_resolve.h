/* SPDX-License-Identifier: Apache-2.0 */
/* ping_resolve.h - the address of a name, without waiting and without the resolver's libraries in this
 * process: getent(1) of the C library is run, as a process of its own, and its answer is read when it comes.
 * One name at a time. */
#ifndef GRIDLINE_SENSOR_PING_RESOLVE_H
#define GRIDLINE_SENSOR_PING_RESOLVE_H

#include "base/slice.h"

#include <netinet/in.h>
#include <sys/types.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* A number and not a name: "192.0.2.1", "2001:db8::1", "fe80::1%eth0". E_PROTO. Port 0. */
int address_parse(const char *text, union address *out);
/* Can it be the name of a host? Letters, digits, '-', '_' and '.', and no '-' first: nothing that is an
 * option. */
bool address_is_name(const char *text);
bool address_same(const union address *a, const union address *b); /* but for ports */

struct resolve {
    pid_t pid; /* 0 = none */
    int fd;    /* its output, not blocking; -1 = none */
    size_t n;
    char text[128];
};

void resolve_init(struct resolve *r);
/* One must not be running. -ENOENT: there is no getent. */
int resolve_start(struct resolve *r, const char *name);
/* 1: *out is the first address; 0: not yet; E_NODATA: the name has none. After another result than 0 it is
 * over. */
int resolve_read(struct resolve *r, union address *out);
/* Ends it. Waits for the killed process, which is a moment. */
void resolve_stop(struct resolve *r);

#endif
