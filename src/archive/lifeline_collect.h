/* SPDX-License-Identifier: Apache-2.0 */
/* lifeline_collect.h - the events of rows that have an id, as lifeline_join.h takes them; their names and
 * places by numbers. */
#ifndef GRIDLINE_ARCHIVE_LIFELINE_COLLECT_H
#define GRIDLINE_ARCHIVE_LIFELINE_COLLECT_H

#include "archive/lifeline_ids.h"
#include "archive/lifeline_join.h"
#include "base/map.h"

/* Texts by numbers from 0, at most NUMBERED_MAX. A zeroed one is empty. */
enum { NUMBERED_MAX = 1 << 16 };
struct numbered {
    struct map by_text;
    struct numbered_entry **list;
    uint32_t n, max;
    struct arena arena;
};
void numbered_fini(struct numbered *t);
/* LIFE_NONE: no memory, or there are NUMBERED_MAX. */
uint32_t numbered_add(struct numbered *t, struct slice text);
/* "" for LIFE_NONE. */
struct slice numbered_text(const struct numbered *t, uint32_t number);

struct life_events {
    struct life_event *events;
    size_t n, max;
    uint64_t lost_too_long, lost_no_memory; /* events that are not here */
    bool copies;  /* set before: ids are copied; else they are borrowed from rows and keys */
    bool by_prog; /* set before: nodes are programs, "host prog" */
    bool hides_targets; /* set before: the column `target` is not looked at */
    /* Set before: rows that do not pass are left out. NULL = all do. */
    bool (*passes)(void *arg, const struct rows *rows, uint32_t row, struct slice id);
    void *passes_arg;
    struct numbered names, places; /* stay at a reset */
    struct arena texts;
    struct strbuf scratch;
};
void life_events_reset(struct life_events *l);
void life_events_fini(struct life_events *l); /* a zeroed one is fine */
/* Adds those rows of a stream that have an id, once for each declaration. */
void life_collect(struct life_events *l, const struct id_set *ids, const struct table_def *table,
                  struct slice key, const struct rows *rows);

/* A place: the host, and what the events are about (the key field target, else the host). */
struct slice life_place_host(struct slice place);
struct slice life_place_node(struct slice place);

#endif
