/* SPDX-License-Identifier: Apache-2.0 */
/* archive_fault.h - what the fault tests of the archive share: folders, an archive with small partitions, a
 * workload that does everything a writer does, and the check of what is left of it. */
#ifndef GRIDLINE_TESTS_ARCHIVE_FAULT_H
#define GRIDLINE_TESTS_ARCHIVE_FAULT_H

#include "archive/upkeep.h"
#include "fault/archive_source.h"
#include "fault/folder.h"

#define FAULT_PARTITION_NS (INT64_C(60) * 1000000000)

/* The archive in PATH/archive. */
int fault_open(const char *path, struct archive **out, struct diag *why);

/* For which everything is over and nothing is too old. */
int fault_open_upkeep(struct archive *a, struct upkeep **out);
/* Some of what is due, or all of it (steps_max 0). Each time so much later that nothing waits for its time.
 */
int fault_keep_up(struct upkeep *u, unsigned *ticks, unsigned steps_max);

/* The workload: the source's records in groups, with flushes, closing and opening between them, and upkeep:
 * chunks are merged, tiers are made. Calls that fail are made again, as the archiver does. */
struct fault_run {
    const struct source *source;
    const char *path;
    uint64_t seed;
    struct archive *archive; /* NULL between close and open */
    struct upkeep *upkeep;
    struct source_place at;
    unsigned ticks;  /* half minutes that have passed */
    unsigned errors; /* calls that failed */
    int last_error;
    uint64_t promised; /* records up to here are on disk: the source may forget them */
    void (*on_promise)(struct fault_run *run);
    void *arg;
};
/* One step after the other, until the source is through and everything is promised. Gives up, by the
 * test's failure, after errors_max failed calls. */
void fault_run_all(struct fault_run *run, unsigned errors_max);
void fault_run_end(struct fault_run *run);

/* The archive of a run that was cut off: what was promised is there at once; the source is read again from
 * where the archive says; then everything is there once, the counts add up, every partition is sound,
 * nothing was set aside as damaged, and it is the same when opened again; every fourth time also when it has
 * been merged, and tiers count each row once. where: said on failure. */
void fault_check(const struct source *s, const char *path, uint64_t promised, const char *where);

#endif
