/* SPDX-License-Identifier: Apache-2.0 */
/* archive_tail.h - what an archive lacks of the gateway's journal: the records that its writer had in memory
 * only when it was copied, or when it was killed. The archiver notes in the catalogue where its journal is
 * and how it reads it; a copy is brought up to the journal's end by the same. */
#ifndef GRIDLINE_CMD_ARCHIVE_TAIL_H
#define GRIDLINE_CMD_ARCHIVE_TAIL_H

#include "archive/archive.h"
#include "event/select.h"

/* How a journal becomes rows of an archive. Text is borrowed. */
struct archive_feed {
    struct slice journal; /* folder */
    struct select_spec select;
    struct slice ids;
    int64_t partition_ns;
    uint32_t streams_max;
};

/* In the catalogue, on disk when it returns 0. */
int archive_feed_note(struct catalog *c, const struct archive_feed *f);
/* false: there is none, as of an archive that only imports have written. */
bool archive_feed_noted(struct catalog *c, struct archive_feed *out);

/* Appends what the journal has beyond the cursor of the archive in dir, which nobody else writes, and
 * flushes. *events: how many. 1: the journal has lost records of it, or there is no journal any more: *why
 * says it. */
int archive_tail(const char *dir, uint64_t *events, struct diag *why);

#endif
