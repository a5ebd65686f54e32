/* SPDX-License-Identifier: Apache-2.0 */
#include "event/notice.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void a_fact_is_there_once(void **state)
{
    (void)state;
    struct notices all = {0}, others = {0};
    for (int i = 0; i < 3; i++)
        notices_add(&all, "retention", "%s", "data from 09:00 on");
    assert_int_equal(all.n, 1);
    notices_add(&all, "memory", "data from 09:00 on");
    notices_add(&others, "memory", "data from 09:00 on");
    notices_add(&others, "memory", "data from 10:00 on");
    notices_join(&all, &others);
    assert_int_equal(all.n, 3);
    assert_int_equal(all.left_out, 0);
}

static void those_beyond_the_limit_are_counted(void **state)
{
    (void)state;
    struct notices all = {0};
    for (int i = 0; i < NOTICES_MAX + 5; i++)
        notices_add(&all, "x", "%d", i);
    assert_int_equal(all.n, NOTICES_MAX);
    assert_int_equal(all.left_out, 5);
}

static void text_is_cut_at_a_character(void **state)
{
    (void)state;
    struct notices all = {0};
    char text[2 * NOTICE_TEXT_MAX + 2];
    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xbc", 3);
    notices_add(&all, "x", "%s", text);
    notices_add(&all, "x", "a%s", text);
    assert_int_equal(strlen(all.list[0].text), NOTICE_TEXT_MAX - 2);
    assert_int_equal(strlen(all.list[1].text), NOTICE_TEXT_MAX - 1);
}

static void bytes_go_there_and_back(void **state)
{
    (void)state;
    struct notices all = {0}, got = {0};
    struct strbuf bytes = {0};
    assert_int_equal(notices_get(SLICE_LIT(""), &got), 0);
    assert_int_equal(got.n, 0);
    for (int i = 0; i < NOTICES_MAX + 2; i++)
        notices_add(&all, "code", "text %d", i);
    notices_put(&bytes, &all);
    assert_int_equal(notices_get(strbuf_slice(&bytes), &got), 0);
    assert_int_equal(got.n, all.n);
    assert_int_equal(got.left_out, 2);
    assert_memory_equal(got.list[3].text, "text 3", 7);
    for (size_t n = 1; n < bytes.n; n++)
        assert_int_equal(notices_get(slice_of(bytes.p, n), &got), E_PROTO);
    assert_int_equal(notices_get(SLICE_LIT("\0\1\1\xff\1a"), &got), E_PROTO);
    strbuf_fini(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fact_is_there_once),
        cmocka_unit_test(those_beyond_the_limit_are_counted),
        cmocka_unit_test(text_is_cut_at_a_character),
        cmocka_unit_test(bytes_go_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
