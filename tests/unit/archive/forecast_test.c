/* SPDX-License-Identifier: Apache-2.0 */
/* Predictors give what their definition gives, computed plainly; of series of a known sort the right one is
 * chosen; and the error that is told is the one that is made, on points that were not shown. */
#include "unit/test.h"

#include "archive/forecast.h"
#include "base/err.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#define SECOND INT64_C(1000000000)
#define BASE   (INT64_C(1794776400) * SECOND)
enum { MAX = 2000 };

static struct forecast_point points[MAX];
static size_t n;
static uint64_t seed;
static int64_t half_life_ns;

/* In (0, 1). */
static double uniform(void)
{
    return ((double)(test_random(&seed) >> 12) + 0.5) * 0x1p-52;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

static void add(int64_t at_ns, double value)
{
    assert_true(n < MAX);
    points[n++] = (struct forecast_point){at_ns, value};
}

static struct forecast make_at(int64_t now_ns, int64_t horizon_ns, const char *method)
{
    struct forecast_spec spec = {.now_ns = now_ns,
                                 .horizon_ns = horizon_ns,
                                 .half_life_ns = half_life_ns,
                                 .method = slice_str(method ? method : "")};
    struct forecast f;
    assert_true(forecast_knows(spec.method));
    assert_int_equal(forecast_make(points, n, &spec, &f), 0);
    assert_true(isfinite(f.value));
    assert_true(isnan(f.error) || f.error >= 0);
    assert_true(isnan(f.rmse) || f.rmse >= f.error * (1 - 1e-9));
    assert_int_equal(f.points, n);
    return f;
}

/* As of the newest point. */
static struct forecast make(int64_t horizon_ns, const char *method)
{
    return make_at(points[n - 1].at_ns, horizon_ns, method);
}

static bool is_of(const struct forecast *f, const char *family)
{
    return strncmp(f->predictor, family, strlen(family)) == 0;
}

static void assert_near(double a, double b, double by)
{
    if (!(fabs(a - b) <= by))
        fail_msg("%.17g is not %.17g within %g", a, b, by);
}

static int begin(void **state)
{
    (void)state;
    n = 0;
    seed = 1;
    half_life_ns = 0;
    return 0;
}

/* ---------------------------------------------------------------- by definition */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double plain_median(size_t first, size_t end)
{
    double v[MAX];
    size_t count = end - first;
    for (size_t i = 0; i < count; i++)
        v[i] = points[first + i].value;
    qsort(v, count, sizeof *v, compare);
    return (v[(count - 1) / 2] + v[count / 2]) / 2;
}

static double plain_line(size_t first, size_t end, int64_t at_ns)
{
    long double mx = 0, my = 0, xx = 0, xy = 0, count = (long double)(end - first);
    for (size_t i = first; i < end; i++) {
        mx += (long double)(points[i].at_ns - BASE) / count;
        my += (long double)points[i].value / count;
    }
    for (size_t i = first; i < end; i++) {
        long double x = (long double)(points[i].at_ns - BASE) - mx;
        xx += x * x;
        xy += x * ((long double)points[i].value - my);
    }
    if (xx == 0)
        return points[end - 1].value;
    return (double)(my + xy / xx * ((long double)(at_ns - BASE) - mx));
}

static double plain_mean(size_t first, size_t end)
{
    long double sum = 0;
    for (size_t i = first; i < end; i++)
        sum += (long double)points[i].value;
    return (double)(sum / (long double)(end - first));
}

/* What the method says of at_ns with the first `known` points. */
static double plain(const char *method, size_t window, size_t known, int64_t at_ns)
{
    size_t first = window && known > window ? known - window : 0;
    if (method[0] == 't')
        return plain_line(first, known, at_ns);
    if (method[2] == 'd')
        return plain_median(first, known);
    return method[0] == 'l' ? points[known - 1].value : plain_mean(first, known);
}

static void check_method(const char *method, size_t window, int64_t horizon_ns)
{
    struct forecast f = make(horizon_ns, method);
    double error = 0, square = 0;
    size_t tests = 0;
    for (size_t i = 0; i < n; i++) {
        size_t known = 0;
        while (known < n && points[known].at_ns <= points[i].at_ns - horizon_ns)
            known++;
        if (known < FORECAST_LEAST)
            continue;
        double off = fabs(plain(method, window, known, points[i].at_ns) - points[i].value);
        error += off;
        square += off * off;
        tests++;
    }
    double value = plain(method, window, n, points[n - 1].at_ns + horizon_ns);
    assert_string_equal(f.predictor, method);
    assert_int_equal(f.tests, tests);
    assert_near(f.value, value, 1e-7 * (1 + fabs(value)));
    assert_near(f.error, error / (double)tests, 1e-7 * (1 + error / (double)tests));
    assert_near(f.rmse, sqrt(square / (double)tests), 1e-7 * (1 + sqrt(square / (double)tests)));
}

static void are_as_defined(void **state)
{
    static const struct {
        const char *name;
        size_t window;
    } all[] = {{"last", 1},        {"mean_all", 0},    {"mean_50", 50},   {"mean_20", 20}, {"mean_10", 10},
               {"mean_5", 5},      {"median_31", 31},  {"median_11", 11}, {"median_5", 5}, {"trend_all", 0},
               {"trend_300", 300}, {"trend_100", 100}, {"trend_30", 30},  {"trend_10", 10}};
    (void)state;
    for (size_t round = 0; round < 6; round++) {
        int64_t at = BASE;
        n = 0;
        for (size_t i = 0; i < 450; i++) { /* irregular, with gaps, and values that come again */
            at += (int64_t)(uniform() * 20 * (double)SECOND) + (i % 90 == 89 ? 3600 * SECOND : 1);
            add(at, round % 2 ? floor(normal() * 3) : 1e6 + normal() * 1e3 + (double)i);
        }
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            check_method(all[i].name, all[i].window, (int64_t)(1 + round * 37) * SECOND);
    }
}

static void smooths_as_defined(void **state)
{
    (void)state;
    double level = 0, holt = 0, slope = 0, v[] = {10, 12, 9, 15, 20, 18, 25};
    for (size_t i = 0; i < 7; i++) { /* regular times: the textbook's recursions */
        double before = holt;
        add(BASE + (int64_t)i * 10 * SECOND, v[i]);
        level = i ? 0.2 * v[i] + 0.8 * level : v[0];
        if (i == 1)
            slope = v[1] - v[0];
        holt = i > 1 ? 0.5 * v[i] + 0.5 * (holt + slope) : v[i];
        slope = i > 1 ? 0.1 * (holt - before) + 0.9 * slope : slope;
    }
    assert_near(make(10 * SECOND, "smooth_0.2").value, level, 1e-9);
    assert_near(make(30 * SECOND, "smooth_0.2").value, level, 1e-9);
    assert_near(make(10 * SECOND, "holt_0.5_0.1").value, holt + slope, 1e-9);
    assert_near(make(30 * SECOND, "holt_0.5_0.1").value, holt + 3 * slope, 1e-9);
}

/* Points that were left out because nothing changed do not change what smoothing knows by much: the value
 * that comes after a long time counts as if the time had been full of it. */
static void smoothing_goes_by_time(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        add(BASE + i * SECOND, 5);
    add(points[n - 1].at_ns + 60 * SECOND, 9);
    assert_true(make(SECOND, "smooth_0.05").value > 8.5); /* 1 - 0.95^58 of the way and more */
    n = 100;
    add(points[n - 1].at_ns + SECOND, 9);
    assert_near(make(SECOND, "smooth_0.05").value, 5.2, 1e-9);
}

/* ---------------------------------------------------------------- the right one */

static void constant_is_last(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++)
        add(BASE + i * 10 * SECOND, 42);
    struct forecast f = make(600 * SECOND, NULL);
    assert_string_equal(f.predictor, "last");
    assert_true(f.value == 42 && f.error == 0 && f.rmse == 0);
    assert_int_equal(f.tests, 131);
    assert_true(f.at_ns == points[n - 1].at_ns + 600 * SECOND && f.last == 42);
}

