/* SPDX-License-Identifier: Apache-2.0 */
/* powerloss.h - what a disk could hold after the machine has lost power at any moment of a workload.
 *
 * A recording keeps every change that the process makes below a folder (disk_calls.h) in order. Then the
 * state of the disk is made anew for any point between two of them, in another folder: what was synced is
 * there; of what was not, each file's sectors of 512 bytes each hold any of the contents that they had since
 * the last sync, the file has any of its sizes, and each change of names since its folder's last sync has
 * happened or not. So writes are lost, reordered and torn. A file's content does not make its name durable
 * nor the other way round. A sync that failed makes nothing durable, and a later one does not repair that
 * (Linux: pages are clean after the error).
 *
 *     struct powerloss *p = powerloss_begin(root, NULL, NULL);
 *     ... the workload, noting powerloss_points(p) where it was promised something ...
 *     powerloss_end(p);
 *     for (size_t i = 0; i <= powerloss_points(p); i++)
 *         powerloss_make(p, i, POWERLOSS_TORN, seed, to) ... open what is in `to` and check it ... */
#ifndef GRIDLINE_TESTS_POWERLOSS_H
#define GRIDLINE_TESTS_POWERLOSS_H

#include "fault/disk_calls.h"

#include <stdbool.h>

enum powerloss_choice {
    POWERLOSS_NONE,   /* only what was synced */
    POWERLOSS_ALL,    /* everything: as kill -9 */
    POWERLOSS_PREFIX, /* what was done up to a moment since, in order: a file system that keeps order */
    POWERLOSS_WRITES, /* each write, size and name or not */
    POWERLOSS_TORN,   /* each sector of each write or not */
    POWERLOSS_CHOICES
};

struct powerloss;
/* What is below root now counts as synced. before: as in disk_watch, asked for every call (NULL = none
 * fails). */
struct powerloss *powerloss_begin(const char *root,
                                  int (*before)(void *arg, const struct disk_op *op, size_t *n), void *arg);
/* The same in `root`, which is made as it would be after kill -9 at that point of another recording:
 * everything is there, but what was not synced is not safe yet, and whoever goes on with it does not know
 * that. The points before powerloss_points of now are of the time before. */
struct powerloss *powerloss_begin_killed(struct powerloss *of, size_t point, const char *root);
/* No more is recorded. */
void powerloss_end(struct powerloss *p);
void powerloss_free(struct powerloss *p); /* ends it, too; NULL is fine */
size_t powerloss_points(const struct powerloss *p);
/* Says of the change behind the point what it is: "write archive/x.db-wal". */
const char *powerloss_describe(const struct powerloss *p, size_t point);
/* `to` is emptied, then filled. Points may come in any order; ascending is quick. */
void powerloss_make(struct powerloss *p, size_t point, enum powerloss_choice choice, uint64_t seed,
                    const char *to);
/* The name of a file that differs from what was recorded of it: somebody writes past disk_calls. NULL: all
 * were seen. Files that need not be durable (-shm) are left out. */
const char *powerloss_missed(struct powerloss *p);

#endif
