/* SPDX-License-Identifier: Apache-2.0 */
/* What BP has that ULM has not; values, names and errors are the same code (ulm_test.c). */
#include "unit/event/codec.h"
#include "unit/event/random_event.h"

#include "base/clock.h"
#include "base/err.h"
#include "event/encodings.h"

static struct registry *registry;

static int setup(void **state)
{
    (void)state;
    registry = registry_create();
    return registry ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    registry_destroy(registry);
    return 0;
}

static int64_t utc(const char *iso)
{
    int64_t t;
    assert_int_equal(clock_parse_iso(slice_str(iso), &t), 0);
    return t;
}

static void test_canonical_line(void **state)
{
    (void)state;
    static const char line[] =
        "ts=2026-11-15T21:20:28.123456Z event=transfer.end level=Info prog=ev host=node17 guid=\"7\" "
        "msg=\"two words\" status=-1\n"
        "ts=2026-11-15T21:20:28.123457001Z event=transfer.end level=Emergency guid=\"7\" status=0\n";
    struct batch *b = codec_decode(&encoding_bp, registry, slice_str(line));
    struct strbuf out = {0};
    const struct event *e = &b->events[0];
    assert_int_equal(b->n, 2);
    assert_true(e->time_ns == utc("2026-11-15T21:20:28.123456Z"));
    assert_slice(e->host, "node17");
    assert_slice(e->prog, "ev");
    assert_slice(e->schema->name, "transfer.end");
    assert_true(value_eq(event_get(e, SLICE_LIT("guid")), value_text(SLICE_LIT("7"))));
    assert_true(value_eq(event_get(e, SLICE_LIT("status")), value_int(-1)));
    assert_int_equal(b->events[1].level, LEVEL_EMERGENCY);
    assert_int_equal(b->events[1].host.n, 0);
    codec_encode(&encoding_bp, b, &out);
    assert_string_equal(out.p, line);
    batch_unref(b);
    strbuf_fini(&out);
}

static void test_times(void **state)
{
    (void)state;
    static const struct {
        const char *ts, *time;
    } cases[] = {
        {"2007-06-12T14:32:15.145455Z", "2007-06-12T14:32:15.145455Z"},
        {"2007-06-12T14:32:15.5Z", "2007-06-12T14:32:15.500000Z"}, /* the same second as the last */
        {"2007-06-12T14:32:15Z", "2007-06-12T14:32:15Z"},
        {"2007-06-12T14:32:15.25+01:00", "2007-06-12T13:32:15.25Z"},
        {"2007-06-12T14:32:15.25", "2007-06-12T14:32:15.25Z"},
        {"\"2007-06-12 14:32:15\"", "2007-06-12T14:32:15Z"},
        {"1181658735.145455", "2007-06-12T14:32:15.145455Z"},
        {"1181658735", "2007-06-12T14:32:15Z"},
        {"-1.5", "1969-12-31T23:59:58.5Z"},
        {"0", "1970-01-01T00:00:00Z"},
    };
    struct strbuf text = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        strbuf_printf(&text, "ts=%s event=e\n", cases[i].ts);
    struct batch *b = codec_decode(&encoding_bp, registry, strbuf_slice(&text));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (b->events[i].time_ns != utc(cases[i].time))
            fail_msg("%s is not %s", cases[i].ts, cases[i].time);
    batch_unref(b);
    strbuf_fini(&text);
}

static void test_pegasus(void **state)
{
    (void)state;
    struct strbuf text = {0};
    codec_read_fixture("bp/pegasus.bp", &text);
    assert_ptr_equal(encoding_detect(strbuf_slice(&text)), &encoding_bp);
    struct batch *b = codec_decode(&encoding_bp, registry, strbuf_slice(&text));
    assert_int_equal(b->n, 4);
    const struct event *e = &b->events[1];
    assert_slice(e->schema->name, "stampede.job_inst.main.start");
    assert_slice(value_slice(event_get(e, SLICE_LIT("xwf.id"))), "ea17e8ac-02ac-4909-b5e3-16e367392556");
    assert_true(value_eq(event_get(e, SLICE_LIT("job_inst.id")), value_int(3)));
    assert_true(value_eq(event_get(e, SLICE_LIT("stdout.file")), value_text(SLICE_LIT(""))));
    e = &b->events[2];
    assert_true(e->time_ns == utc("2012-07-10T17:13:51.25Z"));
    assert_int_equal(e->level, LEVEL_ERROR);
    assert_slice(value_slice(event_get(e, SLICE_LIT("stdout.text"))), "%0A#@ 1 stdout%0A say %22hi%22");
    assert_true(value_eq(event_get(e, SLICE_LIT("local.dur")), value_float(4.003)));
    e = &b->events[3]; /* Audit is no level of ours */
    assert_int_equal(e->level, LEVEL_INFO);
    assert_true(value_eq(event_get(e, SLICE_LIT("level")), value_text(SLICE_LIT("Audit"))));
    codec_round_trip(&encoding_bp, registry, b);
    codec_round_trip(&encoding_ulm, registry, b);
    batch_unref(b);
    strbuf_fini(&text);
}

