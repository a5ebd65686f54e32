/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a result in every format: whole, in pages, and with what went wrong. */
#include "unit/test.h"

#include "archive/query_rows.h"
#include "net/query.h"

#include <errno.h>

/* A statement at one row, for query_rows_add_step. */
struct sql_statement {
    struct sql_value values[2];
};

struct sql_value sql_value(const struct sql_statement *s, size_t i)
{
    return s->values[i];
}

static const struct slice names[] = {{"host", 4}, {"n", 1}, {"host", 4}};
static const struct value rows[][3] = {
    {{.p = "a\"b", .n = 3, .type = VALUE_TEXT}, {.i = -5, .type = VALUE_INT}, {.type = VALUE_NONE}},
    {{.p = "c,d", .n = 3, .type = VALUE_TEXT},
     {.f = 1.5, .type = VALUE_FLOAT},
     {.p = "\xff", .n = 1, .type = VALUE_BYTES}},
    {{.p = "", .n = 0, .type = VALUE_TEXT},
     {.f = INFINITY, .type = VALUE_FLOAT},
     {.p = "x", .n = 1, .type = VALUE_TEXT}},
};
enum { ROWS = sizeof rows / sizeof *rows, COLUMNS = 3 };

static void add_all(struct query_rows *w, enum query_format format)
{
    assert_int_equal(query_rows_begin(w, format, names, COLUMNS), 0);
    for (size_t i = 0; i < ROWS; i++)
        assert_int_equal(query_rows_add(w, rows[i], NULL), 0);
}

static void expect(enum query_format format, int r, uint64_t lost, const char *text)
{
    struct query_rows w = {0};
    const struct diag why = {.message = "it's over"};
    add_all(&w, format);
    query_rows_end(&w, r, &why, lost, &(struct notices){0});
    assert_slice(strbuf_slice(&w.out), text);
    query_rows_fini(&w);
}

static void notices_are_at_the_end(void **state)
{
    (void)state;
    const char *expected[] = {
        "{\"columns\":[\"host\"],\n\"rows\":[\n],\n\"rows_count\":0,\"lost\":0,\"notices\":"
        "[{\"code\":\"a\",\"text\":\"it's \\\"1\\\"\"},{\"code\":\"b\",\"text\":\"two\"}]}\n",
        "{\"end\":{\"status\":\"done\",\"rows\":0,\"lost\":0,\"notices\":"
        "[{\"code\":\"a\",\"text\":\"it's \\\"1\\\"\"},{\"code\":\"b\",\"text\":\"two\"}]}}\n"};
    struct notices notices = {0};
    notices_add(&notices, "a", "it's \"%d\"", 1);
    notices_add(&notices, "b", "two");
    for (int format = QUERY_JSON; format <= QUERY_NDJSON; format++) {
        struct query_rows w = {0};
        assert_int_equal(query_rows_begin(&w, (enum query_format)format, names, 1), 0);
        query_rows_end(&w, 0, NULL, 0, &notices);
        assert_slice(strbuf_slice(&w.out), expected[format]);
        query_rows_fini(&w);
    }
}

static void json(void **state)
{
    (void)state;
    expect(QUERY_JSON, 0, 0,
           "{\"columns\":[\"host\",\"n\",\"host\"],\n\"rows\":[\n[\"a\\\"b\",-5,null],\n[\"c,d\",1.5,\"/"
           "w==\"],\n"
           "[\"\",\"Inf\",\"x\"]\n],\n\"rows_count\":3,\"lost\":0}\n");
    expect(QUERY_JSON, -ETIMEDOUT, 7,
           "{\"columns\":[\"host\",\"n\",\"host\"],\n\"rows\":[\n[\"a\\\"b\",-5,null],\n[\"c,d\",1.5,\"/"
           "w==\"],\n"
           "[\"\",\"Inf\",\"x\"]\n],\n\"rows_count\":3,\"lost\":7,\"error\":\"it's over\"}\n");
}

static void ndjson(void **state)
{
    (void)state;
    expect(
        QUERY_NDJSON, 0, 1,
        "{\"host\":\"a\\\"b\",\"n\":-5,\"host_3\":null}\n{\"host\":\"c,d\",\"n\":1.5,\"host_3\":\"/w==\"}\n"
        "{\"host\":\"\",\"n\":\"Inf\",\"host_3\":\"x\"}\n{\"end\":{\"status\":\"done\",\"rows\":3,\"lost\":1}"
        "}\n");
    expect(
        QUERY_NDJSON, E_LIMIT, 0,
        "{\"host\":\"a\\\"b\",\"n\":-5,\"host_3\":null}\n{\"host\":\"c,d\",\"n\":1.5,\"host_3\":\"/w==\"}\n"
        "{\"host\":\"\",\"n\":\"Inf\",\"host_3\":\"x\"}\n"
        "{\"end\":{\"status\":\"failed\",\"rows\":3,\"lost\":0,\"text\":\"it's over\"}}\n");
}

static void csv(void **state)
{
    (void)state;
    expect(QUERY_CSV, 0, 0, "host,n,host\r\n\"a\"\"b\",-5,\r\n\"c,d\",1.5,/w==\r\n\"\",Inf,x\r\n");
}

