/* SPDX-License-Identifier: Apache-2.0 */
/* bucket.h - events folded by stream and step of time: of each field the count, min, max, sum, first and
 * last.
 *
 * Steps begin at multiples of step_ns since 1970, whatever the range, so that the same step is the same in
 * every answer; of the first and the last one only rows within [from, to) count. What the summaries of chunks
 * answer is not read: a chunk that lies within one step costs tens of nanoseconds a field; others are decoded
 * and folded column by column.
 *
 * Tiers (tier.h) take the place of raw rows where those are gone, and where whoever asks accepts it: then
 * only for those of their steps that lie within the range, so that the answer is the same. A tier that has no
 * step in common with what was asked (10 s asked, an hour is all that is left) is used none the less: its
 * rows count where they begin. bucket_row.tier_ns says so.
 *
 *     struct bucket_spec spec = {.tables = &table, .n_tables = 1, .from_ns = from, .to_ns = to, .step_ns =
 * step}; int r = bucket_fold(view, &spec, &b, &why); while (bucket_next(b, &row)) ... bucket_destroy(b);
 *
 * Belongs to the view's thread. */
#ifndef GRIDLINE_ARCHIVE_BUCKET_H
#define GRIDLINE_ARCHIVE_BUCKET_H

#include "archive/bucket_where.h"
#include "archive/view.h"

enum { BUCKET_BYTES_MAX = 128 << 20 }; /* of memory, unless whoever asks says otherwise: 1.2 million cells */

struct bucket_column {
    uint16_t id;     /* of the view's table */
    bool wants_text; /* of text and bytes: the last value, too, which has to be decoded */
};

/* An event name, and what is asked of it. */
struct bucket_table {
    const struct table_def *def;         /* the view's */
    const struct bucket_column *columns; /* by id, ascending */
    uint32_t n_columns;
};

struct bucket_spec {
    const struct bucket_table *tables; /* borrowed until bucket_destroy, and all that they point to */
    size_t n_tables;
    int64_t from_ns, to_ns; /* [from, to) */
    int64_t step_ns;        /* 0: the range is one step, which begins at from */
    int64_t tier_ns;        /* tiers of steps up to this may take the place of raw rows; 0 = none */
    /* Only rows that pass. is_each: the condition is about every field by itself (where.field is not looked
     * at), and rows are not counted; else there is one table. NULL = all rows. Tiers can't answer it. */
    const struct bucket_where *where;
    bool is_each;
    /* As in scan_spec. NULL = all. */
    bool (*wants)(void *arg, struct slice key, const struct stream_key_parts *parts);
    /* Asked now and then, with rows looked at since the last time: anything but 0 ends it with that error. */
    int (*go_on)(void *arg, uint64_t rows);
    void *arg;
    size_t bytes_max; /* 0 = BUCKET_BYTES_MAX */
};

struct bucket_row {
    const struct bucket_table *table;
    struct slice key;                     /* of the stream */
    int64_t time_ns;                      /* when the step begins */
    int64_t tier_ns;                      /* 0: of raw rows; else the coarsest tier that was used */
    uint64_t rows;                        /* events */
    const struct column_summary *columns; /* as in the table; count 0: nothing. Text: first is missing */
};

struct bucket;
/* E_LIMIT: more streams, steps and fields than there may be; E_PROTO: no such field; what view and scan
 * return; *why says it. */
int bucket_fold(struct view *v, const struct bucket_spec *spec, struct bucket **out, struct diag *why);
void bucket_destroy(struct bucket *b); /* NULL is fine */
/* Stream by stream, each in order of time; false at the end. Good until bucket_destroy. */
bool bucket_next(struct bucket *b, struct bucket_row *out);
struct scan_loss bucket_damaged(const struct bucket *b);
size_t bucket_bytes(const struct bucket *b); /* memory that it holds */

#endif
