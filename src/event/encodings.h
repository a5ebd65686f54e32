/* SPDX-License-Identifier: Apache-2.0 */
/* encodings.h - the encodings that exist, one line each, and the two calls that only csv answers. For
 * encoding.c and the encodings' own files; everyone else goes through encoding.h. */
#ifndef GRIDLINE_EVENT_ENCODINGS_H
#define GRIDLINE_EVENT_ENCODINGS_H

#include "event/encoding.h"

extern const struct encoding encoding_ulm;
extern const struct encoding encoding_bp;
extern const struct encoding encoding_ndjson;
extern const struct encoding encoding_xml;
extern const struct encoding encoding_csv;
extern const struct encoding encoding_binary;

/* encoder_csv_columns and encoder_csv_left_out on the state of a csv encoder. */
int csv_set_columns(void *state, const struct slice *fields, size_t n);
uint64_t csv_left_out(const void *state);

#endif
