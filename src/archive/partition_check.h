/* SPDX-License-Identifier: Apache-2.0 */
/* partition_check.h - is a blob what it was, all of it? For checking and for salvaging. */
#ifndef GRIDLINE_ARCHIVE_PARTITION_CHECK_H
#define GRIDLINE_ARCHIVE_PARTITION_CHECK_H

#include "archive/partition.h"

struct checking {
    const char *file;
    partition_damage_fn *fn; /* NULL = only counted */
    void *arg;
    struct partition_health *health;
};

void checking_say(const struct checking *c, uint64_t blob, const char *what, const struct blob_chunk *chunk);
/* Decodes every chunk of the blob and counts. body may be empty: it is lost. */
int checking_blob(const struct checking *c, uint64_t blob, const struct blob_directory *d,
                  size_t directory_bytes, struct slice body);
/* A blob is lost whose directory can't be read: what its section row, if there is one, says of it. */
void checking_lost(const struct checking *c, uint64_t blob, const struct blob_section *s, size_t n);
/* Of a file that SQLite can't read: what salvaging would find, without writing anything. is_empty: it can,
 * and there is no table; if nothing else is there either, it was only begun, and is not broken. */
int salvage_check(const char *dir, const char *name, bool is_empty, partition_damage_fn *fn, void *arg,
                  struct partition_health *out, struct diag *why);

#endif
