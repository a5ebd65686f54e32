/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/mem.h"
#include "gateway/xmlrpc.h"

#include <errno.h>

#define CALL(params) \
    "<?xml version='1.0'?><methodCall><methodName>m.x</methodName><params>" params "</params></methodCall>"
#define PARAM(v)     "<param><value>" v "</value></param>"
#define MEMBER(n, v) "<member><name>" n "</name><value>" v "</value></member>"

static int read_call(const char *text, struct xmlrpc_call *c, struct diag *why)
{
    *c = (struct xmlrpc_call){0};
    *why = (struct diag){0};
    return xmlrpc_read(slice_str(text), c, why);
}

static void test_scalars(void **state)
{
    (void)state;
    struct xmlrpc_call c;
    struct diag why;
    assert_int_equal(read_call(CALL(PARAM("<string>a &lt; b</string>") PARAM(" <int> -7 </int> ")
                                        PARAM("plain") PARAM("<base64>AAH/\n</base64>")),
                               &c, &why),
                     0);
    assert_slice(strbuf_slice(&c.method), "m.x");
    assert_int_equal(c.n, 4);
    assert_slice(xmlrpc_text(&c, 0), "a < b");
    assert_int_equal(c.params[1].type, VALUE_INT);
    assert_int_equal(c.params[1].i, -7);
    assert_slice(xmlrpc_text(&c, 1), ""); /* no text */
    assert_slice(xmlrpc_text(&c, 2), "plain");
    assert_int_equal(c.params[3].type, VALUE_BYTES);
    assert_int_equal(c.params[3].n, 3);
    assert_memory_equal(c.params[3].p, "\x00\x01\xff", 3);
    assert_slice(xmlrpc_text(&c, 9), "");
    assert_false(c.has_struct);
    xmlrpc_call_fini(&c);
    /* What stands behind the type's element is not of the value, however long it is. */
    struct strbuf behind = {0};
    strbuf_add_str(&behind,
                   "<methodCall><methodName>m</methodName><params><param><value><string>short</string>");
    for (int i = 0; i < 1000; i++)
        strbuf_add_str(&behind, "long ");
    strbuf_add_str(&behind, "</value></param></params></methodCall>");
    c = (struct xmlrpc_call){0};
    assert_int_equal(xmlrpc_read(strbuf_slice(&behind), &c, &why), 0);
    strbuf_fini(&behind);
    assert_slice(xmlrpc_text(&c, 0), "short");
    xmlrpc_call_fini(&c);
    assert_int_equal(read_call("<methodCall><methodName> m </methodName></methodCall>", &c, &why), 0);
    assert_slice(strbuf_slice(&c.method), "m");
    assert_int_equal(c.n, 0);
    xmlrpc_call_fini(&c);
}

static void test_struct(void **state)
{
    (void)state;
    struct xmlrpc_call c;
    struct diag why;
    assert_int_equal(
        read_call(CALL(PARAM("verb") PARAM(
                      "<struct>" MEMBER("u", "<i8>9007199254740993</i8>") MEMBER("f", "<double>1e-3</double>")
                          MEMBER("b", "<boolean>1</boolean>") MEMBER("nil", "<nil/>") MEMBER(
                              "set", "<struct>" MEMBER("a.b", "x")
                                         MEMBER("c", "<struct>" MEMBER("d", "y") "</struct>") "</struct>")
                              MEMBER("time",
                                     "<dateTime.iso8601>20261115T21:20:28</dateTime.iso8601>") "</struct>")),
                  &c, &why),
        0);
    struct args a = args_of(&c.args);
    assert_true(c.has_struct);
    assert_int_equal(c.n, 1);
    assert_int_equal(args_uint(a, "u", 0), UINT64_C(9007199254740993));
    assert_true(args_value(a, "f").f == 1e-3);
    assert_int_equal(args_value(a, "b").type, VALUE_BOOL);
    assert_int_equal(args_value(a, "nil").type, VALUE_NONE);
    assert_slice(args_text(a, "set.a.b"), "x");
    assert_slice(args_text(a, "set.c.d"), "y");
    assert_slice(args_text(a, "time"), "20261115T21:20:28");
    assert_int_equal(a.n, 6);
    xmlrpc_call_fini(&c);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "<",
        "<methodCall/>",
        "<methodCall><methodName></methodName></methodCall>",
        "<methodCall><methodName>a b</methodName></methodCall>",
        "<methodResponse/>",
        "<methodCall><methodName>m</methodName></methodCall><x/>",
        "<!DOCTYPE methodCall><methodCall><methodName>m</methodName></methodCall>",
        "<!DOCTYPE a [<!ENTITY b 'm'>]><methodCall><methodName>&b;</methodName></methodCall>",
        "<methodCall><methodName>&b;</methodName></methodCall>",
        CALL(PARAM("<array><data><value>1</value></data></array>")),
        CALL(PARAM("<int>x</int>")),
        CALL(PARAM("<int>1</int><int>2</int>")),
        CALL(PARAM("<boolean>2</boolean>")),
        CALL(PARAM("<double>one</double>")),
        CALL(PARAM("<base64>!!!</base64>")),
        CALL(PARAM("<int><int>1</int></int>")),
        CALL(PARAM("<struct>" MEMBER("a b", "x") "</struct>")),
        CALL(PARAM("<struct><member><value>x</value><name>late</name></member></struct>")),
        CALL(PARAM("<struct></struct>") PARAM("<struct></struct>")),
        CALL(PARAM("1") PARAM("2") PARAM("3") PARAM("4") PARAM("5")),
        CALL("<value>not in a param</value>"),
        "\xff\xfe<methodCall/>",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct xmlrpc_call c;
        struct diag why;
        int r = read_call(bad[i], &c, &why);
        if ((r != E_PROTO && r != E_LIMIT) || !why.message[0])
            fail_msg("%s: %d %s", bad[i], r, why.message);
        xmlrpc_call_fini(&c);
    }
}

