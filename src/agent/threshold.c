/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/threshold.h"

static const struct change_limit *find(const struct change_limit *changes, size_t n, const char *field)
{
    for (size_t i = n; i-- > 0;) /* the last one wins */
        if (strcmp(changes[i].field, field) == 0)
            return &changes[i];
    return NULL;
}

void limits_resolve(const struct change_limit *changes, size_t n, const struct sensor_schema *schema,
                    struct limit *out)
{
    const struct change_limit *rest = find(changes, n, "*");
    for (size_t i = 0; i < schema->n_fields; i++) {
        const struct change_limit *c = find(changes, n, schema->fields[i].name.p);
        c = c ? c : rest;
        if (c)
            out[i] = (struct limit){c->limit, c->is_percent ? LIMIT_PERCENT : LIMIT_ABSOLUTE};
        else
            out[i] = (struct limit){0, n ? LIMIT_NEVER : LIMIT_ABSOLUTE};
    }
}

/* How far two numbers of one type are apart. Integers by their difference, which is exact before it is
 * rounded. */
static double distance(struct value a, struct value b)
{
    switch (a.type) {
    case VALUE_UINT:
        return (double)(a.u > b.u ? a.u - b.u : b.u - a.u);
    case VALUE_INT:
        return (double)(a.i > b.i ? (uint64_t)a.i - (uint64_t)b.i : (uint64_t)b.i - (uint64_t)a.i);
    default:
        return fabs(a.f - b.f);
    }
}

static double magnitude(struct value v)
{
    return v.type == VALUE_UINT ? (double)v.u : v.type == VALUE_INT ? fabs((double)v.i) : fabs(v.f);
}

static bool has_moved(struct limit limit, struct value before, struct value now)
{
    if (limit.kind == LIMIT_NEVER || value_eq(before, now))
        return false;
    before = before.type == VALUE_NUMBER ? value_number(before) : before;
    now = now.type == VALUE_NUMBER ? value_number(now) : now;
    if (limit.by == 0 || before.type != now.type || value_is_text(now.type) || now.type == VALUE_BOOL)
        return true;
    double moved = distance(before, now);
    double most = limit.kind == LIMIT_PERCENT ? magnitude(before) * limit.by / 100 : limit.by;
    return !(moved <= most); /* a NaN came or went: moved */
}

bool limits_passed(const struct limit *limits, const struct schema *schema, const struct value *before,
                   const struct value *now)
{
    for (size_t i = 0; i < schema->n_fields; i++)
        if (schema->fields[i].role == ROLE_VALUE && has_moved(limits[i], before[i], now[i]))
            return true;
    return false;
}
