/* SPDX-License-Identifier: Apache-2.0 */
#include "client/text_out.h"

#include "event/block.h"

#include <errno.h>

int text_out_init(struct text_out *t, const struct encoding *encoding)
{
    t->registry = registry_create();
    t->builder = t->registry ? batch_builder_create(t->registry, BUILDER_BORROW) : NULL;
    int r = t->builder ? encoder_create(encoding, &t->encoder) : -ENOMEM;
    if (r < 0)
        text_out_fini(t);
    return r;
}

void text_out_fini(struct text_out *t)
{
    encoder_destroy(t->encoder);
    batch_builder_destroy(t->builder);
    registry_destroy(t->registry);
    *t = (struct text_out){0};
}

struct batch *text_out_decode(struct text_out *t, struct slice block)
{
    if (block_decode(block, t->builder, NULL) < 0) /* our own writer made it: only memory can be short */
        return NULL;
    return batch_builder_finish(t->builder, NULL);
}

int text_out_encode(struct text_out *t, const struct batch *b, struct strbuf *out)
{
    size_t before = out->n;
    int r = encoder_run(t->encoder, b, out);
    if (r == 0)
        return 0;
    out->failed = false;
    out->n = before;
    return -ENOMEM;
}
