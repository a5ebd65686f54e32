/* SPDX-License-Identifier: Apache-2.0 */
/* tile_lifeline.h - what the forms of a tile of lifelines share: the events, joined. */
#ifndef GRIDLINE_ARCHIVE_TILE_LIFELINE_H
#define GRIDLINE_ARCHIVE_TILE_LIFELINE_H

#include "archive/lifeline_collect.h"
#include "archive/tile_internal.h"

struct life_tile {
    struct tile_job *j;
    struct id_set ids;       /* the one declaration that is asked */
    struct life_events life; /* sorted and joined */
    struct life_before *before;
    struct tile_filter filter; /* of the table being scanned */
    struct slice key;          /* of the chunk being read */
};

/* Of the declaration that the request names. fini in any case. */
int life_tile_init(struct life_tile *t, struct tile_job *j);
void life_tile_fini(struct life_tile *t);
/* Is the pair's event one that the request asks for? */
bool life_tile_wants_event(const struct life_tile *t, struct slice event);
/* Events in [from, last] as rows are, on disk and in heads (j->heads_only: in heads alone), joined. */
int life_tile_collect(struct life_tile *t, int64_t from_ns, int64_t last_ns);

enum { LIFE_TILE_ROWS_MAX = 1 << 18 };
/* About how many events that would be; no further than one more than max. */
int life_tile_count(struct life_tile *t, int64_t from_ns, int64_t last_ns, uint64_t max, uint64_t *rows);
/* Are the events of the tile, and of as much time before it, few enough to be joined as they are? */
int life_tile_fits(struct life_tile *t); /* 1, 0, or an error */
/* Events of both, joined: a hop that ends in the tile may have begun before it. */
int life_tile_collect_all(struct life_tile *t);

/* Each lifeline. 1: done; 0: there are too many, and nothing was put. */
int tile_exact_put(struct life_tile *t, bool is_forced);
/* How many hops of each pair: of the events collected, or of what lifeline.h keeps and of heads. */
int tile_density_put(struct life_tile *t, bool of_events);

/* A row of lifeline.pair, edge or outlier: columns by name, read as they are. */
struct derived_rows {
    const struct table_def *table;
    struct rows rows;
};
/* Can a row of the chunk be for that zoom? By the chunk's summaries: what can't is not read. */
bool derived_chunk_serves(const struct scan_chunk *c, unsigned zoom);
int derived_read(struct scan *s, const struct scan_chunk *c, struct derived_rows *out);
struct value derived_get(const struct derived_rows *d, const char *name, uint32_t row);
/* Of the declaration asked, and for that zoom? */
bool derived_serves(const struct derived_rows *d, uint32_t row, struct slice ids, unsigned zoom);

#endif
