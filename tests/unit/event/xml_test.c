/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of both halves, src/event/xml_write.c and src/event/xml_read.c. */
#include "unit/event/trip.h"

#include "event/xml.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static struct trip trip;

static int setup(void **state)
{
    (void)state;
    trip_init(&trip, &encoding_xml);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    trip_fini(&trip);
    return 0;
}

#define PROLOG \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<events xmlns=\"https://gridline.example/event/1\">\n"
#define TAIL "</events>\n"
#define HEAD "<event time=\"2026-11-15T21:20:28.123456Z\" level=\"info\" name=\"e\">"
#define END  "</event>\n"

/* The text is read, and written again as `written` between prolog and tail. */
static void check(const char *text, const char *written)
{
    struct diag why = {0};
    struct batch *b;
    int rc = trip_decode(&trip, slice_str(text), SIZE_MAX, &b, &why);
    if (rc < 0)
        fail_msg("%s: line %llu col %u: %s", text, (unsigned long long)why.line, why.col, why.message);
    struct strbuf out = trip_encode(&trip, b), expected = {0};
    strbuf_printf(&expected, "%s%s%s", PROLOG, written, TAIL);
    if (!slice_eq(strbuf_slice(&out), strbuf_slice(&expected)))
        fail_msg("%s\nis     %s\nand not %s", text, out.p, expected.p);
    if (b)
        trip_there_and_back(&trip, b, 7);
    strbuf_fini(&expected);
    strbuf_fini(&out);
    batch_unref(b);
}

static void test_as_written(void **state)
{
    (void)state;
    static const char *const events[] = {
        "",
        HEAD END,
        "<event time=\"2026-11-15T21:20:28.123456789Z\" host=\"h\" prog=\"p\" level=\"trace\" "
        "name=\"cpu\"><f n=\"user\" "
        "t=\"float\">1.5</f><f n=\"msg\" t=\"text\">a &lt; b &amp;&amp; c &gt; &quot;d&quot;</f></event>\n",
        HEAD "<f n=\"a\" t=\"int\">-9223372036854775808</f><f n=\"b\" t=\"uint\">18446744073709551615</f><f "
             "n=\"c\" "
             "t=\"float\">NaN</f><f n=\"d\" t=\"float\">-Inf</f><f n=\"f\" t=\"float\">-0.0</f><f n=\"g\" "
             "t=\"bool\">true</f><f n=\"h\" t=\"bytes\">//4=</f><f n=\"i\" t=\"bytes\"></f>" END,
        HEAD "<f n=\"w\" t=\"text\"> \n\ttab and space </f><f n=\"x\" t=\"text\"></f><f n=\"y\" t=\"text\" "
             "enc=\"base64\">YQ0KYg==</f><f n=\"z\" t=\"text\" enc=\"base64\">AAEC</f>" END,
        "<event time=\"2026-11-15T21:20:28.123456Z\" host=\"&lt;&amp;&quot;'\" prog64=\"77+/\" "
        "level=\"info\" "
        "name=\"e\"></event>\n",
        HEAD "<f n=\"time\" t=\"int\">1</f><f n=\"host\" t=\"text\">x</f><f n=\"v\" "
             "t=\"text\">\xc3\xa4\x7f</f>" END,
    };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        struct strbuf file = {0};
        strbuf_printf(&file, "%s%s%s", PROLOG, events[i], TAIL);
        check(file.p, events[i]);
        strbuf_fini(&file);
    }
}

