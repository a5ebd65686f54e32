/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/rows.h"

#include <errno.h>

/* ---------------------------------------------------------------- summaries */

/* What is taken from values; those of 64 bits are compared as the column's type has them. */
struct survey {
    uint32_t nans;
    struct value min, max;
    double sum;
};

/* Sums are exact in any order where all of them fit this. */
#define EXACT 0x1p53

/* The usual column has the same value in every row. */
static bool is_constant(const uint64_t *v, uint32_t n)
{
    uint64_t odd = 0;
    for (uint32_t from = 0; from < n && !odd; from += 256) {
        uint32_t to = from + 256 < n ? from + 256 : n;
        for (uint32_t i = from; i < to; i++)
            odd |= v[i] ^ v[0];
    }
    return odd == 0;
}

/* As if the n were added one by one. */
static double sum_of_same(double v, uint32_t n)
{
    if (v == rint(v) && fabs(v) * n <= EXACT)
        return v * n;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += v;
    return sum;
}

/* A zero is 0.0 in min and max, never -0.0: they are equal, so which one is the least would depend on order.
 */
static double no_minus_zero(double v)
{
    return v + 0.0;
}

/* Four of each, so that they do not wait for each other, and the compiler makes vectors of them. The sum is
 * in the order of rows. */
static struct survey survey_floats(const double *v, uint32_t n)
{
    double least[4], most[4], sum = 0;
    uint64_t nans = 0;
    uint32_t i = 0;
    for (int k = 0; k < 4; k++) {
        least[k] = INFINITY;
        most[k] = -INFINITY;
    }
    for (; i + 4 <= n; i += 4)
        for (uint32_t k = 0; k < 4; k++) {
            double x = v[i + k];
            least[k] = x < least[k] ? x : least[k];
            most[k] = x > most[k] ? x : most[k];
            nans += isnan(x);
        }
    for (; i < n; i++) {
        least[0] = v[i] < least[0] ? v[i] : least[0];
        most[0] = v[i] > most[0] ? v[i] : most[0];
        nans += isnan(v[i]);
    }
    for (i = 0; i < n; i++)
        sum += isnan(v[i]) ? 0 : v[i];
    struct survey s = {.nans = (uint32_t)nans, .sum = sum};
    if (nans == n)
        return s;
    for (int k = 1; k < 4; k++) {
        least[0] = least[k] < least[0] ? least[k] : least[0];
        most[0] = most[k] > most[0] ? most[k] : most[0];
    }
    s.min = value_float(no_minus_zero(least[0]));
    s.max = value_float(no_minus_zero(most[0]));
    return s;
}

#define SURVEY_INTEGERS(name, type, make)                                                    \
    static struct survey name(const type *v, uint32_t n)                                     \
    {                                                                                        \
        type least = v[0], most = v[0], whole = 0;                                           \
        double sum = 0;                                                                      \
        for (uint32_t i = 0; i < n; i++) {                                                   \
            least = v[i] < least ? v[i] : least;                                             \
            most = v[i] > most ? v[i] : most;                                                \
        }                                                                                    \
        bool is_exact = fabs((double)least) * n <= EXACT && fabs((double)most) * n <= EXACT; \
        for (uint32_t i = 0; i < n && is_exact; i++)                                         \
            whole += v[i];                                                                   \
        for (uint32_t i = 0; i < n && !is_exact; i++)                                        \
            sum += (double)v[i];                                                             \
        return (struct survey){                                                              \
            .min = make(least), .max = make(most), .sum = is_exact ? (double)whole : sum};   \
    }

SURVEY_INTEGERS(survey_ints, int64_t, value_int)
SURVEY_INTEGERS(survey_uints, uint64_t, value_uint)

static double as_float(struct value v)
{
    return v.type == VALUE_FLOAT ? v.f : v.type == VALUE_INT ? (double)v.i : (double)v.u;
}

static struct survey survey_same(struct value v, uint32_t n)
{
    if (v.type == VALUE_FLOAT && isnan(v.f))
        return (struct survey){.nans = n};
    double f = as_float(v);
    struct value least = v.type == VALUE_FLOAT ? value_float(no_minus_zero(f)) : v;
    return (struct survey){.min = least, .max = least, .sum = sum_of_same(f, n)};
}

static struct survey survey_numbers(const uint64_t *v, uint8_t type, uint32_t n)
{
    if (is_constant(v, n))
        return survey_same((struct value){.u = v[0], .type = type}, n);
    if (type == VALUE_FLOAT)
        return survey_floats((const double *)v, n);
    struct survey s = type == VALUE_INT ? survey_ints((const int64_t *)v, n) : survey_uints(v, n);
    s.min.type = s.max.type = type;
    return s;
}

static bool is_below(struct value a, struct value b)
{
    if (a.type == VALUE_INT)
        return a.i < b.i;
    return a.type == VALUE_FLOAT ? a.f < b.f : a.u < b.u;
}

/* The same where some rows have no value: one by one. */
static struct survey survey_some(const struct column *c, uint32_t from, uint32_t to)
{
    struct survey s = {.nans = 0};
    for (uint32_t i = from; i < to; i++) {
        struct value v = value_number(column_value(c, i));
        if (!v.type)
            continue;
        if (v.type == VALUE_FLOAT && isnan(v.f)) {
            s.nans++;
            continue;
        }
        s.min = !s.min.type || is_below(v, s.min) ? v : s.min;
        s.max = !s.max.type || is_below(s.max, v) ? v : s.max;
        s.sum += as_float(v);
    }
    if (s.min.type == VALUE_FLOAT) {
        s.min.f = no_minus_zero(s.min.f);
        s.max.f = no_minus_zero(s.max.f);
    }
    return s;
}

static uint32_t count_bits(const uint64_t *bits, uint32_t from, uint32_t to)
{
    uint32_t n = 0;
    for (; from < to && from % 64; from++)
        n += (uint32_t)(bits[from / 64] >> from % 64 & 1);
    for (; from + 64 <= to; from += 64)
        n += (uint32_t)__builtin_popcountll(bits[from / 64]);
    for (; from < to; from++)
        n += (uint32_t)(bits[from / 64] >> from % 64 & 1);
    return n;
}

uint32_t column_count(const struct column *c, uint32_t n)
{
    return c->present ? count_bits(c->present, 0, n) : n;
}

void column_summarise(const struct rows *r, const struct column *c, uint32_t from, uint32_t to,
                      struct column_summary *out)
{
    uint32_t count = c->present ? count_bits(c->present, from, to) : to - from;
    *out = (struct column_summary){.count = count};
    if (!count)
        return;
    while (!column_has(c, from))
        from++;
    while (!column_has(c, to - 1))
        to--;
    out->first_ns = r->time_ns[from];
    out->last_ns = r->time_ns[to - 1];
    if (value_is_text(c->type) && c->type != VALUE_NUMBER)
        return;
    struct survey s = count == to - from && c->type != VALUE_NUMBER
                          ? survey_numbers(c->u + from, c->type, count)
                          : survey_some(c, from, to);
    out->nans = s.nans;
    out->min = s.min;
    out->max = s.max;
    out->sum = s.sum;
    out->first = value_number(column_value(c, from));
    out->last = value_number(column_value(c, to - 1));
}

void column_summary_to_float(struct column_summary *s)
{
    struct value *const values[] = {&s->min, &s->max, &s->first, &s->last};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (values[i]->type == VALUE_INT || values[i]->type == VALUE_UINT || values[i]->type == VALUE_BOOL)
            *values[i] = value_float(as_float(*values[i]));
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
