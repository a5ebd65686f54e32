/* SPDX-License-Identifier: Apache-2.0 */
/* blob.h - many chunks of many streams as bytes: what is kept on disk. Pure: no I/O.
 *
 * A blob is a directory and a body. The directory says everything that is needed to find and read a chunk,
 * and what was in it if it can't be read: event names with their columns, stream keys, times, producers and
 * ranges of their numbers, summaries of columns, a filter of ids; so catalogues can be made again from blobs
 * alone. Both begin with a mark, their length and a CRC, so that they are found in a file whose B-trees are
 * broken; the columns of a chunk have CRCs of their own (small ones of many chunks share one), so that damage
 * of the body costs what it hit. The byte layout is in blob_write.c.
 *
 * Column by column: time by delta of delta; numbers by the smallest of a few codecs (number_codec.h); text by
 * dictionary; and zstd where it pays. Values come back bit for bit. */
#ifndef GRIDLINE_ARCHIVE_BLOB_H
#define GRIDLINE_ARCHIVE_BLOB_H

#include "archive/rows.h"
#include "base/arena.h"
#include "base/err.h"

enum {
    BLOB_SIZE = 192 << 10,         /* a writer is full then; a blob is 64 to 256 KiB where there is so much */
    BLOB_DIRECTORY_MAX = 16 << 20, /* limits of what is read */
    BLOB_BODY_MAX = 64 << 20
};

/* ---------------------------------------------------------------- writing */

struct blob_options {
    int zstd_level;         /* 0 = the default */
    const char *const *ids; /* names of fields that chunks are looked up by (default: id); NULL = none */
    size_t n_ids;
    bool has_counts; /* blob_bytes.counts are made */
    bool is_old;     /* some rows are of a blob without numbers as written (version 1): so is this one then */
};

/* Of one event name in one blob: the row of the partition's index. */
struct blob_section {
    struct slice name;
    int64_t min_ns, max_ns;
    uint64_t rows;
    uint32_t streams;
};

struct blob_writer;
struct blob_writer *blob_writer_create(const struct blob_options *o); /* borrows ids. NULL: no memory */
void blob_writer_destroy(struct blob_writer *w);                      /* NULL is fine */
/* Encodes a chunk. Those of one event name come one after the other, and of one stream in order of time: what
 * is neighbours is read together. table and key are copied. E_LIMIT: too large; E_PROTO: not as rows.h says
 * (an id that the table does not have, a column without a value, an origin that is none, times not in order);
 * -ENOMEM. Nothing was added then. */
int blob_writer_add(struct blob_writer *w, const struct table_def *table, struct slice key,
                    const struct rows *rows);
bool blob_writer_is_empty(const struct blob_writer *w);
bool blob_writer_is_full(const struct blob_writer *w);
/* Ends it: slices borrowed until the next add. -ENOMEM: nothing has changed. */
struct blob_bytes {
    struct slice directory, body;
    const struct blob_section *sections;
    size_t n_sections;
    struct slice
        counts; /* of each section, in their order: varint length and as blob_counts.h says; "" = none */
};
int blob_writer_finish(struct blob_writer *w, struct blob_bytes *out);

/* ---------------------------------------------------------------- reading */

struct blob_chunk {
    struct slice key; /* stream key (event/stream_key.h) */
    uint32_t section; /* of the directory: its event name and columns */
    uint32_t n_rows;
    int64_t min_ns, max_ns;
    uint32_t n_columns;                     /* those that have values */
    const uint16_t *ids;                    /* of them, ascending */
    const struct column_summary *summaries; /* the same order */
    struct { /* who made them, and from which to which number (0: without); their clocks are not here */
        const struct row_origin *origins;
        const uint64_t *first_seq, *last_seq;
        uint32_t n;
    } by;
};

struct blob_directory {
    const struct table_def *tables; /* one a section */
    const struct blob_section *sections;
    uint32_t n_sections;
    const struct blob_chunk *chunks; /* by section, by key, by time */
    uint32_t n_chunks;
    size_t size_bytes; /* memory it holds, about */
    bool is_old;       /* version 1: a bare number that is not spelt canonically is text in it */
};

/* Checks all of it; everything is in arena, which must outlive it; nothing borrows bytes. E_DAMAGE, E_PROTO,
 * E_VERSION, E_LIMIT, -ENOMEM. */
int blob_directory_read(struct slice bytes, struct arena *arena, const struct blob_directory **out);
/* The first chunk whose key is not below; n_chunks: none. Within the section. */
uint32_t blob_directory_find(const struct blob_directory *d, uint32_t section, struct slice key);
/* Could a row of the chunk have that text in the column? true where nobody knows. */
bool blob_chunk_may_have(const struct blob_directory *d, uint32_t chunk, uint16_t column, struct slice id);

enum { BLOB_TIMES = 1, BLOB_ORIGINS = 2, BLOB_LEVELS = 4, BLOB_ALL_COLUMNS = 8 };
/* Decodes into arena: time, level, seq and origins if asked (`what`), and the columns of ids `want` (n_want,
 * ascending; those that the chunk does not have are left out). The body may be NULL where everything asked
 * is in the directory (constants). E_DAMAGE: this chunk can't be read; others may. -ENOMEM, E_PROTO. */
struct blob_cache; /* decompressed frames of the last few bodies; one thread. NULL is fine: none is kept */
struct blob_cache *blob_cache_create(size_t max_bytes);
void blob_cache_destroy(struct blob_cache *c);
int blob_chunk_read(const struct blob_directory *d, struct slice body, uint64_t body_number, uint32_t chunk,
                    unsigned what, const uint16_t *want, size_t n_want, struct blob_cache *cache,
                    struct arena *arena, struct rows *out);

/* ---------------------------------------------------------------- in damaged files */

/* Does a directory (or body) begin here, and how long is it said to be? 0: no. */
size_t blob_directory_mark(struct slice at);
size_t blob_body_mark(struct slice at);
/* Are these the two halves of one blob? Both carry its number, random. */
bool blob_is_pair(struct slice directory, struct slice body);

#endif
