/* SPDX-License-Identifier: Apache-2.0 */
/* text_fuzz.h - what must hold for the decoder and encoder of a text encoding, whatever the input:
 *   - cut in two (at a place that some of its bytes choose) it gives the same events and as many errors as
 * whole;
 *   - the events, written and read again, are the same events, and there is nothing to complain about. */
#ifndef GRIDLINE_TESTS_TEXT_FUZZ_H
#define GRIDLINE_TESTS_TEXT_FUZZ_H

#include "event/encodings.h"

#include <stdlib.h>

/* Made once: they are large, and after the end of an input they are as new. */
struct text_fuzz {
    const struct encoding *encoding;
    struct decoder *decoder;
    struct encoder *encoder;
};

/* Decodes all of data, its first `cut` bytes first, past every bad unit. */
static inline struct batch *text_fuzz_decode(struct text_fuzz *f, struct registry *r, struct slice data,
                                             size_t cut, size_t *errors)
{
    struct batch_builder *b = batch_builder_create(r, BUILDER_TRIM);
    struct diag why;
    *errors = 0;
    batch_builder_limit(b, SIZE_MAX, SIZE_MAX);
    for (size_t done = 0, given = cut; done < data.n;) {
        size_t used;
        int rc =
            decoder_run(f->decoder, slice_of(data.p + done, given - done), given == data.n, b, &used, &why);
        done += used;
        if (rc < 0 && (used == 0 || why.message[0] == '\0' || why.line == 0))
            abort(); /* an error gets on, and says what and where */
        *errors += rc < 0;
        if (rc == 0)
            given = data.n;
    }
    struct batch *batch = batch_builder_finish(b, NULL);
    batch_builder_destroy(b);
    return batch;
}

static inline void text_fuzz_same(const struct batch *a, const struct batch *b)
{
    if ((a ? a->n : 0) != (b ? b->n : 0))
        abort();
    for (size_t i = 0; a && i < a->n; i++)
        if (!event_eq(&a->events[i], &b->events[i]))
            abort();
}

static inline void text_fuzz_write_and_read(struct text_fuzz *f, struct registry *r, const struct batch *a)
{
    struct strbuf text = {0};
    size_t errors;
    if (encoder_run(f->encoder, a, &text) < 0 || encoder_end(f->encoder, &text) < 0)
        abort();
    struct batch *b = text_fuzz_decode(f, r, strbuf_slice(&text), text.n, &errors);
    text_fuzz_same(a, b);
    if (errors)
        abort();
    batch_unref(b);
    strbuf_fini(&text);
}

static inline void text_fuzz(struct text_fuzz *f, const uint8_t *bytes, size_t size)
{
    struct slice data = {(const char *)bytes, size};
    if (!f->decoder &&
        (decoder_create(f->encoding, &f->decoder) < 0 || encoder_create(f->encoding, &f->encoder) < 0))
        abort();
    if (size < 2 || size > 4096)
        return;
    struct registry *r = registry_create();
    size_t cut = (bytes[0] + bytes[1] * 7u + bytes[size - 1]) % size, errors, errors_cut;
    struct batch *a = text_fuzz_decode(f, r, data, size, &errors);
    struct batch *b = text_fuzz_decode(f, r, data, cut, &errors_cut);
    text_fuzz_same(a, b);
    if (errors != errors_cut)
        abort();
    if (a)
        text_fuzz_write_and_read(f, r, a);
    batch_unref(a);
    batch_unref(b);
    registry_destroy(r);
}

#endif
