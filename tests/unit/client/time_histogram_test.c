/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/mem.h"
#include "client/time_histogram.h"

#include <pthread.h>
#include <stdatomic.h>

static double sum(const double *v, unsigned n)
{
    double s = 0;
    for (unsigned i = 0; i < n; i++)
        s += v[i];
    return s;
}

static void test_folding(void **state)
{
    (void)state;
    struct time_histogram *h = time_histogram_create(4, 10);
    double out[4];
    int64_t width;
    assert_int_equal(time_histogram_read(h, 0, out, &width), 1);
    assert_int_equal(width, 10);
    for (int i = 0; i < 4; i++)
        time_histogram_add(h, i * 10 + 9, 1 << i); /* 1 2 4 8 */
    assert_int_equal(time_histogram_read(h, 39, out, &width), 4);
    assert_memory_equal(out, ((double[]){1, 2, 4, 8}), sizeof out);
    time_histogram_add(h, 40, 16); /* 3 12 16 */
    assert_int_equal(time_histogram_read(h, 40, out, &width), 3);
    assert_int_equal(width, 20);
    assert_memory_equal(out, ((double[]){3, 12, 16, 0}), sizeof out);
    time_histogram_add(h, 5, 100);  /* late, into the first */
    time_histogram_add(h, 640, 32); /* 64 steps: 32 of two */
    assert_int_equal(time_histogram_read(h, 640, out, &width), 3);
    assert_int_equal(width, 320);
    assert_memory_equal(out, ((double[]){131, 0, 32, 0}), sizeof out);
    time_histogram_add(h, -5, 1); /* before time 0 */
    (void)time_histogram_read(h, 640, out, &width);
    assert_true(out[0] == 132);
    time_histogram_destroy(h);
}

/* Whole numbers in any order of times, up to the end of time: the sum stays what was added. */
static void test_sum_is_kept(void **state)
{
    (void)state;
    uint64_t seed = 21;
    for (int round = 0; round < 300; round++) {
        unsigned n = 2 + (unsigned)(test_random(&seed) % 1023);
        struct time_histogram *h = time_histogram_create(n, 1 + (int64_t)(test_random(&seed) % 1000000));
        double out[TIME_BUCKETS_MAX], expected = 0;
        int64_t width, at = 0;
        for (int i = 0; i < 200; i++) {
            double v = (double)(test_random(&seed) % 1000) - 300;
            int64_t step = (int64_t)(test_random(&seed) >> (1 + test_random(&seed) % 63));
            at = step > INT64_MAX - at ? INT64_MAX : at + step;
            time_histogram_add(h, test_random(&seed) % 4 ? at : at / 2, v);
            expected += v;
            unsigned begun = time_histogram_read(h, at, out, &width);
            assert_true(begun >= 1 && begun <= n && width > 0);
            assert_true(sum(out, n) == expected);
        }
        time_histogram_destroy(h);
    }
}

enum { THREADS = 8, ADDS = 20000 };

struct shared {
    struct time_histogram *h;
    _Atomic int64_t at;
    _Atomic bool stop;
};

static void *add_all(void *arg)
{
    struct shared *s = arg;
    for (int i = 0; i < ADDS; i++)
        time_histogram_add(s->h, atomic_fetch_add(&s->at, 7), 1);
    return NULL;
}

static void *read_all(void *arg)
{
    struct shared *s = arg;
    double out[16], before = 0;
    while (!atomic_load(&s->stop)) {
        int64_t width;
        (void)time_histogram_read(s->h, atomic_load(&s->at), out, &width);
        double now = sum(out, 16);
        assert_true(now >= before); /* no add is seen and then not */
        before = now;
    }
    return NULL;
}

/* Folding while 8 threads add and one reads: nothing is lost or counted twice. */
static void test_threads(void **state)
{
    (void)state;
    struct shared s = {.h = time_histogram_create(16, 1)};
    pthread_t t[THREADS], reader;
    assert_int_equal(pthread_create(&reader, NULL, read_all, &s), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, add_all, &s), 0);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(t[i], NULL);
    atomic_store(&s.stop, true);
    (void)pthread_join(reader, NULL);
    double out[16];
    int64_t width;
    (void)time_histogram_read(s.h, atomic_load(&s.at), out, &width);
    assert_true(sum(out, 16) == THREADS * ADDS);
    time_histogram_destroy(s.h);
}

static void test_arguments(void **state)
{
    (void)state;
    assert_null(time_histogram_create(1, 10));
    assert_null(time_histogram_create(1025, 10));
    assert_null(time_histogram_create(2, 0));
    mem_fail_after(1);
    assert_null(time_histogram_create(2, 10));
    time_histogram_destroy(NULL);
    struct time_histogram *h = time_histogram_create(2, 10);
    double out[2];
    int64_t width;
    time_histogram_add(h, 1000, 5);
    time_histogram_clear(h);
    assert_int_equal(time_histogram_read(h, 5, out, &width), 1);
    assert_int_equal(width, 10);
    assert_true(out[0] == 0 && out[1] == 0);
    time_histogram_destroy(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_folding), cmocka_unit_test(test_sum_is_kept),
                                       cmocka_unit_test(test_threads), cmocka_unit_test(test_arguments)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
