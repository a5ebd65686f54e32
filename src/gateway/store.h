/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - the gateway's journal: all of its journal calls are behind this, so that they can move to a
 * thread.
 *
 * Records: STORE_BLOCK holds a block (event/block.h) as it was received, STORE_COUNTS the payload of a COUNTS
 * frame. At max_bytes new records are refused, never old ones deleted: what was acknowledged stays until a
 * consumer with a cursor has taken it. So deduplication and ledger can always be made again from what is
 * here, at about a second per GiB of journal at start. */
#ifndef GRIDLINE_GATEWAY_STORE_H
#define GRIDLINE_GATEWAY_STORE_H

#include "base/slice.h"
#include "journal/journal.h"

#include <stdint.h>

enum store_type { STORE_BLOCK = 1, STORE_COUNTS = 2, STORE_WORKER = 6 };

/* Who is told what the journal holds: a record, or a gap (lost records). A negative result ends the reading.
 */
typedef int (*store_each)(void *arg, const struct journal_item *item);

struct store;
/* Opens and gives everything that is there to each. *out is untouched on failure. */
int store_open(const char *dir, uint64_t max_bytes, store_each each, void *arg, struct store **out);
void store_close(struct store *s); /* NULL is fine; what is not committed is forgotten */
/* Queues a record. -ENOBUFS: commit first. -ENOSPC: at max_bytes. -ENOMEM. */
int store_append(struct store *s, enum store_type type, struct slice payload);
/* 0: everything appended is on disk. Otherwise nothing appended since the last commit is kept. */
int store_commit(struct store *s);
/* Reads a journal that may be in use by its gateway. */
int store_read(const char *dir, store_each each, void *arg);

#endif
