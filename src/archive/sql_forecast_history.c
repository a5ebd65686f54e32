/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/sql_forecast.h"

#include "base/clock.h"

#include <errno.h>

enum { PART_CELLS = 1 << 18 }; /* of a fold, about 140 bytes each */

void history_fini(struct history *h)
{
    if (!h->args)
        return;
    bucket_done(h->args, h->bucket, &h->bucket_charged);
    h->bucket = NULL;
    map_fini(&h->streams);
    arena_fini(&h->arena);
    if (h->charged)
        sql_memory_give(&h->args->context->memory, h->charged);
    h->charged = 0;
    h->n_parts = h->n_exact = h->part = 0;
    h->has_row = false;
}

/* The time in steps, so that tiers divide them where they may. */
static int64_t choose_step(int64_t span_ns)
{
    static const int64_t units[] = {NS_PER_S * 3600, NS_PER_S * 60, NS_PER_S * 10};
    int64_t step = span_ns / HISTORY_STEPS + 1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (step > units[i])
            return (step + units[i] - 1) / units[i] * units[i];
    return step;
}

/* ---------------------------------------------------------------- which streams */

static int add_stream(struct history *h, const struct bucket_row *row)
{
    struct sql_context *c = h->args->context;
    uint32_t values = row->columns[0].count - row->columns[0].nans;
    size_t size = sizeof(struct history_stream) + row->key.n + 2 * sizeof(struct map_slot);
    if (values == 0)
        return 0;
    if (!sql_memory_take(&c->memory, size))
        return E_LIMIT;
    h->charged += size;
    struct history_stream *s = arena_alloc(&h->arena, sizeof *s);
    if (!s)
        return -ENOMEM;
    *s = (struct history_stream){.key = arena_copy(&h->arena, row->key), .values = values};
    return s->key.p ? map_put(&h->streams, s->key, s) : -ENOMEM;
}

/* Gives every stream of the sort its part; the first is `part`, and the next free one is returned. */
static uint32_t part_streams(struct history *h, bool is_exact, uint32_t part)
{
    size_t cells = 0;
    bool is_any = false;
    void *v;
    for (size_t i = 0; map_next(&h->streams, &i, &v);) {
        struct history_stream *s = v;
        if ((s->values <= HISTORY_POINTS_MAX) != is_exact)
            continue;
        size_t its = is_exact ? s->values : HISTORY_STEPS;
        if (is_any && cells + its > PART_CELLS) {
            part++;
            cells = 0;
        }
        cells += its;
        s->part = part;
        is_any = true;
    }
    return is_any ? part + 1 : part;
}

static int fold(struct history *h, struct bucket_spec *spec)
{
    h->wanted = (struct bucket_column){.id = h->column};
    h->asked = (struct bucket_table){.def = h->table, .columns = &h->wanted, .n_columns = 1};
    spec->tables = &h->asked;
    spec->n_tables = 1;
    return bucket_run(h->args, spec, &h->bucket, &h->bucket_charged);
}

int history_begin(struct history *h)
{
    struct bucket_spec spec = {.wants = h->wants, .arg = h->arg};
    struct bucket_row row;
    h->args->step_ns = h->args->tier_ns = 0;
    h->step_ns = choose_step(h->args->to_ns - h->args->from_ns);
    int r = fold(h, &spec);
    if (r != SQLITE_OK)
        return r;
    while (r == 0 && bucket_next(h->bucket, &row))
        r = add_stream(h, &row);
    bucket_done(h->args, h->bucket, &h->bucket_charged);
    h->bucket = NULL;
    if (r < 0)
        return sql_fail(h->args->context, r);
    h->n_exact = part_streams(h, true, 0);
    h->n_parts = part_streams(h, false, h->n_exact);
    return SQLITE_OK;
}

/* ---------------------------------------------------------------- points */

static bool is_of_part(void *arg, struct slice key, const struct stream_key_parts *parts)
{
    const struct history *h = arg;
    const struct history_stream *s = map_get(&h->streams, key);
    (void)parts; /* the first fold has asked */
    return s && s->part == h->part;
}

static void step_row(struct history *h)
{
    h->has_row = h->bucket && bucket_next(h->bucket, &h->row);
}

/* The next part that has a row; *is_end: there is none. */
static int next_part(struct history *h, bool *is_end)
{
    for (; !h->has_row && h->part < h->n_parts; h->part++) {
        struct bucket_spec spec = {.wants = is_of_part, .arg = h};
        bool is_exact = h->part < h->n_exact;
        h->args->step_ns = is_exact ? 1 : h->step_ns;
        h->args->tier_ns = is_exact ? 0 : h->step_ns;
        bucket_done(h->args, h->bucket, &h->bucket_charged);
        h->bucket = NULL;
        int r = fold(h, &spec);
        if (r != SQLITE_OK)
            return r;
        step_row(h);
    }
    *is_end = !h->has_row;
    return SQLITE_OK;
}

/* false: it is no number that can be reckoned with. */
static bool number_of(struct value v, double *out)
{
    switch (v.type) {
    case VALUE_INT:
        *out = (double)v.i;
        return true;
    case VALUE_UINT:
    case VALUE_BOOL:
        *out = (double)v.u;
        return true;
    case VALUE_FLOAT:
        *out = v.f;
        return isfinite(v.f);
    default:
        return false;
    }
}

/* What a counter gained: exact where it is an integer. One that went back was set to zero in between. */
static double gained(struct value from, struct value to)
{
    double v = 0;
    if (to.type == VALUE_FLOAT)
        return to.f >= from.f ? to.f - from.f : to.f;
    bool is_back = to.type == VALUE_INT ? to.i < from.i : to.u < from.u;
    if (!is_back)
        return (double)(to.u - from.u);
    (void)number_of(to, &v); /* an integer is a number */
    return v;
}

static int add_point(struct history *h, int64_t at_ns, double v)
{
    if (!isfinite(v))
        return SQLITE_OK;
    if (h->n == HISTORY_POINTS_MAX)
        return sql_fail_text(h->args->context, E_LIMIT, "a stream has more than %d points",
                             HISTORY_POINTS_MAX);
    h->points[h->n++] = (struct forecast_point){at_ns, v};
    return SQLITE_OK;
}

/* The points of the stream that h->row is of; behind them h->row is the next one's. */
static int take_stream(struct history *h, struct slice key)
{
    struct value before = value_none();
    int64_t before_ns = 0;
    int r = SQLITE_OK;
    for (h->n = 0; r == SQLITE_OK && h->has_row && slice_eq(h->row.key, key); step_row(h)) {
        struct value last = h->row.columns[0].last;
        int64_t at_ns = h->row.columns[0].last_ns;
        double v = 0;
        if (!number_of(last, &v))
            continue;
        if (!h->is_rate)
            r = add_point(h, at_ns, v);
        else if (before.type && at_ns > before_ns)
            r = add_point(h, at_ns, gained(before, last) / ((double)(at_ns - before_ns) / 1e9));
        before = last;
        before_ns = at_ns;
    }
    return r;
}

int history_next(struct history *h, struct slice *key, bool *is_end)
{
    *is_end = false;
    do {
        int r = sql_check(h->args->context);
        if (r < 0)
            return sql_fail(h->args->context, r);
        r = next_part(h, is_end);
        if (r != SQLITE_OK || *is_end)
            return r;
        *key = h->row.key;
        r = take_stream(h, *key);
        if (r != SQLITE_OK)
            return r;
    } while (h->n == 0);
    return SQLITE_OK;
}
