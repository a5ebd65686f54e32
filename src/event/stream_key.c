/* SPDX-License-Identifier: Apache-2.0 */
#include "event/stream_key.h"

#include "base/cursor.h"

#include <inttypes.h>

static bool is_key(const struct event *e, uint32_t i)
{
    return e->schema->fields[i].role == ROLE_KEY && e->values[i].type != VALUE_NONE;
}

void stream_key_put(struct strbuf *out, const struct event *e)
{
    strbuf_add_text(out, e->host);
    strbuf_add_text(out, e->prog);
    strbuf_add_text(out, e->schema->name);
    for (uint32_t i = 0; i < e->schema->n_fields; i++) {
        if (!is_key(e, i))
            continue;
        const struct value *v = &e->values[i];
        strbuf_add_text(out, e->schema->fields[i].name);
        strbuf_add_char(out, (char)v->type);
        if (value_is_text(v->type))
            strbuf_add_text(out, value_slice(*v));
        else
            strbuf_add_u64(out, v->u);
    }
}

static bool is_same_text(struct slice a, struct slice b)
{
    return a.p == b.p && a.n == b.n;
}

static bool has_same_keys(const struct event *a, const struct event *b)
{
    for (uint32_t i = 0; i < a->schema->n_fields; i++)
        if (a->schema->fields[i].role == ROLE_KEY && !value_eq(a->values[i], b->values[i]))
            return false;
    return true;
}

bool stream_key_repeats(const struct event *a, const struct event *b)
{
    return a->schema == b->schema && is_same_text(a->host, b->host) && is_same_text(a->prog, b->prog) &&
           (!a->schema->has_keys || has_same_keys(a, b));
}

static struct slice rest_of(const struct cursor *c)
{
    return slice_of((const char *)c->p, cursor_left(c));
}

struct stream_key_parts stream_key_split(struct slice key)
{
    struct stream_key_parts parts;
    struct cursor c = cursor_of(key);
    parts.host = cursor_text(&c);
    parts.prog = cursor_text(&c);
    parts.name = cursor_text(&c);
    parts.fields = rest_of(&c);
    return parts;
}

bool stream_key_next(struct slice *fields, struct slice *name, struct value *value)
{
    if (fields->n == 0)
        return false;
    struct cursor c = cursor_of(*fields);
    *name = cursor_text(&c);
    *value = (struct value){.type = cursor_u8(&c)};
    if (value_is_text(value->type)) {
        struct slice text = cursor_text(&c);
        value->p = text.p;
        value->n = (uint32_t)text.n;
    } else {
        value->u = cursor_u64(&c);
    }
    *fields = rest_of(&c);
    return !c.bad;
}

void stream_key_print_field(struct strbuf *out, size_t from, struct slice name, struct value v)
{
    strbuf_printf(out, "%s%.*s=", out->n > from ? "," : "", SLICE_ARG(name));
    if (v.type == VALUE_TEXT || v.type == VALUE_NUMBER)
        strbuf_add_slice(out, value_slice(v));
    else if (v.type == VALUE_INT)
        strbuf_printf(out, "%" PRId64, v.i);
    else if (v.type == VALUE_FLOAT)
        strbuf_printf(out, "%.17g", v.f);
    else if (v.type == VALUE_BYTES)
        strbuf_printf(out, "%" PRIu32 " bytes", v.n);
    else
        strbuf_printf(out, "%" PRIu64, v.u);
}

void stream_key_print(struct strbuf *out, const struct event *e)
{
    size_t from = out->n;
    for (uint32_t i = 0; i < e->schema->n_fields; i++)
        if (is_key(e, i))
            stream_key_print_field(out, from, e->schema->fields[i].name, e->values[i]);
}
