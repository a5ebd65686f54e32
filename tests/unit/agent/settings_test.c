/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "agent/settings.h"

#include <stdio.h>

static void put(struct settings *s, const char *key, const char *value, bool is_assigned)
{
    assert_int_equal(settings_put(s, slice_str(key), slice_str(value), is_assigned), 0);
}

static void is(const struct settings *s, const char *wanted)
{
    char all[1000] = "";
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", i == s->n_assigned ? "|" : i ? " " : "", s->v[i]);
    assert_string_equal(all, wanted);
}

static void test_layers(void **state)
{
    struct settings s = {0}, copy;
    (void)state;
    put(&s, "a.every", "1s", true);
    put(&s, "b.every", "2s", false);
    put(&s, "c.every", "3s", true);
    is(&s, "a.every=1s c.every=3s|b.every=2s");
    put(&s, "a.every", "4s", false); /* by order: it is not the lease's any more */
    is(&s, "c.every=3s|b.every=2s a.every=4s");
    put(&s, "b.every", "5s", true); /* and the other way round: the newest word counts */
    is(&s, "c.every=3s b.every=5s|a.every=4s");
    settings_copy(&copy, &s);
    settings_forget_assigned(&s);
    is(&s, "|a.every=4s");
    put(&s, "a.every", "", false);
    is(&s, "");
    is(&copy, "c.every=3s b.every=5s|a.every=4s");
    settings_fini(&copy);
    settings_fini(&s);
}

static void test_a_key_is_whole(void **state)
{
    struct settings s = {0};
    (void)state;
    put(&s, "a.every", "1s", false);
    put(&s, "a.ever", "2s", false);
    put(&s, "a.everyone", "3s", false);
    assert_int_equal(s.n, 3);
    settings_fini(&s);
}

static void test_too_many(void **state)
{
    struct settings s = {0};
    char key[32];
    (void)state;
    for (int i = 0; i < SETTINGS_MAX; i++) {
        (void)snprintf(key, sizeof key, "k%d.every", i);
        put(&s, key, "1s", i % 2);
    }
    assert_int_equal(settings_put(&s, SLICE_LIT("more.every"), SLICE_LIT("1s"), false), E_LIMIT);
    put(&s, "k7.every", "2s", false); /* one that is there has its place */
    assert_int_equal(s.n, SETTINGS_MAX);
    settings_fini(&s);
}

static void test_text(void **state)
{
    char buffer[32];
    struct slice text;
    (void)state;
    assert_true(settings_text(value_text(SLICE_LIT("10s")), buffer, &text));
    assert_slice(text, "10s");
    assert_true(settings_text(value_uint(7), buffer, &text));
    assert_slice(text, "7");
    assert_true(settings_text(value_int(-7), buffer, &text));
    assert_slice(text, "-7");
    assert_false(settings_text(value_float(1), buffer, &text));
    assert_false(settings_text(value_none(), buffer, &text));
    assert_false(settings_text(value_text(SLICE_LIT("a\nb")), buffer, &text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_a_key_is_whole),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
