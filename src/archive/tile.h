/* SPDX-License-Identifier: Apache-2.0 */
/* tile.h - tiles: pieces of a picture of what the archive holds, small whatever the time they span
 * (docs/tiles.md). Level L has bins of 4^L ns; tile i of it is the time [i, i + 1) * 256 * 4^L ns.
 *
 * Kinds: series (a field's first, min, max, last a bin), points (events, or per bin how many and the worst),
 * lifeline (each lifeline while they fit, else how many hops of each pair began when and took how long, and
 * in any case the slowest and the errors), edges (hops from place to place). */
#ifndef GRIDLINE_ARCHIVE_TILE_H
#define GRIDLINE_ARCHIVE_TILE_H

#include "archive/query.h"
#include "archive/sql.h"
#include "archive/tile_format.h"
#include "archive/view.h"

enum tile_ask { ASK_SERIES, ASK_POINTS, ASK_LIFELINE, ASK_LIFELINE_EXACT, ASK_LIFELINE_DENSITY, ASK_EDGES };
enum tile_as { TILE_AS_GLT1, TILE_AS_JSON, TILE_AS_CSV };

/* A request as text: kind, name, level and index, then parameters name=value, each ended by a NUL. Whoever
 * took it from an address has undone escapes. Slices borrow the text. */
struct tile_request {
    enum tile_ask ask;
    struct slice name; /* of the event (points: a pattern); of lifelines and edges: the declaration of ids */
    unsigned level;
    int64_t index;
    int64_t from_ns, last_ns; /* its first and last ns */
    struct slice host;        /* pattern; "" = all */
    struct slice key;         /* "device=sda,mode=read": these key values; "" = any */
    struct slice field;       /* of series */
    struct slice event;       /* of lifelines: patterns by commas; "" = all */
    struct slice id;          /* of lifelines and points: this one only; "" = all */
    struct slice where;       /* of points and lifelines: a predicate (event/predicate.h); "" = all */
    struct slice
        by; /* of edges: "place", "prog": of events as they are, with hops; "" = of what is derived */
    enum tile_as as;
};
int tile_request_parse(struct slice text, struct tile_request *out, struct diag *why);

/* What is answered begins with QUERY_TILE_HEAD bytes (event/query.h); final: it will not change, but by rows
 * that come very late. Then the tile, or its text. E_PROTO, E_LIMIT (*why), -ENOENT: no such event or field;
 * -EACCES; -ENOMEM. */
int tile_answer(struct view *v, const struct sql_access *access, struct slice request, struct strbuf *out,
                struct diag *why);
/* The same on a query's thread: a query_tile_fn, for queries_options. Also -ECANCELED, -ETIMEDOUT. */
int tile_query(void *arg, struct view_reader *r, const struct query_tile *t, struct strbuf *out,
               struct diag *why);

#endif
