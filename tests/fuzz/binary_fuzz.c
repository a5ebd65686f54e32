/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks. The checksum would stop nearly every mutation at the door, so the input is first made to look whole
 * (magic, length and checksum put right): what is fuzzed is everything behind the door. What decodes must encode
 * again and decode to the same events. The raw bytes also go through the decoder with its search for the next
 * block. */
#include "base/crc32c.h"
#include "event/block.h"
#include "event/encodings.h"

static struct batch *decode(struct registry *r, struct slice block)
{
    struct batch_builder *b = batch_builder_create(r, 0);
    struct diag why;
    struct batch *batch = b && block_decode(block, b, &why) == 0 ? batch_builder_finish(b, NULL) : NULL;
    batch_builder_destroy(b);
    return batch;
}

static void put_u32(char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (char)(v >> (8 * i));
}

static void check_same(const struct batch *a, const struct batch *b)
{
    if (!b || a->n != b->n)
        abort();
    for (size_t i = 0; i < a->n; i++)
        if (!event_eq(&a->events[i], &b->events[i]))
            abort();
}

static void round_trip(struct registry *r, struct slice block)
{
    struct batch *a = decode(r, block);
    if (!a)
        return;
    struct block_writer *w = block_writer_create();
    struct strbuf out = {0};
    bool whole = true;
    for (size_t i = 0; i < a->n && whole; i++)
        whole = block_writer_add(w, &a->events[i]) == 0; /* may not fit one block by our conservative count */
    if (whole) {
        if (block_writer_finish(w, &a->origin, &out) < 0 || block_check(strbuf_slice(&out)) != (int64_t)out.n)
            abort();
        struct batch *b = decode(r, strbuf_slice(&out));
        check_same(a, b);
        batch_unref(b);
    }
    block_writer_destroy(w);
    strbuf_fini(&out);
    batch_unref(a);
}

static void run_decoder(struct registry *r, struct slice data)
{
    struct binary_state {
        uint64_t offset;
    } state = {0};
    struct batch_builder *b = batch_builder_create(r, BUILDER_BORROW);
    struct diag why;
    for (size_t at = 0; at < data.n;) {
        size_t used = 0;
        (void)encoding_binary.decoder->step(&state, slice_from(data, at), true, b, &used, &why);
        batch_unref(batch_builder_finish(b, NULL));
        if (used == 0)
            abort(); /* every step must get on */
        at += used;
    }
    batch_builder_destroy(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct registry *r = registry_create();
    if (size > 0)
        run_decoder(r, slice_of((const char *)data, size));
    if (size >= BLOCK_HEAD && size <= BLOCK_HEAD + BLOCK_BODY_MAX) {
        char *copy = malloc(size);
        memcpy(copy, data, size);
        memcpy(copy, "GLB1", 4);
        put_u32(copy + 4, (uint32_t)(size - BLOCK_HEAD));
        put_u32(copy + 8, 0);
        put_u32(copy + 8, crc32c(0, slice_of(copy, size)));
        if (block_check(slice_of(copy, size)) != (int64_t)size)
            abort();
        round_trip(r, slice_of(copy, size));
        free(copy);
    }
    registry_destroy(r);
    return 0;
}