static void ramp_is_trend(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) /* 1 GB a minute of 1 TB is gone, in a rhythm that isn't one */
        add(BASE + (i * 60 + i % 7 * 5) * SECOND, 1e12 - 1e9 * (i + i % 7 * 5 / 60.0));
    struct forecast f = make(7200 * SECOND, NULL);
    assert_true(is_of(&f, "trend"));
    double want = points[n - 1].value - 1e9 * 120;
    assert_near(f.value, want, 1e3);
    assert_true(f.error < 1e3);
    /* also when it has not been heard of for a while */
    f = make_at(points[n - 1].at_ns + 3600 * SECOND, 7200 * SECOND, NULL);
    assert_near(f.value, points[n - 1].value - 1e9 * 180, 1e3);
}

static void noise_is_mean(void **state)
{
    (void)state;
    for (int i = 0; i < 1500; i++)
        add(BASE + i * 10 * SECOND, 100 + 5 * normal());
    struct forecast f = make(300 * SECOND, NULL);
    assert_string_equal(f.predictor, "mean_all");
    assert_near(f.value, 100, 0.5);
    assert_near(f.error, 5 * sqrt(2 / M_PI), 0.2);
    assert_near(f.rmse, 5, 0.2);
}

static void outliers_are_median(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        add(BASE + i * 10 * SECOND, (test_random(&seed) % 10 == 0 ? 1e6 : 100) + normal());
    struct forecast f = make(10 * SECOND, NULL);
    assert_true(is_of(&f, "median"));
    assert_near(f.value, 100, 3);
}

