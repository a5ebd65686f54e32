/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clock.h"
#include "sensor/process_limit.h"

#include <errno.h>

static struct limit_rule rule_of(const char *text)
{
    struct limit_rule rule;
    struct diag why = {0};
    assert_int_equal(limit_parse(slice_str(text), &rule, &why), 0);
    return rule;
}

static void rules(void **state)
{
    (void)state;
    struct limit_rule r = rule_of("cpu 80% 30s");
    assert_int_equal(r.what, LIMIT_CPU);
    assert_true(r.limit == 80 && r.window_ns == 30 * NS_PER_S);
    r = rule_of("  rss\t2GiB  5m ");
    assert_int_equal(r.what, LIMIT_RSS);
    assert_true(r.limit == 2147483648.0 && r.window_ns == 300 * NS_PER_S);
    r = rule_of("threads 500 30s");
    assert_true(r.what == LIMIT_THREADS && r.limit == 500);
    assert_string_equal(limit_what_name(rule_of("files 9 1s").what), "files");
    assert_string_equal(limit_what_name(rule_of("vsize 1 1s").what), "vsize");
}

static void bad_rules(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",          "cpu",           "cpu 80 30s",   "cpu % 30s",      "cpu -1% 30s",
        "cpu 0% 1s", "cpu NaN% 1s",   "cpu Inf% 1s",  "cpu 80%",        "cpu 80% never",
        "cpu 1% 0s", "cpu 1% -1s",    "rss 80% 30s",  "threads 2k 30s", "threads 1.5 1s",
        "disk 1 1s", "cpu 80% 30s x", "threads 0 30s"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct limit_rule rule;
        struct diag why = {0};
        assert_int_equal(limit_parse(slice_str(bad[i]), &rule, &why), -EINVAL);
        assert_true(why.message[0] != '\0');
    }
}

/* Seconds from from to to with the gauge at value; returns how often something changed, the last of it in
 * *last. */
static int feed(const struct limit_rule *rule, struct limit_curve *c, int from, int to, double value,
                enum limit_change *last, int *at)
{
    int n = 0;
    for (int t = from; t < to; t++) {
        double average = 0;
        enum limit_change change = limit_add(rule, c, t * NS_PER_S, value, &average);
        if (change == LIMIT_SAME)
            continue;
        n++;
        *last = change;
        *at = t;
    }
    return n;
}

static void gauge_over_and_back(void **state)
{
    (void)state;
    struct limit_rule rule = rule_of("threads 100 10s");
    struct limit_curve c = {0};
    enum limit_change last = LIMIT_SAME;
    int at = 0;
    assert_int_equal(feed(&rule, &c, 0, 60, 50, &last, &at), 0);
    /* From 60 on 200: the average passes 100 when a third of the window is over (50 + 150 k/10 > 100: k
     * > 3.33; the value of second 60 counts from there on). */
    assert_int_equal(feed(&rule, &c, 60, 100, 200, &last, &at), 1);
    assert_int_equal(last, LIMIT_OVER);
    assert_int_equal(at, 64);
    /* From 100 on 95: the average falls to 95, which is over nine tenths: it stays. */
    assert_int_equal(feed(&rule, &c, 100, 200, 95, &last, &at), 0);
    assert_true(c.is_over);
    assert_int_equal(feed(&rule, &c, 200, 300, 50, &last, &at), 1);
    assert_int_equal(last, LIMIT_BACK);
    assert_int_equal(at, 202); /* 95 - 45 k/10 < 90: k > 1.11 */
    assert_int_equal(feed(&rule, &c, 300, 400, 95, &last, &at), 0);
}

static void nothing_before_a_whole_window(void **state)
{
    (void)state;
    struct limit_rule rule = rule_of("threads 100 10s");
    struct limit_curve c = {0};
    enum limit_change last = LIMIT_SAME;
    int at = 0;
    assert_int_equal(feed(&rule, &c, 5, 15, 1000, &last, &at), 0);
    assert_int_equal(feed(&rule, &c, 15, 16, 1000, &last, &at), 1);
    assert_int_equal(last, LIMIT_OVER);
}

/* CPU is a sum: what was used between two samples counts however far they are apart. */
static void cpu_is_exact(void **state)
{
    (void)state;
    struct limit_rule rule = rule_of("cpu 80% 30s");
    struct limit_curve c = {0};
    double average = 0;
    assert_int_equal(limit_add(&rule, &c, 100 * NS_PER_S, 1000, &average), LIMIT_SAME);
    assert_int_equal(limit_add(&rule, &c, 130 * NS_PER_S, 1000 + 24, &average), LIMIT_SAME); /* 80 % */
    assert_int_equal(limit_add(&rule, &c, 160 * NS_PER_S, 1024 + 24.3, &average), LIMIT_OVER);
    assert_true(average > 80.999 && average < 81.001);
    assert_int_equal(limit_add(&rule, &c, 160 * NS_PER_S, 5000, &average), LIMIT_SAME); /* the clock stands */
    assert_int_equal(limit_add(&rule, &c, 150 * NS_PER_S, 5000, &average), LIMIT_SAME);
    assert_int_equal(limit_add(&rule, &c, 220 * NS_PER_S, 1048.3 + 42.6, &average), LIMIT_BACK);
    assert_true(average > 70.999 && average < 71.001);
}

/* Against the plain definition, with samples at any distance. */
static void random_curves(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 200; round++) {
        struct limit_rule rule = {LIMIT_THREADS, 50, NS_PER_S * (int64_t)(1 + test_random(&seed) % 100)};
        struct limit_curve c = {0};
        int64_t at[500];
        double value[500], average;
        for (size_t n = 0; n < 500; n++) {
            at[n] = (n ? at[n - 1] : 0) + 1 + (int64_t)(test_random(&seed) % (uint64_t)(rule.window_ns / 4));
            value[n] = (double)(test_random(&seed) % 100);
            enum limit_change change = limit_add(&rule, &c, at[n], value[n], &average);
            if (change == LIMIT_SAME)
                continue;
            double area = 0; /* of the last window */
            for (size_t i = 0; i < n; i++) {
                int64_t from = at[i] > at[n] - rule.window_ns ? at[i] : at[n] - rule.window_ns;
                area += at[i + 1] > from ? value[i] * (double)(at[i + 1] - from) : 0;
            }
            double exact = area / (double)rule.window_ns;
            /* What is between two points counts as a straight line: they are at most a 16th of the window and
             * one sample apart, and values are below 100. */
            assert_true(average - exact < 100 * (1.0 / 16 + 0.25) &&
                        exact - average < 100 * (1.0 / 16 + 0.25));
            assert_true(change == LIMIT_OVER ? average > 50 : average < 45);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules),
        cmocka_unit_test(bad_rules),
        cmocka_unit_test(gauge_over_and_back),
        cmocka_unit_test(nothing_before_a_whole_window),
        cmocka_unit_test(cpu_is_exact),
        cmocka_unit_test(random_curves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
