/* SPDX-License-Identifier: Apache-2.0 */
/* refill_index.h - which events the journal's records had, so that those of a deleted record can be found in
 * the archive: for each batch its record, producer, epoch, numbers and times. Kept only while durable
 * subscriptions need it, in a folder of files of REFILL_FILE entries; at most REFILL_FILES files, then the
 * oldest goes.
 *
 * A file NNNNNNNNNNNNNNNN.idx is named by the first record it covers and has, little-endian,
 *   a head     "glrefill", u32 version 1, u32 0, u64 journal, u64 first record, zeros, u32 CRC-32C; 68 bytes
 *   entries    u64 record, u32 part, u32 count, 16 bytes producer, u64 epoch, u64 first number, i64 oldest
 *              time, i64 newest time, u32 CRC-32C; 68 bytes each. count 0: the record was lost to the archive
 * Entries are in the order of the journal, without a hole from the first file's first record on: where a
 * start finds one that the archive has but the index has not (loss of power), it begins anew.
 *
 * Threads: refill_index_keep and refill_index_read on any, the rest on the archiver's. */
#ifndef GRIDLINE_CMD_REFILL_INDEX_H
#define GRIDLINE_CMD_REFILL_INDEX_H

#include "gateway/journal_batches.h"

enum { REFILL_FILE = 1 << 16, REFILL_FILES = 32 };

struct refill_entry {
    uint64_t record;
    uint32_t part, count;
    uint8_t producer[16];
    uint64_t epoch, first_seq;
    int64_t min_ns, max_ns;
};

struct refill_index;
struct refill_index *refill_index_create(const char *dir); /* NULL: no memory */
void refill_index_destroy(struct refill_index *x);         /* NULL is fine */

/* The archive has everything up to this record of that journal on disk, and reads on behind it. */
void refill_index_start(struct refill_index *x, uint64_t journal, uint64_t record);
/* What was read. */
void refill_index_add(struct refill_index *x, const struct journal_batch *item);
/* Before a flush of the archive: what was added is in the files. 0, or the error with which it has begun
 * anew. */
int refill_index_write(struct refill_index *x);

/* Records up to this one are not asked for any more; UINT64_MAX: none will be. */
void refill_index_keep(struct refill_index *x, uint64_t record);
/* Entries from part `part` of record `record` on, up to record last: how many, at most max. *covered: the
 * first record that the index knows of; UINT64_MAX: none. Negative: a file can't be read. */
int refill_index_read(struct refill_index *x, uint64_t record, uint32_t part, uint64_t last,
                      uint64_t *covered, struct refill_entry *out, size_t max);

#endif
