/* SPDX-License-Identifier: Apache-2.0 */
/* sql_aggregates.c - counter_increase, counter_rate, percentile and median.
 *
 * Counters: the sum of what a counter gained from each reading to the next, in order of time. Where it went
 * back it was set to zero in between, and has gained at least what it shows now. Rows come in no order of
 * time, so readings are kept and sorted at the end: 24 bytes each. Rows of several streams in one group would
 * be taken for one counter: GROUP BY host and keys.
 *
 * percentile(value, p): exact, between the two nearest values in proportion (as numpy and SQL's
 * percentile_cont): 8 bytes a value.
 *
 * As window functions: rows leave in the order in which they came, so the oldest that is kept is the one to
 * drop; each row of the result costs the sorting of its frame, n log n.
 *
 * Memory is SQLite's (sqlite3_realloc64), so it is the query's: more than its limit ends it (sql_memory.c).
 */
#include "archive/sql_internal.h"

#include "base/num.h"

#include <errno.h>
#include <stdlib.h>

/* The value is high + low, exactly: integers beyond 2^53 fit no double. */
struct reading {
    int64_t time_ns;
    double high, low;
};

/* Values so far, those that have left the frame still in front. */
struct kept {
    union {
        double *values;
        struct reading *readings;
        void *p;
    };
    size_t first, n, cap;
    double fraction; /* of percentile */
    bool has_fraction;
};

/* Room for one more of `size` bytes each. What has left gives way first. */
static bool make_room(struct kept *k, size_t size)
{
    if (k->first && k->first * 2 >= k->n) {
        memmove(k->p, (char *)k->p + k->first * size, (k->n - k->first) * size);
        k->n -= k->first;
        k->first = 0;
    }
    if (k->n < k->cap)
        return true;
    size_t cap = k->cap ? k->cap * 2 : 64;
    void *p = sqlite3_realloc64(k->p, cap * size);
    if (!p)
        return false;
    k->p = p;
    k->cap = cap;
    return true;
}

/* A copy of what is in the frame, to be sorted: as a window function it is asked again for the next row. */
static void *copy_frame(const struct kept *k, size_t size)
{
    void *copy = sqlite3_malloc64((k->n - k->first) * size);
    if (copy)
        memcpy(copy, (const char *)k->p + k->first * size, (k->n - k->first) * size);
    return copy;
}

static void free_kept(sqlite3_context *to)
{
    struct kept *k = sqlite3_aggregate_context(to, 0);
    if (k)
        sqlite3_free(k->p);
}

/* ---------------------------------------------------------------- counters */

