/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild.h - samples that were lost on the way, estimated from their neighbours (DG-8: datagrams are not
 * sent again; lost data can be rebuilt by regression at the storage level). Only for whoever asks: nothing of
 * it is kept, and every row says whether it was measured.
 *
 * Lost: two rows of a stream that follow each other, of one producer and epoch, are further apart than its
 * period, and between their numbers some are in no stream of the archive. A silence without missing numbers
 * is none: then nothing was sent (a threshold, a sensor that was off).
 *
 * Estimate: a straight line through up to REBUILD_NEIGHBOURS rows on each side of the gap, by least squares,
 * the nearer the more weight; its error is the standard error of a prediction at that time. Integers are
 * rounded, counters stay between the rows around them and are not rebuilt where they were reset. States,
 * booleans and text are given where both sides have the same, without an error. */
#ifndef GRIDLINE_ARCHIVE_REBUILD_H
#define GRIDLINE_ARCHIVE_REBUILD_H

#include "archive/view.h"

enum { REBUILD_NEIGHBOURS = 6, REBUILD_GAP_MAX = 10000 /* rows of one gap; longer ones are left alone */ };

struct rebuild_spec {
    struct slice name;
    int64_t from_ns, to_ns; /* [from, to) */
    int64_t step_ns;        /* the streams' period; 0: each stream's own, the median of its intervals */
    /* As in scan_spec. NULL = all. */
    bool (*wants)(void *arg, struct slice key, const struct stream_key_parts *parts);
    /* As in bucket_spec. */
    int (*go_on)(void *arg, uint64_t rows);
    void *arg;
    size_t bytes_max; /* of memory; 0 = 128 MiB */
};

struct rebuild_row {
    struct slice key; /* of the stream */
    int64_t time_ns;
    bool is_rebuilt;
    const struct table_def *table;
    const struct value *values; /* by column; VALUE_NONE: there is none, or no estimate */
    const double *errors;       /* by column; NaN: not known. NULL where it was measured */
};

struct rebuild;
/* E_LIMIT: more rows than there may be; *why says it. */
int rebuild_run(struct view *v, const struct rebuild_spec *spec, struct rebuild **out, struct diag *why);
void rebuild_destroy(struct rebuild *b); /* NULL is fine */
/* Stream by stream, each in order of time; false at the end. Good until the next. */
bool rebuild_next(struct rebuild *b, struct rebuild_row *out);
struct scan_loss rebuild_damaged(const struct rebuild *b);
size_t rebuild_bytes(const struct rebuild *b);

#endif
