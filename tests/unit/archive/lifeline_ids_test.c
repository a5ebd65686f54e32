/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "archive/lifeline_ids.h"
#include "event/stream_key.h"

static void declarations(void **state)
{
    (void)state;
    struct id_set s;
    assert_int_equal(id_set_parse(NULL, &s, NULL), 0);
    assert_int_equal(s.n, 1);
    assert_slice(s.declared[0].name, "id");
    assert_int_equal(s.declared[0].events.n, 0);
    id_set_fini(&s);

    assert_int_equal(id_set_parse("id, job+task@slurm.* ,job@pbs.*", &s, NULL), 0);
    assert_int_equal(s.n, 3);
    assert_slice(s.declared[1].name, "job+task");
    assert_int_equal(s.declared[1].n_fields, 2);
    assert_slice(s.declared[1].fields[1], "task");
    assert_slice(s.declared[1].events, "slurm.*");
    assert_slice(s.declared[2].name, "job");
    assert_int_equal(s.n_fields, 3); /* job once */
    assert_string_equal(s.fields[1], "job");
    id_set_fini(&s);
}

static void wrong_declarations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t col;
    } wrong[] = {{"", 1},    {"id,", 4},     {"id,,job", 4}, {"a+", 1},        {"a b", 1},
                 {"id@", 1}, {"x,id@[a", 3}, {"+", 1},       {"a+b+c+d+e", 1}, {"\x01", 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct id_set s;
        struct diag why = {.col = 0};
        assert_true(id_set_parse(wrong[i].text, &s, &why) < 0);
        assert_int_equal(why.col, wrong[i].col);
        assert_true(why.message[0] != '\0');
    }
    struct strbuf many = {0};
    for (int i = 0; i <= ID_DECLARED_MAX; i++)
        strbuf_printf(&many, "%sf%d", i ? "," : "", i);
    struct id_set s;
    assert_int_equal(id_set_parse(many.p, &s, NULL), E_LIMIT);
    strbuf_fini(&many);
}

static const struct field columns[] = {
    {.name = {"job", 3}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_INT, .role = ROLE_KEY},
    {.name = {"task", 4}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_TEXT},
    {.name = {"task", 4}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_FLOAT},
    {.name = {"id", 2}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_TEXT},
};

/* A key field and a column of two types together; values that have the separator. */
static void ids_of_rows(void **state)
{
    (void)state;
    struct schema *schema;
    assert_int_equal(schema_create(SLICE_LIT("slurm.step"), columns, 1, &schema), 0);
    struct value job = value_int(-17);
    struct event e = {.host = SLICE_LIT("h"), .prog = SLICE_LIT("p"), .schema = schema, .values = &job};
    struct strbuf key = {0}, scratch = {0};
    stream_key_put(&key, &e);

    struct table_def table = {.name = SLICE_LIT("slurm.step"), .columns = columns, .n_columns = 4};
    const uint32_t ends[] = {1, 1, 7, 7}, id_ends[] = {0, 0, 600, 603};
    const double numbers[] = {0, 1.5, 0, 0};
    const uint64_t has_text = 5, has_number = 2, has_id = 13;
    char ids[603];
    memset(ids, 'x', sizeof ids);
    const struct column c[] = {
        {.id = 1, .type = VALUE_TEXT, .ends = ends, .bytes = "aa+b\\+c", .present = &has_text},
        {.id = 2, .type = VALUE_FLOAT, .f = numbers, .present = &has_number},
        {.id = 3, .type = VALUE_TEXT, .ends = id_ends, .bytes = ids, .present = &has_id},
    };
    struct rows rows = {.n = 4, .n_columns = 3, .columns = c};

    struct id_set s;
    assert_int_equal(id_set_parse("job+task@other,id,job+task@slurm.*,job+task,none", &s, NULL), 0);
    struct id_place places[ID_DECLARED_MAX];
    assert_int_equal(id_places(&s, &table, strbuf_slice(&key), &rows, places), 2); /* job+task once */
    assert_int_equal(places[0].number, 1);
    assert_int_equal(places[1].number, 0);
    struct slice id;
    assert_int_equal(id_text(&places[1], 0, &scratch, &id), 1);
    assert_slice(id, "-17+a");
    assert_int_equal(id_text(&places[1], 1, &scratch, &id), 1);
    assert_slice(id, "-17+1.5");
    assert_int_equal(id_text(&places[1], 2, &scratch, &id), 1);
    assert_slice(id, "-17+a\\+b\\\\\\+c");
    assert_int_equal(id_text(&places[1], 3, &scratch, &id), 0);
    assert_int_equal(id_text(&places[0], 0, &scratch, &id), 0); /* empty */
    assert_int_equal(id_text(&places[0], 1, &scratch, &id), 0); /* missing */
    assert_int_equal(id_text(&places[0], 2, &scratch, &id), E_LIMIT);
    assert_int_equal(id_text(&places[0], 3, &scratch, &id), 1);
    assert_slice(id, "xxx");
    id_set_fini(&s);
    strbuf_fini(&key);
    strbuf_fini(&scratch);
    schema_unref(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(declarations),
        cmocka_unit_test(wrong_declarations),
        cmocka_unit_test(ids_of_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
