/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/event/random_event.h"

#include "base/mem.h"
#include "event/block.h"
#include "event/pack.h"

#include <errno.h>

static const struct batch_origin test_origin = {
    .producer = "sixteen bytes!!", .epoch = 3, .first_seq = 100, .clock = {-5, 1000, 7}};

static struct batch *random_batch(struct registry *r, uint64_t *seed, size_t n)
{
    struct batch_builder *b = batch_builder_create(r, 0);
    for (size_t i = 0; i < n; i++)
        random_event_add(b, seed);
    struct batch *batch = batch_builder_finish(b, &test_origin);
    batch_builder_destroy(b);
    return batch;
}

static int write_batch(struct block_writer *w, const struct batch *b, struct strbuf *out)
{
    for (size_t i = 0; i < b->n; i++) {
        int r = block_writer_add(w, &b->events[i]);
        if (r < 0)
            return r;
    }
    assert_true(block_writer_size(w) >= BLOCK_HEAD);
    size_t bound = block_writer_size(w), before = out->n;
    int r = block_writer_finish(w, &b->origin, out);
    if (r == 0)
        assert_true(out->n - before <= bound);
    return r;
}

static struct batch *read_block(struct registry *r, struct slice bytes, int *rc)
{
    struct batch_builder *b = batch_builder_create(r, 0);
    struct diag why = {0};
    *rc = block_decode(bytes, b, &why);
    struct batch *batch = batch_builder_finish(b, NULL);
    batch_builder_destroy(b);
    return batch;
}

static void assert_same(const struct batch *a, const struct batch *b)
{
    assert_non_null(b);
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++)
        assert_true(event_eq(&a->events[i], &b->events[i]));
    assert_memory_equal(a->origin.producer, b->origin.producer, 16);
    assert_true(a->origin.epoch == b->origin.epoch && a->origin.first_seq == b->origin.first_seq);
    assert_true(a->origin.clock.offset_ns == b->origin.clock.offset_ns);
    assert_true(a->origin.clock.bound_ns == b->origin.clock.bound_ns);
    assert_true(a->origin.clock.generation == b->origin.clock.generation);
}

static void test_round_trip(void **state)
{
    (void)state;
    uint64_t seed = 42;
    struct block_writer *w = block_writer_create();
    for (int round = 0; round < 400; round++) {
        struct registry *r = registry_create(), *r2 = registry_create();
        struct batch *a = random_batch(r, &seed, 1 + random_below(&seed, 60));
        struct strbuf out = {0};
        assert_int_equal(write_batch(w, a, &out), 0);
        assert_int_equal(block_check(strbuf_slice(&out)), out.n);
        assert_int_equal(block_count(strbuf_slice(&out)), a->n);
        int rc;
        struct batch *b = read_block(r2, strbuf_slice(&out), &rc);
        assert_int_equal(rc, 0);
        assert_same(a, b);
        batch_unref(a);
        batch_unref(b);
        strbuf_fini(&out);
        registry_destroy(r);
        registry_destroy(r2);
    }
    block_writer_destroy(w);
}

/* One flipped byte anywhere is seen; so is every cut. */
static void test_damage_is_seen(void **state)
{
    (void)state;
    uint64_t seed = 9;
    struct registry *r = registry_create();
    struct block_writer *w = block_writer_create();
    struct batch *a = random_batch(r, &seed, 20);
    struct strbuf out = {0};
    assert_int_equal(write_batch(w, a, &out), 0);
    for (size_t i = 0; i < out.n; i++) {
        out.p[i] ^= (char)(1 << random_below(&seed, 8));
        int64_t n = block_check(strbuf_slice(&out));
        assert_true(n <= 0);
        strbuf_reset(&out);
        assert_int_equal(write_batch(w, a, &out), 0);
    }
    for (size_t n = 0; n < out.n; n++)
        assert_int_equal(block_check(slice_of(out.p, n)), 0);
    batch_unref(a);
    strbuf_fini(&out);
    block_writer_destroy(w);
    registry_destroy(r);
}

/* Bytes that pass the checksum but mean nothing: every byte of the body changed, the checksum made right. */
static void test_lies_are_refused(void **state)
{
    (void)state;
    uint64_t seed = 77;
    struct registry *r = registry_create();
    struct block_writer *w = block_writer_create();
    struct batch *a = random_batch(r, &seed, 5);
    struct strbuf out = {0};
    assert_int_equal(write_batch(w, a, &out), 0);
    for (size_t i = 12; i < out.n; i++) {
        char old = out.p[i];
        out.p[i] = (char)test_random(&seed);
        int rc;
        struct batch *b = read_block(r, strbuf_slice(&out), &rc); /* no crash; whole or nothing */
        assert_true(rc == 0 ? b != NULL : b == NULL);
        batch_unref(b);
        out.p[i] = old;
    }
    batch_unref(a);
    strbuf_fini(&out);
    block_writer_destroy(w);
    registry_destroy(r);
}

/* Found by fuzzing: with an empty string table no index of a host or prog is in range. */
static void test_no_strings(void **state)
{
    (void)state;
    struct registry *r = registry_create();
    struct schema *schema;
    assert_int_equal(schema_create(SLICE_LIT("e"), NULL, 0, &schema), 0);
    struct strbuf out = {0};
    strbuf_add(&out, "GLB1\0\0\0\0\0\0\0\0\0\0\x01\0\x01\0\0\0", 20); /* one schema, one event */
    while (out.n < BLOCK_HEAD)
        strbuf_add_char(&out, '\0');
    strbuf_add_u64(&out, schema->hash);
    strbuf_add(&out, "\x01" "e\0", 3);          /* the schema: its name, no field */
    strbuf_add_char(&out, 0);                    /* no strings */
    for (int i = 0; i < 5; i++)
        strbuf_add(&out, "\0\0\0", 3); /* each head column: all zero */
    int rc;
    assert_null(read_block(r, strbuf_slice(&out), &rc));
    assert_int_equal(rc, E_PROTO);
    strbuf_fini(&out);
    schema_unref(schema);
    registry_destroy(r);
}

