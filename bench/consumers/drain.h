/* SPDX-License-Identifier: Apache-2.0 */
/* drain.h - the load of bench/fanout: a publisher, and many sockets that one thread reads and counts, whoever
 * is between them. Ours and the peers' programs share it, so that they differ only in what they speak; it
 * needs nothing but libc.
 *
 * Events are published in rounds of ROUND. The publisher stays at most a number of rounds ahead of the
 * slowest consumer, so that nobody has to drop anything; what is missing all the same is lost. A program that
 * fails says so on stderr and ends with 1. */
#ifndef GRIDLINE_BENCH_DRAIN_H
#define GRIDLINE_BENCH_DRAIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROUND = 512, EVENT_BYTES = 128 }; /* a round of text is 64 KiB */

/* Embedded first in whatever counts. The thread that drains owns it from drain_run on, but for fd. */
struct consumer {
    int fd;
    uint32_t per_round;      /* events of each round that it is to get; 0 = it is not waited for */
    _Atomic uint64_t events; /* so far */
    _Atomic uint64_t gap;    /* events that it was told it does not get */
    uint64_t bytes;
    uint64_t event_bytes; /* consumer_take_fixed: of each, on the wire */
    /* Counts what was read. */
    void (*take)(struct consumer *c, const char *bytes, size_t n);
};

/* All events have the same number of bytes. */
void consumer_take_fixed(struct consumer *c, const char *bytes, size_t n);

struct publisher {
    void (*round)(struct publisher *p); /* publishes ROUND events; may wait */
    void (*idle)(
        struct publisher *p); /* is waiting for consumers: sends what it holds back. NULL = nothing */
};

struct drain_options {
    double seconds;
    uint32_t window; /* rounds ahead of the slowest; 0 = as fast as the publisher can */
};

/* Says that it is ready, waits for a line on stdin, publishes, waits until all is delivered, and prints what
 * came of it as a line of JSON: events published, deliveries, gap, lost, seconds, bytes, and the CPU of the
 * publishing thread. */
void drain_run(struct publisher *p, struct consumer **all, size_t n, const struct drain_options *o);

/* Sockets that block, and their errors end the program. */
int drain_dial(uint16_t port);
void drain_write(int fd, const void *bytes, size_t n);
void drain_read(int fd, void *bytes, size_t n);
_Noreturn void drain_fail(const char *what);

#endif
