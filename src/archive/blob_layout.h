/* SPDX-License-Identifier: Apache-2.0 */
/* blob_layout.h - what blob_write.c and blob_read.c share: the constants of the byte layout, which is in the
 * head of blob_write.c. */
#ifndef GRIDLINE_ARCHIVE_BLOB_LAYOUT_H
#define GRIDLINE_ARCHIVE_BLOB_LAYOUT_H

#include "archive/blob.h"
#include "base/crc32c.h"
#include "base/hash.h"

/* Where things are at the front of both halves. */
enum {
    BLOB_AT_VERSION = 7,
    BLOB_AT_LENGTH = 8,
    BLOB_AT_CRC = 12,
    BLOB_AT_NUMBER = 16,
    BLOB_HEAD = 24,
    BLOB_AT_UNPACKED = 24, /* of the directory only */
    BLOB_DIRECTORY_HEAD = 28
};
#define BLOB_DIRECTORY_MARK "\xa7GLdir\r"
#define BLOB_BODY_MARK      "\xa7GLbod\r"
/* Version 1 had no type for numbers as written: a bare 0.50 was kept as text. Version 2 has VALUE_NUMBER, with the
 * summary of a float; text in it was quoted, or is no number. */
enum { BLOB_MARK_SIZE = 7, BLOB_VERSION_FIRST = 1, BLOB_VERSION = 2 };

enum {
    BLOB_FRAME_SIZE = 16 << 10, /* of small pieces that share one, before zstd */
    BLOB_ALONE = 256,           /* a piece of so many bytes has a frame of its own; part of the format */
    BLOB_INLINE_MAX = 24,       /* a piece of at most so many bytes is in the directory */
    BLOB_SECTIONS_MAX = 1 << 16,
    BLOB_CHUNKS_MAX = 1 << 20,
    BLOB_KEY_MAX = 512 << 10, /* bytes of a stream key: names and values of an event, and a little more */
    BLOB_ORIGINS_MAX = 1 << 20,
    BLOB_MEMORY_MAX =
        128 << 20 /* of a directory that was read: a hostile one of 16 MiB could be a gigabyte */
};

/* Pieces of a chunk that are not of a column of its table, in their order in the body: before those. */
enum blob_piece { PIECE_ORIGINS, PIECE_TIMES, PIECE_LEVELS, PIECE_SEQS, PIECE_FIXED };

/* What follows about a column. */
enum blob_column_flags {
    COLUMN_SAME = 1,       /* a number that is the same in all rows: no piece */
    COLUMN_HERE = 2,       /* the piece is here, not in the body */
    COLUMN_MISSING = 4,    /* some rows have no value: how many have; when the first and last of them are */
    COLUMN_NANS = 8,       /* so many are NaN */
    COLUMN_MIN_FIRST = 16, /* min is first: not said again */
    COLUMN_MIN_LAST = 32,
    COLUMN_MAX_FIRST = 64,
    COLUMN_MAX_LAST = 128,
    COLUMN_FLAGS = 255
};

/* A filter of ids: a Bloom filter, all of whose places come from one hash (Kirsch and Mitzenmacher). */
enum { FILTER_BITS_EACH = 10, FILTER_PLACES = 7 };
static inline uint32_t filter_bits(uint32_t n_ids)
{
    return (n_ids * FILTER_BITS_EACH + 7) / 8 * 8;
}
static inline uint32_t filter_place(uint64_t hash, unsigned i, uint32_t n_bits)
{
    uint32_t a = (uint32_t)hash, b = (uint32_t)(hash >> 32) | 1;
    return (uint32_t)((uint64_t)(a + i * b) * n_bits >> 32);
}
/* Of an id's text. Never 0. */
static inline uint64_t blob_id_hash(struct slice id)
{
    uint64_t hash = hash_bytes(id);
    return hash ? hash : 1;
}

/* Order of keys in a directory: as bytes, a shorter one before those that begin with it. */
static inline int blob_compare_keys(struct slice a, struct slice b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int r = n ? memcmp(a.p, b.p, n) : 0;
    return r ? r : (a.n > b.n) - (a.n < b.n);
}

/* Of a half: all but the place where it is. */
static inline uint32_t blob_crc(struct slice half)
{
    uint32_t crc = crc32c(0, slice_of(half.p, BLOB_AT_CRC));
    return crc32c(crc, slice_from(half, BLOB_AT_NUMBER));
}

#endif
