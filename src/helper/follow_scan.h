/* SPDX-License-Identifier: Apache-2.0 */
/* follow_scan.h - the files beside a log: which of them were the log once, and in which order. For follow.c.
 */
#ifndef GRIDLINE_HELPER_FOLLOW_SCAN_H
#define GRIDLINE_HELPER_FOLLOW_SCAN_H

#include "base/slice.h"

#include <limits.h>
#include <stdint.h>

struct stat;

enum found_kind {
    FOUND_OTHER,   /* a regular file of another name */
    FOUND_LOG,     /* the log's own name */
    FOUND_ROTATED, /* NAME.1, NAME-20260131, NAME.old, and for NAME = STEM.EXT also STEM.1.EXT,
                      STEM-20260131.EXT */
    FOUND_PACKED   /* a rotated file, compressed */
};

struct found {
    char name[NAME_MAX + 1];
    enum found_kind kind;
    uint64_t dev, ino, size;
    int64_t born_ns, changed_ns; /* born 0: not known */
};

struct follow_scan {
    struct found *v;
    size_t n, cap;
    uint64_t sum; /* the same for the same files under the same names */
    bool all;     /* what follow_scan_run was asked for */
};

enum found_kind follow_scan_kind(const char *log, const char *name);
/* dir is an open directory. Files of other names only if `all`. The answer is what two readings of the folder
 * in a row agreed on, since one alone may miss a file that is renamed meanwhile. -EAGAIN: it does not stand
 * still; E_LIMIT: more than FOLLOW_SCAN_MAX files; -ENOMEM; -errno. */
int follow_scan_run(struct follow_scan *s, int dir, const char *log, bool all);
void follow_scan_fini(struct follow_scan *s);

/* Older first: by last change; then, since the clock of file times ticks only every few ms, by number (NAME.2
 * is older than NAME.1), by birth, by name. */
int follow_scan_order(const struct found *a, const struct found *b);
/* The bytes of a packed file when unpacked, from the end of a .gz; false: not known. */
bool follow_scan_unpacked(int dir, const struct found *f, uint64_t *out);
/* What the kernel says of an open file. 0 or -errno. */
int follow_stat(int dir, const char *name, int flags, struct found *out);

#endif
