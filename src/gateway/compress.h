/* SPDX-License-Identifier: Apache-2.0 */
/* compress.h - bytes as compressed frames that stand alone: a zstd frame with a checksum, or a gzip member. A
 * file of such frames, one behind the other, is what zstd -d and gunzip read; a torn last one costs itself
 * and nothing else.
 *
 * Measured with samples of an agent as ULM: in frames of 128 KiB zstd leaves 4.4% and gzip 7.8% (as one
 * stream 3.4% and 6.8%), and such a frame costs 0.3 and 0.7 ms. */
#ifndef GRIDLINE_GATEWAY_COMPRESS_H
#define GRIDLINE_GATEWAY_COMPRESS_H

#include "base/strbuf.h"

struct compressor;

/* "none" (which is NULL), "zstd" or "gzip". -EINVAL: another word; -ENOMEM. */
int compressor_create(const char *name, struct compressor **out);
void compressor_destroy(struct compressor *c); /* NULL is fine */
/* Of file names: ".zst", ".gz"; of NULL "". */
const char *compressor_suffix(const struct compressor *c);
/* Appends `in` as one frame, of NULL as it is. On failure (-ENOMEM, -EIO) *out is as it was. */
int compressor_frame(struct compressor *c, struct slice in, struct strbuf *out);

#endif
