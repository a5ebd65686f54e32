/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/client/written.h"

#include "base/mem.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>

static void test_one_report(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, 0);
    gridline_summary *s = gridline_summary_get(g, "latency", 0);
    assert_ptr_equal(gridline_summary_get(g, "latency", 5), s);
    for (int i = 1; i <= 1000; i++)
        gridline_summary_add(s, i);
    gridline_close(g);
    written_read(&w);
    assert_int_equal(written_count(&w, "latency"), 1);
    const struct event *e = written_event(&w, "latency", 0);
    assert_int_equal(written_int(e, "count"), 1000);
    assert_true(written_float(e, "sum") == 500500);
    assert_true(written_float(e, "min") == 1);
    assert_true(written_float(e, "max") == 1000);
    assert_true(written_float(e, "mean") == 500.5);
    assert_true(fabs(written_float(e, "p50") - 500) <= 0.09 * 500);
    assert_true(fabs(written_float(e, "p95") - 950) <= 0.09 * 950);
    assert_true(fabs(written_float(e, "p99") - 990) <= 0.09 * 990);
    assert_false(written_has(e, "nan"));
    written_end(&w);
}

/* Each report speaks of what came since the one before; one with nothing in it is not written. */
static void test_reports_reset(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, 0);
    gridline_summary *s = gridline_summary_get(g, "size", 0);
    gridline_summary_report(s);
    gridline_summary_add(s, -8);
    gridline_summary_report(s);
    gridline_summary_add(s, 0);
    gridline_summary_add(s, NAN);
    gridline_summary_report(s);
    gridline_summary_add(s, NAN);
    gridline_summary_report(s);
    gridline_summary_add(s, DBL_MAX);
    gridline_summary_add(s, -DBL_TRUE_MIN);
    gridline_summary_add(s, -INFINITY);
    gridline_close(g);
    written_read(&w);
    assert_int_equal(written_count(&w, "size"), 4);
    const struct event *e = written_event(&w, "size", 0);
    assert_int_equal(written_int(e, "count"), 1);
    assert_true(written_float(e, "p50") == -8 && written_float(e, "p99") == -8 &&
                written_float(e, "sum") == -8);
    e = written_event(&w, "size", 1);
    assert_int_equal(written_int(e, "count"), 1);
    assert_int_equal(written_int(e, "nan"), 1);
    assert_true(written_float(e, "max") == 0 && written_float(e, "p50") == 0);
    e = written_event(&w, "size", 2);
    assert_int_equal(written_int(e, "count"), 0);
    assert_int_equal(written_int(e, "nan"), 1);
    assert_false(written_has(e, "mean"));
    e = written_event(&w, "size", 3);
    assert_int_equal(written_int(e, "count"), 3);
    assert_true(written_float(e, "min") == -INFINITY && written_float(e, "max") == DBL_MAX);
    assert_true(fabs(written_float(e, "p50")) < 1e-300);
    written_end(&w);
}

enum { THREADS = 8, REPORTS = 30 };

struct shared {
    gridline_summary *s;
    _Atomic bool stop;
    _Atomic int64_t count, sum;
};

static void *add_until_stopped(void *arg)
{
    struct shared *shared = arg;
    int64_t count = 0, sum = 0;
    for (; count < 1000 || !atomic_load(&shared->stop); count++) {
        gridline_summary_add(shared->s, (double)(1 + count % 7));
        sum += 1 + count % 7;
    }
    atomic_fetch_add(&shared->count, count);
    atomic_fetch_add(&shared->sum, sum);
    return NULL;
}

static void report_many_times(gridline *g, gridline_summary *s)
{
    struct gridline_stats stats = {0};
    for (int64_t deadline = clock_mono_ns() + 60 * NS_PER_S; stats.taken < REPORTS;) {
        gridline_summary_report(s);
        gridline_stats(g, &stats, sizeof stats);
        (void)sched_yield();
        assert_true(clock_mono_ns() < deadline);
    }
}

/* 8 threads add while reports are written: each add is in exactly one report, with its count and its sum. */
static void test_nothing_lost_between_reports(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, 0);
    struct shared shared = {.s = gridline_summary_get(g, "shared", 0)};
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, add_until_stopped, &shared), 0);
    report_many_times(g, shared.s);
    atomic_store(&shared.stop, true);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(t[i], NULL);
    gridline_close(g);
    written_read(&w);
    int64_t count = 0;
    double sum = 0;
    size_t reports = written_count(&w, "shared");
    assert_true(reports >= REPORTS);
    for (size_t i = 0; i < reports; i++) {
        const struct event *e = written_event(&w, "shared", i);
        count += written_int(e, "count");
        sum += written_float(e, "sum");
        double mean = written_float(e, "mean"); /* of the same adds as min and max */
        assert_true(mean >= written_float(e, "min") && mean <= written_float(e, "max"));
        assert_true(written_float(e, "min") >= 1 && written_float(e, "max") <= 7);
    }
    assert_int_equal(count, atomic_load(&shared.count));
    assert_true(sum == (double)atomic_load(&shared.sum));
    written_end(&w);
}

/* The interval's reports come by themselves, with the writer thread. */
static void test_interval(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, GRIDLINE_THREAD);
    gridline_summary *s = gridline_summary_get(g, "tick", 0.02);
    struct gridline_stats stats;
    int64_t deadline = clock_mono_ns() + 20 * NS_PER_S;
    int64_t added = 0;
    do {
        gridline_summary_add(s, 1);
        added++;
        gridline_stats(g, &stats, sizeof stats);
        assert_true(clock_mono_ns() < deadline);
    } while (stats.taken < 3);
    gridline_close(g);
    written_read(&w);
    int64_t count = 0;
    for (size_t i = 0; i < written_count(&w, "tick"); i++)
        count += written_int(written_event(&w, "tick", i), "count");
    assert_int_equal(count, added);
    written_end(&w);
}

static void test_fork(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, 0);
    gridline_summary *s = gridline_summary_get(g, "latency", 0);
    gridline_summary_add(s, 1e-3);
    pid_t pid = fork();
    if (pid == 0) {
        gridline_summary_add(s, 5);
        gridline_close(g);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    gridline_close(g);
    written_read(&w);
    assert_int_equal(written_count(&w, "latency"), 2);
    const struct event *e = written_event(&w, "latency", 0);
    assert_int_equal(written_int(e, "count"), 1);
    assert_true(written_float(e, "min") == 5);
    assert_true(written_float(written_event(&w, "latency", 1), "max") == 1e-3);
    written_end(&w);
}

static void test_arguments(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, 0);
    assert_null(gridline_summary_get(g, "a", -1));
    assert_null(gridline_summary_get(g, "a", NAN));
    assert_null(gridline_summary_get(NULL, "a", 0));
    gridline_summary_add(NULL, 1);
    gridline_summary_report(NULL);
    gridline_summary *s = NULL;
    for (uint64_t n = 1; !s; n++) {
        mem_fail_after(n);
        s = gridline_summary_get(g, "a", 0);
        mem_fail_after(0);
        assert_true(n < 10);
    }
    gridline_close(g);
    written_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_report),
        cmocka_unit_test(test_reports_reset),
        cmocka_unit_test(test_nothing_lost_between_reports),
        cmocka_unit_test(test_interval),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
