/* SPDX-License-Identifier: Apache-2.0 */
/* A request's parameters, and where they go: subscription options, or named values of a question; and its
 * Host, Origin, Authorization and positions. What is taken is text in UTF-8 with a name, each name once;
 * encoded again it is the same. The first byte says which. */
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "gateway/api_position.h"
#include "gateway/api_question.h"
#include "gateway/http_host.h"
#include "gateway/http_query.h"
#include "gateway/http_token.h"
#include "gateway/subscription.h"

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

static void encode(struct strbuf *out, struct slice text)
{
    for (size_t i = 0; i < text.n; i++)
        strbuf_printf(out, "%%%02X", (unsigned char)text.p[i]);
}

static void fuzz_query(struct slice data)
{
    struct http_query q, again;
    struct diag why = {0};
    int r = http_query_parse(data, &q, &why);
    if (r < 0) {
        check(why.message[0]);
        http_query_fini(&q);
        return;
    }
    struct strbuf text = {0};
    struct args_writer args = {0};
    struct subscription_options options = {0};
    for (size_t i = 0; i < q.n; i++) {
        const struct http_param *p = &q.params[i];
        check(text_is_name(p->name) && text_is_utf8(p->value) &&
              !(p->value.n && memchr(p->value.p, 0, p->value.n)));
        (void)subscription_option(&options, p->name, p->value);
        question_add_text(&args, p->name, p->value);
        strbuf_add_str(&text, i ? "&" : "");
        encode(&text, p->name);
        strbuf_add_char(&text, '=');
        encode(&text, p->value);
    }
    check(args.n == q.n);
    if (text.n <= HTTP_URL_MAX) { /* escapes may make it too long */
        check(http_query_parse(strbuf_slice(&text), &again, &why) == 0 && again.n == q.n);
        for (size_t i = 0; i < q.n; i++)
            check(slice_eq(again.params[i].name, q.params[i].name) &&
                  slice_eq(again.params[i].value, q.params[i].value));
        http_query_fini(&again);
    }
    strbuf_fini(&text);
    args_writer_fini(&args);
    http_query_fini(&q);
}

/* No name but those that are ours gets through, whatever is around it. */
static void fuzz_host(struct slice data)
{
    static const char *const names[] = {"node7", "a.example,b.example"};
    if (!http_host_is_ours(data, names, 2))
        return;
    check(data.n > 0 && !memchr(data.p, '/', data.n) && !memchr(data.p, '@', data.n) &&
          !memchr(data.p, ' ', data.n));
    struct strbuf origin = {0};
    strbuf_add_str(&origin, "http://");
    strbuf_add_slice(&origin, data);
    check(http_origin_is_ours(strbuf_slice(&origin), data));
    strbuf_add_char(&origin, 'x');
    check(!http_origin_is_ours(strbuf_slice(&origin), data));
    strbuf_fini(&origin);
}

static void fuzz_token(struct slice data)
{
    const char *middle = data.n ? memchr(data.p, '\n', data.n) : NULL;
    struct slice first = slice_of(data.p, middle ? (size_t)(middle - data.p) : data.n), found;
    if (http_token_find(first, slice_from(data, first.n + 1), &found) == 0)
        check(found.n > 0 && found.n <= HTTP_TOKEN_MAX);
}

static void fuzz_position(struct slice data)
{
    bool is_elsewhere;
    char text[API_POSITION_MAX];
    struct position p;
    struct slice from = api_position_from(data, 0x1234, &is_elsewhere);
    check(is_elsewhere || from.n <= data.n);
    if (is_elsewhere || !position_parse(from, &p))
        return;
    size_t n = api_position_print(text, 0x1234, p);
    struct position same;
    check(position_parse(api_position_from(slice_of(text, n), 0x1234, &is_elsewhere), &same) &&
          !is_elsewhere);
    check(position_compare(p, same) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const kinds[])(struct slice) = {fuzz_query, fuzz_host, fuzz_token, fuzz_position};
    if (size)
        kinds[data[0] % 4](slice_of((const char *)data + 1, size - 1));
    return 0;
}
