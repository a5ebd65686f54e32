/* SPDX-License-Identifier: Apache-2.0 */
/* output.h - where a command's events go: standard output, or a file that appears whole or not at all.
 *
 * A file is written under another name beside it and takes its place when everything went well. So an output
 * may be one of the inputs, and a failed command leaves what was there. Devices and pipes are written as they
 * are. Errors have been reported when a call returns them. */
#ifndef GRIDLINE_CMD_OUTPUT_H
#define GRIDLINE_CMD_OUTPUT_H

#include "base/slice.h"
#include "event/encoding.h"

struct output;

/* path NULL or "-": standard output. Borrows path. */
int output_open(const char *path, const struct encoding *encoding, struct output **out);
/* Before the first event, for csv. */
int output_columns(struct output *o, const struct slice *names, size_t n);
/* The same, of names separated by commas. */
int output_named_columns(struct output *o, const char *names);
int output_batch(struct output *o, const struct batch *b);
/* A line of the output's encoding, given without its end, as it is. */
int output_line(struct output *o, struct slice line);
/* Writes what is waiting. */
int output_flush(struct output *o);
/* Writes the tail and puts the file in its place. */
int output_finish(struct output *o);
/* Frees; what was not finished is removed. NULL is fine. */
void output_close(struct output *o);

uint64_t output_left_out(const struct output *o); /* csv: values that had no column */

#endif
