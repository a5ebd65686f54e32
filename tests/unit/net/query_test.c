/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of a query and the pieces of a result: there and back, cut at every byte, and what they refuse.
 */
#include "unit/test.h"

#include "event/query.h"
#include "net/query.h"

#include <math.h>

static struct slice payload_of(const struct strbuf *out, uint8_t type)
{
    struct frame f;
    assert_int_equal(frame_read(strbuf_slice(out), FRAME_PAYLOAD_MAX, &f), out->n);
    assert_int_equal(f.type, type);
    return f.payload;
}

static void query_goes_there_and_back(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct args_writer options = {0};
    struct frame_query got;
    args_add_uint(&options, "rows", 7);
    frame_put_query(&out, &(struct frame_query){9, SLICE_LIT("SELECT 1"), args_of(&options)});
    struct slice p = payload_of(&out, FRAME_QUERY);
    assert_int_equal(frame_get_query(p, &got), 0);
    assert_int_equal(got.id, 9);
    assert_slice(got.text, "SELECT 1");
    assert_int_equal(args_uint(got.options, "rows", 0), 7);
    size_t without_options = 4 + 1 + strlen("SELECT 1");
    for (size_t n = 0; n < p.n; n++)
        assert_int_equal(frame_get_query(slice_of(p.p, n), &got), n == without_options ? 0 : E_PROTO);
    args_writer_fini(&options);
    strbuf_fini(&out);
}

static void a_text_has_limits(void **state)
{
    (void)state;
    struct strbuf out = {0}, text = {0};
    struct frame_query got;
    for (size_t i = 0; i <= QUERY_TEXT_MAX; i++)
        strbuf_add_char(&text, ' ');
    frame_put_query(&out, &(struct frame_query){.text = strbuf_slice(&text)});
    assert_int_equal(frame_get_query(payload_of(&out, FRAME_QUERY), &got), E_PROTO);
    strbuf_reset(&out);
    frame_put_query(&out, &(struct frame_query){.text = slice_of(text.p, QUERY_TEXT_MAX)});
    assert_int_equal(frame_get_query(payload_of(&out, FRAME_QUERY), &got), 0);
    strbuf_reset(&out);
    frame_put_query(&out, &(struct frame_query){.text = SLICE_LIT("SELECT '\xff'")});
    assert_int_equal(frame_get_query(payload_of(&out, FRAME_QUERY), &got), E_PROTO);
    strbuf_fini(&out);
    strbuf_fini(&text);
}

static void the_others_go_there_and_back(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct frame_query_end end = {3, 5, SLICE_LIT("no"), 12, 100, 2, {0}};
    const struct frame_query_progress progress = {4, UINT64_MAX, 500};
    struct frame_query_end got_end;
    struct frame_query_progress got_progress;
    uint32_t id;
    frame_put_query_end(&out, &end);
    struct slice p = payload_of(&out, FRAME_QUERY_END);
    for (size_t n = 0; n < p.n; n++)
        assert_int_equal(frame_get_query_end(slice_of(p.p, n), &got_end), E_PROTO);
    assert_int_equal(frame_get_query_end(p, &got_end), 0);
    assert_int_equal(got_end.id, 3);
    assert_int_equal(got_end.status, 5);
    assert_slice(got_end.text, "no");
    assert_int_equal(got_end.column, 12);
    assert_int_equal(got_end.rows, 100);
    assert_int_equal(got_end.lost, 2);
    assert_int_equal(got_end.notices.n, 0); /* nor are there any bytes of them, as in earlier senders' */
    size_t without = p.n;
    strbuf_reset(&out);
    notices_add(&end.notices, "retention", "data from %s on", "09:00");
    end.notices.left_out = 3;
    frame_put_query_end(&out, &end);
    p = payload_of(&out, FRAME_QUERY_END);
    for (size_t n = without + 1; n < p.n; n++)
        assert_int_equal(frame_get_query_end(slice_of(p.p, n), &got_end), E_PROTO);
    assert_int_equal(frame_get_query_end(p, &got_end), 0);
    assert_int_equal(got_end.notices.n, 1);
    assert_int_equal(got_end.notices.left_out, 3);
    assert_string_equal(got_end.notices.list[0].code, "retention");
    assert_string_equal(got_end.notices.list[0].text, "data from 09:00 on");
    strbuf_reset(&out);
    frame_put_query_progress(&out, &progress);
    p = payload_of(&out, FRAME_QUERY_PROGRESS);
    for (size_t n = 0; n < p.n; n++)
        assert_int_equal(frame_get_query_progress(slice_of(p.p, n), &got_progress), E_PROTO);
    assert_int_equal(frame_get_query_progress(p, &got_progress), 0);
    assert_int_equal(got_progress.id, 4);
    assert_true(got_progress.rows_seen == UINT64_MAX);
    assert_int_equal(got_progress.elapsed_ms, 500);
    strbuf_reset(&out);
    frame_put_query_cancel(&out, 77);
    p = payload_of(&out, FRAME_QUERY_CANCEL);
    assert_int_equal(frame_get_query_cancel(slice_of(p.p, 3), &id), E_PROTO);
    assert_int_equal(frame_get_query_cancel(p, &id), 0);
    assert_int_equal(id, 77);
    strbuf_fini(&out);
}

