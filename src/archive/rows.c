/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/rows.h"

#include <errno.h>

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

/* Bits [from, to), moved to the front. */
static const uint64_t *slice_bits(const uint64_t *bits, uint32_t from, uint32_t to, struct arena *arena)
{
    if (from % 64 == 0)
        return bits + from / 64;
    uint32_t n = (to - from + 63) / 64, last = (to - 1) / 64;
    uint64_t *out = arena_alloc(arena, n * sizeof *out);
    for (uint32_t i = 0; out && i < n; i++) {
        uint32_t at = from / 64 + i;
        uint64_t above = at < last ? bits[at + 1] << (64 - from % 64) : 0;
        out[i] = bits[at] >> from % 64 | above;
    }
    return out;
}

static int slice_column(const struct column *c, uint32_t from, uint32_t to, struct arena *arena,
                        struct column *out)
{
    *out = *c;
    if (c->present && !(out->present = slice_bits(c->present, from, to, arena)))
        return -ENOMEM;
    if (!value_is_text(c->type)) {
        out->u = c->u + from;
        return 0;
    }
    if (from == 0)
        return 0;
    uint32_t *ends = arena_alloc(arena, (to - from) * sizeof *ends);
    if (!ends)
        return -ENOMEM;
    for (uint32_t i = from; i < to; i++)
        ends[i - from] = c->ends[i] - c->ends[from - 1];
    out->ends = ends;
    out->bytes = c->bytes + c->ends[from - 1];
    return 0;
}

static bool has_any(const struct column *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (column_has(c, i))
            return true;
    return false;
}

int rows_slice(const struct rows *r, uint32_t from, uint32_t to, struct arena *arena, struct rows *out)
{
    if (from == 0 && to == r->n) {
        *out = *r;
        return 0;
    }
    struct column *columns = arena_alloc(arena, (r->n_columns + 1) * sizeof *columns);
    if (!columns)
        return -ENOMEM;
    struct rows s = *r;
    s.n = to - from;
    s.time_ns += from;
    s.level = r->level ? r->level + from : NULL;
    s.seq = r->seq ? r->seq + from : NULL;
    s.origin = r->origin ? r->origin + from : NULL;
    s.n_columns = 0;
    s.columns = columns;
    for (uint32_t i = 0; i < r->n_columns; i++) {
        int e = slice_column(&r->columns[i], from, to, arena, &columns[s.n_columns]);
        if (e < 0)
            return e;
        s.n_columns += has_any(&columns[s.n_columns], s.n);
    }
    *out = s;
    return 0;
}