static void test_as_others_write(void **state)
{
    (void)state;
    static const struct {
        const char *read, *written;
    } cases[] = {
        /* no prolog, no root, empty element, other quotes, order, space, unknown attributes */
        {"<event name='e' time='2026-11-15T22:20:28.123456+01:00'/>", HEAD END},
        {"<event\n\tid='7'  name = \"e\"\r\n time='2026-11-15T21:20:28.123456Z'\n>\n</event\n>", HEAD END},
        {"<event name='e' time='2026-11-15T21:20:28.123456Z' x='a>b/>'></event>", HEAD END},
        /* levels */
        {"<event level='ERR' name='e' time='2026-11-15T21:20:28.123456Z'/>",
         "<event time=\"2026-11-15T21:20:28.123456Z\" level=\"error\" name=\"e\"></event>\n"},
        {"<event level='odd' name='e' time='2026-11-15T21:20:28.123456Z'/>",
         HEAD "<f n=\"level\" t=\"text\">odd</f>" END},
        /* fields without a type, character references, CDATA, comments */
        {HEAD "<f n='x'>a&#32;&#x41;</f><f n='y'><![CDATA[</event><f>]]></f><!-- </event> --> <f n='z'/>" END,
         HEAD "<f n=\"x\" t=\"text\">a A</f><f n=\"y\" t=\"text\">&lt;/event&gt;&lt;f&gt;</f><f n=\"z\" "
              "t=\"text\"></f>" END},
        /* space around what is no text */
        {HEAD "<f n='a' t='int'> 5\n</f><f n='b' t='bool'> 1 </f><f n='c' t='bytes'> //4= </f>" END,
         HEAD "<f n=\"a\" t=\"int\">5</f><f n=\"b\" t=\"bool\">true</f><f n=\"c\" t=\"bytes\">//4=</f>" END},
        /* what is between: comments with elements in them, other tags, text */
        {"text <!-- " HEAD END " --> <![CDATA[" HEAD END "]]> <eventful/> <events>" HEAD END
         "</events> &bogus;",
         HEAD END},
        /* a document type never reaches the parser */
        {"<!DOCTYPE events [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;\">]><events>" HEAD END "</events>",
         HEAD END},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(cases[i].read, cases[i].written);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int code;
        unsigned line, col;
        const char *says;
    } cases[] = {
        {"\n\n  <event name='e'/>", E_PROTO, 3, 3, "no time"},
        {"<event time='2026-11-15'/>", E_PROTO, 1, 1, "no name"},
        {"<event time='2026-11-15' name=''/>", E_PROTO, 1, 1, "no name"},
        {"<event time='2026-11-15' name='a b'/>", E_PROTO, 1, 1, "event name"},
        {"<event time='soon' name='e'/>", E_PROTO, 1, 1, "time"},
        {"<event time='9999-01-01' name='e'/>", E_LIMIT, 1, 1, "1677"},
        {"<event time='2026-11-15' name='e' host64='!'/>", E_PROTO, 1, 1, "base64"},
        {"<event time='2026-11-15' name='e' host='a&#10;b'/>", E_PROTO, 1, 1, "host"},
        {"<event time='2026-11-15' time='2026-11-15' name='e'/>", E_PROTO, 1, 26, "duplicate"},
        {HEAD "\n <g n='x'/></event>", E_PROTO, 2, 2, "<g>"},
        {HEAD "\n<f n='x'><f n='y'/></f></event>", E_PROTO, 2, 10, "<f>"},
        {HEAD "\n<f>x</f></event>", E_PROTO, 2, 1, "name"},
        {HEAD "\n<f n='a b'>x</f></event>", E_PROTO, 2, 1, "name"},
        {HEAD "\n<f n='x' t='decimal'>x</f></event>", E_PROTO, 2, 1, "field x: t is"},
        {HEAD "\n<f n='x' enc='hex'>x</f></event>", E_PROTO, 2, 1, "enc"},
        {HEAD "\n<f n='x' t='int'>x</f></event>", E_PROTO, 2, 19, "field x is not int"},
        {HEAD "\n<f n='x' t='int'>9223372036854775808</f></event>", E_LIMIT, 2, 37, "field x is not int"},
        {HEAD "\n<f n='x' t='uint'>-1</f></event>", E_PROTO, 2, 21, "field x is not uint"},
        {HEAD "\n<f n='x' t='float'>1e400</f></event>", E_LIMIT, 2, 25, "field x is not float"},
        {HEAD "\n<f n='x' t='bool'>yes</f></event>", E_PROTO, 2, 22, "field x is not bool"},
        {HEAD "\n<f n='x' t='number'>080</f></event>", E_PROTO, 2, 24, "field x is not number"},
        {HEAD "\n<f n='x' t='number'>1.5</f></event>", E_PROTO, 2, 24, "field x is not number"},
        {HEAD "\n<f n='x' t='bytes'>a b=</f></event>", E_PROTO, 2, 24, "base64"},
        {HEAD "<f n='x'/>\n<f n='x'/></event>", E_PROTO, 1, 1, "twice"},
        {HEAD "\n&lol;</event>", E_PROTO, 2, 1, "undefined entity"},
        {HEAD "\nstray</event>", E_PROTO, 2, 1, "text outside"},
        {HEAD "\n<f n='x'></event>", E_PROTO, 2, 12, "mismatched"},
        {HEAD "<f n='x'>\xff</f></event>", E_PROTO, 1, 74, "not well-formed"},
        {HEAD, E_PROTO, 1, 1, "input ends"},
        {"\n<event time='2026", E_PROTO, 2, 1, "input ends"},
        {"<event", E_PROTO, 1, 1, "input ends"},
        {"\n<eve", E_PROTO, 2, 1, "input ends"},
        {"<!-- x --", E_PROTO, 1, 8, "input ends"},
        {"<events><!--", E_PROTO, 1, 9, "input ends"},
        {"<events><![CDATA[ x ]]", E_PROTO, 1, 21, "input ends"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct diag why = {0};
        struct batch *b;
        int rc = trip_decode(&trip, slice_str(cases[i].text), SIZE_MAX, &b, &why);
        if (rc != cases[i].code || why.line != cases[i].line || why.col != cases[i].col ||
            !strstr(why.message, cases[i].says) || b)
            fail_msg("%s: %d, line %llu col %u: %s", cases[i].text, rc, (unsigned long long)why.line, why.col,
                     why.message);
    }
}

/* Decodes all, counting errors; the values of field x (or -1) of the events that were read. */
static size_t decode_past_errors(struct slice text, size_t chunk, struct strbuf *values)
{
    struct decoder *d;
    struct diag why;
    size_t done = 0, given = 0, used, errors = 0;
    assert_int_equal(decoder_create(&encoding_xml, &d), 0);
    strbuf_reset(values);
    while (done < text.n) {
        given = text.n - given > chunk ? given + chunk : text.n;
        for (;;) {
            int rc = decoder_run(d, slice_of(text.p + done, given - done), given == text.n, trip.builder,
                                 &used, &why);
            done += used;
            if (rc == 0)
                break;
            assert_true(rc == E_PROTO || rc == E_LIMIT);
            assert_true(used > 0);
            errors++;
        }
    }
    decoder_destroy(d);
    struct batch *b = batch_builder_finish(trip.builder, NULL);
    for (size_t i = 0; b && i < b->n; i++)
        strbuf_printf(values, "%d ", (int)event_get(&b->events[i], SLICE_LIT("x")).i);
    batch_unref(b);
    return errors;
}

#define EVENT(x) HEAD "<f n='x' t='int'>" x "</f></event>\n"

/* Damage costs the element it is in. */
static void test_damage(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t errors;
        const char *values;
    } cases[] = {
        {EVENT("1") HEAD "<f n='x' t='int'>2</f>\n" EVENT("3"), 1, "1 3 "},
        {EVENT("1") "<event time=\"2026 host=\"h\">\n" EVENT("3"), 1, "1 3 "},
        {EVENT("1") "<event time='x\n" EVENT("3"), 1, "1 3 "},
        {EVENT("1") HEAD "<f n='x' t='int'>2</f><f></event>" EVENT("3"), 1, "1 3 "},
        {EVENT("1") HEAD "&x;</event>" HEAD "\xff</event>" EVENT("3"), 2, "1 3 "},
        {EVENT("1") "</event></event>" EVENT("3"), 0, "1 3 "},
        {EVENT("1") "<event" EVENT("3"), 0, "1 3 "},
        {EVENT("1") "<event <event " EVENT("3"), 2, "1 3 "},
        {PROLOG EVENT("1") TAIL PROLOG EVENT("3") TAIL, 0, "1 3 "}, /* two files in one */
    };
    struct strbuf values = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct slice text = slice_str(cases[i].text);
        for (size_t chunk = 1; chunk <= text.n; chunk++) {
            size_t errors = decode_past_errors(text, chunk, &values);
            if (errors != cases[i].errors || !slice_eq_str(strbuf_slice(&values), cases[i].values))
                fail_msg("%s\nby %zu: %zu errors, events %s", cases[i].text, chunk, errors, values.p);
        }
    }
    strbuf_fini(&values);
}

