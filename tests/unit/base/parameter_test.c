/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/parameter.h"

#include <errno.h>

struct thing {
    const char *name;
    struct parameter_list words;
    int64_t n;
};

static const struct parameter table[] = {
    {SETTING_STRING, "name", "some", offsetof(struct thing, name), "a name", false, false},
    {SETTING_LIST, "words", "a b", offsetof(struct thing, words), "some words", false, false},
    {SETTING_INT, "n", NULL, offsetof(struct thing, n), "a number", false, true},
    {0},
};
static const struct parameter_owner owner = {"thing", "list things"};

static void test_group(void **state)
{
    (void)state;
    struct arena arena = {0};
    const struct parameter_setting *s;
    size_t n;
    const char *const options[] = {"words=x", "n=1", "words=", "words=a=b", "word=", NULL};
    assert_int_equal(parameters_group(options, &arena, &s, &n, NULL), 0);
    assert_int_equal(n, 3);
    assert_string_equal(s[0].name, "words");
    assert_int_equal(s[0].n, 3);
    assert_string_equal(s[0].texts[0], "x");
    assert_string_equal(s[0].texts[1], "");
    assert_string_equal(s[0].texts[2], "a=b");
    assert_string_equal(s[1].name, "n");
    assert_string_equal(s[2].name, "word");
    assert_int_equal(s[2].n, 1);
    assert_int_equal(parameters_group(NULL, &arena, &s, &n, NULL), 0);
    assert_int_equal(n, 0);
    static const char *const bad[] = {"", "=", "=x", "name"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct diag why = {0};
        assert_int_equal(parameters_group((const char *[]){"n=1", bad[i], NULL}, &arena, &s, &n, &why),
                         -EINVAL);
        assert_non_null(strstr(why.message, "name=value"));
    }
    arena_fini(&arena);
}

static void check_refused(const char *const *options, const char *says)
{
    struct arena arena = {0};
    const struct parameter_setting *s;
    struct thing t = {0};
    struct diag why = {0};
    size_t n;
    assert_int_equal(parameters_group(options, &arena, &s, &n, NULL), 0);
    assert_int_equal(parameters_apply(&owner, table, s, n, &arena, &t, &why), -EINVAL);
    assert_non_null(strstr(why.message, says));
    arena_fini(&arena);
}

static void test_apply(void **state)
{
    (void)state;
    struct arena arena = {0};
    const struct parameter_setting *s;
    struct thing t = {0};
    size_t n;
    assert_int_equal(parameters_group((const char *[]){"n=-3", NULL}, &arena, &s, &n, NULL), 0);
    assert_int_equal(parameters_apply(&owner, table, s, n, &arena, &t, NULL), 0);
    assert_string_equal(t.name, "some");
    assert_int_equal(t.words.n, 2);
    assert_string_equal(t.words.v[1], "b");
    assert_int_equal(t.n, -3);
    arena_fini(&arena);
    check_refused((const char *[]){"name=x", NULL}, "needs the option `n`");
    check_refused((const char *[]){"n=1", "nmae=x", NULL}, "did you mean `name`");
    check_refused((const char *[]){"n=1", "quite_another=x", NULL}, "`list things`");
    check_refused((const char *[]){"n=x", NULL}, "not a number");
    check_refused((const char *[]){"n=1", "n=2", NULL}, "one value, not 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_group), cmocka_unit_test(test_apply)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
