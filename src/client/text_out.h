/* SPDX-License-Identifier: Apache-2.0 */
/* text_out.h - blocks as text, for the destinations that write lines: files and syslog. A zeroed struct is
 * closed. */
#ifndef GRIDLINE_CLIENT_TEXT_OUT_H
#define GRIDLINE_CLIENT_TEXT_OUT_H

#include "event/encoding.h"

struct text_out {
    struct registry *registry;
    struct batch_builder *builder;
    struct encoder *encoder;
};

int text_out_init(struct text_out *t, const struct encoding *encoding);
void text_out_fini(struct text_out *t);
/* The block's events; borrows the block. NULL: no memory. The caller unrefs it. */
struct batch *text_out_decode(struct text_out *t, struct slice block);
/* Appends them to out as text. On failure (-ENOMEM) out is as it was. */
int text_out_encode(struct text_out *t, const struct batch *b, struct strbuf *out);

#endif