/* The next step of a walk is as likely up as down; a mean lags behind. */
static void walk_is_last(void **state)
{
    (void)state;
    double v = 0;
    for (int i = 0; i < 1500; i++)
        add(BASE + i * 10 * SECOND, v += normal());
    struct forecast f = make(10 * SECOND, NULL);
    assert_true(is_of(&f, "last") || is_of(&f, "smooth_0.8"));
    assert_near(f.error, sqrt(2 / M_PI), 0.06);
}

static void step_is_found_again(void **state)
{
    (void)state;
    for (int i = 0; i < 400; i++)
        add(BASE + i * 10 * SECOND, (i < 300 ? 10 : 90) + 0.01 * normal());
    struct forecast f = make(20 * SECOND, NULL);
    assert_near(f.value, 90, 0.2);
    assert_true(f.error < 1); /* one or two misses of 80 in 400 */
}

/* The choice is the horizon's: of a slow wave a short way ahead the slope knows most; half a wave ahead
 * anything that goes on as it went is the furthest off. */
static void wave_by_horizon(void **state)
{
    (void)state;
    for (int i = 0; i < 1800; i++)
        add(BASE + i * 10 * SECOND, 50 + 30 * sin(2 * M_PI * i / 360) + 0.01 * normal());
    struct forecast near = make(30 * SECOND, NULL), far = make(1800 * SECOND, NULL);
    assert_true(is_of(&near, "trend") || is_of(&near, "holt"));
    assert_true(near.error < 0.5);
    assert_true(is_of(&far, "mean_all") || is_of(&far, "trend_all") || is_of(&far, "holt_0.1") ||
                is_of(&far, "smooth_0.05"));
    assert_true(far.error > 10 && far.error < 30);
    assert_true(make(1800 * SECOND, "last").error > far.error);
    assert_true(make(1800 * SECOND, "trend_30").error > far.error);
}

