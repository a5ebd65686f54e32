/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "config/load.h"

static struct diag why;
static struct strbuf out;

static int check(struct slice text)
{
    strbuf_reset(&out);
    why = (struct diag){0};
    return config_text_check(text, &out, &why);
}

static void becomes(const char *text, const char *expected)
{
    int r = check(slice_str(text));
    if (r < 0)
        fail_msg("'%s': %s", text, why.message);
    assert_slice(strbuf_slice(&out), expected);
}

static void refuses(const char *text, unsigned line, const char *says)
{
    assert_true(check(slice_str(text)) < 0);
    if (!strstr(why.message, says) || why.line != line)
        fail_msg("'%s' says, in line %u, '%s'", text, (unsigned)why.line, why.message);
}

/* libconfuse counts a comment's line three times: it must not see one. Line ends stay. */
static void test_comments_go_and_lines_stay(void **unused)
{
    (void)unused;
    becomes("# a\nhost = x # b\n// c\ny", "\nhost = x \n\ny");
    becomes("a /* 1\n2\n3 */ b", "a \n\n  b");
    becomes("a = \"# no // comment /* here */\"", "a = \"# no // comment /* here */\"");
    becomes("a = 'b # c'", "a = 'b # c'");
    becomes("u = tcp://h:1//x", "u = tcp://h:1//x"); /* not at the start of a word */
    refuses("a = b/**/c", 1, "unexpected *");
}

static void test_strings(void **unused)
{
    (void)unused;
    becomes("a = \"\\\" \\\\ \\n \\x41 \\${x}\"", "a = \"\\\" \\\\ \\n \\x41 \\${x}\"");
    becomes("a = '\\' \\\\ ${x} \\1'", "a = '\\' \\\\ ${x} \\1'");
    becomes("a = \"$x $\"", "a = \"$x $\"");
    refuses("\na = \"b\nc\"", 2, "no end");
    refuses("a = \"b", 1, "no end");
    refuses("a = \"b\\", 1, "no end");
    refuses("a = \"b\\\n\"", 1, "no end");
    refuses("a = 'b", 1, "no end");
    refuses("a = 'b\\'", 1, "no end");
    refuses("a = \"${HOME}\"", 1, "not replaced");
    refuses("a = \"x${\"", 1, "not replaced");
    refuses("a = \"\\101\"", 1, "\\x");
    refuses("a = \"\\x00\"", 1, "not 00");
    refuses("a = \"\\x0\"", 1, "not 00");
    refuses("a = \"\\xg1\"", 1, "two hexadecimal");
    refuses("a = \"\x01\"", 1, "control character 0x01");
    assert_true(check(slice_of("a = \"b\0c\"", 9)) < 0);
    assert_true(check(slice_of("a\0", 2)) < 0);
}

static void test_braces(void **unused)
{
    (void)unused;
    becomes("a { b = {1, 2} }", "a { b = {1, 2} }");
    refuses("a {\n b = 1\n", 1, "not closed");
    refuses("a {\n b = {1\n}", 1, "not closed");
    refuses("a { }\n}", 2, "closes nothing");
    refuses("a {\n b {\n} }", 2, "of line 1");
    refuses("a = {{", 1, "section in a section");
}

static void test_what_libconfuse_would_skip(void **unused)
{
    (void)unused;
    refuses("a = 1 *", 1, "unexpected *");
    refuses("a += 1", 1, "+=");
    refuses("f(1)", 1, "unexpected (");
    refuses("a = ${HOME}", 1, "unexpected $");
    refuses("a = b\\c", 1, "unexpected \\");
    refuses("a = gr\xc3\xbc\xc3\x9f", 1, "not ASCII");
    refuses("a = \"\xff\"", 1, "UTF-8");
    refuses("a = 1\x7f", 1, "0x7f");
    refuses("a /* b", 1, "no end");
    becomes("a = \"gr\xc3\xbc\xc3\x9f\"\r\n", "a = \"gr\xc3\xbc\xc3\x9f\"\r\n");
}

static void test_limits(void **unused)
{
    struct strbuf text = {0};
    (void)unused;
    for (int i = 0; i < CONFIG_SECTIONS_MAX; i++)
        strbuf_add_str(&text, "a{}");
    assert_int_equal(check(strbuf_slice(&text)), 0);
    strbuf_add_str(&text, "\na{}");
    refuses(text.p, 2, "more than 1024 sections");
    strbuf_reset(&text);
    for (int i = 0; i < 2 * CONFIG_SECTIONS_MAX; i++)
        strbuf_add_str(&text, "a={1}"); /* lists are no sections */
    assert_int_equal(check(strbuf_slice(&text)), 0);
    strbuf_reset(&text);
    while (text.n <= CONFIG_TEXT_MAX)
        strbuf_add_char(&text, 'x');
    refuses(text.p, 1, "4096");
    strbuf_reset(&text);
    while (text.n < CONFIG_FILE_MAX)
        strbuf_add_char(&text, '\n');
    assert_int_equal(check(strbuf_slice(&text)), 0);
    strbuf_add_char(&text, '\n');
    refuses(text.p, 1, "larger");
    strbuf_fini(&text);
}

static int free_out(void **unused)
{
    (void)unused;
    strbuf_fini(&out);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comments_go_and_lines_stay),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_braces),
        cmocka_unit_test(test_what_libconfuse_would_skip),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, free_out);
}
