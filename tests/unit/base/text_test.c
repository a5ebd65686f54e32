/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/err.h"
#include "base/text.h"

static void test_utf8(void **state)
{
    (void)state;
    assert_true(text_is_utf8(SLICE_LIT("plain ascii, longer than eight bytes")));
    assert_true(text_is_utf8(SLICE_LIT("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80")));
    static const char *const bad[] = {"\x80",         "\xc0\xaf",         "\xc3",
                                      "\xe0\x80\xaf", "\xed\xa0\x80",     "\xf4\x90\x80\x80",
                                      "\xff",         "12345678\xe2\x82", "a\xf8\x88\x80\x80\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(text_is_utf8(slice_str(bad[i])));
    assert_int_equal(text_utf8_length(SLICE_LIT("")), 0);
    assert_int_equal(text_utf8_length(SLICE_LIT("ab")), 1);
    assert_int_equal(text_utf8_length(SLICE_LIT("\xf0\x9f\x98\x80x")), 4);
    assert_int_equal(text_utf8_length(SLICE_LIT("\xe2\x82")), 0);
}

static void test_base64(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (size_t n = 0; n < 100; n++) {
        char bytes[100];
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)test_random(&seed);
        struct strbuf text = {0}, back = {0};
        text_add_base64(&text, slice_of(bytes, n));
        assert_int_equal(text_from_base64(strbuf_slice(&text), &back), 0);
        assert_true(slice_eq(strbuf_slice(&back), slice_of(bytes, n)));
        strbuf_fini(&text);
        strbuf_fini(&back);
    }
    static const char *const bad[] = {"A", "AA=", "AAA", "A===", "AA=A", "AB==", "AAB=", "A A=", "AAAA=AAA"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct strbuf out = {0};
        assert_int_equal(text_from_base64(slice_str(bad[i]), &out), E_PROTO);
        assert_int_equal(out.n, 0);
        strbuf_fini(&out);
    }
}

static void test_glob(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool hit;
    } cases[] = {
        {"*", "", true},
        {"*", "abc", true},
        {"a*c", "abbbc", true},
        {"a*c", "abbb", false},
        {"a?c", "abc", true},
        {"a?c", "ac", false},
        {"[a-c]x", "bx", true},
        {"[!a-c]x", "bx", false},
        {"[]]", "]", true},
        {"[abc", "[abc", true},
        {"\\*", "*", true},
        {"\\*", "x", false},
        {"*.start", "a.start", true},
        {"a*b*c", "aXbYbZc", true},
        {"", "", true},
        {"", "a", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (text_glob(slice_str(cases[i].pattern), slice_str(cases[i].text)) != cases[i].hit)
            fail_msg("%s ~ %s", cases[i].pattern, cases[i].text);
    assert_true(text_glob_is_closed(SLICE_LIT("a*[!]b]\\[")));
    assert_false(text_glob_is_closed(SLICE_LIT("a[")));
    assert_false(text_glob_is_closed(SLICE_LIT("[]")));
    assert_true(text_glob_any(SLICE_LIT(""), SLICE_LIT("cpu")));
    assert_true(text_glob_any(SLICE_LIT("cpu,disk*"), SLICE_LIT("cpu")));
    assert_true(text_glob_any(SLICE_LIT("cpu,disk*"), SLICE_LIT("disk.io")));
    assert_false(text_glob_any(SLICE_LIT("cpu,disk*"), SLICE_LIT("cpu,disk")));
    assert_false(text_glob_any(SLICE_LIT("cpu,disk*"), SLICE_LIT("")));
    assert_false(text_glob_any(SLICE_LIT(","), SLICE_LIT("cpu")));
}

static void test_name(void **state)
{
    (void)state;
    assert_true(text_is_name(SLICE_LIT("job.state:x_1-2")));
    assert_false(text_is_name(SLICE_LIT("")));
    assert_false(text_is_name(SLICE_LIT("a b")));
    assert_false(text_is_name(SLICE_LIT("a/b")));
    char long_name[129];
    memset(long_name, 'a', sizeof long_name);
    assert_true(text_is_name(slice_of(long_name, 128)));
    assert_false(text_is_name(slice_of(long_name, 129)));
}

static void test_distance(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        unsigned distance;
    } cases[] = {
        {"", "", 0},
        {"", "abc", 3},
        {"warning", "Warning", 0},
        {"warnign", "warning", 1},
        {"eror", "error", 1},
        {"errror", "error", 1},
        {"info", "imfo", 1},
        {"ca", "abc", 3},
        {"betwen", "between", 1},
        {"kitten", "sitting", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(text_distance(slice_str(cases[i].a), slice_str(cases[i].b)), cases[i].distance);
        assert_int_equal(text_distance(slice_str(cases[i].b), slice_str(cases[i].a)), cases[i].distance);
    }
    char word[TEXT_DISTANCE_MAX + 1];
    memset(word, 'a', sizeof word);
    assert_int_equal(text_distance(slice_of(word, TEXT_DISTANCE_MAX), slice_of(word, TEXT_DISTANCE_MAX)), 0);
    assert_int_equal(text_distance(slice_of(word, sizeof word), slice_of(word, sizeof word)),
                     TEXT_DISTANCE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8), cmocka_unit_test(test_base64),   cmocka_unit_test(test_glob),
        cmocka_unit_test(test_name), cmocka_unit_test(test_distance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
