/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "event/batch.h"
#include "gateway/api_position.h"
#include "gateway/api_rows.h"

#include <stdio.h>

static struct strbuf out;

static const char *json_of(struct args row, const char *text)
{
    strbuf_reset(&out);
    rows_put_row(&out, row, slice_str(text));
    return out.p;
}

static void test_json(void **state)
{
    (void)state;
    struct args_writer w = {0};
    args_add_text(&w, "t", SLICE_LIT("a\"b\n"));
    args_add_uint(&w, "u", UINT64_MAX);
    args_add(&w, SLICE_LIT("i"), value_int(-5));
    args_add(&w, SLICE_LIT("f"), value_float(5));
    args_add(&w, SLICE_LIT("nan"), value_float((double)NAN));
    args_add(&w, SLICE_LIT("inf"), value_float((double)-INFINITY));
    args_add(&w, SLICE_LIT("b"), value_bool(true));
    args_add(&w, SLICE_LIT("bytes"), value_bytes(SLICE_LIT("\xff\x00")));
    assert_string_equal(json_of(args_of(&w), ""),
                        "{\"t\":\"a\\\"b\\n\",\"u\":18446744073709551615,\"i\":-5,\"f\":5.0,\"nan\":\"NaN\","
                        "\"inf\":\"-Inf\",\"b\":true,\"bytes\":\"/wA=\"}");
    args_writer_reset(&w);
    assert_string_equal(json_of(args_of(&w), ""), "{}");
    assert_string_equal(json_of(args_of(&w), "why"), "{\"text\":\"why\"}");
    args_add_uint(&w, "a", 1);
    assert_string_equal(json_of(args_of(&w), "why"), "{\"a\":1,\"text\":\"why\"}");
    args_add_uint(&w, "a", 2); /* the last counts, as everywhere */
    args_add_text(&w, "text", SLICE_LIT("own"));
    assert_string_equal(json_of(args_of(&w), "why"), "{\"a\":2,\"text\":\"own\"}");
    args_writer_fini(&w);
}

static void test_csv(void **state)
{
    (void)state;
    struct rows_table t = {0};
    struct args_writer w = {0};
    args_add_uint(&w, "a", 1);
    args_add_text(&w, "b", SLICE_LIT("x,\"y\""));
    rows_table_add(&t, args_of(&w), SLICE_LIT(""));
    args_writer_reset(&w);
    args_add_text(&w, "c", SLICE_LIT(""));
    args_add_uint(&w, "a", 2);
    rows_table_add(&t, args_of(&w), SLICE_LIT("why"));
    strbuf_reset(&out);
    rows_table_put(&t, &out);
    assert_string_equal(out.p, "a,b,c,text\r\n1,\"x,\"\"y\"\"\",,\r\n2,,\"\",why\r\n");
    for (int i = 0; i < ROWS_COLUMNS_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%d", i);
        args_writer_reset(&w);
        args_add_uint(&w, name, 1);
        rows_table_add(&t, args_of(&w), SLICE_LIT(""));
    }
    assert_true(t.has_left_out);
    assert_int_equal(t.n_columns, ROWS_COLUMNS_MAX);
    rows_table_fini(&t);
    args_writer_fini(&w);
}

/* An event as a row, and as JSON. */
static void test_event(void **state)
{
    (void)state;
    struct registry *registry = registry_create();
    struct batch_builder *builder = batch_builder_create(registry, 0);
    const struct named_value values[] = {{SLICE_LIT("host"), value_text(SLICE_LIT("a field"))},
                                         {SLICE_LIT("n"), value_int(1)}};
    const struct event_head head = {
        .time_ns = 1000000000, .name = SLICE_LIT("x"), .host = SLICE_LIT("h"), .level = LEVEL_INFO};
    assert_int_equal(batch_builder_add(builder, &head, values, 2, NULL), 0);
    struct batch *b = batch_builder_finish(builder, NULL);
    strbuf_reset(&out);
    assert_int_equal(rows_put_event(&out, &b->events[0]), 0);
    assert_string_equal(out.p, "{\"time\":\"1970-01-01T00:00:01.000000Z\",\"host\":\"h\",\"level\":\"info\","
                               "\"name\":\"x\",\"$host\":\"a field\",\"n\":1}");
    struct args_writer w = {0};
    rows_of_event(&w, &b->events[0]);
    assert_string_equal(json_of(args_of(&w), ""), out.p);
    struct strbuf same = {0};
    assert_int_equal(rows_put_event(&same, &b->events[0]), 0);
    assert_string_equal(out.p, same.p);
    strbuf_fini(&same);
    args_writer_fini(&w);
    batch_unref(b);
    batch_builder_destroy(builder);
    registry_destroy(registry);
}

static void test_positions(void **state)
{
    (void)state;
    char text[API_POSITION_MAX];
    bool is_elsewhere;
    const struct position p = {UINT64_MAX, UINT32_MAX, UINT32_MAX};
    size_t n = api_position_print(text, UINT64_MAX, p);
    assert_string_equal(text, "ffffffffffffffff.18446744073709551615-4294967295-4294967295");
    assert_int_equal(n, strlen(text));
    assert_slice(api_position_from(slice_str(text), UINT64_MAX, &is_elsewhere),
                 "18446744073709551615-4294967295-4294967295");
    assert_false(is_elsewhere);
    assert_slice(api_position_from(slice_str(text), 7, &is_elsewhere), "oldest");
    assert_true(is_elsewhere);
    static const char *const plain[] = {"",      "oldest", "now",     "5",
                                        "5-0-1", ".5-0-1", "x.5-0-1", "12345678901234567.1-0-0"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        assert_slice(api_position_from(slice_str(plain[i]), 7, &is_elsewhere), plain[i]);
        assert_false(is_elsewhere);
    }
}

static int done(void **state)
{
    (void)state;
    strbuf_fini(&out);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_json), cmocka_unit_test(test_csv),
                                       cmocka_unit_test(test_event), cmocka_unit_test(test_positions)};
    return cmocka_run_group_tests(tests, NULL, done);
}
