/* SPDX-License-Identifier: Apache-2.0 */
/* number_codec.h - a run of numbers of 8 bytes in few, exactly: what the columns of a chunk are made of.
 *
 * What makes them small, each only where it does: floats that are decimals become integers (with a correction
 * of a few units in the last place where arithmetic has left one); what all have in common is taken away
 * (least, common divisor); values, steps or changes of steps, whichever are narrowest; few bits each
 * (pfor.h); or a dictionary. A constant and a constant step cost nothing a value. The byte layout is in
 * number_codec.c. */
#ifndef GRIDLINE_ARCHIVE_NUMBER_CODEC_H
#define GRIDLINE_ARCHIVE_NUMBER_CODEC_H

#include "base/slice.h"
#include "base/strbuf.h"

#include <stdint.h>

struct number_codec;                               /* an encoder's memory, 0.5 MiB; one thread */
struct number_codec *number_codec_create(void);    /* NULL: no memory */
void number_codec_destroy(struct number_codec *k); /* NULL is fine */

/* Appends 1..ROWS_CHUNK_MAX numbers (INT, UINT, FLOAT, BOOL); a NaN is value_float's. out remembers that
 * there was no memory. */
void number_put(struct number_codec *k, uint8_t type, const uint64_t *v, uint32_t n, struct strbuf *out);
/* Reads exactly all of in: 0, or E_PROTO and v holds anything. */
int number_get(struct slice in, uint8_t type, uint32_t n, uint64_t *v);

#endif