static const struct value row[] = {
    {.type = VALUE_NONE},
    {.i = INT64_MIN, .type = VALUE_INT},
    {.f = -0.5, .type = VALUE_FLOAT},
    {.p = "\xc3\xa4", .n = 2, .type = VALUE_TEXT},
    {.p = "\0\xff", .n = 2, .type = VALUE_BYTES},
};
enum { COLUMNS = sizeof row / sizeof *row };
static const struct slice names[COLUMNS] = {{"a", 1}, {"", 0}, {"count(*)", 8}, {"d", 1}, {"d", 1}};

static void put_rows(struct strbuf *out, bool has_names, size_t n)
{
    strbuf_reset(out);
    result_begin(out, has_names ? names : NULL, has_names ? COLUMNS : 0);
    for (size_t i = 0; i < n * COLUMNS; i++)
        result_put(out, row[i % COLUMNS]);
}

static void rows_go_there_and_back(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct result_piece p;
    struct slice name;
    struct value got[COLUMNS];
    put_rows(&out, true, 3);
    assert_int_equal(result_read(strbuf_slice(&out), 0, &p), 0);
    assert_true(p.has_columns);
    assert_int_equal(p.n_columns, COLUMNS);
    assert_int_equal(p.n_rows, 3);
    for (size_t i = 0; i < COLUMNS; i++) {
        assert_true(result_next_name(&p.names, &name));
        assert_true(slice_eq(name, names[i]));
    }
    assert_false(result_next_name(&p.names, &name));
    for (size_t n = 0; n < 3; n++) {
        assert_true(result_next_row(&p.rows, COLUMNS, got));
        for (size_t i = 0; i < COLUMNS; i++)
            assert_true(value_eq(got[i], row[i]));
    }
    assert_false(result_next_row(&p.rows, COLUMNS, got));
    put_rows(&out, false, 1);
    assert_int_equal(result_read(strbuf_slice(&out), COLUMNS, &p), 0);
    assert_false(p.has_columns);
    assert_int_equal(p.n_rows, 1);
    strbuf_fini(&out);
}

/* That of docs/protocol.md. */
static void bytes_are_as_documented(void **state)
{
    (void)state;
    struct strbuf out = {0};
    const struct slice columns[] = {{"a", 1}, {"b", 1}};
    result_begin(&out, columns, 2);
    result_put(&out, value_int(1));
    result_put(&out, value_text(SLICE_LIT("x")));
    assert_true(slice_eq(strbuf_slice(&out), SLICE_LIT("\x01\x01\x02\x01"
                                                       "a\x01"
                                                       "b\x01\x02\x05\x01"
                                                       "x")));
    strbuf_fini(&out);
}

static void pieces_are_checked(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct result_piece p;
    put_rows(&out, true, 0);
    size_t head = out.n;
    put_rows(&out, true, 1);
    for (size_t n = 0; n < out.n; n++)
        assert_int_equal(result_read(slice_of(out.p, n), 0, &p), n == head ? 0 : E_PROTO);
    assert_int_equal(result_read(strbuf_slice(&out), COLUMNS, &p), E_PROTO); /* columns come once */
    put_rows(&out, false, 1);
    assert_int_equal(result_read(strbuf_slice(&out), 0, &p), E_PROTO); /* and first */
    assert_int_equal(result_read(strbuf_slice(&out), COLUMNS - 1, &p), E_PROTO);
    out.p[0] = 2;
    assert_int_equal(result_read(strbuf_slice(&out), COLUMNS, &p), E_VERSION);
    assert_int_equal(result_read(SLICE_LIT("\x01\x02"), 1, &p), E_PROTO);
    assert_int_equal(result_read(SLICE_LIT("\x01\x01\x00"), 0, &p), E_PROTO);         /* no column */
    assert_int_equal(result_read(SLICE_LIT("\x01\x01\x81\x10"), 0, &p), E_LIMIT);     /* 2049 of them */
    assert_int_equal(result_read(SLICE_LIT("\x01\x00\x05\x01\xff"), 1, &p), E_PROTO); /* text is UTF-8 */
    assert_int_equal(result_read(SLICE_LIT("\x01\x00\x06\x01\xff"), 1, &p), 0);
    assert_int_equal(result_read(SLICE_LIT("\x01\x00\x02\x01"), 1, &p), E_PROTO); /* uint is not SQL's */
    strbuf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query_goes_there_and_back),    cmocka_unit_test(a_text_has_limits),
        cmocka_unit_test(the_others_go_there_and_back), cmocka_unit_test(rows_go_there_and_back),
        cmocka_unit_test(bytes_are_as_documented),      cmocka_unit_test(pieces_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
