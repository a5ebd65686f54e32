/* SPDX-License-Identifier: Apache-2.0 */
/* sql_forecast.h - the history behind NAME_forecast: the points of one field, stream by stream, never more
 * than HISTORY_POINTS_MAX of one, and of a part of the streams at a time, so that ten thousand streams take
 * as much memory as a thousand.
 *
 * A first fold counts the values of each stream, which summaries of chunks mostly answer. Then part after
 * part is folded: streams of up to HISTORY_POINTS_MAX values as they are, the others by HISTORY_STEPS steps,
 * of which each gives its last value; there tiers may stand for rows. */
#ifndef GRIDLINE_ARCHIVE_SQL_FORECAST_H
#define GRIDLINE_ARCHIVE_SQL_FORECAST_H

#include "archive/forecast.h"
#include "archive/sql_bucket.h"
#include "base/map.h"

enum { HISTORY_POINTS_MAX = 2000, HISTORY_STEPS = 1000 };

struct history_stream {
    struct slice key;
    uint32_t values;
    uint32_t part;
};

/* Set by the caller: what is above the line; zeroed below. */
struct history {
    struct bucket_args *args; /* its range is [from, to); step and tier are set here */
    const struct table_def *table;
    uint16_t column;
    bool is_rate; /* of a counter: what it gained a second since the point before */
    bool (*wants)(void *arg, struct slice key, const struct stream_key_parts *parts);
    void *arg;
    /* ---- */
    struct arena arena; /* streams */
    struct map streams; /* by key, those that have values */
    size_t charged;     /* for them */
    uint32_t part, n_parts,
        n_exact;     /* the part that is folded; the first n_exact are of values as they are */
    int64_t step_ns; /* of the others */
    struct bucket_column wanted;
    struct bucket_table asked;
    struct bucket *bucket;
    size_t bucket_charged;
    struct bucket_row row; /* the next one, */
    bool has_row;          /* if there is one */
    struct forecast_point points[HISTORY_POINTS_MAX];
    size_t n;
};

/* SQLITE_OK, or what sql_fail has given. */
int history_begin(struct history *h);
/* The next stream that has a point: h->points, h->n and *key, which are good until the next call. *is_end:
 * there is none. */
int history_next(struct history *h, struct slice *key, bool *is_end);
void history_fini(struct history *h); /* a zeroed one is fine */

#endif
