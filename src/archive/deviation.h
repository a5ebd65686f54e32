/* SPDX-License-Identifier: Apache-2.0 */
/* deviation.h - what is different in a run than in a named baseline (NL-7): the hops and the metrics whose
 * values lie elsewhere.
 *
 * A hop is two events of one id that follow each other; its values are the times between them, in seconds. A
 * metric is a field of numbers of one stream; of a counter its values are the rates between rows that follow
 * each other. Of both the mean and the 95th percentile are compared, in units of the baseline's standard
 * deviation, which is taken for 1 % of the mean where it is smaller. A hop that is in one of the two only is
 * listed, too.
 *
 * Cost: without a condition about 30 ns a value and 1 us an event with an id; with one, 1 us an event.
 * Memory: some hundred bytes a metric, 100 an id. Percentiles are those of buckets of 1.6 %. */
#ifndef GRIDLINE_ARCHIVE_DEVIATION_H
#define GRIDLINE_ARCHIVE_DEVIATION_H

#include "archive/sql.h"

enum { DEVIATION_LEAST = 5, DEVIATION_IDS_MAX = 1 << 20, DEVIATION_METRICS_MAX = 1 << 18 };

struct deviation_range {
    int64_t from_ns, to_ns; /* [from, to) */
};

struct deviation_spec {
    struct deviation_range baseline, run;
    struct slice where; /* of both; "" = all */
    struct slice id;    /* the field that is the id */
    double k;           /* listed from so many standard deviations on */
    const struct sql_access *access;
    int (*check)(void *arg); /* as of extract.h */
    void *arg;
};

struct deviation_side {
    uint64_t count;
    double mean, p95, sigma; /* of count 0: nothing */
};

struct deviation {
    bool is_hop;
    struct slice event, next;             /* next: of a hop */
    struct slice host, prog, keys, field; /* of a metric; keys as "device=sda" */
    struct slice unit;
    struct deviation_side baseline, run;
    double score; /* standard deviations; INFINITY: in one of the two only, or another than a constant */
};

struct deviations;
/* Those whose score is above k, the largest first. E_PROTO: `where`, *why; E_LIMIT: too many ids or metrics,
 * *why. */
int deviations_find(struct view *v, const struct deviation_spec *spec, struct deviations **out,
                    struct diag *why);
void deviations_destroy(struct deviations *d); /* NULL is fine */
size_t deviations_count(const struct deviations *d);
const struct deviation *deviations_at(const struct deviations *d, size_t i);
struct scan_loss deviations_damaged(const struct deviations *d);

#endif
