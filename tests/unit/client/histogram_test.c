/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/client/written.h"

#include "base/mem.h"
#include "base/num.h"

#include <math.h>
#include <time.h>

/* Reads the field buckets; returns how many and their sum. */
static size_t parse_buckets(const struct event *e, double *sum)
{
    struct slice text = value_slice(written_value(e, "buckets", VALUE_TEXT));
    size_t n = 0;
    *sum = 0;
    while (text.n > 0) {
        const char *comma = memchr(text.p, ',', text.n);
        size_t len = comma ? (size_t)(comma - text.p) : text.n;
        double v;
        assert_int_equal(num_parse_float(slice_of(text.p, len), &v), 0);
        *sum += v;
        n++;
        text = slice_from(text, len + 1);
    }
    return n;
}

/* Width doubles as time goes on; whatever it is, the sum is what was added. */
static void test_folds_as_time_goes(void **state)
{
    (void)state;
    struct written w;
    int64_t before = clock_utc_ns();
    gridline *g = written_open(&w, 0);
    gridline_histogram *h = gridline_histogram_get(g, "bytes", 8, 1e-6); /* 8 us: folds many times */
    assert_ptr_equal(gridline_histogram_get(g, "bytes", 8, 1e-6), h);
    double added = 0;
    for (int64_t end = clock_mono_ns() + 10000000; clock_mono_ns() < end; added += 0.25)
        gridline_histogram_add(h, 0.25);
    gridline_histogram_report(h);
    gridline_histogram_add(h, INFINITY);
    gridline_histogram_add(h, NAN);
    gridline_close(g);
    written_read(&w);
    assert_int_equal(written_count(&w, "bytes"), 2);
    for (size_t i = 0; i < 2; i++) {
        const struct event *e = written_event(&w, "bytes", i);
        double sum, width = written_float(e, "width.s");
        size_t n = parse_buckets(e, &sum);
        assert_int_equal(written_int(e, "n"), n);
        assert_true(n >= 1 && n <= 8);
        assert_true(sum == added);
        assert_true(width >= 0.01 / 8 * 0.99); /* at least 10 ms in 8 buckets */
        int exponent;
        double mantissa = frexp(round(width * 1e9 / 1000), &exponent);
        assert_true(mantissa == 0.5); /* a power of two times the first width */
        assert_true(written_int(e, "start.ns") >= before && written_int(e, "start.ns") <= clock_utc_ns());
    }
    assert_false(written_has(written_event(&w, "bytes", 0), "not_finite"));
    assert_int_equal(written_int(written_event(&w, "bytes", 1), "not_finite"), 2);
    written_end(&w);
}

static void test_arguments(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, 0);
    assert_null(gridline_histogram_get(g, "a", 1, 1));
    assert_null(gridline_histogram_get(g, "a", 1025, 1));
    assert_null(gridline_histogram_get(g, "a", 8, 0));
    assert_null(gridline_histogram_get(g, "a", 8, 1e-10));
    assert_null(gridline_histogram_get(g, "a", 8, NAN));
    assert_null(gridline_histogram_get(g, "a", 8, INFINITY));
    assert_null(gridline_histogram_get(NULL, "a", 8, 1));
    gridline_histogram_add(NULL, 1);
    gridline_histogram_report(NULL);
    gridline_histogram *h = NULL;
    for (uint64_t n = 1; !h; n++) {
        mem_fail_after(n);
        h = gridline_histogram_get(g, "a", 1024, 1);
        mem_fail_after(0);
        assert_true(n < 10);
    }
    gridline_close(g);
    written_read(&w);
    const struct event *e = written_event(&w, "a", 0);
    assert_int_equal(written_int(e, "n"), 1);
    assert_slice(value_slice(written_value(e, "buckets", VALUE_TEXT)), "0.0");
    written_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_folds_as_time_goes),
                                       cmocka_unit_test(test_arguments)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
