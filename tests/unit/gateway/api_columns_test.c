/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "gateway/api_columns.h"

#include <stdio.h>

static void add(struct columns *c, struct args_writer *row)
{
    assert_int_equal(columns_add(c, args_of(row), SLICE_LIT("")), 0);
    args_writer_reset(row);
}

static void assert_block(struct columns *c, const char *text)
{
    struct strbuf out = {0};
    assert_int_equal(columns_put(c, &out), 0);
    assert_string_equal(out.p ? out.p : "", text);
    strbuf_fini(&out);
}

/* One value for all, few, and what some rows do not have. */
static void columns_are_as_short_as_can_be(void **state)
{
    (void)state;
    struct columns *c = columns_create(SLICE_LIT(""));
    struct args_writer row = {0};
    assert_block(c, ""); /* no rows, no block */
    for (int i = 0; i < 3; i++) {
        args_add_text(&row, "host", i == 1 ? SLICE_LIT("b\"") : SLICE_LIT("a"));
        args_add_text(&row, "status", SLICE_LIT("running"));
        if (i == 1)
            args_add(&row, SLICE_LIT("rate"), value_float(0.5));
        add(c, &row);
    }
    assert_block(c, "{\"rows\":3,\"columns\":{\"host\":{\"of\":[\"a\",\"b\\\"\"],\"at\":[0,1,0]},"
                    "\"status\":{\"all\":\"running\"},\"rate\":{\"of\":[null,0.5],\"at\":[0,1,0]}}}\n");
    /* the next block begins anew, and has nothing that none of its rows has */
    args_add_text(&row, "status", SLICE_LIT("idle"));
    add(c, &row);
    assert_block(c, "{\"rows\":1,\"columns\":{\"status\":{\"all\":\"idle\"}}}\n");
    args_writer_fini(&row);
    columns_destroy(c);
    columns_destroy(NULL);
}

/* More different values than are told by numbers: they stand for themselves, also those before. */
static void many_values_are_an_array(void **state)
{
    (void)state;
    struct columns *c = columns_create(SLICE_LIT("n"));
    struct args_writer row = {0};
    struct strbuf expected = {0};
    strbuf_printf(&expected, "{\"rows\":%d,\"columns\":{\"n\":[", COLUMNS_FEW + 3);
    for (int i = 0; i < COLUMNS_FEW + 3; i++) {
        uint64_t n = i == 1 ? 0 : (uint64_t)i;
        args_add_uint(&row, "n", n);
        args_add_uint(&row, "m", n);
        add(c, &row);
        strbuf_printf(&expected, "%s%d", i ? "," : "", (int)n);
    }
    strbuf_add_str(&expected, "]}}\n");
    assert_block(c, expected.p);
    strbuf_fini(&expected);
    args_writer_fini(&row);
    columns_destroy(c);
}

static void only_what_is_wanted(void **state)
{
    (void)state;
    struct columns *c = columns_create(SLICE_LIT("sensor,why,text"));
    struct args_writer row = {0};
    args_add_text(&row, "host", SLICE_LIT("a"));
    args_add_text(&row, "sensor", SLICE_LIT("cpu"));
    args_add_text(&row, "sensors", SLICE_LIT("x"));
    assert_int_equal(columns_add(c, args_of(&row), SLICE_LIT("in words")), 0);
    assert_block(c,
                 "{\"rows\":1,\"columns\":{\"sensor\":{\"all\":\"cpu\"},\"text\":{\"all\":\"in words\"}}}\n");
    args_writer_fini(&row);
    columns_destroy(c);
}

static void the_last_of_a_name_counts(void **state)
{
    (void)state;
    struct columns *c = columns_create(SLICE_LIT(""));
    struct args_writer row = {0};
    for (uint64_t i = 0; i < COLUMNS_FEW + 2; i++) { /* by numbers, and as an array */
        args_add_uint(&row, "n", 1000 + i);
        args_add_uint(&row, "n", i);
        args_add_uint(&row, "k", 7);
        args_add_uint(&row, "k", 8);
        add(c, &row);
    }
    struct strbuf expected = {0};
    strbuf_printf(&expected, "{\"rows\":%d,\"columns\":{\"n\":[", COLUMNS_FEW + 2);
    for (int i = 0; i < COLUMNS_FEW + 2; i++)
        strbuf_printf(&expected, "%s%d", i ? "," : "", i);
    struct strbuf out = {0};
    assert_int_equal(columns_put(c, &out), 0);
    assert_true(slice_starts(strbuf_slice(&out), strbuf_slice(&expected)));
    assert_non_null(strstr(out.p, "],\"k\":{\"of\":[7,8],\"at\":[1,1,1,"));
    strbuf_fini(&out);
    strbuf_fini(&expected);
    args_writer_fini(&row);
    columns_destroy(c);
}

static void blocks_and_names_are_bounded(void **state)
{
    (void)state;
    struct columns *c = columns_create(SLICE_LIT(""));
    struct args_writer row = {0};
    struct strbuf out = {0};
    for (int block = 0; block < 2; block++) {
        int n = 0;
        for (; !columns_full(c); n++) {
            args_add_uint(&row, "n", (uint64_t)n);
            add(c, &row);
        }
        assert_int_equal(n, block ? COLUMNS_ROWS : COLUMNS_FIRST);
        assert_int_equal(columns_put(c, &out), 0);
    }
    char name[32];
    int r = 0;
    for (int i = 0; i < COLUMNS_MAX && r == 0; i++) {
        (void)snprintf(name, sizeof name, "name-%d", i);
        args_add_uint(&row, name, 1);
        r = columns_add(c, args_of(&row), SLICE_LIT(""));
        args_writer_reset(&row);
    }
    assert_int_equal(r, E_LIMIT);
    strbuf_fini(&out);
    args_writer_fini(&row);
    columns_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_short_as_can_be),
        cmocka_unit_test(many_values_are_an_array),
        cmocka_unit_test(only_what_is_wanted),
        cmocka_unit_test(the_last_of_a_name_counts),
        cmocka_unit_test(blocks_and_names_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
