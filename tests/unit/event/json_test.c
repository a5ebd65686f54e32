/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "event/json.h"

/* The items of a text as one line: kinds as letters, keys and texts as they stand. "!" and the column at an
 * error. */
static void trace(const char *text, unsigned depth_max, struct strbuf *out)
{
    static const char letters[] = ".zft#\"{}[]";
    struct json_reader r;
    struct json_item item;
    struct diag why = {0};
    strbuf_reset(out);
    json_init(&r, slice_str(text), depth_max, &why);
    int rc;
    while ((rc = json_next(&r, &item)) == 0) {
        if (item.key.n)
            strbuf_printf(out, "%.*s:", SLICE_ARG(item.key));
        strbuf_add_char(out, letters[item.kind]);
        strbuf_add_slice(out, item.text);
        if (item.kind == JSON_END)
            return;
    }
    strbuf_printf(out, "!%s%u", rc == E_LIMIT ? "L" : "", why.col);
    assert_true(why.message[0] != '\0');
}

static void test_reader(void **state)
{
    (void)state;
    static const struct {
        const char *text, *trace;
    } cases[] = {
        {"{}", "{}."},
        {" [ ] ", "[]."},
        {"1", "#1."},
        {"\"x\"", "\"x."},
        {"null", "z."},
        {" {\"a\" : 1 , \"b\":[true,false,null,\"s\",-0.5e+3,{}], \"c\":{\"d\":\"e\"}}\r\n",
         "{a:#1b:[tfz\"s#-0.5e+3{}]c:{d:\"e}}."},
        {"[[[]],[]]", "[[[]][]]."},
        {"{\"k\":\"a long string that takes several words, with \\\"quotes\\\" in it\"}",
         "{k:\"a long string that takes several words, with \\\"quotes\\\" in it}."},
        {"", "!1"},
        {"  ", "!3"},
        {"{", "{!2"},
        {"[1", "[#1!3"},
        {"[1,]", "[#1!4"},
        {"[,1]", "[!2"},
        {"[1 2]", "[#1!4"},
        {"{\"a\":1,}", "{a:#1!8"},
        {"{\"a\"}", "{!5"},
        {"{\"a\":}", "{!6"},
        {"{\"a\" 1}", "{!6"},
        {"{a:1}", "{!2"},
        {"{]", "{!2"},
        {"[}", "[!2"},
        {"{} x", "{}!4"},
        {"1 2", "#1!3"},
        {"01", "!1"},
        {"-", "!1"},
        {"1.", "!1"},
        {"1.e5", "!1"},
        {"1e", "!1"},
        {"1e+", "!1"},
        {"+1", "!1"},
        {".5", "!1"},
        {"NaN", "!1"},
        {"tru", "!1"},
        {"nul", "!1"},
        {"\"", "!1"},
        {"\"abc", "!1"},
        {"\"abc\\", "!1"},
        {"\"abc\\\"", "!1"},
        {"\"tab\there\"", "!5"},
        {"[[[[]]]]", "[[[!L4"},
    };
    struct strbuf out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trace(cases[i].text, 3, &out);
        if (!slice_eq_str(strbuf_slice(&out), cases[i].trace))
            fail_msg("%s is %s, not %s", cases[i].text, out.p, cases[i].trace);
    }
    strbuf_fini(&out);
}

static void test_depth(void **state)
{
    (void)state;
    struct strbuf text = {0}, out = {0};
    for (int i = 0; i < 100; i++)
        strbuf_add_str(&text, i % 2 ? "[" : "{\"a\":");
    trace(text.p, 200, &out); /* never more than JSON_DEPTH_MAX */
    assert_true(slice_ends(strbuf_slice(&out), SLICE_LIT("!L193")));
    strbuf_fini(&text);
    strbuf_fini(&out);
}

static void check_unescape(const char *raw, struct slice expected)
{
    char to[64];
    size_t n = 0;
    struct json_reader r;
    json_init(&r, slice_str(raw), 1, NULL);
    assert_int_equal(json_unescape(&r, slice_str(raw), to, &n), 0);
    assert_int_equal(n, expected.n);
    assert_memory_equal(to, expected.p, n);
}

static void test_unescape(void **state)
{
    (void)state;
    check_unescape("", SLICE_LIT(""));
    check_unescape("plain", SLICE_LIT("plain"));
    check_unescape("\\n\\t\\r\\b\\f\\\"\\\\\\/", SLICE_LIT("\n\t\r\b\f\"\\/"));
    check_unescape("a\\u0000b", SLICE_LIT("a\0b"));
    check_unescape("\\u00e4\\u20AC\\u007f", SLICE_LIT("\xc3\xa4\xe2\x82\xac\x7f"));
    check_unescape("\\ud83d\\ude00!", SLICE_LIT("\xf0\x9f\x98\x80!"));
    check_unescape("\\uD800\\uDC00\\uDBFF\\uDFFF", SLICE_LIT("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"));
    static const char *const bad[] = {"\\x",         "\\u",     "\\u12",   "\\u12g4",        "\\ud83d",
                                      "\\ud83d.",    "\\udc00", "\\u+123", "\\ud83d\\n",     "\\ud83d\\ud83d",
                                      "\\ud83d\\u1", "\\N",     "\\'",     "\\ud83d\\u0041", "ok\\0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char to[64];
        size_t n;
        struct json_reader r;
        struct diag why = {0};
        json_init(&r, slice_str(bad[i]), 1, &why);
        if (json_unescape(&r, slice_str(bad[i]), to, &n) != E_PROTO || why.col != (i == 14 ? 3 : 1))
            fail_msg("%s: col %u", bad[i], why.col);
    }
}

static void test_write_string(void **state)
{
    (void)state;
    struct strbuf out = {0};
    json_add_string(&out, SLICE_LIT(""));
    json_add_string(&out, slice_of(NULL, 0));
    json_add_string(&out, SLICE_LIT("a\"b\\c\n\t\r\b\f\x01\x1f\x7f/"));
    json_add_string(&out, SLICE_LIT("12345678\"2345678\xc3\xa4\0"));
    assert_slice(strbuf_slice(&out), "\"\"\"\"\"a\\\"b\\\\c\\n\\t\\r\\b\\f\\u0001\\u001f\\u007f/\""
                                     "\"12345678\\\"2345678\xc3\xa4\\u0000\"");
    strbuf_fini(&out);
}

/* Every byte at every place of a string of any length: written, read and unescaped it is the same. */
static void test_string_round_trip(void **state)
{
    (void)state;
    struct strbuf out = {0};
    for (unsigned n = 1; n < 20; n++) {
        for (unsigned at = 0; at < n; at++) {
            for (unsigned c = 0; c < 256; c++) {
                char text[20], back[128];
                memset(text, 'x', sizeof text);
                text[at] = (char)c;
                strbuf_reset(&out);
                json_add_string(&out, slice_of(text, n));
                struct json_reader r;
                struct json_item item;
                json_init(&r, strbuf_slice(&out), 1, NULL);
                assert_int_equal(json_next(&r, &item), 0);
                assert_int_equal(item.kind, JSON_STRING);
                size_t len = item.text.n;
                assert_int_equal(json_unescape(&r, item.text, back, &len), 0);
                assert_int_equal(len, n);
                assert_memory_equal(back, text, n);
                assert_int_equal(item.escaped, c < 0x20 || c == '"' || c == '\\' || c == 0x7f);
            }
        }
    }
    strbuf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reader),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_unescape),
        cmocka_unit_test(test_write_string),
        cmocka_unit_test(test_string_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
