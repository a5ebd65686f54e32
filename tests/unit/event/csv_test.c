/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/event/trip.h"

static struct trip trip;

static int setup(void **state)
{
    (void)state;
    trip_init(&trip, &encoding_csv);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    trip_fini(&trip);
    return 0;
}

static void add(const char *name, const char *host, const struct named_value *values, size_t n)
{
    struct event_head head = {.time_ns = 1794777628123456000,
                              .name = slice_str(name),
                              .host = slice_str(host),
                              .prog = {"", 0},
                              .level = LEVEL_INFO};
    assert_int_equal(batch_builder_add(trip.builder, &head, values, n, NULL), 0);
}

/* Writes what was added, in one batch, with these columns (NULL = the first event's). */
static void check(const struct slice *columns, size_t n, uint64_t left_out, const char *expected)
{
    struct encoder *e;
    struct strbuf out = {0};
    struct batch *b = batch_builder_finish(trip.builder, NULL);
    assert_int_equal(encoder_create(&encoding_csv, &e), 0);
    if (columns)
        assert_int_equal(encoder_csv_columns(e, columns, n), 0);
    if (b)
        assert_int_equal(encoder_run(e, b, &out), 0);
    assert_int_equal(encoder_end(e, &out), 0);
    assert_string_equal(out.p, expected);
    assert_int_equal(encoder_csv_left_out(e), left_out);
    encoder_destroy(e);
    strbuf_fini(&out);
    batch_unref(b);
}

#define NV(name, value)                \
    {                                  \
        {name, sizeof name - 1}, value \
    }
#define ROW "2026-11-15T21:20:28.123456Z,,,info,"

static void test_types(void **state)
{
    (void)state;
    const struct named_value values[] = {
        NV("i", value_int(INT64_MIN)),
        NV("u", value_uint(UINT64_MAX)),
        NV("f", value_float(1.5)),
        NV("n", value_float(-INFINITY)),
        NV("b", value_bool(true)),
        NV("t", value_text(SLICE_LIT("plain"))),
        NV("y", value_bytes(SLICE_LIT("\xff\xfe"))),
        NV("z", value_bytes(SLICE_LIT(""))),
    };
    add("types", "", values, sizeof values / sizeof *values);
    check(NULL, 0, 0,
          "time,host,prog,level,name,i,u,f,n,b,t,y,z\r\n" ROW
          "types,-9223372036854775808,18446744073709551615,1.5,-Inf,true,plain,//4=,\"\"\r\n");
}

static void test_quotes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *written;
    } cases[] = {
        {"", "\"\""},           {"plain", "plain"},       {"two words", "two words"},
        {" lead", "\" lead\""}, {"trail ", "\"trail \""}, {"a,b", "\"a,b\""},
        {"a\"b", "\"a\"\"b\""}, {"\"", "\"\"\"\""},       {"a\nb", "\"a\nb\""},
        {"a\rb", "\"a\rb\""},   {"=1+1", "=1+1"},         {"-x", "-x"},
        {"@x", "@x"},           {"tab\tx", "tab\tx"},     {"\xc3\xa4", "\xc3\xa4"},
    };
    struct strbuf expected = {0};
    strbuf_add_str(&expected, "time,host,prog,level,name,text\r\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct named_value v = NV("text", value_text(slice_str(cases[i].text)));
        add("quotes", "", &v, 1);
        strbuf_printf(&expected, ROW "quotes,%s\r\n", cases[i].written);
    }
    check(NULL, 0, 0, expected.p);
    strbuf_fini(&expected);
}

/* Missing is empty, empty text is not; a host is quoted as text is; what has no column is counted. */
static void test_columns(void **state)
{
    (void)state;
    const struct named_value first[] = {NV("a", value_int(1)), NV("b", value_text(SLICE_LIT("")))};
    const struct named_value later[] = {NV("b", value_text(SLICE_LIT("x"))), NV("c", value_int(3)),
                                        NV("d", value_int(4))};
    add("columns", "a,\"b\"", first, 2);
    add("other", "", later, 3);
    add("none", "", NULL, 0);
    check(NULL, 0, 2,
          "time,host,prog,level,name,a,b\r\n"
          "2026-11-15T21:20:28.123456Z,\"a,\"\"b\"\"\",,info,columns,1,\"\"\r\n" ROW "other,,x\r\n" ROW
          "none,,\r\n");
}

/* In the order they were given; one given twice is one. */
static void test_given_columns(void **state)
{
    (void)state;
    const struct slice columns[] = {SLICE_LIT("c"), SLICE_LIT("a"), SLICE_LIT("c"), SLICE_LIT("host")};
    const struct named_value values[] = {NV("a", value_int(1)), NV("b", value_int(2)),
                                         NV("host", value_int(9))};
    add("given", "h", values, 3);
    check(columns, 4, 1,
          "time,host,prog,level,name,c,a,$host\r\n2026-11-15T21:20:28.123456Z,h,,info,given,,1,9\r\n");
    check(columns, 2, 0, "time,host,prog,level,name,c,a\r\n"); /* no event */
    check(columns, 0, 0, "time,host,prog,level,name\r\n");
}

/* A field that is now a number and then text is one column. */
static void test_two_types(void **state)
{
    (void)state;
    const struct named_value number = NV("v", value_int(1)), text = NV("v", value_text(SLICE_LIT("one")));
    add("two", "", &number, 1);
    add("two", "", &text, 1);
    add("two", "", &number, 1);
    check(NULL, 0, 0, "time,host,prog,level,name,v\r\n" ROW "two,1\r\n" ROW "two,one\r\n" ROW "two,1\r\n");
    /* now the schema has both from the start */
    add("two", "", &text, 1);
    check(NULL, 0, 0, "time,host,prog,level,name,v\r\n" ROW "two,one\r\n");
}

static void test_column_errors(void **state)
{
    (void)state;
    struct encoder *e;
    const struct slice good = SLICE_LIT("a"), bad = SLICE_LIT("a b");
    assert_int_equal(encoder_create(&encoding_csv, &e), 0);
    assert_int_equal(encoder_csv_columns(e, &bad, 1), E_PROTO);
    assert_int_equal(encoder_csv_columns(e, &good, 1), 0);
    assert_int_equal(encoder_csv_columns(e, &good, 1), -EBUSY); /* a file has one set */
    encoder_destroy(e);
    assert_null(encoding_csv.decoder);
}

static void test_no_memory(void **state)
{
    (void)state;
    uint64_t seed = 3;
    struct batch *b = trip_random_batch(&trip, 20, &seed);
    for (uint64_t n = 1, failed = 1; failed; n++) {
        struct encoder *e = NULL;
        struct strbuf out = {0};
        mem_fail_after(n);
        int rc = encoder_create(&encoding_csv, &e);
        if (rc == 0)
            rc = encoder_run(e, b, &out);
        mem_fail_after(0);
        failed = rc < 0;
        assert_true(rc == 0 || rc == -ENOMEM);
        encoder_destroy(e);
        strbuf_fini(&out);
    }
    batch_unref(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),     cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_columns),   cmocka_unit_test(test_given_columns),
        cmocka_unit_test(test_two_types), cmocka_unit_test(test_column_errors),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
