/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/client/written.h"

#include <pthread.h>
#include <time.h>

static int64_t thread_cpu_ns(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void spin_cpu(int64_t ns)
{
    for (int64_t end = thread_cpu_ns() + ns; thread_cpu_ns() < end;)
        ;
}

/* Nested starts count once, from the outermost start to the outermost stop. */
static void test_nesting(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, 0);
    gridline_timer *t = gridline_timer_get(g, "work");
    int64_t wall = clock_mono_ns(), cpu = thread_cpu_ns();
    gridline_timer_start(t);
    gridline_timer_start(t);
    spin_cpu(2000000);
    gridline_timer_stop(t);
    spin_cpu(1000000);
    gridline_timer_stop(t);
    cpu = thread_cpu_ns() - cpu;
    wall = clock_mono_ns() - wall;
    gridline_timer_report(t);
    gridline_close(g);
    written_read(&w);
    assert_int_equal(written_count(&w, "work"), 2); /* when asked and on close, both since open */
    for (size_t i = 0; i < 2; i++) {
        const struct event *e = written_event(&w, "work", i);
        assert_int_equal(written_int(e, "count"), 1);
        assert_true(written_int(e, "cpu.ns") >= 3000000 && written_int(e, "cpu.ns") <= cpu);
        assert_true(written_int(e, "wall.ns") >= 3000000 && written_int(e, "wall.ns") <= wall);
        assert_false(written_has(e, "unmatched"));
    }
    written_end(&w);
}

static void in_thread(void *(*run)(void *), void *arg)
{
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, run, arg), 0);
    (void)pthread_join(t, NULL);
}

static void *spin_20_ms(void *unused)
{
    spin_cpu(20000000);
    return unused;
}

/* Waiting for another thread is wall time, not CPU time of this one. */
static void test_wall_is_not_cpu(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, 0);
    gridline_timer *t = gridline_timer_get(g, "wait");
    gridline_timer_start(t);
    in_thread(spin_20_ms, NULL);
    gridline_timer_stop(t);
    gridline_close(g);
    written_read(&w);
    const struct event *e = written_event(&w, "wait", 0);
    assert_true(written_int(e, "wall.ns") >= 20000000);
    assert_true(written_int(e, "cpu.ns") < 10000000);
    written_end(&w);
}

static void *stop_only(void *timer)
{
    gridline_timer_stop(timer); /* the other thread's start is not ours */
    return NULL;
}

static void *start_and_die(void *timer)
{
    gridline_timer_start(timer);
    return NULL;
}

static void *one_lap(void *timer)
{
    gridline_timer_start(timer);
    gridline_timer_stop(timer);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, 0);
    gridline_timer *t = gridline_timer_get(g, "work");
    gridline_timer_stop(t); /* without a start */
    gridline_timer_start(t);
    in_thread(stop_only, t);
    for (int i = 0; i < 100; i++) { /* threads come and go; ids and stacks are used again */
        in_thread(start_and_die, t);
        in_thread(one_lap, t);
    }
    gridline_timer_stop(t);
    gridline_close(g);
    written_read(&w);
    const struct event *e = written_event(&w, "work", 0);
    assert_int_equal(written_int(e, "count"), 101);
    assert_int_equal(written_int(e, "unmatched"), 2);
    written_end(&w);
}

static void test_many_timers_at_once(void **state)
{
    (void)state;
    enum { TIMERS = 40, ROOM = 32 };
    struct written w;
    gridline *g = written_open(&w, 0);
    gridline_timer *t[TIMERS];
    char name[TIMERS][16];
    for (int i = 0; i < TIMERS; i++) {
        (void)snprintf(name[i], sizeof name[i], "t%d", i);
        t[i] = gridline_timer_get(g, name[i]);
        gridline_timer_start(t[i]);
    }
    for (int i = 0; i < TIMERS; i++)
        gridline_timer_stop(t[i]);
    gridline_close(g);
    written_read(&w);
    for (int i = 0; i < TIMERS; i++) {
        const struct event *e = written_event(&w, name[i], 0);
        assert_int_equal(written_int(e, "count"), i < ROOM);
        assert_int_equal(written_has(e, "unmatched"), i >= ROOM);
    }
    written_end(&w);
}

static void test_null(void **state)
{
    (void)state;
    assert_null(gridline_timer_get(NULL, "a"));
    gridline_timer_start(NULL);
    gridline_timer_stop(NULL);
    gridline_timer_report(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nesting), cmocka_unit_test(test_wall_is_not_cpu),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_many_timers_at_once),
        cmocka_unit_test(test_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