static void test_limits(void **state)
{
    (void)state;
    struct xmlrpc_call c;
    struct diag why;
    struct strbuf text = {0};
    strbuf_add_str(&text, "<methodCall><methodName>m</methodName><params><param><value>");
    for (int i = 0; i < XMLRPC_DEPTH; i++)
        strbuf_add_str(&text, "<struct><member><name>n</name><value>");
    assert_int_equal(read_call(text.p, &c, &why), E_LIMIT);
    xmlrpc_call_fini(&c);
    strbuf_reset(&text);
    strbuf_add_str(&text, "<methodCall><methodName>m</methodName><params><param><value><struct>");
    for (int i = 0; i < ARGS_MAX; i++)
        strbuf_printf(&text, "<member><name>n%d</name><value>1</value></member>", i);
    assert_int_equal(read_call(text.p, &c, &why), E_LIMIT);
    xmlrpc_call_fini(&c);
    strbuf_fini(&text);
}

static const char *text_of(struct value v)
{
    static struct strbuf out;
    strbuf_reset(&out);
    if (v.type == VALUE_TYPES) {
        strbuf_fini(&out);
        return NULL;
    }
    xmlrpc_put_value(&out, v);
    return out.p;
}

static void test_write(void **state)
{
    (void)state;
    assert_string_equal(text_of(value_int(INT32_MIN)), "<value><int>-2147483648</int></value>");
    assert_string_equal(text_of(value_int(INT64_C(2147483648))), "<value><i8>2147483648</i8></value>");
    assert_string_equal(text_of(value_uint(INT64_MAX)), "<value><i8>9223372036854775807</i8></value>");
    assert_string_equal(text_of(value_uint(UINT64_MAX)),
                        "<value><string>18446744073709551615</string></value>");
    assert_string_equal(text_of(value_float(0.1)), "<value><double>0.1</double></value>");
    assert_string_equal(text_of(value_bool(false)), "<value><boolean>0</boolean></value>");
    assert_string_equal(text_of(value_text(SLICE_LIT("<&>\r\n\t"))),
                        "<value><string>&lt;&amp;&gt;&#13;\n\t</string></value>");
    assert_string_equal(text_of(value_text(SLICE_LIT("\x01"))), "<value><base64>AQ==</base64></value>");
    assert_string_equal(text_of(value_text(SLICE_LIT("\xef\xbf\xbe"))),
                        "<value><base64>77++</base64></value>");
    assert_string_equal(text_of(value_bytes(SLICE_LIT("\xff"))), "<value><base64>/w==</base64></value>");
    assert_string_equal(text_of(value_none()), "<value><string></string></value>");
    assert_null(text_of((struct value){.type = VALUE_TYPES}));
    struct strbuf out = {0};
    xmlrpc_put_fault(&out, -32601, SLICE_LIT("a < b"));
    assert_non_null(strstr(out.p, "<int>-32601</int>"));
    assert_non_null(strstr(out.p, "a &lt; b"));
    strbuf_fini(&out);
}

static void test_no_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) { /* expat's own memory is not ours to fail */
        struct xmlrpc_call c;
        struct diag why;
        mem_fail_after(n);
        int r = read_call(
            CALL(PARAM("text") PARAM("<struct>" MEMBER("a", "<base64>AAAA</base64>") "</struct>")), &c, &why);
        mem_fail_after(0);
        xmlrpc_call_fini(&c);
        if (r == 0)
            break;
        assert_true(r == -ENOMEM || r == E_PROTO); /* a text that is missing may be no base64, or no name */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scalars), cmocka_unit_test(test_struct),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_write),   cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
