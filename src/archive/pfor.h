/* SPDX-License-Identifier: Apache-2.0 */
/* pfor.h - small numbers in few bits, exactly: patched frames of reference (Zukowski et al., 2006).
 *
 * Blocks of 128 (the last has what is left), each with the width that makes it smallest; of the few numbers
 * that are wider the high bits are apart, with their places. So a spike costs itself and not its block, and a
 * column that seldom changes costs its changes. It is as small as zstd over the same bytes and several times
 * as fast, and needs no other columns beside it to be good.
 *
 * Layout of a block of m:
 *   u8  width (0..56, or 64) of the low bits; with 0x80: some are wider, and follow
 *   -   m * width bits, the first value in the lowest bits of the first byte; filled up to a byte
 *   if some are wider:
 *   u8  how many, less one;  u8  width of their high bits (1..56, or 64)
 *   -   places in the block, a byte each, ascending;  high bits, packed like the others */
#ifndef GRIDLINE_ARCHIVE_PFOR_H
#define GRIDLINE_ARCHIVE_PFOR_H

#include "base/cursor.h"
#include "base/strbuf.h"

#include <stdint.h>

enum { PFOR_BLOCK = 128 }; /* whoever reads piece by piece reads multiples of it, but for the last */

void pfor_write(struct strbuf *out, const uint64_t *v, uint32_t n);
/* Fills v[0..n); on malformed input c->bad is set and v holds anything. */
void pfor_read(struct cursor *c, uint64_t *v, uint32_t n);

#endif
