/* SPDX-License-Identifier: Apache-2.0 */
/* lifeline_join.h - events with ids become hops. Pure.
 *
 * Events are those of one flush, in any order. Joining sorts them by id and time, and gives each the event
 * before it: the one in the flush, or the last that the table of open ids has. The table itself changes only
 * by life_open_update, when the flush is done. Ids are told apart by 64 bits of hash: with 262,144 open ids
 * one event in 7*10^13 is taken for another id's. */
#ifndef GRIDLINE_ARCHIVE_LIFELINE_JOIN_H
#define GRIDLINE_ARCHIVE_LIFELINE_JOIN_H

#include "archive/lifeline_pyramid.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIFE_NONE UINT32_MAX

struct life_event {
    uint64_t id; /* hash of the declaration's name and the id's text; not 0 */
    int64_t time_ns;
    union {
        uint64_t seq;        /* before: of the same time, the order that a producer made them in */
        uint64_t latency_ns; /* after: LATENCY_NONE */
    };
    const char *text; /* the id; borrowed */
    uint32_t order;   /* of the same time and number, the order that they came in */
    uint32_t name;    /* of the event; a number of the caller's */
    uint32_t host;
    uint16_t text_n;
    uint8_t declared;
    uint8_t level;
};

/* What came before an event. */
struct life_before {
    uint32_t name, host; /* LIFE_NONE: nothing is known */
    bool is_late;        /* something later is already known: it is in no hop */
};

/* The last event of each open id. A zeroed one is empty. */
struct life_open {
    struct life_last {
        uint64_t id; /* 0 = free */
        int64_t time_ns;
        uint32_t name, host;
    } * slots;
    size_t cap, n; /* cap: 0 or a power of two; at most half of it is used */
};
void life_open_fini(struct life_open *o);

/* Sorts by (id, time, seq, order). Cost: two passes and small sorts, about 100 ns an event; room is n events
 * of the caller's. */
void life_sort(struct life_event *events, struct life_event *room, size_t n);
/* For each sorted event what came before it, and its latency. */
void life_join(struct life_event *events, size_t n, const struct life_open *open, struct life_before *out);
/* The numbers of events in order of their times, those of the same time as they are. room: n events of the
 * caller's. Cost: two passes for each 11 bits that the times differ in. */
void life_by_time(const struct life_event *events, size_t n, struct life_event *room, uint32_t *out);
/* Remembers the last event of each id; then, above max, forgets those whose last event is oldest down to 3/4
 * of it. Returns how many were forgotten. -ENOMEM: some could not be remembered, or forgotten; the
 * table is as good as before. */
int64_t life_open_update(struct life_open *open, const struct life_event *events, size_t n, size_t max);

#endif
