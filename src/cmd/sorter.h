/* SPDX-License-Identifier: Apache-2.0 */
/* sorter.h - puts records in the order of their times, however many there are, in bounded memory.
 *
 *     sorter_create(memory, &s);
 *     while (...) sorter_add(s, time_ns, record);
 *     sorter_sort(s);
 *     while (sorter_next(s, &time_ns, &record) > 0) ...
 *
 * Stable: records of equal time come out in the order in which they were added. What does not fit in memory
 * goes to unnamed files in $TMPDIR: as many bytes as the records have, and 12 a record. Cost per record of
 * 100 bytes: about 40 ns in memory, 150 ns with files, system time included. One thread. */
#ifndef GRIDLINE_CMD_SORTER_H
#define GRIDLINE_CMD_SORTER_H

#include "base/slice.h"

#include <stdint.h>

enum {
    SORTER_RECORD_MAX = (1 << 20) + (1 << 16),
    SORTER_MEMORY_MIN = 16 << 20,
};
#define SORTER_MEMORY_MAX (UINT64_C(4) << 30)

struct sorter;

/* memory_bytes is brought between the limits above. -ENOMEM. */
int sorter_create(uint64_t memory_bytes, struct sorter **out);
void sorter_destroy(struct sorter *s); /* NULL is fine */

/* Copies the record. E_LIMIT: it is longer than SORTER_RECORD_MAX. -errno when a file can't be written. */
int sorter_add(struct sorter *s, int64_t time_ns, struct slice record);
/* To be called once, when everything is added. */
int sorter_sort(struct sorter *s);
/* 1 with the next record, borrowed until the next call; 0 when there are no more; -errno. */
int sorter_next(struct sorter *s, int64_t *time_ns, struct slice *record);

/* How many times memory was written out: 0 = it was enough. */
uint64_t sorter_spills(const struct sorter *s);

#endif
