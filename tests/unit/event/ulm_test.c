/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/event/codec.h"
#include "unit/event/random_event.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "event/encodings.h"

#include <errno.h>

#define HEAD  "DATE=20261115212028.123456 HOST=h PROG=p LVL=Info NL.EVNT=e"
#define AT(n) (sizeof HEAD + 1 + (n)) /* column n of what follows HEAD and a blank */

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

static struct batch *decode(const char *text)
{
    return codec_decode(&encoding_ulm, registry, slice_str(text));
}

static int64_t utc(const char *iso)
{
    int64_t t;
    assert_int_equal(clock_parse_iso(slice_str(iso), &t), 0);
    return t;
}

static void assert_encodes(const struct batch *b, const char *expected)
{
    struct strbuf out = {0};
    codec_encode(&encoding_ulm, b, &out);
    assert_string_equal(out.p, expected);
    strbuf_fini(&out);
}

static void test_canonical_line(void **state)
{
    (void)state;
    static const char line[] =
        "DATE=20261115212028.123456 HOST=node17.cluster PROG=ev LVL=Info NL.EVNT=bench.ev ID=12345 "
        "SIZE=-86415 NAME=transfer.ena V=1.5 OK=true MSG=\"two words\"\n";
    struct batch *b = decode(line);
    const struct event *e = &b->events[0];
    assert_int_equal(b->n, 1);
    assert_true(e->time_ns == utc("2026-11-15T21:20:28.123456Z"));
    assert_slice(e->host, "node17.cluster");
    assert_slice(e->prog, "ev");
    assert_int_equal(e->level, LEVEL_INFO);
    assert_slice(e->schema->name, "bench.ev");
    assert_true(value_eq(event_get(e, SLICE_LIT("ID")), value_int(12345)));
    assert_true(value_eq(event_get(e, SLICE_LIT("SIZE")), value_int(-86415)));
    assert_true(value_eq(event_get(e, SLICE_LIT("NAME")), value_text(SLICE_LIT("transfer.ena"))));
    assert_true(value_eq(event_get(e, SLICE_LIT("V")), value_float(1.5)));
    assert_true(value_eq(event_get(e, SLICE_LIT("OK")), value_bool(true)));
    assert_encodes(b, line);
    batch_unref(b);
}

