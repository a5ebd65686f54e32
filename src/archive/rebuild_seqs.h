/* SPDX-License-Identifier: Apache-2.0 */
/* rebuild_seqs.h - which numbers of which producers are in a view: what is not there was lost. */
#ifndef GRIDLINE_ARCHIVE_REBUILD_SEQS_H
#define GRIDLINE_ARCHIVE_REBUILD_SEQS_H

#include "archive/view.h"
#include "base/map.h"

/* A zeroed struct is an empty one. */
struct seqs {
    struct map by_maker; /* producer and epoch -> struct seq_range */
    struct arena arena;
    size_t bytes;           /* of all bits */
    int64_t from_ns, to_ns; /* rows of that time are looked at */
};
void seqs_fini(struct seqs *s);
/* Numbers between these two (of rows of these times) will be asked for. Before seqs_read. -ENOMEM. */
int seqs_want(struct seqs *s, const struct row_origin *by, uint64_t after, uint64_t before, int64_t from_ns,
              int64_t to_ns);
/* Looks at all rows of the time whose producers were asked for. E_LIMIT: more than bytes_max. */
int seqs_read(struct seqs *s, struct view *v, size_t bytes_max, int (*go_on)(void *arg, uint64_t rows),
              void *arg, struct scan_loss *lost);
/* How many numbers between the two are not there. */
uint64_t seqs_missing(const struct seqs *s, const struct row_origin *by, uint64_t after, uint64_t before);

#endif
