/* SPDX-License-Identifier: Apache-2.0 */
/* Items as the program sees them. Names and text are slices in here and C strings out there: they are copied
 * when they are looked at, into an arena that the next item empties. */
#include "consumer/internal.h"

#include "base/text.h"

#include <errno.h>

static const char type_letters[VALUE_TYPES + 1] = "\0iufbtxf";

void item_clear(struct gridline_item *item)
{
    struct arena *words = item->words;
    batch_unref(item->batch);
    *item = (struct gridline_item){.words = words, .gateway = ""};
}

/* The longest part of s, n bytes at most, that ends where a character does. */
static size_t cut(struct slice s, size_t n)
{
    if (s.n <= n)
        return s.n;
    while (n > 0 && ((unsigned char)s.p[n] & 0xc0) == 0x80)
        n--;
    return n;
}

void item_set(struct gridline_item *item, int kind, struct link *l, uint32_t subscription, int code,
              struct slice text)
{
    size_t n = cut(text, sizeof item->text - 1);
    item_clear(item);
    item->kind = kind;
    item->link = l;
    item->gateway = l ? l->address : "";
    item->subscription = subscription;
    item->code = code;
    if (!text_is_utf8(slice_of(text.p, n)))
        return;
    for (size_t i = 0; i < n; i++)
        item->text[i] = (unsigned char)text.p[i] < 0x20 || text.p[i] == 0x7f ? ' ' : text.p[i];
}

int gridline_item_kind(const gridline_item *item)
{
    return item->kind;
}

const char *gridline_item_gateway(const gridline_item *item)
{
    return item->gateway;
}

int gridline_item_subscription(const gridline_item *item)
{
    return (int)item->subscription;
}

uint64_t gridline_item_lost(const gridline_item *item)
{
    return item->lost;
}

int gridline_item_code(const gridline_item *item)
{
    return item->code;
}

const char *gridline_item_text(const gridline_item *item)
{
    return item->text;
}

/* As a C string; NULL: no memory. */
static const char *word(const gridline_item *item, struct slice s)
{
    if (s.n == 0)
        return "";
    char *to = arena_alloc(item->words, s.n + 1);
    if (!to)
        return NULL;
    memcpy(to, s.p, s.n);
    to[s.n] = '\0';
    return to;
}

int gridline_item_head(const gridline_item *item, struct gridline_head *out, size_t size)
{
    const struct event *e = item->event;
    if (item->kind != GRIDLINE_ITEM_EVENT || !e)
        return -ENOENT;
    struct gridline_head h = {.time_ns = e->time_ns,
                              .name = word(item, e->schema->name),
                              .host = word(item, e->host),
                              .prog = word(item, e->prog),
                              .n_fields = e->schema->n_fields,
                              .level = e->level};
    if (!h.name || !h.host || !h.prog)
        return -ENOMEM;
    memset(out, 0, size);
    memcpy(out, &h, size < sizeof h ? size : sizeof h);
    return 0;
}

static int give(const gridline_item *item, struct slice name, struct value v, struct gridline_value *out)
{
    struct gridline_value g = {.name = word(item, name), .type = type_letters[v.type]};
    if (!g.name)
        return -ENOMEM;
    if (v.type == VALUE_NUMBER)
        v = value_number(v);
    if (value_is_text(v.type)) {
        g.v.p = word(item, value_slice(v));
        g.n = v.n;
        if (!g.v.p)
            return -ENOMEM;
    } else {
        g.v.u = v.u;
    }
    *out = g;
    return v.type != VALUE_NONE;
}

int gridline_item_field(const gridline_item *item, size_t i, struct gridline_value *out)
{
    const struct event *e = item->event;
    if (e)
        return i < e->schema->n_fields ? give(item, e->schema->fields[i].name, e->values[i], out) : -ENOENT;
    struct args rest = item->row;
    struct arg a;
    for (size_t k = 0; args_next(&rest, &a); k++)
        if (k == i)
            return give(item, a.name, a.value, out);
    return -ENOENT;
}

static struct value find(const gridline_item *item, const char *name)
{
    if (item->event)
        return event_get(item->event, slice_str(name));
    return item->kind == GRIDLINE_ITEM_ROW ? args_value(item->row, name) : value_none();
}

int gridline_item_get(const gridline_item *item, const char *name, struct gridline_value *out)
{
    struct value v = find(item, name);
    return v.type == VALUE_NONE ? 0 : give(item, slice_str(name), v, out);
}

int gridline_item_number(const gridline_item *item, const char *name, double *out)
{
    struct value v = value_number(find(item, name));
    switch (v.type) {
    case VALUE_INT:
        *out = (double)v.i;
        return 1;
    case VALUE_UINT:
    case VALUE_BOOL:
        *out = (double)v.u;
        return 1;
    case VALUE_FLOAT:
        *out = v.f;
        return 1;
    default:
        return 0;
    }
}

const char *gridline_item_spelling(const gridline_item *item, const char *name)
{
    struct value v = find(item, name);
    char buf[VALUE_SPELLING_MAX];
    return v.type == VALUE_NONE ? NULL : word(item, value_spelling(&v, buf));
}
