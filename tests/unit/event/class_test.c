/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "event/class.h"

static struct class_state begin(const char *name, uint8_t type)
{
    return class_begin(&(struct field){.name = slice_str(name), .type = type});
}

static void test_names(void **state)
{
    (void)state;
    static const char *const ids[] = {"id",      "ID",     "Id",    "a.id", "job_id", "JOB_ID", "guid", "job", "step",
                                      "version", "os_version", "release", "serial", "trace", "span", "parent"};
    static const char *const others[] = {"", "load", "idle", "jobs", "steps", "grid", "_idx", "valid", "versions", "size"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (class_by_name(slice_str(ids[i])) != CLASS_TEXT)
            fail_msg("%s is not text", ids[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (class_by_name(slice_str(others[i])) != CLASS_UNKNOWN)
            fail_msg("%s is text", others[i]);
}

static void test_begin(void **state)
{
    (void)state;
    struct class_state s = begin("load", VALUE_NUMBER);
    assert_int_equal(s.class, CLASS_NUMBER);
    assert_int_equal(s.by, CLASS_PROVISIONAL);
    assert_int_equal(begin("state", VALUE_TEXT).class, CLASS_TEXT);
    s = begin("id", VALUE_UINT);
    assert_int_equal(s.class, CLASS_TEXT);
    assert_int_equal(s.by, CLASS_BY_NAME);
    s = class_begin(&(struct field){.name = SLICE_LIT("disk"), .type = VALUE_INT, .role = ROLE_KEY});
    assert_int_equal(s.class, CLASS_TEXT);
    s = class_begin(&(struct field){.name = SLICE_LIT("job"), .type = VALUE_UINT, .kind = KIND_COUNTER});
    assert_int_equal(s.class, CLASS_NUMBER); /* declared wins over the name */
    assert_int_equal(s.by, CLASS_DECLARED);
    s = class_begin(&(struct field){.name = SLICE_LIT("t"), .type = VALUE_TEXT, .kind = KIND_TEXT});
    assert_true(class_is_open(&s)); /* a learned text has a kind, too */
}

static void test_decides_once(void **state)
{
    (void)state;
    struct class_state s = begin("latency", VALUE_FLOAT);
    for (int i = 0; i < CLASS_VALUES - 1; i++)
        (void)class_count(&s, i % 3 ? value_float(1.5) : value_text(SLICE_LIT("-")), i + 1);
    assert_int_equal(s.by, CLASS_PROVISIONAL);
    assert_true(class_count(&s, value_int(1), CLASS_VALUES));
    assert_int_equal(s.by, CLASS_DECIDED);
    assert_int_equal(s.class, CLASS_NUMBER);
    for (int i = 0; i < 10000; i++)
        assert_false(class_count(&s, value_text(SLICE_LIT("ok")), 10000));
    assert_int_equal(s.class, CLASS_NUMBER);
}

static void test_decides_after_an_hour(void **state)
{
    (void)state;
    struct class_state s = begin("status", VALUE_TEXT);
    assert_false(class_count(&s, value_text(SLICE_LIT("ok")), 5));
    assert_false(class_count(&s, value_none(), 5 + CLASS_NS));
    assert_true(class_count(&s, value_int(17), 5 + CLASS_NS));
    assert_int_equal(s.by, CLASS_DECIDED);
    assert_int_equal(s.class, CLASS_TEXT); /* one of two is not more than half */
}

static void test_quoted_numbers_count_for_neither(void **state)
{
    (void)state;
    struct class_state s = begin("n", VALUE_INT);
    for (int i = 0; i < 10; i++)
        (void)class_count(&s, value_text(SLICE_LIT("17")), 1);
    (void)class_count(&s, value_int(17), 1);
    assert_int_equal(s.class, CLASS_NUMBER);
    assert_int_equal(s.quoted, 10);
    assert_int_equal(s.texts, 0);
}

static void test_values(void **state)
{
    (void)state;
    char buf[VALUE_SPELLING_MAX];
    struct value number = value_untyped(SLICE_LIT("0.50"));
    assert_true(value_eq(class_value(CLASS_NUMBER, number, buf), value_float(0.5)));
    assert_true(value_eq(class_value(CLASS_TEXT, number, buf), value_text(SLICE_LIT("0.50"))));
    assert_true(value_eq(class_value(CLASS_UNKNOWN, number, buf), number));
    assert_int_equal(class_value(CLASS_NUMBER, value_text(SLICE_LIT("17")), buf).type, VALUE_NONE);
    assert_true(value_eq(class_value(CLASS_TEXT, value_uint(17), buf), value_text(SLICE_LIT("17"))));
    assert_true(value_eq(class_value(CLASS_TEXT, value_float(17), buf), value_text(SLICE_LIT("17.0"))));
    assert_int_equal(class_value(CLASS_TEXT, value_bytes(SLICE_LIT("\xff")), buf).type, VALUE_BYTES);
}

static void test_words(void **state)
{
    (void)state;
    uint8_t class = CLASS_UNKNOWN;
    assert_int_equal(class_parse(SLICE_LIT("number"), &class), 0);
    assert_int_equal(class, CLASS_NUMBER);
    assert_string_equal(class_name(class), "number");
    assert_int_equal(class_parse(SLICE_LIT("Text"), &class), E_PROTO);
    assert_string_equal(class_by_text(CLASS_BY_HAND), "by hand");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_begin),
                                       cmocka_unit_test(test_decides_once),
                                       cmocka_unit_test(test_decides_after_an_hour),
                                       cmocka_unit_test(test_quoted_numbers_count_for_neither),
                                       cmocka_unit_test(test_values),
                                       cmocka_unit_test(test_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