static void test_mangled_names(void **state)
{
    (void)state;
    static const char line[] =
        "ts=2026-11-15T21:20:28.000000Z event=\"a_b\" level=Info gl.level=Audit gl.ts=1 gl.host=x "
        "gl.gl-2ex=2 gl.a-3ab=3 GL.x=4 DATE=5 xwf.id=6 job_inst.id=7\n";
    struct batch *b = codec_decode(&encoding_bp, registry, slice_str(line));
    struct strbuf out = {0};
    static const char *const names[] = {"level", "ts",   "host",   "gl.x",       "a:b",
                                        "GL.x",  "DATE", "xwf.id", "job_inst.id"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_slice(b->events[0].schema->fields[i].name, names[i]);
    codec_encode(&encoding_bp, b, &out);
    assert_string_equal(out.p, line);
    batch_unref(b);
    strbuf_fini(&out);
}

static void test_errors(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        uint32_t col;
        const char *message;
    } cases[] = {
        {"event=e", 0, "no ts"},
        {"ts=5", 0, "no event"},
        {"ts=yesterday event=e", 1, "ts is not an ISO 8601 time"},
        {"event=e ts=2026-13-01T00:00:00Z", 9, "ts is not"},
        {"event=e ts=2026-11-15T21:20:28.12x456Z", 9, "ts is not"},
        {"ts=5 event=\"\"", 6, "event name"},
        {"ts=5 ts=6 event=e", 6, "ts comes twice"},
        {"ts=5 event=e a=1 gl.a=2", 18, "a comes twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct diag why;
        int r = codec_error(&encoding_bp, registry, slice_str(cases[i].line), &why);
        if (r != E_PROTO || why.col != cases[i].col || why.line != 1 ||
            !strstr(why.message, cases[i].message))
            fail_msg("%s: %d, column %u: %s", cases[i].line, r, (unsigned)why.col, why.message);
    }
    struct diag why;
    assert_int_equal(codec_error(&encoding_bp, registry, SLICE_LIT("ts=2300-01-01 event=e"), &why), E_LIMIT);
    assert_int_equal(codec_error(&encoding_bp, registry, SLICE_LIT("ts=99999999999 event=e"), &why), E_LIMIT);
}

static void test_random_events(void **state)
{
    (void)state;
    uint64_t seed = 14830;
    struct batch_builder *builder = batch_builder_create(registry, 0);
    for (unsigned round = 0; round < 200 * test_scale(); round++) {
        for (int i = 0; i < 100; i++)
            random_event_add(builder, &seed);
        struct batch *b = batch_builder_finish(builder, NULL);
        codec_round_trip(&encoding_bp, registry, b);
        batch_unref(b);
    }
    batch_builder_destroy(builder);
}

static void test_detect(void **state)
{
    (void)state;
    static const char *const yes[] = {"ts=2026-11-15T21:20:28Z event=e", "\nevent=e level=Info ts=5", "ts=5"};
    static const char *const no[] = {
        "", "DATE=20261115212028 ts=5", "event=e", "{\"ts\":5}", "<ts=5>", "a=\"ts=5\""};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!encoding_bp.detect(slice_str(yes[i])))
            fail_msg("not taken for BP: %s", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (encoding_bp.detect(slice_str(no[i])))
            fail_msg("taken for BP: %s", no[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_canonical_line, setup, teardown),
        cmocka_unit_test_setup_teardown(test_times, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pegasus, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mangled_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_random_events, setup, teardown),
        cmocka_unit_test_setup_teardown(test_detect, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
