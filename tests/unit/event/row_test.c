/* SPDX-License-Identifier: Apache-2.0 */
/* block_writer_add_row must make the very block that block_writer_add makes of the same events. */
#include "unit/test.h"

#include "base/mem.h"
#include "event/block.h"

#include <errno.h>
#include <math.h>

enum { FIELDS = 5, SCHEMAS = 3, EVENTS = 3000 };

static struct schema *schemas[SCHEMAS];

static int setup(void **state)
{
    (void)state;
    static const char *const names[SCHEMAS] = {"a", "b", "c"};
    struct field f[FIELDS] = {
        {.name = SLICE_LIT("i"), .type = VALUE_INT},   {.name = SLICE_LIT("t"), .type = VALUE_TEXT},
        {.name = SLICE_LIT("f"), .type = VALUE_FLOAT}, {.name = SLICE_LIT("b"), .type = VALUE_BOOL},
        {.name = SLICE_LIT("u"), .type = VALUE_TEXT},
    };
    for (size_t i = 0; i < SCHEMAS; i++)
        assert_int_equal(schema_create(slice_str(names[i]), f, FIELDS, &schemas[i]), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < SCHEMAS; i++)
        schema_unref(schemas[i]);
    return 0;
}

struct sample {
    struct event event;
    struct value values[FIELDS];
    char text[2][16];
    char words[8 * 16];
    size_t text_bytes;
};

static char *put_word(char *to, const void *word)
{
    memcpy(to, word, 8);
    return to + 8;
}

static char *put_text(char *to, struct value v)
{
    uint32_t n = v.type == VALUE_NONE ? UINT32_MAX : v.n;
    memcpy(to, &n, 4);
    if (v.type == VALUE_TEXT)
        memcpy(to + 4, v.p, v.n);
    return to + ((v.n + 11) & ~(size_t)7);
}

static void make(struct sample *s, uint64_t *random)
{
    static const double floats[] = {0.5, -0.0, 1e300, 2.25, NAN};
    uint64_t r = test_random(random);
    s->values[0] = value_int((int64_t)(r % 7 ? r % 1000 : r));
    s->values[2] = value_float(floats[r / 7 % 5]);
    s->values[3] = value_bool(r >> 20 & 1);
    for (int k = 0; k < 2; k++) {
        size_t n = (r >> (8 + 16 * k)) % 16;
        for (size_t i = 0; i < n; i++)
            s->text[k][i] = (char)('a' + (k ? (r >> i) % 26 : i % 3));
        s->values[k ? 4 : 1] = (r >> (30 + k)) % 8 ? value_text(slice_of(s->text[k], n)) : value_none();
    }
    s->event = (struct event){.time_ns = (int64_t)(r >> 8),
                              .host = SLICE_LIT("host"),
                              .prog = SLICE_LIT("prog"),
                              .schema = schemas[r % SCHEMAS],
                              .values = s->values,
                              .level = (uint8_t)(r % 3 ? LEVEL_INFO : LEVEL_ERROR)};
    char *to = put_word(s->words, &s->values[0].u);
    to = put_text(to, s->values[1]);
    to = put_word(to, &s->values[2].u);
    to = put_word(to, &s->values[3].u);
    (void)put_text(to, s->values[4]);
    s->text_bytes = s->values[1].n + s->values[4].n;
}

static int add_row(struct block_writer *w, const struct sample *s)
{
    return block_writer_add_row(
        w, &(struct block_row){s->event.schema, s->event.time_ns, s->event.level, s->words, s->text_bytes});
}

static void test_same_block(void **state)
{
    (void)state;
    struct block_writer *rows = block_writer_create(), *events = block_writer_create();
    struct strbuf a = {0}, b = {0};
    uint64_t random = 1;
    for (int block = 0; block < 5; block++) {
        block_writer_origin(rows, SLICE_LIT("host"), SLICE_LIT("prog"));
        for (int i = 0; i < EVENTS; i++) {
            struct sample s;
            make(&s, &random);
            assert_int_equal(i % 10 ? add_row(rows, &s) : block_writer_add(rows, &s.event), 0); /* they mix */
            assert_int_equal(block_writer_add(events, &s.event), 0);
            assert_int_equal(block_writer_size(rows), block_writer_size(events));
        }
        strbuf_reset(&a);
        strbuf_reset(&b);
        assert_int_equal(block_writer_finish(rows, NULL, &a), 0);
        assert_int_equal(block_writer_finish(events, NULL, &b), 0);
        assert_int_equal(a.n, b.n);
        assert_memory_equal(a.p, b.p, a.n);
        assert_int_equal(block_check(strbuf_slice(&a)), a.n);
    }
    strbuf_fini(&a);
    strbuf_fini(&b);
    block_writer_destroy(rows);
    block_writer_destroy(events);
}

/* A row that can't be added leaves no trace, whichever allocation fails. */
static void test_out_of_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 120; n++) {
        struct block_writer *rows = block_writer_create(), *events = block_writer_create();
        struct strbuf a = {0}, b = {0};
        uint64_t random = n;
        block_writer_origin(rows, SLICE_LIT("host"), SLICE_LIT("prog"));
        for (int i = 0; i < 300; i++) {
            struct sample s;
            make(&s, &random);
            mem_fail_after(i == 0 ? n % 12 + 1 : i == (int)n ? 1 : i == 2 * (int)n ? 2 : 0);
            int r = add_row(rows, &s);
            mem_fail_after(0);
            if (r == 0)
                assert_int_equal(block_writer_add(events, &s.event), 0);
            else
                assert_int_equal(r, -ENOMEM);
        }
        assert_int_equal(block_writer_finish(rows, NULL, &a), 0);
        assert_int_equal(block_writer_finish(events, NULL, &b), 0);
        /* unused strings may be left in a dictionary: the events are what counts */
        struct registry *registry = registry_create();
        struct batch_builder *builder = batch_builder_create(registry, 0);
        struct batch *both[2];
        for (int k = 0; k < 2; k++) {
            struct strbuf *from = k ? &b : &a;
            assert_int_equal(block_check(strbuf_slice(from)), from->n);
            assert_int_equal(block_decode(strbuf_slice(from), builder, NULL), 0);
            both[k] = batch_builder_finish(builder, NULL);
        }
        assert_int_equal(both[0]->n, both[1]->n);
        for (size_t i = 0; i < both[0]->n; i++)
            assert_true(event_eq(&both[0]->events[i], &both[1]->events[i]));
        batch_unref(both[0]);
        batch_unref(both[1]);
        batch_builder_destroy(builder);
        registry_destroy(registry);
        strbuf_fini(&a);
        strbuf_fini(&b);
        block_writer_destroy(rows);
        block_writer_destroy(events);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_block),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
