/* SPDX-License-Identifier: Apache-2.0 */
#include "event/event.h"

#include "base/num.h"
#include "base/text.h"

const char *value_type_name(uint8_t type)
{
    static const char *const names[VALUE_TYPES] = {"none", "int", "uint", "float", "bool", "text", "bytes",
                                                   "number"};
    return type < VALUE_TYPES ? names[type] : "unknown";
}

struct value event_get(const struct event *e, struct slice name)
{
    for (uint32_t i = 0; i < e->schema->n_fields; i++)
        if (e->values[i].type != VALUE_NONE && slice_eq(e->schema->fields[i].name, name))
            return e->values[i];
    return value_none();
}

static uint32_t count_set(const struct event *e)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->schema->n_fields; i++)
        n += e->values[i].type != VALUE_NONE;
    return n;
}

bool event_eq(const struct event *a, const struct event *b)
{
    bool heads = a->time_ns == b->time_ns && a->level == b->level && slice_eq(a->host, b->host) &&
                 slice_eq(a->prog, b->prog) && slice_eq(a->schema->name, b->schema->name);
    if (!heads || count_set(a) != count_set(b))
        return false;
    for (uint32_t i = 0; i < a->schema->n_fields; i++)
        if (a->values[i].type != VALUE_NONE && !value_eq(a->values[i], event_get(b, a->schema->fields[i].name)))
            return false;
    return true;
}

struct value value_untyped(struct slice s)
{
    char c = s.n ? s.p[0] : '\0';
    if (c == 't' && slice_eq(s, SLICE_LIT("true")))
        return value_bool(true);
    if (c == 'f' && slice_eq(s, SLICE_LIT("false")))
        return value_bool(false);
    if ((c > '9' && c != 'N' && c != 'I' && c != 'n' && c != 'i') ||
        (c < '0' && c != '-' && c != '+' && c != '.'))
        return value_text(s);
    struct num num = num_classify(s);
    switch (num.is) {
    case NUM_INT:
        return value_int(num.i);
    case NUM_UINT:
        return value_uint(num.u);
    case NUM_FLOAT:
        return value_float(num.f);
    case NUM_NOT:
    default:
        return (struct value){
            .p = s.p, .n = (uint32_t)s.n, .type = num_spelling(s).is == NUM_NOT ? VALUE_TEXT : VALUE_NUMBER};
    }
}

bool value_text_is_allowed(uint8_t type, struct slice s)
{
    if (type == VALUE_NUMBER)
        return num_classify(s).is == NUM_NOT && num_spelling(s).is != NUM_NOT;
    return type == VALUE_BYTES || text_is_utf8(s);
}

struct value value_number(struct value v)
{
    if (v.type != VALUE_NUMBER)
        return value_is_text(v.type) ? value_none() : v;
    struct num num = num_written(value_slice(v));
    return num.is == NUM_FLOAT  ? value_float(num.f)
           : num.is == NUM_INT  ? value_int(num.i)
           : num.is == NUM_UINT ? value_uint(num.u)
                                : value_none();
}

struct slice value_spelling(const struct value *v, char buf[VALUE_SPELLING_MAX])
{
    switch (v->type) {
    case VALUE_INT:
        return slice_of(buf, num_print_int(buf, v->i));
    case VALUE_UINT:
        return slice_of(buf, num_print_uint(buf, v->u));
    case VALUE_FLOAT:
        return slice_of(buf, num_print_float(buf, v->f));
    case VALUE_BOOL:
        return v->u ? SLICE_LIT("true") : SLICE_LIT("false");
    case VALUE_TEXT:
    case VALUE_BYTES:
    case VALUE_NUMBER:
        return value_slice(*v);
    default:
        return SLICE_LIT("");
    }
}