static bool is_number(sqlite3_value *v)
{
    int type = sqlite3_value_numeric_type(v);
    return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

/* The nearest double, and what it is short of: at most 2^10. */
static void set_uint(struct reading *r, uint64_t v)
{
    r->high = (double)v;
    uint64_t back = r->high < 0x1p64 ? (uint64_t)r->high : 0; /* 2^64 is 0 here */
    r->low = (double)(int64_t)(v - back);
}

static void set_int(struct reading *r, int64_t v)
{
    set_uint(r, v < 0 ? -(uint64_t)v : (uint64_t)v);
    r->high = v < 0 ? -r->high : r->high;
    r->low = v < 0 ? -r->low : r->low;
}

/* Those above 2^63 are text (sql_result), which sqlite3_value_numeric_type would turn into a double for good.
 */
static bool set_value(struct reading *r, sqlite3_value *v)
{
    uint64_t large;
    if (sqlite3_value_type(v) == SQLITE_TEXT &&
        num_parse_uint(slice_of((const char *)sqlite3_value_text(v), (size_t)sqlite3_value_bytes(v)),
                       &large) == 0)
        set_uint(r, large);
    else if (!is_number(v))
        return false;
    else if (sqlite3_value_type(v) == SQLITE_INTEGER)
        set_int(r, sqlite3_value_int64(v));
    else
        r->high = sqlite3_value_double(v);
    return true;
}

static bool get_reading(sqlite3_value **argv, struct reading *out)
{
    *out = (struct reading){.low = 0};
    if (!set_value(out, argv[1]) || !is_number(argv[0]))
        return false;
    out->time_ns = sqlite3_value_int64(argv[0]);
    return true;
}

static void counter_step(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    struct kept *k = sqlite3_aggregate_context(to, sizeof *k);
    struct reading r;
    (void)argc;
    if (!get_reading(argv, &r))
        return; /* missing: as if there were no row */
    if (!k || !make_room(k, sizeof *k->readings)) {
        sqlite3_result_error_nomem(to);
        return;
    }
    k->readings[k->n++] = r;
}

static void counter_leave(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    struct kept *k = sqlite3_aggregate_context(to, sizeof *k);
    struct reading r;
    (void)argc;
    if (k && get_reading(argv, &r) && k->first < k->n)
        k->first++;
}

static double difference(const struct reading *from, const struct reading *to)
{
    return (to->high - from->high) + (to->low - from->low);
}

/* Of the same time the larger is the later: a counter grows. */
static int compare_readings(const void *a, const void *b)
{
    const struct reading *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns > y->time_ns ? 1 : -1;
    double d = difference(y, x);
    return (d > 0) - (d < 0);
}

/* What it gained, and in how many ns. false: fewer than two readings, or no memory, which is said. */
static bool counter_gain(sqlite3_context *to, double *gain, uint64_t *ns)
{
    const struct kept *k = sqlite3_aggregate_context(to, 0);
    size_t n = k ? k->n - k->first : 0;
    if (n < 2)
        return false;
    struct reading *r = copy_frame(k, sizeof *r);
    if (!r) {
        sqlite3_result_error_nomem(to);
        return false;
    }
    qsort(r, n, sizeof *r, compare_readings);
    *gain = 0;
    for (size_t i = 1; i < n; i++) {
        double d = difference(&r[i - 1], &r[i]);
        *gain += d >= 0 ? d : r[i].high + r[i].low;
    }
    *ns = (uint64_t)r[n - 1].time_ns - (uint64_t)r[0].time_ns;
    sqlite3_free(r);
    return true;
}

static void increase_value(sqlite3_context *to)
{
    double gain;
    uint64_t ns;
    if (counter_gain(to, &gain, &ns))
        sqlite3_result_double(to, gain);
}

static void increase_final(sqlite3_context *to)
{
    increase_value(to);
    free_kept(to);
}

static void rate_value(sqlite3_context *to)
{
    double gain;
    uint64_t ns;
    if (counter_gain(to, &gain, &ns) && ns > 0)
        sqlite3_result_double(to, gain * 1e9 / (double)ns);
}

static void rate_final(sqlite3_context *to)
{
    rate_value(to);
    free_kept(to);
}

/* ---------------------------------------------------------------- percentiles */

static bool set_fraction(sqlite3_context *to, struct kept *k, int argc, sqlite3_value **argv)
{
    double p = argc == 2 ? sqlite3_value_double(argv[1]) : 50;
    bool is_other = k->has_fraction && p / 100 != k->fraction;
    if ((argc == 2 && !is_number(argv[1])) || !(p >= 0 && p <= 100) || is_other) {
        sqlite3_result_error(to,
                             is_other ? "percentile: the second argument is the same for all rows"
                                      : "percentile: the second argument is from 0 to 100",
                             -1);
        return false;
    }
    k->fraction = p / 100;
    k->has_fraction = true;
    return true;
}

static void percentile_step(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    struct kept *k = sqlite3_aggregate_context(to, sizeof *k);
    if (!k) {
        sqlite3_result_error_nomem(to);
        return;
    }
    if (!set_fraction(to, k, argc, argv) || !is_number(argv[0]))
        return;
    if (make_room(k, sizeof *k->values))
        k->values[k->n++] = sqlite3_value_double(argv[0]);
    else
        sqlite3_result_error_nomem(to);
}

static void percentile_leave(sqlite3_context *to, int argc, sqlite3_value **argv)
{
    struct kept *k = sqlite3_aggregate_context(to, sizeof *k);
    (void)argc;
    if (k && is_number(argv[0]) && k->first < k->n)
        k->first++;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void percentile_value(sqlite3_context *to)
{
    const struct kept *k = sqlite3_aggregate_context(to, 0);
    size_t n = k ? k->n - k->first : 0;
    if (n == 0)
        return;
    double *v = copy_frame(k, sizeof *v);
    if (!v) {
        sqlite3_result_error_nomem(to);
        return;
    }
    qsort(v, n, sizeof *v, compare_doubles);
    double at = k->fraction * (double)(n - 1);
    size_t below = (size_t)at, above = below + 1 < n ? below + 1 : below;
    double part = at - (double)below;
    /* The product with 0 would be NaN where the value above is infinite. */
    sqlite3_result_double(to, part > 0 ? v[below] + part * (v[above] - v[below]) : v[below]);
    sqlite3_free(v);
}

static void percentile_final(sqlite3_context *to)
{
    percentile_value(to);
    free_kept(to);
}

int sql_aggregates_register(struct sql_context *c)
{
    static const struct {
        const char *name;
        int n;
        void (*step)(sqlite3_context *, int, sqlite3_value **);
        void (*final)(sqlite3_context *);
        void (*value)(sqlite3_context *);
        void (*leave)(sqlite3_context *, int, sqlite3_value **);
    } functions[] = {
        {"counter_increase", 2, counter_step, increase_final, increase_value, counter_leave},
        {"counter_rate", 2, counter_step, rate_final, rate_value, counter_leave},
        {"median", 1, percentile_step, percentile_final, percentile_value, percentile_leave},
        {"percentile", 2, percentile_step, percentile_final, percentile_value, percentile_leave},
    };
    int r = SQLITE_OK;
    for (size_t i = 0; i < sizeof functions / sizeof *functions && r == SQLITE_OK; i++)
        r = sqlite3_create_window_function(c->db, functions[i].name, functions[i].n,
                                           SQLITE_UTF8 | SQLITE_INNOCUOUS, c, functions[i].step,
                                           functions[i].final, functions[i].value, functions[i].leave, NULL);
    return sql_error(c, r);
}
