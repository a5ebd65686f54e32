/* SPDX-License-Identifier: Apache-2.0 */
#include "net/args.h"

#include "base/text.h"

static uint64_t bits_of(double f)
{
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static struct value get_value(struct cursor *c, uint8_t type)
{
    switch (type) {
    case VALUE_INT:
        return value_int((int64_t)cursor_u64(c));
    case VALUE_UINT:
        return value_uint(cursor_u64(c));
    case VALUE_FLOAT:
        return value_float(double_of(cursor_u64(c)));
    case VALUE_BOOL:
        return value_bool(cursor_u8(c));
    case VALUE_TEXT:
        return value_text(cursor_text(c));
    case VALUE_BYTES:
        return value_bytes(cursor_text(c));
    case VALUE_NUMBER: {
        struct value v = value_text(cursor_text(c));
        v.type = VALUE_NUMBER; /* is_good looks at it */
        return v;
    }
    default:
        (void)cursor_fail(c);
        return value_none();
    }
}

static struct arg get_arg(struct cursor *c)
{
    struct arg a = {.name = cursor_text(c)};
    a.value = get_value(c, cursor_u8(c));
    return a;
}

static bool is_good(const struct arg *a)
{
    if (a->name.n > ARGS_NAME_MAX || !text_is_name(a->name))
        return false;
    if (!value_is_text(a->value.type))
        return true;
    return a->value.n <= ARGS_TEXT_MAX && value_text_is_allowed(a->value.type, value_slice(a->value));
}

bool args_get(struct cursor *c, struct args *out)
{
    uint64_t n = cursor_varint(c);
    const char *start = (const char *)c->p;
    if (c->bad || n > ARGS_MAX)
        return cursor_fail(c);
    for (uint64_t i = 0; i < n; i++) {
        struct arg a = get_arg(c);
        if (c->bad || !is_good(&a))
            return cursor_fail(c);
    }
    *out = (struct args){slice_of(start, (size_t)((const char *)c->p - start)), (uint32_t)n};
    return true;
}

bool args_next(struct args *list, struct arg *out)
{
    if (list->n == 0)
        return false;
    struct cursor c = cursor_of(list->bytes);
    *out = get_arg(&c);
    list->bytes = slice_of((const char *)c.p, cursor_left(&c));
    list->n--;
    return true;
}

struct value args_value(struct args list, const char *name)
{
    struct value found = value_none();
    struct arg a;
    while (args_next(&list, &a))
        if (slice_eq(a.name, slice_str(name)))
            found = a.value;
    return found;
}

struct slice args_text(struct args list, const char *name)
{
    struct value v = args_value(list, name);
    return v.type == VALUE_TEXT ? value_slice(v) : (struct slice){"", 0};
}

uint64_t args_uint(struct args list, const char *name, uint64_t fallback)
{
    struct value v = args_value(list, name);
    bool is_number = v.type == VALUE_UINT || (v.type == VALUE_INT && v.i >= 0);
    return is_number ? v.u : fallback;
}

void args_add(struct args_writer *w, struct slice name, struct value value)
{
    if (value.type == VALUE_NONE)
        return;
    strbuf_add_text(&w->list, name);
    strbuf_add_char(&w->list, (char)value.type);
    if (value_is_text(value.type))
        strbuf_add_text(&w->list, value_slice(value));
    else if (value.type == VALUE_BOOL)
        strbuf_add_char(&w->list, value.u != 0);
    else
        strbuf_add_u64(&w->list, value.type == VALUE_FLOAT ? bits_of(value.f) : value.u);
    w->n++;
}

void args_add_text(struct args_writer *w, const char *name, struct slice text)
{
    args_add(w, slice_str(name), value_text(text));
}

void args_add_uint(struct args_writer *w, const char *name, uint64_t value)
{
    args_add(w, slice_str(name), value_uint(value));
}

struct args args_of(const struct args_writer *w)
{
    return strbuf_failed(&w->list) ? (struct args){0} : (struct args){strbuf_slice(&w->list), w->n};
}

void args_writer_reset(struct args_writer *w)
{
    strbuf_reset(&w->list);
    w->n = 0;
}

void args_writer_fini(struct args_writer *w)
{
    strbuf_fini(&w->list);
    w->n = 0;
}

void args_put(struct strbuf *out, struct args list)
{
    strbuf_add_varint(out, list.n);
    strbuf_add_slice(out, list.bytes);
}
