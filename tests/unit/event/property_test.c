/* SPDX-License-Identifier: Apache-2.0 */
/* The promise of the event model: random hostile events go through every encoding, and through every pair of
 * encodings, and come back equal. 20,000 events; GRIDLINE_TEST_SCALE=50 makes it a million. */
#include "unit/event/random_event.h"

#include "event/encoding.h"

enum { EVENTS = 20000, BATCH = 100 };

static struct strbuf encode(const struct encoding *enc, const struct batch *b)
{
    struct encoder *e = NULL;
    struct strbuf out = {0};
    assert_int_equal(encoder_create(enc, &e), 0);
    assert_int_equal(encoder_run(e, b, &out), 0);
    assert_int_equal(encoder_end(e, &out), 0);
    encoder_destroy(e);
    return out;
}

/* All of it as one batch; a block larger than that is never made here. */
static struct batch *decode(const struct encoding *enc, struct registry *r, struct slice data)
{
    struct decoder *d = NULL;
    struct batch_builder *b = batch_builder_create(r, 0);
    struct diag why = {0};
    batch_builder_limit(b, SIZE_MAX, SIZE_MAX);
    assert_int_equal(decoder_create(enc, &d), 0);
    for (size_t at = 0; at < data.n;) {
        size_t used = 0;
        int rc = decoder_run(d, slice_from(data, at), true, b, &used, &why);
        if (rc < 0)
            fail_msg("%s: line %llu col %u: %s in %.*s", enc->name, (unsigned long long)why.line, why.col, why.message,
                     (int)(data.n - at < 300 ? data.n - at : 300), data.p + at);
        assert_true(used > 0);
        at += used;
    }
    struct batch *batch = batch_builder_finish(b, NULL);
    batch_builder_destroy(b);
    decoder_destroy(d);
    return batch;
}

static void assert_same(const struct batch *a, const struct batch *b, const char *first, const char *second)
{
    if (!b || a->n != b->n)
        fail_msg("%s then %s: %zu events became %zu", first, second, a->n, b ? b->n : 0);
    for (size_t i = 0; i < a->n; i++) {
        if (event_eq(&a->events[i], &b->events[i]))
            continue;
        struct strbuf before = encode(encoding_by_name(SLICE_LIT("ndjson")), a);
        struct strbuf after = encode(encoding_by_name(SLICE_LIT("ndjson")), b);
        fail_msg("%s then %s: event %zu changed\n%s\n%s", first, second, i, before.p, after.p);
    }
}

static void check_pairs(const struct batch *original)
{
    for (size_t i = 0; encoding_at(i); i++) {
        const struct encoding *first = encoding_at(i);
        if (!first->decoder)
            continue;
        struct registry *r = registry_create();
        struct strbuf bytes = encode(first, original);
        assert_ptr_equal(encoding_detect(strbuf_slice(&bytes)), first);
        struct batch *once = decode(first, r, strbuf_slice(&bytes));
        assert_same(original, once, first->name, "back");
        for (size_t k = 0; encoding_at(k); k++) {
            const struct encoding *second = encoding_at(k);
            if (!second->decoder)
                continue;
            struct strbuf again = encode(second, once);
            struct batch *twice = decode(second, r, strbuf_slice(&again));
            assert_same(original, twice, first->name, second->name);
            if (first == second && first->is_lines) /* text survives unchanged */
                assert_true(slice_eq(strbuf_slice(&bytes), strbuf_slice(&again)));
            batch_unref(twice);
            strbuf_fini(&again);
        }
        batch_unref(once);
        strbuf_fini(&bytes);
        registry_destroy(r);
    }
}

static void test_every_pair(void **state)
{
    (void)state;
    uint64_t seed = 2026;
    for (unsigned n = 0; n < EVENTS * test_scale(); n += BATCH) {
        struct registry *r = registry_create();
        struct batch_builder *b = batch_builder_create(r, 0);
        for (int i = 0; i < BATCH; i++)
            random_event_add(b, &seed);
        struct batch *batch = batch_builder_finish(b, NULL);
        check_pairs(batch);
        batch_unref(batch);
        batch_builder_destroy(b);
        registry_destroy(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_pair)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
