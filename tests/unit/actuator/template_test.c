/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "actuator/template.h"

#include <errno.h>

/* Of constants. */
#define DATUM(name, value)           \
    {                                \
        {name, sizeof(name) - 1},    \
        {                            \
            value, sizeof(value) - 1 \
        }                            \
    }

static const struct act_datum data[] = {
    DATUM("host", "c0-0"),          DATUM("host", "second"), /* the first of a name counts */
    DATUM("braces", "{host} {{ }"), DATUM("empty", ""),
    DATUM("nul", "a\0b\0"),         DATUM("hard", "\"\\\n$(x) \xff\xc0\xaf"),
    DATUM("disk.free_bytes", "17"),
};

static const struct template_values values = {
    .data = data, .n = sizeof data / sizeof *data, .value_max = SIZE_MAX};

static void check_fill(const struct template_values *v, const char *text, const char *expected)
{
    struct strbuf out = {0};
    assert_int_equal(template_check(text, NULL), 0);
    template_fill(&out, text, v);
    assert_slice(strbuf_slice(&out), expected);
    strbuf_fini(&out);
}

static void test_fill(void **state)
{
    (void)state;
    check_fill(&values, "", "");
    check_fill(&values, "plain } text", "plain } text");
    check_fill(&values, "{host}:{host}", "c0-0:c0-0");
    check_fill(&values, "{{host}", "{host}");
    check_fill(&values, "{{{host}}", "{c0-0}");
    check_fill(&values, "<{nothing}> <{nothing?else}> <{empty?else}> <{nothing?}>", "<> <else> <> <>");
    check_fill(&values, "{disk.free_bytes} left", "17 left");
    check_fill(&values, "{braces}", "{host} {{ }"); /* nothing is looked at twice */
    check_fill(&values, "[{nul}]", "[a\\x00b\\x00]");
    check_fill(&values, "{hard}", "\"\\\n$(x) \xff\xc0\xaf");
}

static void test_encoders(void **state)
{
    (void)state;
    check_fill(&values, "{{\"t\":{hard|json}}",
               "{\"t\":\"\\\"\\\\\\n$(x) \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"}");
    check_fill(&values, "{nul|json} {nothing|json} {nothing|json?x}", "\"a\\u0000b\\u0000\" \"\" \"x\"");
    check_fill(&values, "?q={hard|url}&n={nul|url}", "?q=%22%5C%0A%24%28x%29%20%FF%C0%AF&n=a%00b%00");
}

static void test_check(void **state)
{
    (void)state;
    static const char *const bad[] = {"{",     "a {",         "{}",         "{ host}",
                                      "{host", "{host|perl}", "{host|json", "{\"text\": 1}",
                                      "{a b}", "{|json}",     "{?x}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct diag why = {0};
        assert_int_equal(template_check(bad[i], &why), -EINVAL);
        assert_int_equal(why.col, strchr(bad[i], '{') - bad[i] + 1);
        assert_non_null(strstr(why.message, "{{"));
    }
}

static void test_sample(void **state)
{
    (void)state;
    const struct template_values sample = {.value_max = SIZE_MAX, .is_sample = true};
    check_fill(&sample, "{pid}s {x?default}", "1s 1");
}

static void test_cut(void **state)
{
    (void)state;
    struct template_values v = values;
    v.value_max = 3;
    check_fill(&v, "{host} {disk.free_bytes}", "c0-[... 1 bytes more] 17");
    const struct act_datum euro[] = {{SLICE_LIT("e"), SLICE_LIT("ab\xe2\x82\xac"
                                                                "cd")},
                                     {SLICE_LIT("f"), SLICE_LIT("\x80\x80\x80\x80\x80\x80")}};
    v.data = euro;
    v.n = 2;
    check_fill(&v, "{e}", "ab[... 5 bytes more]"); /* no character is cut in two */
    check_fill(&v, "{f}", "\x80\x80\x80[... 3 bytes more]");
    v.value_max = 5;
    check_fill(&v, "{e}", "ab\xe2\x82\xac[... 2 bytes more]");
    v.value_max = 0;
    check_fill(&v, "{e}", "[... 7 bytes more]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fill), cmocka_unit_test(test_encoders),
                                       cmocka_unit_test(test_check), cmocka_unit_test(test_sample),
                                       cmocka_unit_test(test_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
