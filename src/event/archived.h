/* SPDX-License-Identifier: Apache-2.0 */
/* archived.h - an archive as the gateway beside it knows it: what it holds, and what it is asked to keep. cmd
 * wires the two (struct gateway_archive). */
#ifndef GRIDLINE_EVENT_ARCHIVED_H
#define GRIDLINE_EVENT_ARCHIVED_H

#include "base/slice.h"

#include <stdint.h>

enum { ARCHIVED_NAMES_MAX = 8000, ARCHIVED_TEXT_MAX = 4096 /* bytes */, ARCHIVED_OVERFLOW_MAX = 64 };

/* A producer with more streams than it may have: rows of the others are in overflow streams. */
struct archived_overflow {
    uint8_t producer[16];
    uint32_t streams; /* that it has of its own */
    uint64_t rows;    /* in overflow streams, since the archive runs */
};

/* As it was a few seconds ago. Text is borrowed until it is asked for again, and so are lists. */
struct archived_state {
    int trouble;            /* the error it has now; 0 = it works */
    int64_t from_ns, to_ns; /* of the events it holds; both 0: none, or not known yet */
    uint64_t partitions, bytes;
    uint64_t lag;       /* records of the journal that it has not read */
    struct slice names; /* of events, by commas; as many as ARCHIVED_NAMES_MAX has room for */
    uint64_t n_names;
    const struct archived_overflow *overflow; /* the first ARCHIVED_OVERFLOW_MAX found */
    size_t n_overflow;
    const char *dir;
};

/* Would the archive keep an event of that name and time? What it would not is refused where it comes in,
 * before it is acknowledged. */
enum archived_verdict { ARCHIVED_KEPT, ARCHIVED_TOO_OLD, ARCHIVED_TOO_NEW };

/* A named stretch of time to compare others with (NL-7). */
struct baseline_order {
    struct slice name, label, where;
    int64_t from_ns, to_ns;
    bool is_removal; /* only the name counts */
};

#endif
