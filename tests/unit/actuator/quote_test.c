/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "actuator/quote.h"
#include "base/text.h"

static void check_line(struct slice s, const char *expected)
{
    struct strbuf out = {0};
    quote_line(&out, s);
    assert_slice(strbuf_slice(&out), expected);
    strbuf_fini(&out);
}

static void test_line(void **state)
{
    (void)state;
    check_line(SLICE_LIT(""), "");
    check_line(SLICE_LIT("gr\xc3\xbc\xc3\x9f \\ \"x\""), "gr\xc3\xbc\xc3\x9f \\ \"x\"");
    check_line(SLICE_LIT("a\nb\r\x1b[31m\x7f\0z"), "a\\x0ab\\x0d\\x1b[31m\\x7f\\x00z");
    check_line(SLICE_LIT("\xc2\x9b"
                         "31m"),
               "\\xc2\\x9b31m"); /* CSI in one character */
    check_line(SLICE_LIT("a\xe2\x80\xae"
                         "b"),
               "a\\xe2\\x80\\xaeb"); /* writes from right to left */
    check_line(SLICE_LIT("\xe2\x80\xa8\xe2\x81\xa6\xe2\x82\xac"),
               "\\xe2\\x80\\xa8\\xe2\\x81\\xa6\xe2\x82\xac");
    check_line(SLICE_LIT("\xc0\xaf\xff\xe2\x82"), "\\xc0\\xaf\\xff\\xe2\\x82"); /* overlong, none, cut */
}

/* Whatever goes in: one line of UTF-8 without control characters. */
static void test_any_bytes(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 2000; round++) {
        char bytes[32];
        size_t n = test_random(&seed) % sizeof bytes;
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)test_random(&seed);
        struct strbuf out = {0};
        quote_line(&out, slice_of(bytes, n));
        assert_true(text_is_utf8(strbuf_slice(&out)));
        assert_false(text_has_control(strbuf_slice(&out)));
        strbuf_fini(&out);
    }
}

static void test_argv(void **state)
{
    (void)state;
    struct strbuf out = {0};
    const char *argv[] = {"/bin/x", "a b", "", "\"\\", "-\n", NULL};
    quote_argv(&out, argv);
    assert_slice(strbuf_slice(&out), "\"/bin/x\" \"a b\" \"\" \"\\\"\\\\\" \"-\\x0a\"");
    strbuf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_line), cmocka_unit_test(test_any_bytes),
                                       cmocka_unit_test(test_argv)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
