/* SPDX-License-Identifier: Apache-2.0 */
/* block_layout.h - the constants that block_write.c and block_read.c share. See docs/protocol.md. */
#ifndef GRIDLINE_EVENT_BLOCK_LAYOUT_H
#define GRIDLINE_EVENT_BLOCK_LAYOUT_H

#include <stdint.h>

#define BLOCK_MAGIC "GLB1"

enum block_codec {
    CODEC_EMPTY = 0,   /* no value present */
    CODEC_INTS = 1,    /* pack of the 64-bit values (floats: their bits) */
    CODEC_BITS = 2,    /* bools, eight a byte, lowest bit first */
    CODEC_PLAIN = 3,   /* pack of lengths, then the text */
    CODEC_DICT = 4,    /* string table, then pack of indexes */
    CODEC_DECIMAL = 5, /* u8 k, pack of m: floats that are m / 10^k */
    CODEC_HOLES = 0x80 /* flag: a bitmap of the rows that have a value comes first */
};

enum { BLOCK_DECIMAL_MAX = 4 };
#define BLOCK_MINUS_ZERO UINT64_C(0x8000000000000000)

static const double block_powers[BLOCK_DECIMAL_MAX + 1] = {1, 10, 100, 1000, 10000};

#endif