static void test_limits(void **state)
{
    (void)state;
    struct strbuf text = {0}, values = {0};
    strbuf_add_str(&text, HEAD "<f n='x'>");
    for (size_t i = 0; i < EVENT_LINE_MAX + 1000; i++)
        strbuf_add_char(&text, 'x');
    strbuf_add_str(&text, "</f></event>" EVENT("3"));
    struct diag why;
    struct batch *b;
    assert_int_equal(trip_decode(&trip, strbuf_slice(&text), 65536, &b, &why), E_LIMIT);
    assert_int_equal(decode_past_errors(strbuf_slice(&text), 65536, &values), 1);
    assert_slice(strbuf_slice(&values), "3 ");
    strbuf_reset(&text);
    strbuf_add_str(&text, HEAD);
    for (int i = 0; i < EVENT_FIELDS_MAX + 1; i++)
        strbuf_printf(&text, "<f n='f%d'>1</f>", i);
    strbuf_add_str(&text, "</event>");
    assert_int_equal(trip_decode(&trip, strbuf_slice(&text), SIZE_MAX, &b, &why), E_LIMIT);
    assert_non_null(strstr(why.message, "256 fields"));
    strbuf_fini(&text);
    strbuf_fini(&values);
}

/* Input that tempts a reader to look at the same bytes again and again. All of it takes a second under
 * sanitizers; a reader that did not pass over CDATA between elements took 50 seconds for the first. */
