/* SPDX-License-Identifier: Apache-2.0 */
/* Where a statement ends. */
#include "unit/test.h"

#include "cmd/sql_text.h"

static void ends(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t end;
    } all[] = {
        {"", 0},
        {"SELECT 1", 0},
        {"SELECT 1;", 9},
        {"SELECT 1; SELECT 2;", 9},
        {"SELECT ';';", 11},
        {"SELECT 'it''s; it';x", 19},
        {"SELECT \";\", `;`, [;] ;", 22},
        {"SELECT ';", 0},
        {"SELECT [;", 0},
        {"-- ;\nSELECT 1;", 14},
        {"-- ;", 0},
        {"/* ; */;", 8},
        {"/* ; ", 0},
        {"/*/;*/;", 7},
        {"SELECT 1 - -1;", 14},
        {"SELECT 1 / 2;", 13},
        {";", 1},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (sql_text_end(slice_str(all[i].text)) != all[i].end)
            fail_msg("%s ends at %zu", all[i].text, sql_text_end(slice_str(all[i].text)));
}

static void nothing_in_it(void **state)
{
    (void)state;
    static const char *const empty[] = {"", " \n\t", ";", " ; ;", "-- SELECT 1", "/* a */ ; -- b\n", "/* a"};
    static const char *const not_empty[] = {"x", ";x", "-- a\nx", "/* a */x", "''", "-", "/"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        assert_true(sql_text_is_empty(slice_str(empty[i])));
    for (size_t i = 0; i < sizeof not_empty / sizeof *not_empty; i++)
        assert_false(sql_text_is_empty(slice_str(not_empty[i])));
}

static void points(void **state)
{
    (void)state;
    struct strbuf out = {0};
    sql_text_point(&out, SLICE_LIT("SELECT 1\nFORM \x1b x\nWHERE"), 10);
    assert_slice(strbuf_slice(&out), "  FORM   x\n  ^");
    strbuf_reset(&out);
    sql_text_point(&out, SLICE_LIT("'\xc3\xa4' x"), 6);
    assert_slice(strbuf_slice(&out), "  '\xc3\xa4' x\n      ^");
    strbuf_reset(&out);
    sql_text_point(&out, SLICE_LIT("ab"), 3); /* behind the end: something is missing there */
    assert_slice(strbuf_slice(&out), "  ab\n    ^");
    strbuf_reset(&out);
    sql_text_point(&out, SLICE_LIT("ab"), 0);
    sql_text_point(&out, SLICE_LIT("ab"), 4);
    assert_int_equal(out.n, 0);
    strbuf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ends), cmocka_unit_test(nothing_in_it),
                                       cmocka_unit_test(points)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
