/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - sorted records in files without names, written once and merged. Used by sorter.c, which has the
 * format. */
#ifndef GRIDLINE_CMD_RUN_H
#define GRIDLINE_CMD_RUN_H

#include "base/slice.h"
#include "base/strbuf.h"
#include "cmd/sorter.h"

#include <stdint.h>

enum {
    RUN_HEAD = 12,                                 /* bytes of a record before its own */
    RUN_BUFFER_MIN = SORTER_RECORD_MAX + RUN_HEAD, /* a merge needs this much memory a run */
};

struct run {
    int fd;
    unsigned level; /* how often its records have been merged */
};

void run_close(struct run *r);

struct run_writer {
    struct run run;
    struct strbuf buffer;
};

/* run_writer_close must follow a success, also after a failed add. */
int run_writer_open(struct run_writer *w, unsigned level);
int run_writer_add(struct run_writer *w, uint64_t key, struct slice record);
/* result is that of the adds: with a negative one the file is dropped and result returned, otherwise the rest
 * is written and the caller owns *out. */
int run_writer_close(struct run_writer *w, int result, struct run *out);

/* Borrows runs and memory (at least n times RUN_BUFFER_MIN bytes). */
struct run_merge;
int run_merge_create(const struct run *runs, size_t n, char *memory, size_t size, struct run_merge **out);
void run_merge_destroy(struct run_merge *m); /* NULL is fine */
/* 1 with the lowest key left and its record, borrowed until the next call; of equal keys that of the first
 * run. 0 at the end; -errno; E_DAMAGE when a file is not what was written. */
int run_merge_next(struct run_merge *m, uint64_t *key, struct slice *record);

#endif
