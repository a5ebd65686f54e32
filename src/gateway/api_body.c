/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/api_body.h"

#include "base/num.h"
#include "base/text.h"
#include "event/json.h"

#include <errno.h>

enum { DEPTH_ARGS = 2 }; /* open objects within `args` */

struct body {
    struct json_reader json;
    struct strbuf *verb;
    struct args_writer *args;
    struct diag *why;
    struct strbuf text;                /* a string unescaped */
    char path[ARGS_NAME_MAX + 1];      /* the keys of the open objects in args, dotted */
    size_t path_n[API_BODY_DEPTH + 1]; /* its length at each depth */
    bool has_verb, has_args;
};

static int refuse(struct body *b, const struct json_item *item, int code, const char *what)
{
    return diag_set(b->why, code, json_col(&b->json, item->at), "byte %u: %s", json_col(&b->json, item->at),
                    what);
}

/* What a string means: borrowed from the text, or in b->text. */
static int unescape(struct body *b, struct slice raw, bool is_escaped, struct slice *out)
{
    *out = raw;
    if (!is_escaped)
        return 0;
    strbuf_reset(&b->text);
    char *to = strbuf_room(&b->text, raw.n + 1);
    if (!to)
        return -ENOMEM;
    int r = json_unescape(&b->json, raw, to, &out->n);
    out->p = to;
    return r;
}

/* The whole name of a member of args, in b->path up to *n. */
static int name_of(struct body *b, const struct json_item *item, unsigned depth, size_t *n)
{
    size_t at = b->path_n[depth];
    struct slice key = item->key;
    if (item->key_escaped)
        return refuse(b, item, E_PROTO, "a name of args has letters, digits and . _ : - only");
    bool has_dot = at > 0;
    if (at + has_dot + key.n > ARGS_NAME_MAX)
        return refuse(b, item, E_LIMIT, "the name with those of the objects around it is too long");
    if (has_dot)
        b->path[at++] = '.';
    memcpy(b->path + at, key.p, key.n);
    *n = at + key.n;
    if (!text_is_name(slice_of(b->path, *n)))
        return refuse(b, item, E_PROTO, "a name of args has letters, digits and . _ : - only");
    return 0;
}

static int number_of(struct body *b, const struct json_item *item, struct value *out)
{
    int64_t i;
    uint64_t u;
    double f;
    if (num_parse_uint(item->text, &u) == 0)
        *out = value_uint(u);
    else if (num_parse_int(item->text, &i) == 0)
        *out = value_int(i);
    else if (num_parse_float(item->text, &f) == 0 && isfinite(f))
        *out = value_float(f);
    else
        return refuse(b, item, E_LIMIT, "a number beyond what a value can hold");
    return 0;
}

static int value_of(struct body *b, const struct json_item *item, struct value *out)
{
    struct slice text;
    int r;
    switch (item->kind) {
    case JSON_NULL:
        *out = value_none();
        return 0;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = value_bool(item->kind == JSON_TRUE);
        return 0;
    case JSON_NUMBER:
        return number_of(b, item, out);
    case JSON_STRING:
        r = unescape(b, item->text, item->escaped, &text);
        if (r < 0)
            return r == -ENOMEM ? r : refuse(b, item, r, "an escape that is none");
        if (text.n > ARGS_TEXT_MAX || !text_is_utf8(text))
            return refuse(b, item, E_PROTO, "a text that is too long or not UTF-8");
        *out = value_text(text);
        return 0;
    default:
        return refuse(b, item, E_PROTO, "an array is no value here; lists are texts, by commas");
    }
}

static int read_arg(struct body *b, const struct json_item *item)
{
    unsigned depth = b->json.depth; /* inside of an object that just began it is one more */
    struct value v;
    size_t n = 0;
    bool is_object = item->kind == JSON_OBJECT;
    int r = name_of(b, item, is_object ? depth - 1 : depth, &n);
    if (r < 0)
        return r;
    if (is_object) {
        b->path_n[depth] = n;
        return 0;
    }
    r = value_of(b, item, &v);
    if (r < 0)
        return r;
    if (b->args->n >= ARGS_MAX - 1)
        return refuse(b, item, E_LIMIT, "too many values");
    args_add(b->args, slice_of(b->path, n), v);
    return 0;
}

static int read_top(struct body *b, const struct json_item *item)
{
    struct slice text;
    if (slice_eq_str(item->key, "args") && item->kind == JSON_OBJECT && !b->has_args) {
        b->has_args = true;
        b->path_n[b->json.depth] = 0;
        return 0;
    }
    if (!slice_eq_str(item->key, "verb") || b->has_verb || item->kind != JSON_STRING)
        return refuse(b, item, E_PROTO,
                      "only \"verb\", a string, and \"args\", an object, are known here, each once");
    int r = unescape(b, item->text, item->escaped, &text);
    if (r < 0 || text.n > API_VERB_MAX || !text_is_name(text))
        return r == -ENOMEM ? r : refuse(b, item, E_PROTO, "no such verb; GET /api/v1/control lists them");
    b->has_verb = true;
    strbuf_add_slice(b->verb, text);
    return 0;
}

static int read_all(struct body *b)
{
    struct json_item item;
    int r = json_next(&b->json, &item);
    if (r == 0 && item.kind != JSON_OBJECT)
        return refuse(b, &item, E_PROTO, "an object is expected: {\"verb\":...,\"args\":{...}}");
    while (r == 0 && (r = json_next(&b->json, &item)) == 0 && item.kind != JSON_END) {
        unsigned outside = b->json.depth - (item.kind == JSON_OBJECT || item.kind == JSON_ARRAY);
        if (item.kind == JSON_OBJECT_END)
            continue;
        r = outside < DEPTH_ARGS ? read_top(b, &item) : read_arg(b, &item);
    }
    return r;
}

int api_body_read(struct slice body, struct strbuf *verb, struct args_writer *args, struct diag *why)
{
    struct body b = {.verb = verb, .args = args, .why = why};
    json_init(&b.json, body, API_BODY_DEPTH, why);
    int r = read_all(&b);
    strbuf_fini(&b.text);
    if (r == 0 && !b.has_verb)
        r = diag_set(why, E_PROTO, 0, "\"verb\" is missing; GET /api/v1/control lists them");
    if (r == 0 && (strbuf_failed(verb) || strbuf_failed(&args->list)))
        r = -ENOMEM;
    return r < 0 && why && !why->message[0] ? diag_set(why, r, 0, "%s", err_text(r)) : r;
}
