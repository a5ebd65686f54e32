/* SPDX-License-Identifier: Apache-2.0 */
/* recorded.h - the recorded host data of ../shared (data/host1hz.csv.zst) as events, for bench/blob and
 * bench/archive.
 *
 * Series become events as a person would map them: the event's name is the first two words of the metric's
 * (node_memory_Dirty_bytes: node_memory), labels are key fields, but those that number what is measured
 * (mode, quantile, code, ...) go to the field's name; the rest of the metric's name is the field. All values
 * are floats, as they came. Every series is in every scrape.
 *
 * A program that fails says so on stderr and ends with 1. */
#ifndef GRIDLINE_BENCH_RECORDED_H
#define GRIDLINE_BENCH_RECORDED_H

#include "archive/rows.h"
#include "base/arena.h"
#include "event/schema.h"

enum { TABLES_MAX = 256, STREAMS_MAX = 1024, FIELDS_MAX = 256 };

/* One series: a field of a stream. */
struct series {
    double *values;
    size_t n, cap;
};

struct field_of {
    uint16_t id;
    struct series *series;
};

struct stream {
    struct slice labels; /* as they are in the name, without those that are part of fields */
    struct field_of fields[FIELDS_MAX];
    uint32_t n_fields;
};

struct table {
    struct table_def def;
    struct field columns[FIELDS_MAX];
    struct stream *streams;
    uint32_t n_streams;
};

struct recorded {
    struct table *tables[TABLES_MAX];
    uint32_t n_tables;
    int64_t *times; /* of the scrapes, ns */
    size_t n_times, n_series, n_streams, n_samples;
    struct arena names; /* whoever reads it may put more there */
};

/* Everything in the file. It is never freed. */
void recorded_read(const char *csv_zst, struct recorded *out);

_Noreturn void recorded_fail(const char *what);
/* p, or the end for want of memory. */
void *recorded_need(void *p);

#endif