static void a_name_of_a_name(void **state)
{
    (void)state;
    const struct slice same[] = {{"a", 1}, {"a", 1}, {"a_2", 3}, {"a", 1}};
    const struct value values[4] = {{.i = 1, .type = VALUE_INT}, {.type = 0}, {.type = 0}, {.type = 0}};
    struct query_rows w = {0};
    assert_int_equal(query_rows_begin(&w, QUERY_NDJSON, same, 4), 0);
    assert_int_equal(query_rows_add(&w, values, NULL), 0);
    assert_slice(strbuf_slice(&w.out), "{\"a\":1,\"a_2_2\":null,\"a_2\":null,\"a_4\":null}\n");
    query_rows_fini(&w);
}

/* Pages one behind the other are the result; each binary one stands alone. */
static void pages(void **state)
{
    (void)state;
    for (int format = QUERY_JSON; format <= QUERY_BINARY; format++) {
        struct query_rows whole = {0}, w = {0};
        struct strbuf all = {0}, page = {0};
        struct result_piece p;
        uint64_t n_rows = 0;
        add_all(&whole, (enum query_format)format);
        query_rows_end(&whole, 0, NULL, 0, &(struct notices){0});
        assert_int_equal(query_rows_begin(&w, (enum query_format)format, names, COLUMNS), 0);
        for (size_t i = 0; i < ROWS; i++) {
            assert_int_equal(query_rows_add(&w, rows[i], NULL), 0);
            if (i + 1 == ROWS)
                query_rows_end(&w, 0, NULL, 0, &(struct notices){0});
            query_rows_take(&w, &page);
            if (format == QUERY_BINARY) {
                assert_int_equal(result_read(strbuf_slice(&page), i ? COLUMNS : 0, &p), 0);
                n_rows += p.n_rows;
            }
            strbuf_add_slice(&all, strbuf_slice(&page));
            strbuf_fini(&page);
        }
        if (format == QUERY_BINARY)
            assert_int_equal(n_rows, ROWS);
        else
            assert_true(slice_eq(strbuf_slice(&all), strbuf_slice(&whole.out)));
        assert_int_equal(w.rows, ROWS);
        query_rows_fini(&whole);
        query_rows_fini(&w);
        strbuf_fini(&all);
    }
}

static void limits(void **state)
{
    (void)state;
    struct query_rows w = {0};
    struct diag why = {0};
    char *large = calloc(1, RESULT_ROW_MAX);
    struct value values[3] = {
        {.p = large, .n = RESULT_ROW_MAX - 100, .type = VALUE_BYTES}, {.type = 0}, {.type = 0}};
    assert_non_null(large);
    assert_int_equal(query_rows_begin(&w, QUERY_BINARY, names, RESULT_COLUMNS_MAX + 1), E_LIMIT);
    query_rows_fini(&w);
    assert_int_equal(query_rows_begin(&w, QUERY_BINARY, names, COLUMNS), 0);
    assert_int_equal(query_rows_add(&w, values, &why), 0);
    values[0].n = RESULT_ROW_MAX;
    assert_int_equal(query_rows_add(&w, values, &why), E_LIMIT);
    assert_non_null(strstr(why.message, "row 2"));
    assert_int_equal(w.rows, 1);
    /* The largest row behind a page that is almost full still fits into a frame. */
    _Static_assert(QUERY_PAGE + RESULT_ROW_MAX + 64 <= FRAME_PAYLOAD_MAX, "a frame");
    query_rows_fini(&w);
    free(large);
}

static void what_sql_gives(void **state)
{
    (void)state;
    struct query_rows w = {0};
    const struct sql_statement texts = {
        {{.kind = SQL_TEXT, .text = SLICE_LIT("\xc3\xa4")}, {.kind = SQL_TEXT, .text = SLICE_LIT("\xe4")}}};
    const struct sql_statement numbers = {{{.kind = SQL_INT, .i = INT64_MAX}, {.kind = SQL_NULL}}};
    const struct sql_statement others = {
        {{.kind = SQL_FLOAT, .f = 0.1}, {.kind = SQL_BYTES, .text = SLICE_LIT("")}}};
    assert_int_equal(query_rows_begin(&w, QUERY_NDJSON, names, 2), 0);
    assert_int_equal(query_rows_add_step(&w, &texts, NULL), 0);
    assert_int_equal(query_rows_add_step(&w, &numbers, NULL), 0);
    assert_int_equal(query_rows_add_step(&w, &others, NULL), 0);
    assert_slice(strbuf_slice(&w.out),
                 "{\"host\":\"\xc3\xa4\",\"n\":\"5A==\"}\n{\"host\":9223372036854775807,\"n\":null}\n"
                 "{\"host\":0.1,\"n\":\"\"}\n");
    query_rows_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json),   cmocka_unit_test(notices_are_at_the_end), cmocka_unit_test(ndjson),
        cmocka_unit_test(csv),    cmocka_unit_test(a_name_of_a_name),       cmocka_unit_test(pages),
        cmocka_unit_test(limits), cmocka_unit_test(what_sql_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
