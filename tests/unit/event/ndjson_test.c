/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/event/trip.h"

#include "event/prepared.h"

static struct trip trip;

static int setup(void **state)
{
    (void)state;
    trip_init(&trip, &encoding_ndjson);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    trip_fini(&trip);
    return 0;
}

#define T  "\"time\":\"2026-11-15T21:20:28.123456Z\""
#define TN T ",\"level\":\"info\",\"name\":\"e\""

/* The line is read, and written again as `written`. */
static void check(struct slice line, const char *written)
{
    struct diag why = {0};
    struct batch *b;
    int rc = trip_decode(&trip, line, SIZE_MAX, &b, &why);
    if (rc < 0)
        fail_msg("%.*s: col %u: %s", SLICE_ARG(line), why.col, why.message);
    assert_non_null(b);
    struct strbuf out = trip_encode(&trip, b);
    struct slice got = strbuf_slice(&out);
    if (got.n != strlen(written) + 1 || memcmp(got.p, written, got.n - 1) != 0)
        fail_msg("%.*s\nis     %sand not %s", SLICE_ARG(line), got.p, written);
    trip_there_and_back(&trip, b, SIZE_MAX);
    strbuf_fini(&out);
    batch_unref(b);
}

static void refuse(const char *line, int code, uint32_t col, const char *says)
{
    struct diag why = {0};
    struct batch *b;
    int rc = trip_decode(&trip, slice_str(line), SIZE_MAX, &b, &why);
    if (rc != code || why.col != col || !strstr(why.message, says) || why.line != 1 || b)
        fail_msg("%.200s: %d, line %llu col %u: %s", line, rc, (unsigned long long)why.line, why.col,
                 why.message);
}

