/* SPDX-License-Identifier: Apache-2.0 */
/* unflushed.h - DIR/unflushed: rows that the writer of an archive has in memory only, by event name, so that
 * a reader of the folder can say what it does not see. Advisory: written in place without a sync, at most
 * about once a second; a reader that finds it torn looks again. Empty after a clean end.
 *
 *   8 "glunfl\n" and a zero byte, varint n, n times text name, varint rows, u64 first, u64 last time (UTC,
 *   ns), then u32 CRC-32C of all before it */
#ifndef GRIDLINE_ARCHIVE_UNFLUSHED_H
#define GRIDLINE_ARCHIVE_UNFLUSHED_H

#include "base/arena.h"
#include "base/slice.h"

#include <stdint.h>

struct unflushed {
    struct slice name; /* event */
    uint64_t rows;
    int64_t from_ns, to_ns; /* both are in */
};

/* The file, for unflushed_write. -1: it can't be made, and nobody will know. */
int unflushed_open(const char *dir);
void unflushed_write(int fd, const struct unflushed *all, size_t n);
/* How many, in *out, which is in the arena. 0 also where there is no such file, or none that is whole. */
size_t unflushed_read(const char *dir, struct arena *arena, struct unflushed **out);

#endif
