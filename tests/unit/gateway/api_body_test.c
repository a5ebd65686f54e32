/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/mem.h"
#include "gateway/api_body.h"

#include <errno.h>

struct read {
    struct strbuf verb;
    struct args_writer args;
    struct diag why;
    int result;
};

static struct read read_body(const char *text)
{
    struct read r = {0};
    r.result = api_body_read(slice_str(text), &r.verb, &r.args, &r.why);
    return r;
}

static void fini(struct read *r)
{
    strbuf_fini(&r->verb);
    args_writer_fini(&r->args);
}

static void test_values(void **state)
{
    (void)state;
    struct read r =
        read_body("{\"args\":{\"workers\":\"n\\u00e4*\",\"dry_run\":true,\"timeout_ms\":500,\"low\":-3,"
                  "\"f\":1.5,\"none\":null,\"set\":{\"vector.every\":\"2s\",\"deep\":{\"er\":1}},"
                  "\"after\":7},\"verb\":\"worker.set\"}");
    assert_int_equal(r.result, 0);
    assert_slice(strbuf_slice(&r.verb), "worker.set");
    struct args a = args_of(&r.args);
    assert_slice(args_text(a, "workers"), "n\xc3\xa4*");
    assert_int_equal(args_value(a, "dry_run").type, VALUE_BOOL);
    assert_int_equal(args_uint(a, "timeout_ms", 0), 500);
    assert_int_equal(args_value(a, "low").i, -3);
    assert_true(args_value(a, "f").f == 1.5);
    assert_int_equal(args_value(a, "none").type, VALUE_NONE);
    assert_slice(args_text(a, "set.vector.every"), "2s");
    assert_int_equal(args_uint(a, "set.deep.er", 0), 1);
    assert_int_equal(args_uint(a, "after", 0), 7); /* outside of the objects again */
    assert_int_equal(a.n, 8);
    fini(&r);
    r = read_body(" {\"verb\" : \"status\"} ");
    assert_int_equal(r.result, 0);
    assert_int_equal(r.args.n, 0);
    fini(&r);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "null",
        "[]",
        "{}",
        "{\"verb\":\"a\"",
        "{\"verb\":\"a\"}}",
        "{\"verb\":\"a\"}{}",
        "{\"verb\":1}",
        "{\"verb\":\"\"}",
        "{\"verb\":\"a b\"}",
        "{\"verb\":\"a\",\"verb\":\"b\"}",
        "{\"verb\":\"a\",\"more\":1}",
        "{\"verb\":\"a\",\"args\":[]}",
        "{\"verb\":\"a\",\"args\":{},\"args\":{}}",
        "{\"verb\":\"a\",\"args\":{\"b\":[1]}}",
        "{\"verb\":\"a\",\"args\":{\"b c\":1}}",
        "{\"verb\":\"a\",\"args\":{\"\":1}}",
        "{\"verb\":\"a\",\"args\":{\"b\":\"\\ud800\"}}",
        "{\"verb\":\"a\",\"args\":{\"b\":\"\xff\"}}",
        "{\"verb\":\"a\",\"args\":{\"b\":1e999}}",
        "{\"verb\":\"a\",\"args\":{\"b\":{\"c\":{\"d\":{\"e\":{\"f\":{\"g\":1}}}}}}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct read r = read_body(bad[i]);
        if (r.result >= 0 || r.result == -ENOMEM || !r.why.message[0])
            fail_msg("%s: %d %s", bad[i], r.result, r.why.message);
        fini(&r);
    }
}

static void test_limits(void **state)
{
    (void)state;
    struct strbuf text = {0};
    strbuf_add_str(&text, "{\"verb\":\"a\",\"args\":{");
    for (int i = 0; i < ARGS_MAX; i++)
        strbuf_printf(&text, "%s\"n%d\":1", i ? "," : "", i);
    strbuf_add_str(&text, "}}");
    struct read r = read_body(text.p);
    assert_int_equal(r.result, E_LIMIT);
    fini(&r);
    strbuf_reset(&text);
    strbuf_add_str(&text, "{\"verb\":\"a\",\"args\":{\"");
    for (int i = 0; i <= ARGS_NAME_MAX; i++)
        strbuf_add_char(&text, 'n');
    strbuf_add_str(&text, "\":1}}");
    r = read_body(text.p);
    assert_int_equal(r.result, E_LIMIT);
    fini(&r);
    strbuf_fini(&text);
}

static void test_no_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        mem_fail_after(n);
        struct read r = read_body("{\"verb\":\"a\",\"args\":{\"b\":\"\\n\",\"c\":{\"d\":1}}}");
        mem_fail_after(0);
        int result = r.result;
        fini(&r);
        if (result == 0)
            break;
        assert_int_equal(result, -ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_limits), cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
