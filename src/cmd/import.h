/* SPDX-License-Identifier: Apache-2.0 */
/* import.h - what `gridline import` puts the events of a file into: a gateway (import_gateway.c) or an
 * archive's folder (import_archive.c). Both know a file by its id, remember how much of it they have, and
 * take the rest. */
#ifndef GRIDLINE_CMD_IMPORT_H
#define GRIDLINE_CMD_IMPORT_H

#include "cmd/options.h"
#include "event/batch.h"

struct import_options {
    const char *gateway, *identity, *archive;
    const char *format; /* of the report */
    const struct encoding *input;
    const char *host, *prog; /* for events without */
    const char *escapes;     /* NULL = auto */
    const char *log_filter, *zone, *year; /* of logs; NULL = not given */
    int64_t timeout_ns;
    int64_t keep_ns, keep_until_ns; /* --keep: for how long, and until when; 0 = as the archive's rules say */
    bool is_strict, is_quiet;
};

/* Of one file, in events: given = stored + again + too_old + too_new + refused, once it has ended. */
struct import_counts {
    uint64_t given;
    uint64_t stored;
    uint64_t again; /* it had them before */
    uint64_t too_old, too_new, refused;
    char why_old[120], why_new[120], said[120]; /* why, of the last of each; "" = nobody said */
};

/* The results of begin, give and end: 0 or an error, which has been said (-EINTR: a person stopped it). */
struct import_target_ops {
    int (*open)(const struct import_options *o, void **out);
    void (*close)(void *target); /* NULL is fine */
    /* The next file. Events that come without an origin get id, epoch 1 and numbers from 1 on: the order in
     * the file is their name, so that a second time adds nothing. */
    int (*begin)(void *target, const uint8_t id[16]);
    /* Its next events, in their order; borrowed for the call. */
    int (*give)(void *target, const struct batch *events);
    /* The file ends. is_whole: that was all of it; else it was broken off, and comes again some day. */
    int (*end)(void *target, bool is_whole);
    void (*counts)(void *target, struct import_counts *out); /* of this file, so far */
    const char *when_too_old;                                /* what a person can do then */
};

extern const struct import_target_ops import_gateway, import_archive;

/* Does the batch come with an origin of its own? */
static inline bool import_has_origin(const struct batch *b)
{
    static const uint8_t none[sizeof b->origin.producer];
    return b->origin.first_seq && memcmp(b->origin.producer, none, sizeof none) != 0;
}

/* That of events of the file from number first on. */
static inline struct batch_origin import_origin(const uint8_t id[16], uint64_t first)
{
    struct batch_origin o = {.epoch = 1, .first_seq = first, .clock.bound_ns = CLOCK_BOUND_UNKNOWN};
    memcpy(o.producer, id, sizeof o.producer);
    return o;
}

#endif
