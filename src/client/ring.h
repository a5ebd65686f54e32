/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h - where a thread leaves its events for the drainer: one ring a thread and handle, one writer, one
 * reader.
 *
 * Positions count bytes since the ring was made; the place in the buffer is position & mask. A record is
 * 8-byte aligned and never split at the end of the buffer:
 *
 *     u64 ticks (ticks.h), or a time as it is (RECORD_AT)
 *     u32 site number, or RECORD_PAD (skip to the start of the buffer), or RECORD_DYNAMIC with flags
 * (write.c) u32 size in bytes, this head included the fields
 *
 * Where fewer bytes than a head are left before the end of the buffer, there is no record at all.
 *
 * The writer is a thread and its signal handlers. `nest` says that an event is half written: a handler that
 * finds it set writes to the second, small ring; one that finds that busy too drops. All plain stores: a
 * handler runs on the thread it interrupts, so order in the program is order enough, and the reader looks at
 * `head` only. */
#ifndef GRIDLINE_CLIENT_RING_H
#define GRIDLINE_CLIENT_RING_H

#include "client/dest.h"
#include "client/ticks.h"
#include "gridline/gridline.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    HANDLES = 32, /* slot 0 stays empty: bit 0 of a site says that it is not registered */
    RING_DEFAULT = 1 << 20,
    RING_MIN = 4096,
    RING_MAX = 1 << 30,
    RING_SECOND = 16 * 1024,
    RECORD_HEAD = 16
};

#define RECORD_PAD     UINT32_C(0)
#define RECORD_DYNAMIC UINT32_C(0x80000000)
#define RECORD_AT      UINT32_C(0x40000000) /* with RECORD_DYNAMIC */

struct record {
    uint64_t ticks;
    uint32_t site;
    uint32_t size;
};

/* nest */
enum { RING_IDLE = 0, RING_WRITING = 1, RING_THEN_SERVE = 2 /* writing, and then see to what is due */ };

struct ring {
    /* the producer's line */
    _Atomic uint32_t nest;
    bool tsc;
    bool is_second;
    _Atomic uint64_t head; /* published so far */
    uint64_t next;         /* head once the event being written is whole */
    uint64_t limit; /* the fast path may fill up to here; behind is the end, the reader, or half the ring */
    uint64_t due;   /* the fast path may go until then (ticks) */
    char *data;
    uint64_t mask;
    struct ring *second;
    uint64_t retry; /* full: not before then (ticks) is it worth asking whether this is a signal handler */

    /* the reader's */
    alignas(64) _Atomic uint64_t tail;
    uint64_t seen;   /* head at the start of this round */
    int64_t last_ns; /* of the last event read: time does not run back within a thread */

    /* seldom touched */
    alignas(64) struct gridline *g;
    uint64_t gen;
    struct ring *_Atomic link; /* the handle's list */
    _Atomic bool is_finished;  /* the thread has ended: free when empty */
    _Atomic uint64_t dropped[DROP_TOO_LARGE + 1];
    size_t mapped; /* bytes of the whole mapping, which starts here; 0 in a second ring */
};

/* Read in the order gen, ring: a signal handler that comes between may find a slot left by a closed handle
 * and put its own ring there, and what was read first must then not match. */
struct thread_slot {
    struct ring *_Atomic ring;
    _Atomic uint64_t gen; /* of the handle that the ring belongs to; a closed handle's never comes again */
};

/* The rings of one thread by handle slot. Made at its first event, freed when it ends. */
struct thread {
    struct thread_slot at[HANDLES];
};

/* Points to an empty table at first. */
extern _Thread_local struct thread *ring_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* This thread's ring for g, made if need be; NULL when there is no memory. Signal-safe. */
struct ring *ring_get(struct gridline *g);
/* Room for a record of size bytes (head included): the record, with ticks and size filled in, site for the
 * caller to fill; NULL when it had to be dropped (counted). Signal-safe. Ended by gridline_end. */
struct record *ring_reserve(struct gridline *g, size_t size, struct ring **out);
/* The half of gridline_begin that the fast path leaves. r->nest is RING_WRITING and back to idle on failure.
 */
struct record *ring_reserve_slow(struct ring *r, size_t size, uint64_t now);
/* What gridline_end does for a ring in state RING_THEN_SERVE. */
void ring_end_slow(struct ring *r);

void ring_unmap(struct ring *r); /* with its second */
/* How many whole events lie between tail and head. Reader's lock held. */
uint64_t ring_count(const struct ring *r);

/* The record at a position; there is none where the buffer's end is nearer than a head. */
static inline struct record *ring_at(const struct ring *r, uint64_t position)
{
    return (struct record *)(r->data + (position & r->mask));
}
/* Bytes to the end of the buffer. */
static inline uint64_t ring_to_end(const struct ring *r, uint64_t position)
{
    return r->mask + 1 - (position & r->mask);
}

#endif
