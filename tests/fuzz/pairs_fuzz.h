/* SPDX-License-Identifier: Apache-2.0 */
/* pairs_fuzz.h - the target of both encodings made of name=value lines. All of the input is decoded, also in
 * two pieces, which must give the same; what decodes must encode to lines that decode to the same events,
 * twice. */
#include "event/encodings.h"

static struct registry *registry;
static struct batch_builder *builder;
static struct decoder
    *decoder; /* at the end of an input it is as good as new: guesses and line number remain */
static struct encoder *encoder;

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* What is dear to make is used for many inputs; the registry, which learns from all of them, for a few
 * hundred. */
static void prepare(const struct encoding *enc)
{
    static unsigned runs;
    if (runs++ % 256)
        return;
    decoder_destroy(decoder);
    encoder_destroy(encoder);
    batch_builder_destroy(builder);
    registry_destroy(registry);
    registry = registry_create();
    builder = batch_builder_create(registry, BUILDER_TRIM);
    require(registry && builder && decoder_create(enc, &decoder) == 0 && encoder_create(enc, &encoder) == 0);
}

/* Errors are skipped; *bad counts them. The first `cut` bytes come before the rest. */
static struct batch *decode_all(struct slice data, size_t cut, size_t *bad)
{
    size_t at = 0, used, have = cut;
    *bad = 0;
    for (;;) {
        bool at_end = have == data.n;
        struct diag why;
        int r = decoder_run(decoder, slice_of(data.p + at, have - at), at_end, builder, &used, &why);
        require(used <= have - at && (r == 0 || r == E_PROTO || r == E_LIMIT));
        require(r == 0 || (used > 0 && why.line > 0 && why.message[0]));
        require(!(r == 0 && at_end) || at + used == data.n);
        at += used;
        *bad += r < 0;
        if (r == 0 && at_end)
            break;
        if (r == 0)
            have = data.n;
    }
    return batch_builder_finish(builder, NULL);
}

static void check_same(const struct batch *a, const struct batch *b)
{
    require((a != NULL) == (b != NULL));
    if (!a)
        return;
    require(a->n == b->n);
    for (size_t i = 0; i < a->n; i++)
        require(event_eq(&a->events[i], &b->events[i]));
}

/* Our own lines are never refused. */
static struct batch *decode_own(struct slice text)
{
    size_t used;
    require(decoder_run(decoder, text, true, builder, &used, NULL) == 0 && used == text.n);
    return batch_builder_finish(builder, NULL);
}

static int fuzz_pairs(const struct encoding *enc, const uint8_t *data, size_t size)
{
    static struct strbuf first, second;
    struct slice text = {(const char *)data, size};
    size_t bad, bad_cut;
    prepare(enc);
    batch_builder_limit(builder, SIZE_MAX, SIZE_MAX);
    (void)enc->detect(text); /* any answer is right; it must not crash */
    /* auto goes by what has been given so far, which is another text when it is cut */
    decoder_set_escapes(decoder, size % 2 ? ESCAPES_C : ESCAPES_PLAIN, NULL, NULL);
    struct escapes_votes whole = {0}, pieces = {0};
    escapes_vote(&whole, text);
    escapes_vote(&pieces, slice_of(text.p, size / 2));
    escapes_vote(&pieces, slice_from(text, size / 2));
    require(whole.c == pieces.c && whole.plain == pieces.plain);
    struct batch *a = decode_all(text, size, &bad);
    struct batch *cut = decode_all(text, size / 2, &bad_cut);
    require(bad == bad_cut);
    check_same(a, cut);
    if (a) {
        strbuf_reset(&first);
        strbuf_reset(&second);
        require(encoder_run(encoder, a, &first) == 0);
        struct batch *b = decode_own(strbuf_slice(&first));
        check_same(a, b);
        require(encoder_run(encoder, b, &second) == 0);
        struct batch *c = decode_own(strbuf_slice(&second));
        check_same(b, c);
        batch_unref(b);
        batch_unref(c);
    }
    batch_unref(a);
    batch_unref(cut);
    return 0;
}