static void test_hostile_is_linear(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "<event><![CDATA[", "<event><!--",    "<event>", "<event a=\"", "<event a='>' ",
        "</event",          "<event></event", "<",       "]]>",         "<event><f>"};
    struct strbuf text = {0}, values = {0};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        strbuf_reset(&text);
        while (text.n < 3 * EVENT_LINE_MAX)
            strbuf_add_str(&text, patterns[i]);
        clock_t before = clock();
        (void)decode_past_errors(strbuf_slice(&text), EVENT_LINE_MAX + 16,
                                 &values); /* what it finds is not the point */
        assert_true(clock() - before < 5 * CLOCKS_PER_SEC);
    }
    strbuf_fini(&text);
    strbuf_fini(&values);
}

static void test_round_trip(void **state)
{
    (void)state;
    uint64_t seed = 12;
    for (unsigned i = 0; i < 40 * test_scale(); i++) {
        struct batch *b = trip_random_batch(&trip, 200, &seed);
        trip_there_and_back(&trip, b, i % 10 ? SIZE_MAX : 100 + i);
        batch_unref(b);
    }
}

/* Whichever allocation fails, expat's too: -ENOMEM and nothing else, and the next try succeeds. */
static void test_no_memory(void **state)
{
    (void)state;
    uint64_t seed = 5;
    struct batch *b = trip_random_batch(&trip, 5, &seed);
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
        int rc = decoder_create(&encoding_xml, &d);
        if (rc == 0)
            rc = decoder_run(d, strbuf_slice(&text), true, builder, &used, NULL);
        if (rc == -ENOMEM && d) {
            failed = 1;
            rc = decoder_run(d, slice_from(strbuf_slice(&text), used), true, builder, &more, NULL);
        }
        if (rc == 0) {
            back = batch_builder_finish(builder, NULL);
            rc = back ? encoder_create(&encoding_xml_out, &e) : -ENOMEM;
        }
        if (rc == 0)
            rc = encoder_run(e, back, &out);
        mem_fail_after(0);
        failed |= rc < 0;
        assert_true(rc == 0 || rc == -ENOMEM);
        if (rc == 0)
            trip_assert_same(b, back);
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

static int run(const char *const argv[])
{
    pid_t pid;
    int status;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ) != 0)
        return -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int validate(struct slice text)
{
    char path[] = "/tmp/gridline-xml-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text.p, text.n), text.n);
    (void)close(fd); /* written in full is what matters here */
    const char *argv[] = {"xmllint", "--noout", "--schema", GRIDLINE_SOURCE "/docs/gridline-event.xsd",
                          path,      NULL};
    int rc = run(argv);
    (void)unlink(path);
    return rc;
}

/* What we write is valid by our schema, whatever is in the events; and the schema does refuse. */
static void test_schema(void **state)
{
    (void)state;
    const char *version[] = {"xmllint", "--version", NULL};
    if (run(version) != 0)
        skip(); /* not installed */
    uint64_t seed = 13;
    struct batch *b = trip_random_batch(&trip, 300, &seed);
    struct strbuf text = trip_encode(&trip, b);
    assert_int_equal(validate(strbuf_slice(&text)), 0);
    assert_int_equal(validate(SLICE_LIT(PROLOG TAIL)), 0);
    assert_int_not_equal(validate(SLICE_LIT(PROLOG "<event name=\"e\" level=\"info\"/>" TAIL)), 0);
    assert_int_not_equal(validate(SLICE_LIT(PROLOG HEAD "<g/></event>" TAIL)), 0);
    assert_int_not_equal(validate(SLICE_LIT(PROLOG HEAD "<f n=\"a\" t=\"decimal\">1</f></event>" TAIL)), 0);
    assert_int_not_equal(validate(SLICE_LIT(PROLOG HEAD "<f n=\"a\"/><f n=\"a\"/></event>" TAIL)), 0);
    strbuf_fini(&text);
    batch_unref(b);
}

static void test_detect(void **state)
{
    (void)state;
    assert_true(encoding_xml.detect(SLICE_LIT("<?xml")));
    assert_true(encoding_xml.detect(SLICE_LIT("\n <event")));
    assert_false(encoding_xml.detect(SLICE_LIT("x <")));
    assert_false(encoding_xml.detect(SLICE_LIT("")));
    assert_null(encoding_xml_out.decoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_written), cmocka_unit_test(test_as_others_write),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_damage),
        cmocka_unit_test(test_limits),     cmocka_unit_test(test_hostile_is_linear),
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_schema),     cmocka_unit_test(test_detect),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
