/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h - a run of 64-bit integers in few bytes, exactly. The integer column of blocks (docs/protocol.md).
 *
 * Layout: u8 form, then by form:
 *   0 fixed    u8 width (0, 1, 2, 4, 8), varint zigzag(min), n values of width bytes: value - min
 *   1 delta    u8 width, varint zigzag(first), varint zigzag(min), n-1 values of width bytes: step - min
 *   2 varint   varint zigzag(first), n-1 varints: zigzag(step)
 * where step = value - the value before, all arithmetic modulo 2^64. Width 0 means no bytes: a constant, or a
 * constant step. n is not stored: the reader knows it. A writer picks the smallest (2 only where it saves a
 * quarter: it is the slowest to read). Cost: about 1 ns a value each way, 2 ns for form 2. */
#ifndef GRIDLINE_EVENT_PACK_H
#define GRIDLINE_EVENT_PACK_H

#include "base/cursor.h"
#include "base/strbuf.h"

#include <stdint.h>

void pack_write(struct strbuf *out, const uint64_t *v, size_t n);
/* What pack_write makes of any number of values that are all x. */
void pack_write_same(struct strbuf *out, uint64_t x);
/* Fills v[0..n); on malformed input c->bad is set and v holds anything. */
void pack_read(struct cursor *c, uint64_t *v, size_t n);

#endif
