/* SPDX-License-Identifier: Apache-2.0 */
/* codec.h - text to batch and back, for tests of encodings. Whatever fails, fails the test. */
#ifndef GRIDLINE_TESTS_CODEC_H
#define GRIDLINE_TESTS_CODEC_H

#include "unit/test.h"

#include "event/encoding.h"

/* Decodes all of text, given whole, as one batch (NULL when it holds no event). A bad unit fails the test. */
static inline struct batch *codec_decode(const struct encoding *enc, struct registry *registry,
                                         struct slice text)
{
    struct batch_builder *builder = batch_builder_create(registry, 0);
    struct decoder *d;
    struct diag why;
    size_t used;
    batch_builder_limit(builder, SIZE_MAX, SIZE_MAX);
    assert_int_equal(decoder_create(enc, &d), 0);
    if (decoder_run(d, text, true, builder, &used, &why) != 0)
        fail_msg("line %u, column %u: %s", (unsigned)why.line, (unsigned)why.col, why.message);
    assert_int_equal(used, text.n);
    struct batch *b = batch_builder_finish(builder, NULL);
    decoder_destroy(d);
    batch_builder_destroy(builder);
    return b;
}

/* Appends the whole of a file that holds b. */
static inline void codec_encode(const struct encoding *enc, const struct batch *b, struct strbuf *out)
{
    struct encoder *e;
    assert_int_equal(encoder_create(enc, &e), 0);
    assert_int_equal(encoder_run(e, b, out), 0);
    assert_int_equal(encoder_end(e, out), 0);
    encoder_destroy(e);
}

/* The error of decoding text alone; fails the test when there is none. */
static inline int codec_error(const struct encoding *enc, struct registry *registry, struct slice text,
                              struct diag *why)
{
    struct batch_builder *builder = batch_builder_create(registry, 0);
    struct decoder *d;
    size_t used;
    assert_int_equal(decoder_create(enc, &d), 0);
    int r = decoder_run(d, text, true, builder, &used, why);
    if (r >= 0)
        fail_msg("taken: %.*s", SLICE_ARG(text));
    assert_int_equal(batch_builder_count(builder), 0);
    decoder_destroy(d);
    batch_builder_destroy(builder);
    return r;
}

static inline void codec_assert_same(const struct batch *a, const struct batch *b)
{
    assert_non_null(b);
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++)
        if (!event_eq(&a->events[i], &b->events[i]))
            fail_msg("event %zu differs", i);
}

/* decode(encode(b)) gives b. */
static inline void codec_round_trip(const struct encoding *enc, struct registry *registry,
                                    const struct batch *b)
{
    struct strbuf text = {0};
    codec_encode(enc, b, &text);
    struct batch *back = codec_decode(enc, registry, strbuf_slice(&text));
    codec_assert_same(b, back);
    batch_unref(back);
    strbuf_fini(&text);
}

/* A file under tests/fixtures. */
static inline void codec_read_fixture(const char *name, struct strbuf *out)
{
    char path[512], piece[4096];
    (void)snprintf(path, sizeof path, "%s/tests/fixtures/%s", GRIDLINE_SOURCE, name);
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("can't open %s", path);
    for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0;)
        strbuf_add(out, piece, n);
    (void)fclose(f); /* only read from */
}

#endif
