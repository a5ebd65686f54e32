/* SPDX-License-Identifier: Apache-2.0 */
/* blob_counts.h - of the chunks of a blob how many rows are in which bin of time, and the worst of each bin:
 * what a tile of points shows (tile_points.c). Kept beside the blob, in the section table (partition.c), so
 * that a tile of much time reads neither directories nor bodies. Pure.
 *
 * Bins of zoom z are 4^z ns wide and begin at multiples of that, so a bin is within one bin of any coarser
 * zoom. A chunk has one zoom: the finest at which a bin that is not empty has COUNTS_ROWS rows on the
 * average. A finer tile has few rows: they are counted when it is asked for. So are those of chunks without
 * counts: small ones, whose counts would be a good part of their size, and those of blobs that older versions
 * wrote.
 *
 * The counts of one event name in one blob; varint: LEB128, text: varint length and the bytes:
 *
 *   chunks      varint n: as many as the blob has of the name; then of each, in the directory's order:
 *   rows        varint; 0: this chunk has no counts, and nothing follows of it
 *   key         varint bytes that it shares with the last key before that is here, text the rest
 *   zoom        u8
 *   first       zigzag number of the first bin: its time / 4^zoom, rounded down
 *   bins        varint how many the last is behind the first
 *   usual       u8 level: the worst of each bin of which no other is said
 *   length      varint bytes of what follows
 *   of each bin that is not empty, in order of time: varint count * 2 + is other; if it is
 *               varint how many empty bins are before it, u8 worst level; of LEVEL_WARNING and worse:
 *               varint ns from the bin's begin to the first row of that level, text its id ("": none) */
#ifndef GRIDLINE_ARCHIVE_BLOB_COUNTS_H
#define GRIDLINE_ARCHIVE_BLOB_COUNTS_H

#include "archive/lifeline_ids.h"
#include "base/cursor.h"

enum {
    COUNTS_ROWS_MIN = 256, /* of a chunk; smaller ones have no counts */
    COUNTS_ROWS = 16,      /* a bin, on the average, at least */
    COUNTS_ID_MAX = 64,    /* bytes; a chunk that would need a longer one has no counts */
    COUNTS_ZOOM_MAX = 31
};

/* Appends what comes behind the key. ids: whose first declaration is the id. false: it gets none (nothing was
 * appended), or there is no memory (strbuf_failed). */
bool counts_put_chunk(struct strbuf *out, const struct id_set *ids, const struct table_def *table,
                      struct slice key, const struct rows *rows, struct strbuf *scratch);

/* Reading. */
struct counts_chunk {
    struct slice key; /* borrowed from the reader's buffer until the next chunk */
    uint32_t rows;    /* 0: it has no counts, and no key */
    unsigned zoom;
    int64_t from_ns, last_ns; /* of its first bin, and of its last */
    uint8_t usual;
    struct slice bins;
};
struct counts_bin {
    int64_t from_ns;
    uint64_t count;
    int64_t worst_ns; /* of a warning and worse: when; else from_ns */
    struct slice id;  /* of that row; "" */
    uint8_t level;
};

struct counts_reader {
    struct cursor c;
    uint32_t n, next; /* chunks; of the one that is next */
    struct strbuf key;
};
/* How many chunks; 0: there are no counts, or they are not what they should be. */
uint32_t counts_open(struct counts_reader *r, struct slice bytes);
void counts_close(struct counts_reader *r);
/* The next chunk: 1; 0: that was the last; E_PROTO, -ENOMEM. All of a chunk that is given has been checked.
 */
int counts_next(struct counts_reader *r, struct counts_chunk *out);
/* Its bins, by a cursor of chunk.bins and a struct counts_bin that is zero at first; false at the end, or
 * (c->bad) what comes is no bin. */
bool counts_next_bin(const struct counts_chunk *chunk, struct cursor *c, struct counts_bin *bin);

#endif