/* What the header is when the line doesn't say, and that its order doesn't matter. */
static void test_header(void **state)
{
    (void)state;
    static const struct {
        const char *line, *written;
    } cases[] = {
        {"DATE=20261115212028", "DATE=20261115212028.000000 HOST=\"\" PROG=\"\" LVL=Info NL.EVNT=event\n"},
        {"A=1 NL.EVNT=e LVL=FATAL PROG=p HOST=h DATE=20261115212028.5",
         "DATE=20261115212028.500000 HOST=h PROG=p LVL=Emergency NL.EVNT=e A=1\n"},
        {"  DATE=20261115212028.123456789 \t HOST=10   LVL=\"uSaGe\"  ",
         "DATE=20261115212028.123456789 HOST=10 PROG=\"\" LVL=Usage NL.EVNT=event\n"},
        {"DATE=\"20261115212028\" HOST=\"%u:5\" PROG=%t:x", /* header values are never anything but text */
         "DATE=20261115212028.000000 HOST=\"%t:%u:5\" PROG=\"%t:%t:x\" LVL=Info NL.EVNT=event\n"},
        {"DATE=20261115212028 HOST=\"%t:%u:5\" PROG=\"%b:AAE=\"",
         "DATE=20261115212028.000000 HOST=\"%t:%u:5\" PROG=\"%t:%b:AAE=\" LVL=Info NL.EVNT=event\n"},
        {"DATE=20261115212028 HOST=true PROG=NaN NL.EVNT=5 date=1 Host=2",
         "DATE=20261115212028.000000 HOST=true PROG=NaN LVL=Info NL.EVNT=5 date=1 Host=2\n"},
        {"DATE=20261115212028 NL.EVNT=my_event:x",
         "DATE=20261115212028.000000 HOST=\"\" PROG=\"\" LVL=Info NL.EVNT=\"my_event:x\"\n"},
        {"DATE=20261115212028 LVL=Odd NL.EVNT=e", /* no level: kept as a field */
         "DATE=20261115212028.000000 HOST=\"\" PROG=\"\" LVL=Info NL.EVNT=e GL.LVL=Odd\n"},
        {"DATE=20261115212028 LVL=3 NL.EVNT=e",
         "DATE=20261115212028.000000 HOST=\"\" PROG=\"\" LVL=Info NL.EVNT=e GL.LVL=\"3\"\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct registry *fresh = registry_create();
        struct batch *b = codec_decode(&encoding_ulm, fresh, slice_str(cases[i].line));
        assert_encodes(b, cases[i].written);
        codec_round_trip(&encoding_ulm, fresh, b);
        batch_unref(b);
        registry_destroy(fresh);
    }
}

/* A value as read, its type, and how it is written: NULL = unchanged. */
static void test_values(void **state)
{
    (void)state;
    static const struct {
        const char *read;
        uint8_t type;
        const char *written;
    } cases[] = {
        {"0", VALUE_INT, NULL},
        {"-9223372036854775808", VALUE_INT, NULL},
        {"9223372036854775807", VALUE_INT, NULL},
        {"999999999999999999", VALUE_INT, NULL},
        {"1000000000000000000", VALUE_INT, NULL},
        {"9223372036854775808", VALUE_UINT, NULL},
        {"18446744073709551615", VALUE_UINT, NULL},
        {"18446744073709551616", VALUE_TEXT, NULL},
        {"5 GL.U=V", VALUE_UINT, "5 GL.U=\"V\""},
        {"0 GL.U=\"V\"", VALUE_UINT, NULL},
        {"0 GL.U=\"B,,x,V,V\"", VALUE_UINT, "0 GL.U=\"V\""},
        {"9223372036854775808 GL.U=V", VALUE_UINT, "9223372036854775808"},
        {"-1 GL.U=V", VALUE_INT, "-1"},
        {"1.5 GL.U=V", VALUE_FLOAT, "1.5"},
        {"5 GL.U=\"\"", VALUE_INT, "5"},
        {"5 GL.U=\"V.\"", VALUE_INT, "5"},
        {"-0", VALUE_NUMBER, NULL},
        {"007", VALUE_TEXT, NULL},
        {"--", VALUE_TEXT, NULL},
        {"-", VALUE_TEXT, NULL},
        {"+5", VALUE_TEXT, "\"+5\""},
        {"1.5", VALUE_FLOAT, NULL},
        {"1.50", VALUE_NUMBER, NULL},
        {"+0.25", VALUE_NUMBER, NULL},
        {"\"+0.25\"", VALUE_NUMBER, "+0.25"},
        {"\"1e+05\"", VALUE_NUMBER, "1e+05"},
        {"\"%t:1e+05\"", VALUE_TEXT, NULL},
        {"\"+4930123\"", VALUE_TEXT, NULL},
        {"1e16", VALUE_FLOAT, NULL},
        {"-1.5e-7", VALUE_FLOAT, NULL},
        {"-0.0", VALUE_FLOAT, NULL},
        {"NaN", VALUE_FLOAT, NULL},
        {"-Inf", VALUE_FLOAT, NULL},
        {"nan", VALUE_NUMBER, NULL},
        {"true", VALUE_BOOL, NULL},
        {"false", VALUE_BOOL, NULL},
        {"True", VALUE_TEXT, NULL},
        {"truer", VALUE_TEXT, NULL},
        {"\"5\"", VALUE_TEXT, NULL},
        {"\"true\"", VALUE_TEXT, NULL},
        {"\"NaN\"", VALUE_TEXT, NULL},
        {"\"1.50\"", VALUE_TEXT, NULL},
        {"\"\"", VALUE_TEXT, NULL},
        {"\"a b\"", VALUE_TEXT, NULL},
        {"/a:b[c],d", VALUE_TEXT, "\"/a:b[c],d\""},
        {"a\"b", VALUE_TEXT, "\"a\\\"b\""},
        {"a=b", VALUE_TEXT, "\"a=b\""},
        {"\\", VALUE_TEXT, "\"\\\\\""},
        {"\"C:\\temp\\\\x\"", VALUE_TEXT, "\"C:\\\\temp\\\\x\""},
        {"\"say \\\"hi\\\"\"", VALUE_TEXT, NULL},
        {"a\x01z", VALUE_TEXT, "\"%e:a%01z\""},
        {"\"%e:a%0Ab%25\"", VALUE_TEXT, NULL},
        {"\"%e:%41\"", VALUE_TEXT, "A"},
        {"\"%e:%4\"", VALUE_TEXT, "\"%t:%e:%4\""},
        {"\"%e:%0a\"", VALUE_TEXT, "\"%t:%e:%0a\""},
        {"\"%e:\"", VALUE_TEXT, "\"\""},
        {"\"%e:%FF\"", VALUE_BYTES, "\"%b:/w==\""},
        {"\"%b:AAE=\"", VALUE_BYTES, NULL},
        {"\"%b:\"", VALUE_BYTES, NULL},
        {"\"%b:***\"", VALUE_TEXT, "\"%t:%b:***\""},
        {"\"%b:AAF=\"", VALUE_TEXT, "\"%t:%b:AAF=\""},
        {"\"%t:%t:x\"", VALUE_TEXT, NULL},
        {"\"%t:x\"", VALUE_TEXT, "x"},
        {"\"%z:x\"", VALUE_TEXT, "\"%t:%z:x\""},
        {"%u:5", VALUE_TEXT, "\"%t:%u:5\""},
        {"%0A%22", VALUE_TEXT, "\"%0A%22\""},
        {"\"a\\\"%e:\"", VALUE_TEXT, NULL},
        {"\xc3\xbc", VALUE_TEXT, "\"\xc3\xbc\""},
        {"\xff\xfe", VALUE_BYTES, "\"%b://4=\""},
        {"\"\xff \"", VALUE_BYTES, "\"%b:/yA=\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct strbuf line = {0}, written = {0};
        strbuf_printf(&line, HEAD " V=%s", cases[i].read);
        strbuf_printf(&written, HEAD " V=%s\n", cases[i].written ? cases[i].written : cases[i].read);
        struct registry *fresh = registry_create();
        struct batch *b = codec_decode(&encoding_ulm, fresh, strbuf_slice(&line));
        if (event_get(&b->events[0], SLICE_LIT("V")).type != cases[i].type)
            fail_msg("%s is not %s", cases[i].read, value_type_name(cases[i].type));
        assert_encodes(b, written.p);
        codec_round_trip(&encoding_ulm, fresh, b);
        batch_unref(b);
        registry_destroy(fresh);
        strbuf_fini(&line);
        strbuf_fini(&written);
    }
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *read, *name, *written;
    } cases[] = {
        {"A", "A", "A"},
        {"SRC.IP", "SRC.IP", "SRC.IP"},
        {"DG.SRC_INSTANCE", "DG.SRC_INSTANCE", "DG.SRC_INSTANCE"},
        {"a-1", "a-1", "a-1"},
        {"_a", "_a", "GL.-5fa"},
        {"9a", "9a", "GL.9a"},
        {"a:b", "a:b", "GL.a-3ab"},
        {"a..b", "a..b", "GL.a-2e-2eb"},
        {"a.", "a.", "GL.a-2e"},
        {".a", ".a", "GL.-2ea"},
        {"-", "-", "GL.-2d"},
        {"GL.HOST", "HOST", "GL.HOST"},
        {"GL.NL-2eEVNT", "NL.EVNT", "GL.NL-2eEVNT"},
        {"GL.abc", "abc", "abc"},
        {"GL.-41", "A", "A"},
        /* what is not well mangled is a name as it stands */
        {"GL.", "GL.", "GL.GL-2e"},
        {"GL.a.b", "GL.a.b", "GL.GL-2ea-2eb"},
        {"GL.a-zz", "GL.a-zz", "GL.GL-2ea-2dzz"},
        {"GL.a-2", "GL.a-2", "GL.GL-2ea-2d2"},
        {"GL.a-2E", "GL.a-2E", "GL.GL-2ea-2d2E"},
        {"GL.a-00", "GL.a-00", "GL.GL-2ea-2d00"},
        {"gl.x", "gl.x", "gl.x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct strbuf line = {0}, written = {0};
        strbuf_printf(&line, HEAD " %s=1", cases[i].read);
        strbuf_printf(&written, HEAD " %s=1\n", cases[i].written);
        struct registry *fresh = registry_create();
        struct batch *b = codec_decode(&encoding_ulm, fresh, strbuf_slice(&line));
        assert_slice(b->events[0].schema->fields[0].name, cases[i].name);
        assert_encodes(b, written.p);
        codec_round_trip(&encoding_ulm, fresh, b);
        batch_unref(b);
        registry_destroy(fresh);
        strbuf_fini(&line);
        strbuf_fini(&written);
    }
}

static void test_errors(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int code;
        uint32_t col;
        const char *message;
    } cases[] = {
        {"HOST=h", E_PROTO, 0, "no DATE"},
        {"DATE=now", E_PROTO, 1, "DATE is not YYYYMMDDHHMMSS"},
        {"A=1 DATE=20261315212028", E_PROTO, 5, "DATE is not"},
        {"DATE=20261115212028.", E_PROTO, 1, "DATE is not"},
        {"DATE=\"\"", E_PROTO, 1, "DATE is not"},
        {"DATE=22991115212028", E_LIMIT, 1, "outside the years"},
        {HEAD " A", E_PROTO, AT(0), "'=' is missing"},
        {HEAD " A B=1", E_PROTO, AT(0), "'=' is missing"},
        {HEAD " A =1", E_PROTO, AT(1), "a blank before '='"},
        {HEAD " A= 1", E_PROTO, AT(2), "no value behind '='"},
        {HEAD " A=", E_PROTO, AT(2), "no value behind '='"},
        {HEAD " =1", E_PROTO, AT(0), "no name before '='"},
        {HEAD " A/B=1", E_PROTO, AT(0), "a name holds only"},
        {HEAD " \xc3\xbc=1", E_PROTO, AT(0), "a name holds only"},
        {HEAD " GL.a/b=1", E_PROTO, AT(0), "a name holds only"},
        {HEAD " A=\"b", E_PROTO, AT(2), "not closed"},
        {HEAD " A=\"b\\", E_PROTO, AT(2), "not closed"},
        {HEAD " A=\"b\\\"", E_PROTO, AT(2), "not closed"},
        {HEAD " A=\"", E_PROTO, AT(2), "not closed"},
        {HEAD " A=\"b\"c", E_PROTO, AT(5), "must follow the closing quote"},
        {HEAD " A=1 B=2 A=1", E_PROTO, AT(8), "A comes twice"},
        {HEAD " A=1 B=2 A=x", E_PROTO, AT(8), "A comes twice"},
        {HEAD " A=1 GL.A=2", E_PROTO, AT(4), "A comes twice"},
        {HEAD " HOST=h", E_PROTO, AT(0), "HOST comes twice"},
        {"DATE=20261115212028 LVL=odd GL.LVL=1", E_PROTO, 21, "LVL comes twice"},
        {"DATE=20261115212028 NL.EVNT=\"a b\"", E_PROTO, 21, "event name"},
        {"DATE=20261115212028 HOST=\"%e:%0A\"", E_PROTO, 0, "host is not printable"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct diag why;
        struct strbuf text = {0};
        strbuf_printf(&text, "\n%s\n", cases[i].line);
        int r = codec_error(&encoding_ulm, registry, strbuf_slice(&text), &why);
        if (r != cases[i].code || why.col != cases[i].col || why.line != 2 ||
            !strstr(why.message, cases[i].message))
            fail_msg("%s: %d, line %u, column %u: %s", cases[i].line, r, (unsigned)why.line,
                     (unsigned)why.col, why.message);
        strbuf_fini(&text);
    }
}

/* Everything that is wrong is reported with its line, and what is right around it is read. */
static void test_goes_on_after_errors(void **state)
{
    (void)state;
    struct slice text = slice_str(HEAD " A=1\n\nbad\r\n" HEAD " A=2\r\n  \nA=3\n" HEAD " A=4");
    struct batch_builder *builder = batch_builder_create(registry, BUILDER_KEEP_RAW);
    struct decoder *d;
    struct diag why;
    size_t at = 0, used, n_bad = 0;
    uint64_t bad[4] = {0};
    assert_int_equal(decoder_create(&encoding_ulm, &d), 0);
    while (at < text.n) {
        int r = decoder_run(d, slice_from(text, at), true, builder, &used, &why);
        assert_true(used > 0);
        if (r < 0)
            bad[n_bad++] = why.line;
        at += used;
    }
    assert_int_equal(n_bad, 2);
    assert_int_equal(bad[0], 3);
    assert_int_equal(bad[1], 6);
    struct batch *b = batch_builder_finish(builder, NULL);
    assert_int_equal(b->n, 3);
    assert_slice(b->raw[1], HEAD " A=2");
    assert_true(value_eq(b->events[2].values[0], value_int(4)));
    batch_unref(b);
    decoder_destroy(d);
    batch_builder_destroy(builder);
}

/* One of the random lines: pairs that repeat, nearly repeat, come twice or are bad. */
static void random_line(uint64_t *seed, struct strbuf *out)
{
    static const char *const pairs[] = {
        "HOST=a",   "HOST=ab", "HOST=\"a\"", "HOST=\"a\\\"\"", "PROG=p",     "PROG=p",
        "LVL=Info", "LVL=odd", "NL.EVNT=e",  "NL.EVNT=ev",     "NL.EVNT=ev", "A=1",
        "A=1",      "A=\"1\"", "AB=x",       "GL.A=2",         "B",          "LONG.NAME.OF.A.FIELD=1"};
    strbuf_add_str(out, random_below(seed, 8) ? "DATE=20261115212028.5" : "A=x DATE=20261115212029");
    size_t n = random_below(seed, 7), first = random_below(seed, 4);
    for (size_t i = 0; i < n; i++) { /* often in the usual order, so that lines resemble each other */
        size_t k = random_below(seed, 4) ? (first + 4 * i) % 18 : random_below(seed, 18);
        strbuf_printf(out, "%s%s", random_below(seed, 9) ? " " : "  ", pairs[k]);
    }
}

/* A decoder learns from the lines before; what it makes of a line must not depend on them. */
static void test_lines_are_independent(void **state)
{
    (void)state;
    uint64_t seed = 7;
    struct batch_builder *builder = batch_builder_create(registry, 0);
    struct strbuf line = {0};
    struct decoder *old;
    assert_int_equal(decoder_create(&encoding_ulm, &old), 0);
    for (unsigned i = 0; i < 20000 * test_scale(); i++) {
        struct decoder *fresh;
        struct diag why[2];
        size_t used;
        strbuf_reset(&line);
        random_line(&seed, &line);
        assert_int_equal(decoder_create(&encoding_ulm, &fresh), 0);
        int r = decoder_run(fresh, strbuf_slice(&line), true, builder, &used, &why[0]);
        struct batch *a = batch_builder_finish(builder, NULL);
        assert_int_equal(decoder_run(old, strbuf_slice(&line), true, builder, &used, &why[1]), r);
        struct batch *b = batch_builder_finish(builder, NULL);
        if (r == 0)
            codec_assert_same(a, b);
        assert_int_equal(why[0].col, why[1].col);
        assert_string_equal(why[0].message, why[1].message);
        batch_unref(a);
        batch_unref(b);
        decoder_destroy(fresh);
    }
    decoder_destroy(old);
    strbuf_fini(&line);
    batch_builder_destroy(builder);
}

static void test_gridftp(void **state)
{
    (void)state;
    struct strbuf text = {0};
    codec_read_fixture("ulm/gridftp.ulm", &text);
    assert_ptr_equal(encoding_detect(strbuf_slice(&text)), &encoding_ulm);
    struct batch *b = codec_decode(&encoding_ulm, registry, strbuf_slice(&text));
    assert_int_equal(b->n, 2);
    const struct event *e = &b->events[0];
    assert_true(e->time_ns == utc("2024-03-12T09:45:01.002102Z")); /* not .2102 */
    assert_int_equal(e->level, LEVEL_INFO);
    assert_slice(e->schema->name, "FTP_INFO");
    assert_slice(value_slice(event_get(e, SLICE_LIT("FILE"))), "/store/data/Run2024A/00F3[1],v2.root");
    assert_slice(value_slice(event_get(e, SLICE_LIT("DEST"))), "[192.0.2.17]");
    assert_true(value_eq(event_get(e, SLICE_LIT("NBYTES")), value_int(4294967296)));
    assert_true(value_eq(event_get(e, SLICE_LIT("CODE")), value_int(226)));
    e = &b->events[1];
    assert_true(e->time_ns == utc("2024-03-12T09:45:07.451200Z")); /* six digits mean what they say */
    assert_slice(value_slice(event_get(e, SLICE_LIT("FILE"))), "/tmp/a\"b");
    codec_round_trip(&encoding_ulm, registry, b);
    batch_unref(b);
    strbuf_fini(&text);
}

/* The fraction depends on who wrote it, also when PROG comes after DATE and the second was seen before. */
static void test_short_fractions(void **state)
{
    (void)state;
    static const struct {
        const char *line, *time;
    } cases[] = {
        {"DATE=20240312094501.2102 PROG=x", "2024-03-12T09:45:01.210200Z"},
        {"DATE=20240312094501.2102 PROG=globus-gridftp-server", "2024-03-12T09:45:01.002102Z"},
        {"PROG=gridftp DATE=20240312094501.7", "2024-03-12T09:45:01.000007Z"},
        {"DATE=20240312094501 PROG=gridftp", "2024-03-12T09:45:01Z"},
        {"DATE=20240312094501.000007 PROG=gridftp", "2024-03-12T09:45:01.000007Z"},
        {"DATE=19690312094501.5 PROG=gridftp", "1969-03-12T09:45:01.000005Z"},
        {"DATE=19690312094501.5", "1969-03-12T09:45:01.500000Z"},
        {"DATE=20240312094501.123456789999", "2024-03-12T09:45:01.123456789Z"},
    };
    struct strbuf text = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        strbuf_printf(&text, "%s\n", cases[i].line);
    struct batch *b = codec_decode(&encoding_ulm, registry, strbuf_slice(&text));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(b->events[i].time_ns == utc(cases[i].time));
    batch_unref(b);
    strbuf_fini(&text);
}

static void test_times_at_the_ends(void **state)
{
    (void)state;
    const int64_t times[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, 999999999, INT64_MAX - 1, INT64_MAX};
    struct batch_builder *builder = batch_builder_create(registry, 0);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        struct event_head head = {.time_ns = times[i], .name = SLICE_LIT("e"), .level = LEVEL_INFO};
        assert_int_equal(batch_builder_add(builder, &head, NULL, 0, NULL), 0);
    }
    struct batch *b = batch_builder_finish(builder, NULL);
    codec_round_trip(&encoding_ulm, registry, b);
    codec_round_trip(&encoding_bp, registry, b);
    batch_unref(b);
    batch_builder_destroy(builder);
}

static void test_glite(void **state)
{
    (void)state;
    struct strbuf text = {0};
    codec_read_fixture("ulm/glite.ulm", &text);
    assert_ptr_equal(encoding_detect(strbuf_slice(&text)), &encoding_ulm);
    struct batch *b = codec_decode(&encoding_ulm, registry, strbuf_slice(&text));
    assert_int_equal(b->n, 2);
    const struct event *e = &b->events[0];
    assert_slice(e->schema->name, "event");
    assert_slice(e->host, "wms01.example.org");
    assert_int_equal(e->level, LEVEL_SYSTEM);
    assert_int_equal(b->events[1].level, LEVEL_USAGE);
    assert_true(value_eq(event_get(e, SLICE_LIT("DG.SRC_INSTANCE")), value_text(SLICE_LIT(""))));
    assert_true(value_eq(event_get(&b->events[1], SLICE_LIT("DG.SRC_INSTANCE")), value_text(SLICE_LIT("1"))));
    assert_slice(value_slice(event_get(e, SLICE_LIT("DG.USER"))), "/C=CZ/O=CESNET/CN=Jan \"Honza\" Novak");
    assert_slice(value_slice(event_get(e, SLICE_LIT("DG.ACCEPTED.LOCAL_JOBID"))), "C:\\temp\\job");
    assert_int_equal(event_get(&b->events[1], SLICE_LIT("DG.USER")).type, VALUE_NONE);
    codec_round_trip(&encoding_ulm, registry, b);
    batch_unref(b);
    strbuf_fini(&text);
}

static void test_netlogger(void **state)
{
    (void)state;
    struct strbuf text = {0};
    codec_read_fixture("ulm/netlogger.ulm", &text);
    assert_ptr_equal(encoding_detect(strbuf_slice(&text)), &encoding_ulm);
    struct batch *b = codec_decode(&encoding_ulm, registry, strbuf_slice(&text));
    assert_int_equal(b->n, 4);
    assert_int_equal(b->events[0].level, LEVEL_USAGE);
    assert_true(value_eq(event_get(&b->events[1], SLICE_LIT("VAL")), value_float(0.35)));
    const struct event *e = &b->events[2];
    assert_int_equal(e->level, LEVEL_DEBUG);
    assert_slice(e->host, "ntaf.example");
    assert_true(e->time_ns == utc("2003-06-01T12:00:00.5Z"));
    assert_true(value_eq(event_get(e, SLICE_LIT("DELTA")), value_float(-1e-7)));
    assert_true(value_eq(event_get(e, SLICE_LIT("SRC")), value_text(SLICE_LIT("192.0.2.1"))));
    assert_true(value_eq(event_get(e, SLICE_LIT("OK")), value_bool(true)));
    assert_slice(value_slice(event_get(&b->events[3], SLICE_LIT("MSG"))), "last line, CRLF, no LVL");
    codec_round_trip(&encoding_ulm, registry, b);
    batch_unref(b);
    strbuf_fini(&text);
}

static void test_limits(void **state)
{
    (void)state;
    struct strbuf line = {0};
    struct diag why;
    strbuf_add_str(&line, HEAD);
    for (int i = 0; i < EVENT_FIELDS_MAX; i++)
        strbuf_printf(&line, " F%d=%d", i, i);
    struct batch *b = decode(line.p);
    assert_int_equal(b->events[0].schema->n_fields, EVENT_FIELDS_MAX);
    codec_round_trip(&encoding_ulm, registry, b);
    batch_unref(b);
    strbuf_add_str(&line, " ONE.MORE=1");
    assert_int_equal(codec_error(&encoding_ulm, registry, strbuf_slice(&line), &why), E_LIMIT);
    assert_true(why.col > 0);

    strbuf_reset(&line);
    strbuf_printf(&line, HEAD " %0*d=1", EVENT_NAME_MAX, 0);
    batch_unref(decode(line.p));
    strbuf_reset(&line);
    strbuf_printf(&line, HEAD " %0*d=1", EVENT_NAME_MAX + 1, 0);
    assert_int_equal(codec_error(&encoding_ulm, registry, strbuf_slice(&line), &why), E_LIMIT);
    assert_int_equal(why.col, AT(0));
    strbuf_reset(&line);
    strbuf_printf(&line, HEAD " GL.%0*d=1", EVENT_NAME_MAX + 1, 0);
    assert_int_equal(codec_error(&encoding_ulm, registry, strbuf_slice(&line), &why), E_LIMIT);

    strbuf_reset(&line);
    strbuf_printf(&line, HEAD " A=%0*d", EVENT_TEXT_MAX + 1, 0);
    assert_int_equal(codec_error(&encoding_ulm, registry, strbuf_slice(&line), &why), E_LIMIT);
    strbuf_reset(&line);
    strbuf_printf(&line, "DATE=20261115212028 HOST=%0*d", EVENT_ORIGIN_MAX + 1, 0);
    assert_int_equal(codec_error(&encoding_ulm, registry, strbuf_slice(&line), &why), E_LIMIT);
    strbuf_fini(&line);
}

/* The largest event there is, in its longest form, is a line that can be read. */
static void test_largest_event(void **state)
{
    (void)state;
    static char text[EVENT_TEXT_MAX];
    memset(text, '\n', sizeof text);
    struct named_value values[4];
    static const char *const names[] = {"a:", "b:", "c:", "d:"};
    for (size_t i = 0; i < 4; i++)
        values[i] = (struct named_value){slice_str(names[i]), value_text(slice_of(text, sizeof text - 64))};
    struct batch_builder *builder = batch_builder_create(registry, 0);
    struct event_head head = {.name = SLICE_LIT("big"), .level = LEVEL_INFO};
    assert_int_equal(batch_builder_add(builder, &head, values, 4, NULL), 0);
    struct batch *b = batch_builder_finish(builder, NULL);
    codec_round_trip(&encoding_ulm, registry, b);
    codec_round_trip(&encoding_bp, registry, b);
    batch_unref(b);
    batch_builder_destroy(builder);
}

static void test_random_events(void **state)
{
    (void)state;
    uint64_t seed = 20261115;
    struct batch_builder *builder = batch_builder_create(registry, 0);
    for (unsigned round = 0; round < 200 * test_scale(); round++) {
        for (int i = 0; i < 100; i++)
            random_event_add(builder, &seed);
        struct batch *b = batch_builder_finish(builder, NULL);
        codec_round_trip(&encoding_ulm, registry, b);
        batch_unref(b);
    }
    batch_builder_destroy(builder);
}

/* Decodes and encodes text, going on after -ENOMEM; appends to out. */
static void convert_stubbornly(struct slice text, uint64_t fail_at, struct strbuf *out)
{
    struct registry *fresh = registry_create();
    struct batch_builder *builder = batch_builder_create(fresh, 0);
    struct decoder *d;
    struct diag why;
    size_t at = 0, used;
    assert_int_equal(decoder_create(&encoding_ulm, &d), 0);
    mem_fail_after(fail_at);
    while (at < text.n) {
        int r = decoder_run(d, slice_from(text, at), true, builder, &used, &why);
        assert_true(r == 0 || r == -ENOMEM);
        at += used;
    }
    mem_fail_after(0);
    struct batch *b = batch_builder_finish(builder, NULL);
    codec_encode(&encoding_ulm, b, out);
    batch_unref(b);
    decoder_destroy(d);
    batch_builder_destroy(builder);
    registry_destroy(fresh);
}

static void test_decoding_without_memory(void **state)
{
    (void)state;
    static const char text[] = HEAD " A=1 GL.a-3ab=\"x\\\"y\"\n" HEAD " B=\"%b:AAE=\" C=\"%e:%0A\"\n"
                                    "DATE=20261115212029 HOST=\"%t:h\" NL.EVNT=f X=\"\\\\\"\n";
    struct strbuf expected = {0};
    convert_stubbornly(slice_str(text), 0, &expected);
    for (uint64_t i = 1; i < 40; i++) {
        struct strbuf out = {0};
        convert_stubbornly(slice_str(text), i, &out);
        assert_string_equal(out.p, expected.p);
        strbuf_fini(&out);
    }
    strbuf_fini(&expected);
}

static void test_encoding_without_memory(void **state)
{
    (void)state;
    struct batch *b = decode(HEAD " A=1 GL.a-3ab=\"x\\\"y\"\n" HEAD " B=\"%b:AAE=\" C=\"%e:%0A\"\n");
    bool failed = true;
    for (uint64_t i = 1; failed; i++) {
        struct encoder *e = NULL;
        struct strbuf out = {0};
        mem_fail_after(i);
        int r = encoder_create(&encoding_ulm, &e);
        if (r == 0)
            r = encoder_run(e, b, &out);
        mem_fail_after(0);
        assert_true(r == 0 || r == -ENOMEM);
        failed = r < 0;
        encoder_destroy(e);
        strbuf_fini(&out);
        assert_true(i < 100);
    }
    batch_unref(b);
}

static void test_detect(void **state)
{
    (void)state;
    static const char *const yes[] = {"DATE=20261115212028", "\n \r\nHOST=h PROG=p DATE=2",
                                      "HOST=\"a \\\" DATE\" DATE=1 x", "DATE=20261115 ts=5",
                                      "A=1\tDATE=5\n{"};
    static const char *const no[] = {"",
                                     "ts=1 event=e",
                                     "{\"DATE\":5}",
                                     "A=\"DATE=5\"",
                                     "A=\" DATE=5",
                                     "A=1\nDATE=5",
                                     "date=20261115212028",
                                     "ts=1 DATE=5",
                                     "DATE",
                                     "A = DATE=5",
                                     "A= DATE=5"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!encoding_ulm.detect(slice_str(yes[i])))
            fail_msg("not taken for ULM: %s", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (encoding_ulm.detect(slice_str(no[i])))
            fail_msg("taken for ULM: %s", no[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_canonical_line, setup, teardown),
        cmocka_unit_test_setup_teardown(test_header, setup, teardown),
        cmocka_unit_test_setup_teardown(test_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_goes_on_after_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lines_are_independent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gridftp, setup, teardown),
        cmocka_unit_test_setup_teardown(test_short_fractions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_times_at_the_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_glite, setup, teardown),
        cmocka_unit_test_setup_teardown(test_netlogger, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_largest_event, setup, teardown),
        cmocka_unit_test_setup_teardown(test_random_events, setup, teardown),
        cmocka_unit_test_setup_teardown(test_decoding_without_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_encoding_without_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_detect, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