/* As we write it: every type, and what "@" has to say of it. */
static void test_as_written(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{" T ",\"host\":\"h\",\"prog\":\"p\",\"level\":\"info\",\"name\":\"cpu\",\"user\":1.5,\"bytes\":12,"
        "\"ok\":true,"
        "\"msg\":\"text\"}",
        "{" TN "}",
        "{\"time\":\"2026-11-15T21:20:28.123456789Z\",\"level\":\"warning\",\"name\":\"e\"}",
        "{\"time\":\"1969-12-31T23:59:59.999999Z\",\"level\":\"info\",\"name\":\"e\"}",
        "{" TN ",\"i\":-9223372036854775808,\"u\":18446744073709551615,\"f\":5.0,\"b\":false}",
        "{" TN ",\"f\":-0.0,\"g\":1e16,\"h\":5e-324,\"k\":1.7976931348623157e308}",
        "{" TN ",\"u\":5,\"v\":\"//"
        "4=\",\"w\":\"NaN\",\"x\":\"-Inf\",\"t\":\"NaN\",\"@\":{\"u\":\"uint\",\"v\":\"bytes\","
        "\"w\":\"float\",\"x\":\"float\"}}",
        "{" TN
        ",\"$time\":1,\"$host\":2,\"$prog\":3,\"$level\":\"odd\",\"$name\":5,\"@\":{\"$host\":\"uint\"}}",
        "{" TN ",\"t\":\"\\\"\\\\\\n\\t\\r\\b\\f\\u0000\\u001b\\u007f/\xe2\x80\xa8\"}",
        "{" TN ",\"t\":\"\",\"b\":\"\",\"@\":{\"b\":\"bytes\"}}",
        "{" TN ",\"u\":9223372036854775807,\"w\":9223372036854775808,\"@\":{\"u\":\"uint\"}}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        check(slice_str(lines[i]), lines[i]);
}

static void test_as_others_write(void **state)
{
    (void)state;
    static const struct {
        const char *read, *written;
    } cases[] = {
        /* order, space, escapes, time in its forms, levels */
        {" { \"x\" : 1 ,\t\"name\":\"e\", " T " } ", "{" TN ",\"x\":1}"},
        {"{\"@\":{\"x\":\"uint\"},\"x\":1,\"name\":\"e\"," T "}", "{" TN ",\"x\":1,\"@\":{\"x\":\"uint\"}}"},
        {"{\"\\u0074ime\":\"2026-11-15T22:20:28.123456\\u002b01:00\",\"n\\u0061me\":\"\\u0065\",\"\\u0078\":"
         "\"\\u0041\"}",
         "{" TN ",\"x\":\"A\"}"},
        {"{\"time\":1794777628.123456,\"name\":\"e\"}", "{" TN "}"},
        {"{\"time\":1794777628,\"name\":\"e\"}",
         "{\"time\":\"2026-11-15T21:20:28.000000Z\",\"level\":\"info\",\"name\":\"e\"}"},
        {"{\"time\":1794777628123,\"name\":\"e\"}",
         "{\"time\":\"2026-11-15T21:20:28.123000Z\",\"level\":\"info\",\"name\":\"e\"}"},
        {"{\"time\":1794777628123.456789,\"name\":\"e\"}",
         "{\"time\":\"2026-11-15T21:20:28.123456789Z\",\"level\":\"info\",\"name\":\"e\"}"},
        {"{\"time\":1794777628123456,\"name\":\"e\"}", "{" TN "}"},
        {"{\"time\":1794777628123456789,\"name\":\"e\"}",
         "{\"time\":\"2026-11-15T21:20:28.123456789Z\",\"level\":\"info\",\"name\":\"e\"}"},
        {"{\"time\":100000000000,\"name\":\"e\"}", /* the first that is ms */
         "{\"time\":\"1973-03-03T09:46:40.000000Z\",\"level\":\"info\",\"name\":\"e\"}"},
        {"{\"time\":-1794777628123,\"name\":\"e\"}",
         "{\"time\":\"1913-02-16T02:39:31.877000Z\",\"level\":\"info\",\"name\":\"e\"}"},
        {"{\"time\":-0.000000001,\"name\":\"e\"}",
         "{\"time\":\"1969-12-31T23:59:59.999999999Z\",\"level\":\"info\",\"name\":\"e\"}"},
        {"{" T ",\"name\":\"e\",\"level\":\"WARN\"}", "{" T ",\"level\":\"warning\",\"name\":\"e\"}"},
        {"{" T ",\"name\":\"e\",\"level\":\"Odd\"}", "{" TN ",\"$level\":\"Odd\"}"},
        {"{" T ",\"name\":\"e\",\"level\":30}", "{" TN ",\"$level\":30}"},
        {"{" T ",\"name\":\"e\",\"level\":null,\"host\":null,\"prog\":\"\"}", "{" TN "}"},
        /* nesting */
        {"{" TN ",\"a\":{\"b\":1,\"c\":{\"d\":\"x\"}},\"e\":2}",
         "{" TN ",\"a.b\":1,\"a.c.d\":\"x\",\"e\":2}"},
        {"{" TN ",\"a\":{},\"b\":{\"c\":{}}}", "{" TN "}"},
        {"{" TN ",\"a\":{\"b\":{\"c\":{\"d\":{\"e\":{\"f\":{\"g\":{\"h\":1}}}}}}}}",
         "{" TN ",\"a.b.c.d.e.f.g.h\":1}"},
        {"{" T ",\"name\":\"e\",\"host\":{\"name\":\"h\"}}", "{" TN ",\"host.name\":\"h\"}"},
        {"{" TN ",\"a\":{\"b\":1},\"@\":{\"a.b\":\"uint\"}}", "{" TN ",\"a.b\":1,\"@\":{\"a.b\":\"uint\"}}"},
        /* null is missing; types that say what is known, or nothing */
        {"{" TN
         ",\"a\":null,\"b\":1,\"@\":{\"a\":\"uint\",\"zz\":\"bytes\",\"b\":\"int\",\"host\":\"text\"}}",
         "{" TN ",\"b\":1}"},
        {"{" TN ",\"a\":5,\"b\":\"infinity\",\"c\":18446744073709551615,\"@\":{\"c\":\"float\",\"b\":"
         "\"float\",\"a\":\"float\"}}",
         "{" TN ",\"a\":5.0,\"b\":\"Inf\",\"c\":1.8446744073709552e19,\"@\":{\"b\":\"float\"}}"},
        /* numbers */
        {"{" TN ",\"a\":18446744073709551616,\"b\":-9223372036854775809,\"c\":1E2,\"e\":1e-400}",
         "{" TN ",\"a\":1.8446744073709552e19,\"b\":-9.223372036854776e18,\"c\":100.0,\"e\":1e-400}"},
        {"{" TN ",\"p\":0.50,\"q\":-0,\"r\":1e-05,\"s\":1.0E+5,\"t\":\".50\",\"u\":\"nan\",\"v\":\"0.50\",\"@"
                "\":{\"t\":\"number\","
         "\"u\":\"number\"}}",
         NULL},
        {"{" TN ",\"a\":\"0.50\",\"@\":{\"a\":\"number\"}}", "{" TN ",\"a\":0.50}"},
        {"{" TN ",\"a\":0.50,\"@\":{\"a\":\"float\"}}", "{" TN ",\"a\":0.5}"},
        /* not UTF-8 */
        {"{" TN ",\"a\":\"\xff\xfe\"}", "{" TN ",\"a\":\"//4=\",\"@\":{\"a\":\"bytes\"}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(slice_str(cases[i].read), cases[i].written ? cases[i].written : cases[i].read);
}

static void test_refused(void **state)
{
    (void)state;
    enum { AFTER = sizeof "{" TN }; /* the column behind them */
    static const struct {
        const char *line;
        int code;
        uint32_t col;
        const char *says;
    } cases[] = {
        {"x", E_PROTO, 1, "value"},
        {"[]", E_PROTO, 1, "object"},
        {"{" TN, E_PROTO, AFTER, "ends"},
        {"{" TN "} {", E_PROTO, AFTER + 2, "follows"},
        {"{\"name\":\"e\"}", E_PROTO, 1, "no \"time\""},
        {"{" T "}", E_PROTO, 1, "no \"name\""},
        {"{" T ",\"name\":\"\"}", E_PROTO, 0, "event name"},
        {"{" T ",\"name\":\"a b\"}", E_PROTO, 0, "event name"},
        {"{" T ",\"name\":5}", E_PROTO, 46, "string"},
        {"{" T ",\"name\":null}", E_PROTO, 46, "needs"},
        {"{" T ",\"name\":{}}", E_PROTO, 46, "string"},
        {"{\"time\":\"yesterday\",\"name\":\"e\"}", E_PROTO, 9, "time"},
        {"{\"time\":1e9,\"name\":\"e\"}", E_PROTO, 9, "time"},
        {"{\"time\":99999999999,\"name\":\"e\"}", E_LIMIT, 9, "1677"},
        {"{\"time\":99999999999999,\"name\":\"e\"}", E_LIMIT, 9, "1677"},
        {"{\"time\":99999999999999999999,\"name\":\"e\"}", E_LIMIT, 9, "1677"},
        {"{\"time\":1794777628123e0,\"name\":\"e\"}", E_PROTO, 9, "time"},
        {"{\"time\":true,\"name\":\"e\"}", E_PROTO, 9, "string"},
        {"{" TN ",\"host\":5}", E_PROTO, AFTER + 8, "string"},
        {"{" TN ",\"host\":\"a\\nb\"}", E_PROTO, 0, "host"},
        {"{" TN "," T "}", E_PROTO, AFTER + 2, "twice"},
        {"{" TN ",\"host\":{\"a\":1},\"host\":\"h\"}", E_PROTO, AFTER + 17, "twice"},
        {"{" TN ",\"a\":1,\"a\":2}", E_PROTO, AFTER + 8, "field a comes twice"},
        {"{" TN ",\"a\":1,\"b\":2,\"a\":\"x\"}", E_PROTO, AFTER + 14, "field a comes twice"},
        {"{" TN ",\"a\":null,\"a\":2}", E_PROTO, AFTER + 11, "field a comes twice"},
        {"{" TN ",\"a\":{\"b\":1},\"a\":{\"c\":1}}", E_PROTO, AFTER + 14, "field a comes twice"},
        {"{" TN ",\"a.b\":1,\"a\":{\"b\":1}}", E_PROTO, AFTER + 15, "field a.b comes twice"},
        {"{" T ",\"name\":\"e\",\"level\":\"odd\",\"$level\":1}", E_PROTO, 65, "field level comes twice"},
        {"{" TN ",\"@\":{},\"@\":{}}", E_PROTO, AFTER + 13, "twice"},
        {"{" TN ",\"@\":1}", E_PROTO, AFTER + 2, "name"},
        {"{" TN ",\"@\":{\"a\":\"decimal\"}}", E_PROTO, AFTER + 10, "type"},
        {"{" TN ",\"a\":\"080\",\"@\":{\"a\":\"number\"}}", E_PROTO, AFTER + 20, "a can't be number"},
        {"{" TN ",\"a\":\"1.5\",\"@\":{\"a\":\"number\"}}", E_PROTO, AFTER + 20, "a can't be number"},
        {"{" TN ",\"@\":{\"a\":{}}}", E_PROTO, AFTER + 10, "type"},
        {"{" TN ",\"a\":-1,\"@\":{\"a\":\"uint\"}}", E_PROTO, AFTER + 17, "a can't be uint"},
        {"{" TN ",\"a\":1.5,\"@\":{\"a\":\"int\"}}", E_PROTO, AFTER + 18, "a can't be int"},
        {"{" TN ",\"a\":\"1.5\",\"@\":{\"a\":\"float\"}}", E_PROTO, AFTER + 20, "a can't be float"},
        {"{" TN ",\"a\":\"A\",\"@\":{\"a\":\"bytes\"}}", E_PROTO, AFTER + 18, "a can't be bytes"},
        {"{" TN ",\"a\":[1]}", E_PROTO, AFTER + 5, "field a is an array"},
        {"{" TN ",\"a\":{\"b\":[]}}", E_PROTO, AFTER + 10, "field a.b is an array"},
        {"{" TN ",\"\":1}", E_PROTO, AFTER + 2, "field name"},
        {"{" TN ",\"a b\":1}", E_PROTO, AFTER + 2, "field name"},
        {"{" TN ",\"$x\":1}", E_PROTO, AFTER + 2, "field name"},
        {"{" TN ",\"a\":{\"$host\":1}}", E_PROTO, AFTER + 7, "field name"},
        {"{" TN ",\"a\":{\"@\":{}}}", E_PROTO, AFTER + 7, "field name"},
        {"{" TN ",\"a\":1e400}", E_LIMIT, AFTER + 5, "too large"},
        {"{" TN ",\"a\":-1e400}", E_LIMIT, AFTER + 5, "too large"},
        {"{" TN ",\"a\":\"\\ud800\"}", E_PROTO, AFTER + 6, "surrogate"},
        {"{" TN ",\"\\q\":1}", E_PROTO, AFTER + 2, "escape"},
        {"{" TN ",\"a\":{\"b\":{\"c\":{\"d\":{\"e\":{\"f\":{\"g\":{\"h\":{\"i\":1}}}}}}}}}", E_LIMIT,
         AFTER + 40, "deeper"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse(cases[i].line, cases[i].code, cases[i].col, cases[i].says);
}

static void add_repeated(struct strbuf *out, char c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        strbuf_add_char(out, c);
}

static void check_limit(struct strbuf *line, int code, const char *says)
{
    struct diag why = {0};
    struct batch *b;
    int rc = trip_decode(&trip, strbuf_slice(line), SIZE_MAX, &b, &why);
    if (rc != code || !strstr(why.message, says))
        fail_msg("%d (not %d): %s", rc, code, why.message);
    if (rc == 0)
        trip_there_and_back(&trip, b, SIZE_MAX);
    batch_unref(b);
    strbuf_fini(line);
}

static struct strbuf line_with_fields(size_t n, const char *value)
{
    struct strbuf line = {0};
    strbuf_add_str(&line, "{" TN);
    for (size_t i = 0; i < n; i++)
        strbuf_printf(&line, ",\"f%zu\":%s", i, value);
    strbuf_add_str(&line, "}");
    return line;
}

static struct strbuf line_with_text(size_t n, char c, const char *type)
{
    struct strbuf line = {0};
    strbuf_add_str(&line, "{" TN ",\"a\":\"");
    add_repeated(&line, c, n);
    strbuf_printf(&line, "\",\"@\":{\"a\":\"%s\"}}", type);
    return line;
}

static struct strbuf line_with_name(size_t outer, size_t inner)
{
    struct strbuf line = {0};
    strbuf_add_str(&line, "{" TN ",\"");
    add_repeated(&line, 'n', outer);
    strbuf_add_str(&line, inner ? "\":{\"" : "\":1}");
    add_repeated(&line, 'm', inner);
    if (inner)
        strbuf_add_str(&line, "\":1}}");
    return line;
}

static void test_limits(void **state)
{
    (void)state;
    struct strbuf line = line_with_fields(EVENT_FIELDS_MAX, "1");
    check_limit(&line, 0, "");
    line = line_with_fields(EVENT_FIELDS_MAX + 1, "1");
    check_limit(&line, E_LIMIT, "256 members");
    line = line_with_fields(EVENT_FIELDS_MAX + 1, "null");
    check_limit(&line, E_LIMIT, "256 members");
    line = line_with_text(EVENT_TEXT_MAX, 'x', "text");
    check_limit(&line, 0, "");
    line = line_with_text(EVENT_TEXT_MAX + 1, 'x', "text");
    check_limit(&line, E_LIMIT, "field a is longer");
    line = line_with_text(EVENT_TEXT_MAX / 3 * 4, 'A', "bytes"); /* fewer bytes than characters */
    check_limit(&line, 0, "");
    line = line_with_text(EVENT_LINE_MAX, 'x', "text");
    check_limit(&line, E_LIMIT, "longer than 2097152");
    line = line_with_name(128, 0);
    check_limit(&line, 0, "");
    line = line_with_name(129, 0);
    check_limit(&line, E_LIMIT, "field name");
    line = line_with_name(100, 27);
    check_limit(&line, 0, "");
    line = line_with_name(100, 28);
    check_limit(&line, E_LIMIT, "objects around it");
    line = line_with_name(200, 1);
    check_limit(&line, E_LIMIT, "field name");
}

/* The bad line is told by its number, those around it are read. */
static void test_goes_on(void **state)
{
    (void)state;
    const char text[] = "\n{" TN ",\"a\":1}\r\n  \nbad\n{" TN ",\"a\":2}";
    struct decoder *d;
    struct diag why;
    size_t used, done = 0;
    assert_int_equal(decoder_create(&encoding_ndjson, &d), 0);
    struct slice all = slice_str(text);
    assert_int_equal(decoder_run(d, all, true, trip.builder, &used, &why), E_PROTO);
    assert_int_equal(why.line, 4);
    assert_int_equal(why.col, 1);
    done += used;
    assert_int_equal(decoder_run(d, slice_from(all, done), true, trip.builder, &used, &why), 0);
    assert_int_equal(done + used, all.n);
    decoder_destroy(d);
    struct batch *b = batch_builder_finish(trip.builder, NULL);
    assert_int_equal(b->n, 2);
    assert_int_equal(event_get(&b->events[0], SLICE_LIT("a")).i, 1);
    assert_int_equal(event_get(&b->events[1], SLICE_LIT("a")).i, 2);
    batch_unref(b);
}

static void test_round_trip(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (unsigned i = 0; i < 100 * test_scale(); i++) {
        struct batch *b = trip_random_batch(&trip, 200, &seed);
        trip_there_and_back(&trip, b, i % 10 ? SIZE_MAX : 1 + i);
        batch_unref(b);
    }
}

/* What unescaping made lives as long as the batch, also when the builder borrows. */
static void test_borrowed(void **state)
{
    (void)state;
    const char line[] =
        "{" TN ",\"a\":\"x\\u0041y\",\"b\":\"//4=\",\"@\":{\"b\":\"bytes\"}}\n{" TN ",\"a\":\"\\n\"}\n";
    struct batch_builder *builder = batch_builder_create(trip.registry, BUILDER_BORROW | BUILDER_KEEP_RAW);
    struct decoder *d;
    size_t used;
    assert_int_equal(decoder_create(&encoding_ndjson, &d), 0);
    assert_int_equal(decoder_run(d, slice_str(line), true, builder, &used, NULL), 0);
    decoder_destroy(d);
    struct batch *b = batch_builder_finish(builder, NULL);
    batch_builder_destroy(builder);
    assert_slice(value_slice(event_get(&b->events[0], SLICE_LIT("a"))), "xAy");
    assert_slice(value_slice(event_get(&b->events[0], SLICE_LIT("b"))), "\xff\xfe");
    assert_slice(value_slice(event_get(&b->events[1], SLICE_LIT("a"))), "\n");
    assert_true(b->raw[1].p == strchr(line, '\n') + 1);
    batch_unref(b);
}

/* More schemas than the writer keeps text for, twice around. */
static void test_many_schemas(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3 * PREPARED_MAX; i++) {
        char name[16], field[16];
        size_t n = (size_t)snprintf(name, sizeof name, "e%u", i % (PREPARED_MAX + 100));
        size_t m = (size_t)snprintf(field, sizeof field, "f%u", i % (PREPARED_MAX + 100));
        struct named_value v = {slice_of(field, m), value_uint(i)};
        struct event_head head = {
            .name = slice_of(name, n), .host = {"", 0}, .prog = {"", 0}, .level = LEVEL_INFO};
        assert_int_equal(batch_builder_add(trip.builder, &head, &v, 1, NULL), 0);
    }
    struct batch *b = batch_builder_finish(trip.builder, NULL);
    trip_there_and_back(&trip, b, SIZE_MAX);
    batch_unref(b);
}

/* Whichever allocation fails: -ENOMEM and nothing else, and the next try succeeds. */
static void test_no_memory(void **state)
{
    (void)state;
    uint64_t seed = 5;
    struct batch *b = trip_random_batch(&trip, 20, &seed);
    struct strbuf text = trip_encode(&trip, b);
    for (uint64_t n = 1, failed = 1; failed; n++) {
        struct registry *registry = registry_create();
        struct batch_builder *builder = batch_builder_create(registry, 0);
        struct decoder *d = NULL;
        struct encoder *e = NULL;
        struct strbuf out = {0};
        struct batch *back = NULL;
        size_t used = 0, more = 0;
        failed = 0;
        mem_fail_after(n);
        int rc = decoder_create(&encoding_ndjson, &d);
        if (rc == 0)
            rc = decoder_run(d, strbuf_slice(&text), true, builder, &used, NULL);
        if (rc == -ENOMEM && d) { /* nothing is skipped: going on gives all */
            failed = 1;
            rc = decoder_run(d, slice_from(strbuf_slice(&text), used), true, builder, &more, NULL);
        }
        if (rc == 0) {
            back = batch_builder_finish(builder, NULL);
            rc = back ? encoder_create(&encoding_ndjson, &e) : -ENOMEM;
        }
        if (rc == 0)
            rc = encoder_run(e, back, &out);
        mem_fail_after(0);
        failed |= rc < 0;
        assert_true(rc == 0 || rc == -ENOMEM);
        if (rc == 0) {
            struct strbuf again = trip_encode(&trip, back);
            trip_assert_same(b, back);
            assert_string_equal(out.p, again.p);
            strbuf_fini(&again);
        }
        batch_unref(back);
        strbuf_fini(&out);
        decoder_destroy(d);
        encoder_destroy(e);
        batch_builder_destroy(builder);
        registry_destroy(registry);
    }
    strbuf_fini(&text);
    batch_unref(b);
}

static void test_detect(void **state)
{
    (void)state;
    assert_true(encoding_ndjson.detect(SLICE_LIT("{\"a\":1}")));
    assert_true(encoding_ndjson.detect(SLICE_LIT(" \r\n\t{")));
    assert_false(encoding_ndjson.detect(SLICE_LIT("[1]")));
    assert_false(encoding_ndjson.detect(SLICE_LIT("  ")));
    assert_false(encoding_ndjson.detect(SLICE_LIT("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_written), cmocka_unit_test(test_as_others_write),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_limits),
        cmocka_unit_test(test_goes_on),    cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_borrowed),   cmocka_unit_test(test_many_schemas),
        cmocka_unit_test(test_no_memory),  cmocka_unit_test(test_detect),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
