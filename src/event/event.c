/* SPDX-License-Identifier: Apache-2.0 */
#include "event/event.h"

const char *value_type_name(uint8_t type)
{
    static const char *const names[VALUE_TYPES] = {"none", "int", "uint", "float", "bool", "text", "bytes"};
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
