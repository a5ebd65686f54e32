/* SPDX-License-Identifier: Apache-2.0 */
/* XML-RPC calls: what is taken is within the limits, and what is written of its values is read again as the
 * same. */
#include "base/text.h"
#include "gateway/xmlrpc.h"

#include <stdlib.h>

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

/* A number may be another type: the same number. */
static bool is_same(struct value a, struct value b)
{
    if (value_eq(a, b))
        return true;
    if (a.type == VALUE_TEXT && b.type == VALUE_BYTES) /* what XML can't carry */
        return slice_eq(value_slice(a), value_slice(b));
    return a.type == VALUE_FLOAT && b.type == VALUE_FLOAT && a.f == b.f;
}

static void write_again(const struct xmlrpc_call *c)
{
    struct strbuf out = {0};
    struct xmlrpc_call again = {0};
    struct diag why;
    struct args old = args_of(&c->args), new;
    struct arg a, b;
    strbuf_add_str(&out, "<methodCall><methodName>");
    strbuf_add_slice(&out, strbuf_slice(&c->method));
    strbuf_add_str(&out, "</methodName><params>");
    for (size_t i = 0; i < c->n; i++) {
        strbuf_add_str(&out, "<param>");
        xmlrpc_put_value(&out, c->params[i]);
        strbuf_add_str(&out, "</param>");
    }
    strbuf_add_str(&out, "<param>");
    xmlrpc_put_struct(&out, old, SLICE_LIT(""));
    strbuf_add_str(&out, "</param></params></methodCall>");
    check(xmlrpc_read(strbuf_slice(&out), &again, &why) == 0);
    check(again.n == c->n && slice_eq(strbuf_slice(&again.method), strbuf_slice(&c->method)));
    for (size_t i = 0; i < c->n; i++)
        check(is_same(c->params[i], again.params[i]) || c->params[i].type == VALUE_NONE);
    new = args_of(&again.args);
    while (args_next(&old, &a))
        check(args_next(&new, &b) && slice_eq(a.name, b.name) && is_same(a.value, b.value));
    check(!args_next(&new, &b));
    xmlrpc_call_fini(&again);
    strbuf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct xmlrpc_call c = {0};
    struct diag why = {0};
    if (xmlrpc_read(slice_of((const char *)data, size), &c, &why) < 0) {
        check(why.message[0]);
    } else {
        check(c.method.n && c.method.n <= XMLRPC_METHOD_MAX && text_is_name(strbuf_slice(&c.method)));
        check(c.n <= XMLRPC_PARAMS && c.args.n < ARGS_MAX);
        write_again(&c);
    }
    xmlrpc_call_fini(&c);
    return 0;
}
