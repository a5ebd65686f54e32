/* SPDX-License-Identifier: Apache-2.0 */
/* streams.h - a set of streams (event/stream_key.h) that its owner keeps something of: the newest event
 * (latest.h), summaries (summary.h). Found by key; in the order of how long they were quiet; and, for
 * questions, by event name or by place, in pages.
 *
 * A stream's place is what it is about: its key field `target` if it has one, else its host. Patterns of
 * hosts in questions mean places.
 *
 * Order of pages: groups (all streams of one name, or of one place) by when they were first seen, and within
 * a group streams by when they were first seen. Both have numbers that are never given again, so a cursor
 * (number of the group, number of the stream) holds whatever happens between two pages: streams that stay are
 * given exactly once, those that come meanwhile are given if their group has not been passed yet, those that
 * were forgotten are left out.
 *
 * Cost: finding by key a hash and a look; a new stream two allocations at most besides the owner's,
 * amortised. The loop's thread. */
#ifndef GRIDLINE_GATEWAY_STREAMS_H
#define GRIDLINE_GATEWAY_STREAMS_H

#include "base/map.h"
#include "event/stream_key.h"

enum streams_index { STREAMS_BY_NAME, STREAMS_BY_PLACE, STREAMS_INDEXES };

/* What a stream costs here besides the owner's struct, about: its places in the map and in two groups. */
enum { STREAM_OVERHEAD = 160 };

struct stream_group;

/* The first member of the owner's struct. */
struct stream {
    struct slice key; /* owned with it */
    uint64_t number;
    struct stream *newer, *older; /* by when they were heard of last */
    struct stream_group *groups[STREAMS_INDEXES];
};

struct streams_groups {
    struct map by_name;
    struct stream_group *first, *last; /* in the order of their numbers */
    size_t n;
};

/* A zeroed struct is an empty set. */
struct streams {
    struct map by_key;
    struct stream *newest, *oldest;
    struct streams_groups index[STREAMS_INDEXES];
    uint64_t last_number; /* of streams and groups */
};

/* NULL: there is none. It is not touched. */
struct stream *streams_find(const struct streams *all, struct slice key);
/* s->key is set; it is the newest then. -ENOMEM: nothing has changed. */
int streams_add(struct streams *all, struct stream *s);
/* It was heard of. */
void streams_touch(struct streams *all, struct stream *s);
/* The owner frees it. */
void streams_remove(struct streams *all, struct stream *s);
/* When it is empty. */
void streams_fini(struct streams *all);
static inline size_t streams_count(const struct streams *all)
{
    return all->by_key.n;
}
/* Walks all invariants, for tests. */
bool streams_check(const struct streams *all);

struct slice stream_place(const struct stream *s);
/* As an event without time and with its key fields only: schema is a version that has them, values has room
 * for its fields. */
struct event stream_event(const struct stream *s, const struct schema *schema, struct value *values);

struct streams_cursor {
    uint64_t group, stream; /* 0, 0: the beginning */
};

/* The streams whose names match one of `events` ("" = all), behind the cursor: those of the names, or of the
 * places if these are whole names and not patterns. Where it goes by names the caller looks at the places.
 * The set must not change meanwhile. */
struct streams_walk {
    struct slice events; /* borrowed */
    struct stream_group **groups;
    size_t n_groups, at_group, at_entry;
    enum streams_index index;
    struct streams_cursor cursor; /* of the stream given last */
};
/* may_use_places: false where what the asker sees of a place need not be what it is. -ENOMEM. */
int streams_walk_init(struct streams_walk *w, const struct streams *all, struct slice events,
                      struct slice places, bool may_use_places, struct streams_cursor after);
/* NULL at the end. */
struct stream *streams_walk_next(struct streams_walk *w);
void streams_walk_fini(struct streams_walk *w);

#endif
