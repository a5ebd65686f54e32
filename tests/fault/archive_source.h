/* SPDX-License-Identifier: Apache-2.0 */
/* archive_source.h - a source of records for an archive whose every row is known, and the comparison of what
 * an archive gives back with it: each row exactly as it was, exactly once.
 *
 * Two event names, several hosts, devices and producers, numbers and text with missing values, rows that come
 * late (into older partitions), a field that is new from the middle on. A row says by its fields `record`
 * and `row` which one it is. Times begin at SOURCE_BEGIN, SOURCE_STEP a record. */
#ifndef GRIDLINE_TESTS_ARCHIVE_SOURCE_H
#define GRIDLINE_TESTS_ARCHIVE_SOURCE_H

#include "archive/view.h"

#define SOURCE_BEGIN (INT64_C(1700000040) * 1000000000)
#define SOURCE_STEP  (INT64_C(3) * 1000000000)

enum { SOURCE_BATCHES_MAX = 3 };

struct source_record {
    struct batch *batches[SOURCE_BATCHES_MAX];
    size_t n_batches;
    uint64_t first_row; /* counted over all records */
    uint32_t n_rows;
};

struct source {
    struct archive_source id;
    struct source_record *records; /* from 1 on */
    uint64_t n, rows;
};

void source_make(struct source *s, uint64_t n, uint64_t seed);
void source_fini(struct source *s);

/* Where a reader of the source is: what comes next. */
struct source_place {
    uint64_t record;
    size_t batch;
};
/* Gives everything from the place on, up to and with record `to`. On an error the place is that of the call
 * that failed: it is made again next time. */
int source_feed(const struct source *s, struct archive *a, struct source_place *at, uint64_t to);
/* Behind what the archive says it has. */
struct source_place source_resume(const struct source *s, const struct archive *a);

struct source_found {
    uint8_t *times;  /* how often each row was found, right */
    uint64_t rows;   /* found, right */
    uint64_t wrong;  /* found, but the source has no such row */
    uint64_t twice;  /* rows that were there before in this count */
    char first[300]; /* what was wrong first */
    struct scan_loss lost;
};
/* Everything that the view shows of this source's tables. 0, or what reading failed with. */
int source_find(const struct source *s, struct view *v, struct source_found *out);
/* Of records first to last: rows that were not found. */
uint64_t source_missing(const struct source *s, const struct source_found *f, uint64_t first, uint64_t last);
void source_found_fini(struct source_found *f);

#endif