/* Errors fade: what was best for long is left when it has been worse for some half-lives. */
static void old_errors_fade(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        add(BASE + i * 60 * SECOND, i < 700 ? 500 + 20 * normal() : 500 - 0.2 * (i - 700));
    struct forecast_spec spec = {.now_ns = points[n - 1].at_ns, .horizon_ns = 3600 * SECOND};
    struct forecast all, faded;
    assert_int_equal(forecast_make(points, n, &spec, &all), 0);
    spec.half_life_ns = 3600 * SECOND;
    assert_int_equal(forecast_make(points, n, &spec, &faded), 0);
    assert_true(is_of(&faded, "trend") || is_of(&faded, "holt"));
    assert_near(faded.value, 500 - 0.2 * 359, 1);
    assert_true(all.error > faded.error);
}

/* ---------------------------------------------------------------- honest errors */

enum series { NOISE, WALK, RAMP, WAVE, KINDS };

static double series_value(enum series kind, int i, double *walk)
{
    switch (kind) {
    case NOISE:
        return 100 + 10 * normal();
    case WALK:
        return *walk += normal();
    case RAMP:
        return 1000 - 2 * i + 10 * normal();
    default:
        return 50 + 20 * sin(2 * M_PI * i / 100) + 5 * normal();
    }
}

/* The error that was told against the one that was made, over many series: their means are the same within a
 * tenth, and within the told error lie as many as do of a normal one (57.5 %), roughly. */
static void errors_are_honest(void **state)
{
    static const char *const names[KINDS] = {"noise", "walk", "ramp", "wave"};
    static const int horizons[] = {1, 10, 50};
    (void)state;
    half_life_ns = 500 / 4 * 10 * SECOND; /* a quarter of the history, as SQL has it */
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t h = 0; h < 3; h++) {
            enum { ROUNDS = 400, SHOWN = 500 };
            double told = 0, made = 0;
            int within = 0;
            for (int round = 0; round < ROUNDS; round++) {
                double walk = 0, actual = 0;
                int phase = (int)(test_random(&seed) % 100);
                n = 0;
                for (int i = 0; i < SHOWN; i++)
                    add(BASE + i * 10 * SECOND, series_value((enum series)kind, i + phase, &walk));
                for (int i = SHOWN; i < SHOWN + horizons[h]; i++)
                    actual = series_value((enum series)kind, i + phase, &walk);
                struct forecast f = make(horizons[h] * 10 * SECOND, NULL);
                told += f.error;
                made += fabs(actual - f.value);
                within += fabs(actual - f.value) <= f.error;
            }
            print_message("%s, %d ahead: told %.3f made %.3f, within it %.1f %%\n", names[kind], horizons[h],
                          told / ROUNDS, made / ROUNDS, 100.0 * within / ROUNDS);
            assert_true(made < told * 1.25 && told < made * 1.25);
            assert_true(within > ROUNDS * 45 / 100 && within < ROUNDS * 70 / 100);
        }
}

/* ---------------------------------------------------------------- little, and much */

static void few_points(void **state)
{
    (void)state;
    struct forecast f = {.value = 7};
    struct forecast_spec spec = {.now_ns = BASE, .horizon_ns = SECOND};
    assert_int_equal(forecast_make(points, 0, &spec, &f), E_NODATA);
    assert_true(f.value == 7);
    add(BASE, 3);
    for (size_t i = 0; forecast_predictor(i); i++) {
        f = make(SECOND, forecast_predictor(i));
        assert_true(f.value == 3 && isnan(f.error) && isnan(f.rmse) && f.tests == 0);
    }
    add(BASE + 10 * SECOND, 5);
    assert_near(make(10 * SECOND, "trend").value, 7, 1e-9);
    assert_near(make(10 * SECOND, "holt").value, 7, 1e-9);
    while (n < FORECAST_LEAST)
        add(BASE + (int64_t)n * 10 * SECOND, 5);
    f = make(SECOND, NULL);
    assert_true(f.value == 5 && isnan(f.error) && f.tests == 0);
    add(BASE + (int64_t)n * 10 * SECOND, 8);
    f = make(SECOND, "last");
    assert_true(f.value == 8 && f.error == 3 && f.rmse == 3 && f.tests == 1);
    f = make(11 * SECOND, NULL); /* nothing is known of so far ahead */
    assert_true(f.value == 8 && isnan(f.error) && f.tests == 0);
    assert_string_equal(f.predictor, "last");
}

