/* SPDX-License-Identifier: Apache-2.0 */
/* sink.h - bytes on their way to a file, a pipe or a terminal that may be slow or full. Nothing here waits
 * for a reader: what is not taken now stays in `waiting`, whose bound is the owner's affair, and is written
 * later.
 *
 *     sink_open(&s, path);  strbuf_add(&s.waiting, ...);  sink_mark(&s, n_events);  r = sink_flush(&s);
 *
 * Marks say how many of the owner's units (events) are wholly written: sink_queued() are not. A zeroed struct
 * with fd -1 is a closed sink. One thread. */
#ifndef GRIDLINE_BASE_SINK_H
#define GRIDLINE_BASE_SINK_H

#include "base/strbuf.h"

enum { SINK_MARKS = 64 };

struct sink_mark {
    uint64_t end; /* of the unit's last byte, counted from the first one that ever waited */
    uint64_t n;
};

struct sink {
    int fd; /* -1 = closed */
    bool is_regular;
    bool is_borrowed; /* standard output: not ours to close */
    struct strbuf waiting;
    uint64_t written; /* bytes, since the struct was zeroed */
    /* In order. When all are in use the last one is moved on: units are then counted late, never early. */
    struct sink_mark marks[SINK_MARKS];
    size_t n_marks;
};

/* Appends to path, made if need be with this mode; "-" is standard output. What waits is kept. A FIFO without
 * a reader is -ENXIO. */
int sink_open(struct sink *s, const char *path, unsigned mode);
void sink_close(struct sink *s); /* keeps what waits */
void sink_fini(struct sink *s);  /* drops it */

/* All that waits now has n units more than at the last mark. */
void sink_mark(struct sink *s, uint64_t n);
/* Units that were marked and are not written yet. */
uint64_t sink_queued(const struct sink *s);
/* Writes what waits, as far as that goes without waiting. -errno: it can't be written; what is left stays.
 * -EBADF: it is closed. */
int sink_flush(struct sink *s);

#endif
