/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/archive/chunks.h"

/* As rows.h says, the plain way. */
static struct column_summary expected(const struct rows *r, const struct column *c, uint32_t from,
                                      uint32_t to)
{
    struct column_summary s = {.count = 0};
    for (uint32_t i = from; i < to; i++) {
        struct value v = column_value(c, i);
        if (!v.type)
            continue;
        bool is_text = value_is_text(v.type);
        if (!s.count++) {
            s.first_ns = r->time_ns[i];
            s.first = is_text ? value_none() : v;
        }
        s.last_ns = r->time_ns[i];
        s.last = is_text ? value_none() : v;
        if (is_text)
            continue;
        if (v.type == VALUE_FLOAT && isnan(v.f)) {
            s.nans++;
            continue;
        }
        double f = v.type == VALUE_FLOAT ? v.f : v.type == VALUE_INT ? (double)v.i : (double)v.u;
        if (v.type == VALUE_FLOAT && v.f == 0)
            v.f = 0.0;
        bool is_less = v.type == VALUE_FLOAT ? v.f < s.min.f
                       : v.type == VALUE_INT ? v.i < s.min.i
                                             : v.u < s.min.u;
        bool is_more = v.type == VALUE_FLOAT ? v.f > s.max.f
                       : v.type == VALUE_INT ? v.i > s.max.i
                                             : v.u > s.max.u;
        s.min = !s.min.type || is_less ? v : s.min;
        s.max = !s.max.type || is_more ? v : s.max;
        s.sum += f;
    }
    return s;
}

static void assert_summary(const struct column_summary *a, const struct column_summary *b)
{
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->nans, b->nans);
    assert_true(value_eq(a->min, b->min) && value_eq(a->max, b->max));
    assert_true(value_eq(a->first, b->first) && value_eq(a->last, b->last));
    assert_true(float_bits(a->sum) == float_bits(b->sum) || (isnan(a->sum) && isnan(b->sum)));
    assert_int_equal(a->first_ns, b->first_ns);
    assert_int_equal(a->last_ns, b->last_ns);
}

static void test_every_shape(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (unsigned round = 0; round < 600 * test_scale(); round++) {
        struct arena arena = {0};
        struct rows r;
        struct column c = {.id = 0};
        uint32_t n = 1 + (uint32_t)(test_random(&seed) % 500);
        random_heads(&arena, n, &seed, &r);
        random_column(&arena, n, (uint8_t)(1 + round % 6), (enum chunk_shape)(test_random(&seed) % SHAPES),
                      &seed, &c);
        for (int k = 0; k < 10; k++) {
            uint32_t from = k ? (uint32_t)(test_random(&seed) % n) : 0;
            uint32_t to = k ? from + (uint32_t)(test_random(&seed) % (n - from + 1)) : n;
            struct column_summary got, want = expected(&r, &c, from, to);
            column_summarise(&r, &c, from, to, &got);
            assert_summary(&want, &got);
        }
        arena_fini(&arena);
    }
}

/* A zero is 0.0 among min and max, wherever -0.0 was. */
static void test_zeros(void **state)
{
    (void)state;
    static const int64_t times[6] = {1, 2, 3, 4, 5, 6};
    const double v[6] = {-0.0, 0.0, -0.0, -0.0, 0.0, -0.0};
    struct rows r = {.n = 6, .time_ns = times};
    struct column c = {.type = VALUE_FLOAT, .f = v};
    for (uint32_t from = 0; from < 6; from++)
        for (uint32_t to = from + 1; to <= 6; to++) {
            struct column_summary s;
            column_summarise(&r, &c, from, to, &s);
            assert_int_equal(s.min.u, 0);
            assert_int_equal(s.max.u, 0);
            assert_int_equal(s.first.u, float_bits(v[from]));
            assert_int_equal(s.last.u, float_bits(v[to - 1]));
        }
}

/* Integers are summed exactly up to 2^53, not by rounding each. */
static void test_sum_of_integers(void **state)
{
    (void)state;
    int64_t times[1000], v[1000];
    for (int64_t i = 0; i < 1000; i++) {
        times[i] = i;
        v[i] = INT64_C(9000000000000) - 2 * i;
    }
    struct rows r = {.n = 1000, .time_ns = times};
    struct column c = {.type = VALUE_INT, .i = v};
    struct column_summary s;
    column_summarise(&r, &c, 0, 1000, &s);
    assert_true(s.sum == 9e15 - 999000);
}

/* Parts that are merged are the whole, but for the order in which floats are summed. */
static void test_merge(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (unsigned round = 0; round < 200; round++) {
        struct arena arena = {0};
        struct rows r;
        struct column c = {.id = 0};
        random_heads(&arena, 300, &seed, &r);
        random_column(&arena, 300, (uint8_t)(1 + round % 4), SHAPE_GAUGE, &seed, &c);
        uint32_t at = (uint32_t)(test_random(&seed) % 301);
        struct column_summary whole, early, late, merged;
        column_summarise(&r, &c, 0, 300, &whole);
        column_summarise(&r, &c, 0, at, &early);
        column_summarise(&r, &c, at, 300, &late);
        merged = late;
        if (early.count && late.count && early.last_ns == late.first_ns) {
            arena_fini(&arena);
            continue; /* of one time: which is first can't be told from summaries */
        }
        column_summary_merge(&merged, &early);
        assert_summary(&whole, &merged);
        merged = early;
        column_summary_merge(&merged, &late);
        assert_summary(&whole, &merged);
        arena_fini(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shape),
        cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_sum_of_integers),
        cmocka_unit_test(test_merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
