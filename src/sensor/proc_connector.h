/* SPDX-License-Identifier: Apache-2.0 */
/* proc_connector.h - the kernel tells when a process begins, runs another program, takes another name or
 * ends.
 *
 * Needs CAP_NET_ADMIN (kernels before 6.6) and the initial user, pid and network namespaces. Threads are left
 * out, in the kernel, by a filter on the socket. Reading never blocks. One thread. */
#ifndef GRIDLINE_SENSOR_PROC_CONNECTOR_H
#define GRIDLINE_SENSOR_PROC_CONNECTOR_H

#include "base/err.h"
#include "base/slice.h"

#include <stdint.h>

enum proc_change_what { PROC_FORKED, PROC_EXECED, PROC_NAMED, PROC_EXITED };

struct proc_change {
    enum proc_change_what what;
    uint32_t pid;
    uint32_t parent; /* PROC_FORKED: whose program and name it has */
    int status;      /* PROC_EXITED: as for wait(2) */
    int64_t mono_ns; /* when: CLOCK_MONOTONIC */
};

struct proc_connector;

/* *why says what stands in the way (-EPERM, E_NODATA in a namespace that is told nothing, ...). */
int proc_connector_open(struct proc_connector **out, struct diag *why);
void proc_connector_close(struct proc_connector *c); /* NULL is fine */
int proc_connector_fd(const struct proc_connector *c);
/* About how many messages the kernel keeps for a reader that is late. */
unsigned proc_connector_room(const struct proc_connector *c);

/* Calls fn for each change that waits, at most PROC_CONNECTOR_READ_MAX messages, so that a host that forks
 * without end can't keep the reader. Returns how many messages were read; -ENOBUFS: the socket's buffer was
 * full and changes were lost (fn was called for what there was); other negative codes: the socket is broken.
 */
enum { PROC_CONNECTOR_READ_MAX = 16384 };
int proc_connector_read(struct proc_connector *c, void (*fn)(void *arg, const struct proc_change *change),
                        void *arg);

/* One datagram: 1 and *out; 0: nothing that matters; E_PROTO. */
int proc_connector_parse(struct slice datagram, struct proc_change *out);

#endif
