/* SPDX-License-Identifier: Apache-2.0 */
/* The binary encoding: a file is blocks, one behind the other, nothing else. Appending is writing one more;
 * a torn tail or damage costs the blocks it touches, and reading goes on at the next intact one.
 * The file name ending is .glb. Layout: docs/protocol.md. */
#include "event/encodings.h"

#include "event/block.h"

#include <errno.h>
#include <inttypes.h>

struct binary_reader {
    uint64_t offset; /* of the next byte in the whole input */
};

/* The bad bytes reach up to the next sign of a block. */
static int skip_damage(struct binary_reader *b, struct slice data, int code, size_t *used, struct diag *why)
{
    uint64_t from = b->offset;
    *used = block_resync(data);
    b->offset += *used;
    return diag_set(why, code, 0, "offset %" PRIu64 ": %s; skipped %zu bytes to the next block", from,
                    code == E_PROTO ? "no block starts here" : err_text(code), *used);
}

static int binary_step(void *state, struct slice data, bool at_end, struct batch_builder *out, size_t *used,
                       struct diag *why)
{
    struct binary_reader *b = state;
    *used = 0;
    int64_t n = block_check(data);
    if (n == 0)
        return at_end ? skip_damage(b, data, E_DAMAGE, used, why) : 0;
    if (n < 0)
        return skip_damage(b, data, (int)n, used, why);
    if (batch_builder_count(out)) /* one block, one batch: its origin is its own */
        return DECODE_FULL;
    int r = block_decode(slice_of(data.p, (size_t)n), out, why);
    if (r == -ENOMEM)
        return r;
    b->offset += (uint64_t)n;
    *used = (size_t)n;
    return r;
}

static bool binary_detect(struct slice head)
{
    return head.n >= 3 && memcmp(head.p, "GLB", 3) == 0;
}

struct binary_out {
    struct block_writer *writer;
};

static int binary_init(void *state)
{
    struct binary_out *b = state;
    b->writer = block_writer_create();
    return b->writer ? 0 : -ENOMEM;
}

static void binary_fini(void *state)
{
    block_writer_destroy(((struct binary_out *)state)->writer);
}

/* Usually one block a batch; more where it is larger than a block may be. */
static int binary_run(void *state, const struct batch *b, struct strbuf *out)
{
    struct block_writer *w = ((struct binary_out *)state)->writer;
    struct batch_origin origin = b->origin;
    int r = 0;
    for (size_t i = 0; i < b->n && r == 0;) {
        r = block_writer_add(w, &b->events[i]);
        if (r == 0) {
            i++;
            continue;
        }
        if (r != E_LIMIT || block_writer_count(w) == 0)
            break;
        uint64_t n = block_writer_count(w);
        r = block_writer_finish(w, &origin, out);
        origin.first_seq += origin.first_seq ? n : 0;
    }
    return r < 0 ? r : block_writer_finish(w, &origin, out);
}

static const struct decoder_ops binary_decoder = {
    .state_size = sizeof(struct binary_reader),
    .step = binary_step,
};

static const struct encoder_ops binary_encoder = {
    .state_size = sizeof(struct binary_out),
    .init = binary_init,
    .fini = binary_fini,
    .run = binary_run,
};

const struct encoding encoding_binary = {
    .name = "binary",
    .suffix = ".glb",
    .mime = "application/vnd.gridline.block",
    .summary = "gridline's own blocks: typed, checksummed, a tenth of the size of text",
    .detect = binary_detect,
    .decoder = &binary_decoder,
    .encoder = &binary_encoder,
};
