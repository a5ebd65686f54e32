/* SPDX-License-Identifier: Apache-2.0 */
/* usage.h - what an archive's bytes and rows are spent on: by event name, stream, producer and partition.
 * Reads directories only. Bytes of a blob are shared out among its chunks by how many values they have: about
 * right, as chunks of a blob are compressed together. */
#ifndef GRIDLINE_ARCHIVE_USAGE_H
#define GRIDLINE_ARCHIVE_USAGE_H

#include "base/err.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum usage_kind { USAGE_PARTITION, USAGE_EVENT, USAGE_STREAM, USAGE_PRODUCER, USAGE_KINDS };

struct usage_row {
    struct slice key; /* file name; event name; stream key; the 16 bytes of a producer */
    uint64_t rows, bytes;
    uint64_t streams;       /* of an event name, a producer and a partition */
    int64_t from_ns, to_ns; /* of its rows; both ends are in */
    bool is_overflow;       /* a stream that took what was beyond its producer's limit */
};

struct usage;
/* What can't be read is left out, and counted. -ENOENT, -ENOMEM, -EIO: *why. progress: bytes so far, now and
 * then; NULL = nobody asks. */
int usage_gather(const char *dir, void (*progress)(uint64_t bytes), struct usage **out, struct diag *why);
void usage_destroy(struct usage *u); /* NULL is fine */
/* All of a kind, those with most bytes first; borrowed. */
const struct usage_row *usage_rows(struct usage *u, enum usage_kind kind, size_t *n);
uint64_t usage_bytes(const struct usage *u);      /* of all partitions' files */
uint64_t usage_unreadable(const struct usage *u); /* blobs and partitions that could not be read */

#endif
