/* SPDX-License-Identifier: Apache-2.0 */
/* refill.h - records of the journal that are deleted, made again from the archive for a durable subscription
 * that had not read them: the same batches at the same positions. The index (refill_index.h) says which
 * events a record had; the archive has them by producer, epoch and number. Events that it does not have (not
 * archived, deleted by retention, without a number) are told as gaps with their count; records that the index
 * does not know of as gaps without one. */
#ifndef GRIDLINE_CMD_REFILL_H
#define GRIDLINE_CMD_REFILL_H

#include "archive/archive.h"
#include "cmd/refill_index.h"
#include "gateway/replay.h"

struct refill;
/* Borrows both. NULL: no memory. */
struct refill *refill_create(struct archive *a, struct refill_index *index);
void refill_destroy(struct refill *r);                          /* NULL is fine; after its readers */
const struct replay_refill *refill_ops(const struct refill *r); /* its functions: on one thread */

#endif