static void test_full(void **state)
{
    (void)state;
    struct registry *r = registry_create();
    struct batch_builder *b = batch_builder_create(r, 0);
    static char text[EVENT_TEXT_MAX];
    memset(text, 'x', sizeof text);
    struct named_value v[3] = {{SLICE_LIT("a"), value_text(slice_of(text, sizeof text))},
                               {SLICE_LIT("b"), value_text(slice_of(text, sizeof text))},
                               {SLICE_LIT("c"), value_text(slice_of(text, sizeof text))}};
    struct event_head head = {.name = SLICE_LIT("big")};
    assert_int_equal(batch_builder_add(b, &head, v, 3, NULL), 0);
    struct batch *batch = batch_builder_finish(b, NULL);
    struct block_writer *w = block_writer_create();
    int n = 0;
    while (block_writer_add(w, &batch->events[0]) == 0)
        n++;
    assert_int_equal(block_writer_add(w, &batch->events[0]), E_LIMIT);
    assert_true(n >= 4);
    struct strbuf out = {0};
    assert_int_equal(block_writer_finish(w, NULL, &out), 0);
    assert_int_equal(block_check(strbuf_slice(&out)), out.n);
    assert_int_equal(block_writer_add(w, &batch->events[0]), 0);
    strbuf_fini(&out);
    block_writer_destroy(w);
    batch_unref(batch);
    batch_builder_destroy(b);
    registry_destroy(r);
}

static void test_resync(void **state)
{
    (void)state;
    assert_int_equal(block_resync(SLICE_LIT("GLB1xxGLB1")), 6);
    assert_int_equal(block_resync(SLICE_LIT("GLB1xxGL")), 6); /* the rest may follow */
    assert_int_equal(block_resync(SLICE_LIT("GLB1xxGxB1")), 10);
    assert_int_equal(block_check(SLICE_LIT("GLB2")), E_VERSION);
    assert_int_equal(block_check(SLICE_LIT("GLBx")), E_PROTO);
    assert_int_equal(block_check(SLICE_LIT("G")), 0);
    assert_int_equal(block_check(SLICE_LIT("x")), E_PROTO);
}

static void test_pack(void **state)
{
    (void)state;
    uint64_t seed = 3, v[300], back[300];
    for (int round = 0; round < 3000; round++) {
        size_t n = 1 + random_below(&seed, 300);
        unsigned shift = (unsigned)random_below(&seed, 64), kind = (unsigned)random_below(&seed, 4);
        for (size_t i = 0; i < n; i++) {
            uint64_t x = test_random(&seed) >> shift;
            v[i] = kind == 0 ? x : kind == 1 ? (i ? v[i - 1] + x : x) : kind == 2 ? random_word(&seed) : 1000 + i * shift;
        }
        struct strbuf out = {0};
        pack_write(&out, v, n);
        struct cursor c = cursor_of(strbuf_slice(&out));
        pack_read(&c, back, n);
        assert_false(c.bad);
        assert_int_equal(cursor_left(&c), 0);
        assert_memory_equal(v, back, n * sizeof *v);
        for (size_t cut = 0; cut < out.n; cut++) {
            c = cursor_of(slice_of(out.p, cut));
            pack_read(&c, back, n);
            assert_true(c.bad);
        }
        strbuf_fini(&out);
    }
}

/* The nth allocation fails while writing or reading: a clean error, and the same call works afterwards. */
static void test_no_memory(void **state)
{
    (void)state;
    uint64_t seed = 5;
    struct registry *r = registry_create();
    struct batch *a = random_batch(r, &seed, 10);
    bool done = false;
    for (unsigned nth = 1; !done; nth++) {
        struct block_writer *w = block_writer_create();
        struct strbuf out = {0};
        size_t i = 0;
        mem_fail_after(nth);
        done = true;
        while (i < a->n) {
            if (block_writer_add(w, &a->events[i]) == 0)
                i++;
            else
                done = false; /* once: the same event is added again */
        }
        while (block_writer_finish(w, &a->origin, &out) < 0)
            done = false;
        struct registry *r2 = registry_create();
        struct batch *b = NULL;
        int rc = r2 ? 0 : -ENOMEM;
        if (r2) {
            struct batch_builder *builder = batch_builder_create(r2, 0);
            if (builder) {
                rc = block_decode(strbuf_slice(&out), builder, NULL);
                b = batch_builder_finish(builder, NULL);
            }
            batch_builder_destroy(builder);
        }
        mem_fail_after(0);
        if (rc == 0 && b)
            assert_same(a, b);
        else
            done = false;
        batch_unref(b);
        registry_destroy(r2);
        strbuf_fini(&out);
        block_writer_destroy(w);
    }
    batch_unref(a);
    registry_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_damage_is_seen),
        cmocka_unit_test(test_lies_are_refused), cmocka_unit_test(test_full),
        cmocka_unit_test(test_no_strings),
        cmocka_unit_test(test_resync),           cmocka_unit_test(test_pack),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
