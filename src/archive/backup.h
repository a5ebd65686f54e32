/* SPDX-License-Identifier: Apache-2.0 */
/* backup.h - a copy of an archive's folder while it is being written.
 *
 * Each file is copied as of one moment, by SQLite's online backup: neither the writer nor readers wait. The
 * catalogue is the first: partitions have then at least what its cursors say, and whatever they have beyond
 * is left out by their marks when the source is read again. So a restored archive goes on where the copied
 * one was, with nothing missing and nothing twice. Rows in the writer's memory are not in it:
 * cmd/archive_tail.h takes them from the journal. */
#ifndef GRIDLINE_ARCHIVE_BACKUP_H
#define GRIDLINE_ARCHIVE_BACKUP_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct backup_ops {
    /* One file is done. what: "" or what is wrong with it. false: no more. NULL = nobody asks. */
    bool (*file)(void *arg, const char *name, uint64_t bytes, const char *what);
    /* Now and then: bytes so far, of all files. NULL = nobody asks. */
    void (*progress)(void *arg, uint64_t bytes);
    void *arg;
};
/* `to` is made; it must not be there, or be empty. A file that SQLite can't read is copied byte by byte, with
 * its log, and said. -EEXIST, -ENOENT, -ENOSPC, -EIO, -ENOMEM, -ECANCELED: *why; what has been copied stays.
 */
int archive_backup(const char *dir, const char *to, const struct backup_ops *ops, struct diag *why);

#endif
