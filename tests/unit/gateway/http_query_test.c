/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "gateway/http_query.h"

#include <errno.h>
#include <stdio.h>

static int parse(const char *text, struct http_query *q, struct diag *why)
{
    *why = (struct diag){0};
    return http_query_parse(slice_str(text), q, why);
}

static void test_values(void **state)
{
    (void)state;
    struct http_query q;
    struct diag why;
    struct slice v;
    assert_int_equal(parse("event=cpu,disk*&where=a+%3E%3D%202&&host=%C3%A4&empty=&flag", &q, &why), 0);
    assert_int_equal(q.n, 5);
    assert_true(http_query_get(&q, "event", &v));
    assert_slice(v, "cpu,disk*");
    assert_true(http_query_get(&q, "where", &v));
    assert_slice(v, "a >= 2");
    assert_true(http_query_get(&q, "host", &v));
    assert_slice(v, "\xc3\xa4");
    assert_true(http_query_get(&q, "empty", &v) && v.n == 0);
    assert_true(http_query_get(&q, "flag", &v) && v.n == 0);
    assert_false(http_query_get(&q, "Event", &v));
    assert_true(http_query_take(&q, "where", &v));
    assert_slice(v, "a >= 2");
    assert_false(http_query_take(&q, "where", &v));
    assert_int_equal(q.n, 4);
    assert_true(http_query_get(&q, "flag", &v));
    http_query_fini(&q);
    assert_int_equal(parse("", &q, &why), 0);
    assert_int_equal(q.n, 0);
    http_query_fini(&q);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"a=%",   "a=%1",  "a=%zz",   "a=%00",     "a=%ff",     "=1",
                                      "a b=1", "%3d=1", "a=1&a=2", "a=1&%61=2", "\xc3\xa4=1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct http_query q;
        struct diag why;
        assert_int_equal(parse(bad[i], &q, &why), E_PROTO);
        assert_true(why.message[0]);
        http_query_fini(&q);
    }
}

static void test_limits(void **state)
{
    (void)state;
    struct strbuf text = {0};
    struct http_query q;
    struct diag why = {0};
    for (int i = 0; i < HTTP_PARAMS_MAX; i++)
        strbuf_printf(&text, "%sa%d=1", i ? "&" : "", i);
    assert_int_equal(http_query_parse(strbuf_slice(&text), &q, &why), 0);
    assert_int_equal(q.n, HTTP_PARAMS_MAX);
    http_query_fini(&q);
    strbuf_add_str(&text, "&one=more");
    assert_int_equal(http_query_parse(strbuf_slice(&text), &q, &why), E_LIMIT);
    http_query_fini(&q);
    strbuf_reset(&text);
    strbuf_add_str(&text, "a=");
    while (text.n < HTTP_URL_MAX)
        strbuf_add_char(&text, 'x');
    assert_int_equal(http_query_parse(strbuf_slice(&text), &q, &why), 0);
    http_query_fini(&q);
    strbuf_add_char(&text, 'x');
    assert_int_equal(http_query_parse(strbuf_slice(&text), &q, &why), E_LIMIT);
    http_query_fini(&q);
    strbuf_fini(&text);
    mem_fail_after(1);
    assert_int_equal(parse("a=1", &q, &why), -ENOMEM);
    mem_fail_after(0);
    http_query_fini(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
