/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/http_query.h"

#include "base/mem.h"
#include "base/text.h"

#include <errno.h>

/* Decodes in, which is not longer decoded, to *to, and moves that on. false: half an escape, or a NUL. */
static bool decode(struct slice in, char **to, struct slice *out)
{
    char *start = *to, *at = start;
    for (size_t i = 0; i < in.n; i++) {
        char c = in.p[i];
        if (c == '%') {
            int high = in.n - i > 2 ? text_hex_digit(in.p[i + 1]) : -1;
            int low = in.n - i > 2 ? text_hex_digit(in.p[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+') {
            c = ' ';
        }
        if (c == '\0')
            return false;
        *at++ = c;
    }
    *to = at;
    *out = slice_of(start, (size_t)(at - start));
    return true;
}

static int add(struct http_query *q, struct slice pair, char **to, struct diag *why)
{
    const char *equals = memchr(pair.p, '=', pair.n);
    struct slice name = slice_of(pair.p, equals ? (size_t)(equals - pair.p) : pair.n);
    struct http_param p;
    if (q->n == HTTP_PARAMS_MAX)
        return diag_set(why, E_LIMIT, 0, "more than %d parameters", HTTP_PARAMS_MAX);
    if (!decode(name, to, &p.name) || !text_is_name(p.name))
        return diag_set(why, E_PROTO, 0, "parameter %zu has no name; write NAME=VALUE&NAME=VALUE", q->n + 1);
    if (!decode(slice_from(pair, name.n + 1), to, &p.value) || !text_is_utf8(p.value))
        return diag_set(why, E_PROTO, 0, "the value of %.*s is not text in UTF-8 with %%XX escapes",
                        SLICE_ARG(p.name));
    for (size_t i = 0; i < q->n; i++)
        if (slice_eq(q->params[i].name, p.name))
            return diag_set(why, E_PROTO, 0, "%.*s is given twice; several values go in one, by commas",
                            SLICE_ARG(p.name));
    q->params[q->n++] = p;
    return 0;
}

int http_query_parse(struct slice query, struct http_query *out, struct diag *why)
{
    out->n = 0;
    out->text = NULL;
    if (query.n > HTTP_URL_MAX)
        return diag_set(why, E_LIMIT, 0, "the query is longer than %d bytes", HTTP_URL_MAX);
    out->text = mem_try_alloc(query.n + 1);
    char *to = out->text;
    if (!to)
        return diag_set(why, -ENOMEM, 0, "%s", err_text(-ENOMEM));
    while (query.n) {
        const char *end = memchr(query.p, '&', query.n);
        struct slice pair = slice_of(query.p, end ? (size_t)(end - query.p) : query.n);
        int r = pair.n ? add(out, pair, &to, why) : 0;
        if (r < 0)
            return r;
        query = slice_from(query, pair.n + 1);
    }
    return 0;
}

void http_query_fini(struct http_query *q)
{
    mem_free(q->text);
    q->text = NULL;
    q->n = 0;
}

bool http_query_get(const struct http_query *q, const char *name, struct slice *out)
{
    *out = SLICE_LIT("");
    for (size_t i = 0; i < q->n; i++)
        if (slice_eq_str(q->params[i].name, name)) {
            *out = q->params[i].value;
            return true;
        }
    return false;
}

bool http_query_take(struct http_query *q, const char *name, struct slice *out)
{
    *out = SLICE_LIT("");
    for (size_t i = 0; i < q->n; i++)
        if (slice_eq_str(q->params[i].name, name)) {
            *out = q->params[i].value;
            q->n--;
            memmove(&q->params[i], &q->params[i + 1], (q->n - i) * sizeof *q->params);
            return true;
        }
    return false;
}
