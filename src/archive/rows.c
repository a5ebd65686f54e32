/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/rows.h"

/* The least and the greatest so far, and how many of the values were none. One of these a type: the compiler
 * makes vectors of the loops without missing rows. */
#define SUMMARISE(name, type, member, make)                                                        \
    static void name(const struct column *c, uint32_t from, uint32_t to, struct column_summary *s) \
    {                                                                                              \
        bool is_any = false;                                                                       \
        type least = 0, most = 0;                                                                  \
        double sum = 0;                                                                            \
        for (uint32_t i = from; i < to; i++) {                                                     \
            if (!column_has(c, i))                                                                 \
                continue;                                                                          \
            type v = (type)c->member[i];                                                           \
            if (v != v) {                                                                          \
                s->nans++;                                                                         \
                continue;                                                                          \
            }                                                                                      \
            least = !is_any || v < least ? v : least;                                              \
            most = !is_any || v > most ? v : most;                                                 \
            sum += (double)v;                                                                      \
            is_any = true;                                                                         \
        }                                                                                          \
        s->sum = sum;                                                                              \
        s->min = is_any ? make(least) : value_none();                                              \
        s->max = is_any ? make(most) : value_none();                                               \
    }

SUMMARISE(summarise_int, int64_t, i, value_int)
SUMMARISE(summarise_uint, uint64_t, u, value_uint)
SUMMARISE(summarise_bool, bool, u, value_bool)
SUMMARISE(summarise_float, double, f, value_float)

/* The first and last row that has a value, and how many have. */
static void find_ends(const struct rows *r, const struct column *c, uint32_t from, uint32_t to,
                      struct column_summary *s)
{
    uint32_t first = from, last = to;
    while (first < to && !column_has(c, first))
        first++;
    if (first == to)
        return;
    while (!column_has(c, last - 1))
        last--;
    s->first_ns = r->time_ns[first];
    s->last_ns = r->time_ns[last - 1];
    if (!value_is_text(c->type)) {
        s->first = column_value(c, first);
        s->last = column_value(c, last - 1);
    }
    for (uint32_t i = first; i < last; i++)
        s->count += column_has(c, i);
}

void column_summarise(const struct rows *r, const struct column *c, uint32_t from, uint32_t to,
                      struct column_summary *out)
{
    static void (*const numbers[VALUE_TYPES])(const struct column *, uint32_t, uint32_t,
                                              struct column_summary *) = {[VALUE_INT] = summarise_int,
                                                                          [VALUE_UINT] = summarise_uint,
                                                                          [VALUE_FLOAT] = summarise_float,
                                                                          [VALUE_BOOL] = summarise_bool};
    struct column_summary s = {.count = 0};
    find_ends(r, c, from, to, &s);
    if (s.count && numbers[c->type])
        numbers[c->type](c, from, to, &s);
    *out = s;
}

static bool is_below(struct value a, struct value b)
{
    if (a.type == VALUE_INT)
        return a.i < b.i;
    return a.type == VALUE_FLOAT ? a.f < b.f : a.u < b.u;
}

void column_summary_merge(struct column_summary *to, const struct column_summary *from)
{
    if (!from->count)
        return;
    if (!to->count) {
        *to = *from;
        return;
    }
    if (from->min.type && (!to->min.type || is_below(from->min, to->min)))
        to->min = from->min;
    if (from->max.type && (!to->max.type || is_below(to->max, from->max)))
        to->max = from->max;
    if (from->first_ns < to->first_ns) {
        to->first = from->first;
        to->first_ns = from->first_ns;
    }
    if (from->last_ns >= to->last_ns) {
        to->last = from->last;
        to->last_ns = from->last_ns;
    }
    to->sum += from->sum;
    to->count += from->count;
    to->nans += from->nans;
}
