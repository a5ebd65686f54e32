/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "client/log_histogram.h"

#include <float.h>
#include <math.h>

static double random_double(uint64_t *seed)
{
    for (;;) {
        uint64_t bits = test_random(seed);
        double v;
        memcpy(&v, &bits, sizeof v);
        if (!isnan(v))
            return v;
    }
}

/* Every normal double is within 6.25% of what stands for its bucket, which lies in the same bucket. */
static void test_error(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int i = 0; i < 1000000; i++) {
        double v = random_double(&seed);
        unsigned b = log_bucket_of(v);
        assert_true(b < LOG_BUCKETS);
        double middle = log_bucket_value(b);
        assert_int_equal(log_bucket_of(middle), b);
        if (fabs(v) >= DBL_MIN && isfinite(v))
            assert_true(fabs(middle - v) <= 0.0625 * fabs(v));
        else if (isfinite(v))
            assert_true(fabs(middle - v) <= DBL_MIN / 8);
    }
}

/* The order of buckets is the order of values. */
static void test_order(void **state)
{
    (void)state;
    uint64_t seed = 12;
    for (int i = 0; i < 1000000; i++) {
        double a = random_double(&seed), b = random_double(&seed);
        if (a <= b)
            assert_true(log_bucket_of(a) <= log_bucket_of(b));
    }
    static const double rising[] = {-INFINITY, -DBL_MAX, -1, -0.5,    -DBL_MIN, 0,
                                    DBL_MIN,   0.5,      1,  DBL_MAX, INFINITY};
    for (size_t i = 1; i < sizeof rising / sizeof *rising; i++)
        assert_true(log_bucket_of(rising[i - 1]) < log_bucket_of(rising[i]));
}

static void test_special(void **state)
{
    (void)state;
    assert_int_equal(log_bucket_of(0.0), log_bucket_of(-0.0));
    assert_true(log_bucket_value(log_bucket_of(0.0)) == 0);
    assert_true(log_bucket_value(log_bucket_of(INFINITY)) == INFINITY);
    assert_true(log_bucket_value(log_bucket_of(-INFINITY)) == -INFINITY);
    assert_int_equal(log_bucket_of(DBL_TRUE_MIN), log_bucket_of(0.0));
    assert_true(isfinite(log_bucket_value(log_bucket_of(DBL_MAX))));
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Against the sorted values. */
static void test_quantiles(void **state)
{
    (void)state;
    enum { N = 997 };
    static _Atomic uint64_t counts[LOG_BUCKETS];
    static double values[N];
    static const double qs[] = {0, 0.5, 0.95, 0.99, 1};
    uint64_t seed = 13;
    for (int i = 0; i < N; i++) {
        values[i] = exp((double)(test_random(&seed) % 1000) / 50) * (i % 3 ? 1 : -1);
        counts[log_bucket_of(values[i])]++;
    }
    qsort(values, N, sizeof *values, compare);
    double out[5];
    log_quantiles(counts, log_bucket_of(values[0]), log_bucket_of(values[N - 1]), N, qs, 5, out);
    for (int i = 0; i < 5; i++) {
        size_t rank = (size_t)ceil(qs[i] * N);
        double exact = values[rank ? rank - 1 : 0];
        assert_true(fabs(out[i] - exact) <= 0.0625 * fabs(exact));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_error), cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_special), cmocka_unit_test(test_quantiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
