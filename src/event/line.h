/* SPDX-License-Identifier: Apache-2.0 */
/* line.h - what the encodings made of lines share: finding the lines in the input.
 *
 * A decoder's state begins with a struct line_reader and its step is one call:
 *
 *     struct foo_reader { struct line_reader lines; ... };
 *     static int foo_line(struct line_reader *r, struct slice line, struct batch_builder *out, struct diag
 * *why); static int foo_step(void *state, struct slice data, ...)
 *     {
 *         return line_step(state, foo_line, data, at_end, out, used, why);
 *     }
 */
#ifndef GRIDLINE_EVENT_LINE_H
#define GRIDLINE_EVENT_LINE_H

#include "base/err.h"
#include "base/slice.h"
#include "event/batch.h"

#include <stdint.h>

struct line_reader {
    uint64_t line; /* number of the line found last, from 1 */
    bool skipping; /* the input is inside a line that was too long and has been reported */
};

/* Adds the event of one line, given without its end and never blank. why->line is filled in by line_step, as
 * is batch->raw (the line without its end). */
typedef int (*line_decode)(struct line_reader *r, struct slice line, struct batch_builder *out,
                           struct diag *why);

/* One unit for decoder_ops.step: a line, ended by LF or CRLF (or by the end of the input). A blank line is a
 * unit without an event. A line over EVENT_LINE_MAX is reported once, as soon as that is known, and dropped
 * piece by piece as it comes: nobody has to hold it. */
int line_step(struct line_reader *r, line_decode decode, struct slice data, bool at_end,
              struct batch_builder *out, size_t *used, struct diag *why);

#endif
