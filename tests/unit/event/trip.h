/* SPDX-License-Identifier: Apache-2.0 */
/* trip.h - for the tests of encodings that are read in pieces: text to events, however it is cut, and back.
 */
#ifndef GRIDLINE_TESTS_TRIP_H
#define GRIDLINE_TESTS_TRIP_H

#include "unit/event/random_event.h"

#include "base/mem.h"
#include "event/encodings.h"

#include <errno.h>

struct trip {
    const struct encoding *encoding;
    struct registry *registry;
    struct batch_builder *builder;
};

static inline void trip_init(struct trip *t, const struct encoding *encoding)
{
    t->encoding = encoding;
    t->registry = registry_create();
    assert_non_null(t->registry);
    t->builder = batch_builder_create(t->registry, 0);
    assert_non_null(t->builder);
    batch_builder_limit(t->builder, SIZE_MAX, SIZE_MAX);
}

static inline void trip_fini(struct trip *t)
{
    batch_builder_destroy(t->builder);
    registry_destroy(t->registry);
}

/* All of text, `chunk` bytes more at a time. Stops at the first error, which *why describes. The batch holds
 * what came before it; NULL = nothing. */
static inline int trip_decode(struct trip *t, struct slice text, size_t chunk, struct batch **out,
                              struct diag *why)
{
    struct decoder *d;
    int rc = decoder_create(t->encoding, &d);
    assert_int_equal(rc, 0);
    size_t done = 0, given = 0, used;
    while (rc == 0 && done < text.n) {
        given = text.n - given > chunk ? given + chunk : text.n;
        rc = decoder_run(d, slice_of(text.p + done, given - done), given == text.n, t->builder, &used, why);
        done += used;
    }
    decoder_destroy(d);
    *out = batch_builder_finish(t->builder, NULL);
    return rc;
}

/* The events of one batch (NULL = none), as a file; owned. */
static inline struct strbuf trip_encode(const struct trip *t, const struct batch *b)
{
    struct encoder *e;
    struct strbuf out = {0};
    assert_int_equal(encoder_create(t->encoding, &e), 0);
    if (b)
        assert_int_equal(encoder_run(e, b, &out), 0);
    assert_int_equal(encoder_end(e, &out), 0);
    encoder_destroy(e);
    return out;
}

static inline void trip_assert_same(const struct batch *a, const struct batch *b)
{
    assert_int_equal(a ? a->n : 0, b ? b->n : 0);
    for (size_t i = 0; a && i < a->n; i++)
        assert_true(event_eq(&a->events[i], &b->events[i]));
}

/* What is written reads back as the same events. */
static inline void trip_there_and_back(struct trip *t, const struct batch *b, size_t chunk)
{
    struct diag why = {0};
    struct batch *back;
    struct strbuf text = trip_encode(t, b);
    int rc = trip_decode(t, strbuf_slice(&text), chunk, &back, &why);
    if (rc < 0)
        fail_msg("line %llu col %u: %s", (unsigned long long)why.line, why.col, why.message);
    trip_assert_same(b, back);
    batch_unref(back);
    strbuf_fini(&text);
}

static inline struct batch *trip_random_batch(struct trip *t, size_t n, uint64_t *seed)
{
    for (size_t i = 0; i < n; i++)
        random_event_add(t->builder, seed);
    struct batch *b = batch_builder_finish(t->builder, NULL);
    assert_non_null(b);
    return b;
}

#endif