static void same_times(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++)
        add(BASE, i);
    for (size_t i = 0; forecast_predictor(i); i++)
        assert_true(isnan(make(SECOND, forecast_predictor(i)).error));
    assert_true(make(SECOND, "trend").value == 49);
    add(BASE + 10 * SECOND, 5);
    for (size_t i = 0; forecast_predictor(i); i++)
        assert_true(make(SECOND, forecast_predictor(i)).tests == 1);
}

/* Whatever comes, a finite value, and an error or none. */
static void extremes(void **state)
{
    static const double odd[] = {DBL_MAX,
                                 -DBL_MAX,
                                 DBL_MIN,
                                 5e-324,
                                 0.0,
                                 -0.0,
                                 1,
                                 9223372036854775807.0,
                                 -9223372036854775808.0,
                                 18446744073709551615.0,
                                 1e308};
    (void)state;
    for (size_t round = 0; round < 50; round++) {
        int64_t at = round % 2 ? BASE : INT64_MIN + 1;
        n = 0;
        for (size_t i = 0; i < 300; i++) {
            add(at, odd[test_random(&seed) % (sizeof odd / sizeof *odd)]);
            at += (int64_t)(test_random(&seed) % (uint64_t)(SECOND << (test_random(&seed) % 20)));
        }
        for (size_t i = 0; forecast_predictor(i); i++)
            (void)make(SECOND * 5, forecast_predictor(i)); /* make checks it */
        (void)make(INT64_MAX, NULL);
    }
    add(INT64_MAX, 1);
    assert_true(make(INT64_MAX, NULL).at_ns == INT64_MAX);
}

/* A spike of 2^63 among small values is forgotten by a window once it is out of it. */
static void spike_is_forgotten(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        add(BASE + i * SECOND, i == 300 ? 9.2e18 : 7);
    assert_true(make(SECOND, "mean_50").value == 7);
    assert_true(make(SECOND, "trend_300").value == 7);
    assert_true(make(SECOND, "median_31").value == 7);
}

static void knows_methods(void **state)
{
    static const char *const good[] = {"",           "last",  "mean",      "mean_5", "median",      "smooth",
                                       "smooth_0.2", "trend", "trend_all", "holt",   "holt_0.5_0.1"};
    static const char *const bad[] = {"x", "mean_", "mean_6", "tren", "LAST", "holt_0.5", " last", "_"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(forecast_knows(slice_str(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(forecast_knows(slice_str(bad[i])));
    for (int i = 0; i < 100; i++)
        add(BASE + i * SECOND, i % 2);
    for (size_t i = 0; i < 11; i++)
        assert_true(is_of(&(struct forecast){.predictor = make(SECOND, good[i]).predictor}, good[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(are_as_defined, begin),
        cmocka_unit_test_setup(smooths_as_defined, begin),
        cmocka_unit_test_setup(smoothing_goes_by_time, begin),
        cmocka_unit_test_setup(constant_is_last, begin),
        cmocka_unit_test_setup(ramp_is_trend, begin),
        cmocka_unit_test_setup(noise_is_mean, begin),
        cmocka_unit_test_setup(outliers_are_median, begin),
        cmocka_unit_test_setup(walk_is_last, begin),
        cmocka_unit_test_setup(step_is_found_again, begin),
        cmocka_unit_test_setup(wave_by_horizon, begin),
        cmocka_unit_test_setup(old_errors_fade, begin),
        cmocka_unit_test_setup(errors_are_honest, begin),
        cmocka_unit_test_setup(few_points, begin),
        cmocka_unit_test_setup(same_times, begin),
        cmocka_unit_test_setup(extremes, begin),
        cmocka_unit_test_setup(spike_is_forgotten, begin),
        cmocka_unit_test_setup(knows_methods, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
