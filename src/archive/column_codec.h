/* SPDX-License-Identifier: Apache-2.0 */
/* column_codec.h - the values of one column of a chunk as bytes, and back, bit for bit (NaN is one value).
 *
 * Numbers go by the smallest of a few codecs, text by dictionary where that is shorter; rows without a value
 * by a bitmap. Bytes are meant to be packed again by zstd, many columns in one frame (blob_write.c), and are
 * read only after a CRC said that they are what was written; still every count and length is checked. The
 * byte layout is in column_codec.c. */
#ifndef GRIDLINE_ARCHIVE_COLUMN_CODEC_H
#define GRIDLINE_ARCHIVE_COLUMN_CODEC_H

#include "archive/rows.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/strbuf.h"

enum { COLUMN_TEXT_MAX = 64 << 20 }; /* bytes of one column's text, all rows together */

struct column_codec;                               /* an encoder's memory, about 1 MiB; one thread */
struct column_codec *column_codec_create(void);    /* NULL: no memory */
void column_codec_destroy(struct column_codec *k); /* NULL is fine */

/* Appends n numbers that are not a column (times, levels, ...), 1..ROWS_CHUNK_MAX of them. out remembers that
 * there was no memory. */
void column_put_numbers(struct column_codec *k, const uint64_t *v, uint32_t n, struct strbuf *out);
/* Reads exactly all of in: 0, or E_PROTO and v holds anything. */
int column_get_numbers(struct slice in, uint32_t n, uint64_t *v);

/* A whole column of n rows, of which count > 0 have a value. E_LIMIT: more than COLUMN_TEXT_MAX; -ENOMEM. */
int column_put(struct column_codec *k, const struct column *c, uint32_t n, uint32_t count,
               struct strbuf *out);
/* Everything of *out but its id and type, which the caller has set, in arena. Values of rows without one are
 * 0 or "". E_PROTO, E_LIMIT, -ENOMEM. */
int column_get(struct slice in, uint32_t n, uint32_t count, struct arena *arena, struct column *out);
/* The same for a column whose values are all this one number. */
int column_get_same(uint64_t bits, uint32_t n, struct arena *arena, struct column *out);

#endif
