/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/client/written.h"

#include "base/mem.h"

#include <pthread.h>
#include <sys/wait.h>

enum { THREADS = 8, ADDS = 20000 };

static void test_report_and_close(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, 0);
    gridline_counter *c = gridline_counter_get(g, "jobs");
    assert_ptr_equal(gridline_counter_get(g, "jobs"), c);
    gridline_counter_add(c, 5);
    gridline_counter_add(c, -7);
    gridline_counter_report(c);
    gridline_counter_add(c, 2);
    gridline_close(g);
    written_read(&w);
    assert_int_equal(written_count(&w, "jobs"), 2);
    assert_int_equal(written_int(written_event(&w, "jobs", 0), "count"), -2);
    assert_int_equal(written_int(written_event(&w, "jobs", 1), "count"), 0);
    written_end(&w);
}

static void test_threshold_both_ways(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, 0);
    gridline_counter *c = gridline_counter_get(g, "queue");
    assert_int_equal(gridline_counter_threshold(c, 10), 0);
    assert_int_equal(gridline_counter_threshold(c, 10), 0); /* the same limit once */
    assert_int_equal(gridline_counter_threshold(c, -3), 0);
    gridline_counter_add(c, 9);
    gridline_counter_add(c, 1);    /* up 10 */
    gridline_counter_add(c, 100);  /* no crossing */
    gridline_counter_add(c, -101); /* down 10: 9 */
    gridline_counter_add(c, -13);  /* down -3: -4 */
    gridline_counter_add(c, 50);   /* up both */
    gridline_close(g);
    written_read(&w);
    static const struct {
        int64_t count, limit;
        const char *direction;
    } expected[] = {{10, 10, "up"}, {9, 10, "down"}, {-4, -3, "down"}, {46, -3, "up"}, {46, 10, "up"}};
    assert_int_equal(written_count(&w, "queue.threshold"), 5);
    for (size_t i = 0; i < 5; i++) {
        const struct event *e = written_event(&w, "queue.threshold", i);
        assert_int_equal(written_int(e, "count"), expected[i].count);
        assert_int_equal(written_int(e, "limit"), expected[i].limit);
        assert_slice(value_slice(written_value(e, "direction", VALUE_TEXT)), expected[i].direction);
    }
    written_end(&w);
}

static void *add_up(void *counter)
{
    for (int i = 0; i < ADDS; i++)
        gridline_counter_add(counter, 1);
    return NULL;
}

/* Each limit is crossed once, whichever thread does it. */
static void test_one_event_a_crossing(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, GRIDLINE_MANUAL);
    gridline_counter *c = gridline_counter_get(g, "shared");
    for (int64_t limit = 10000; limit <= THREADS * ADDS; limit += 10000)
        assert_int_equal(gridline_counter_threshold(c, limit), 0);
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, add_up, c), 0);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(t[i], NULL);
    gridline_close(g);
    written_read(&w);
    assert_int_equal(written_int(written_event(&w, "shared", 0), "count"), THREADS * ADDS);
    assert_int_equal(written_count(&w, "shared.threshold"), THREADS * ADDS / 10000);
    uint64_t seen = 0;
    for (size_t i = 0; i < THREADS * ADDS / 10000; i++) {
        const struct event *e = written_event(&w, "shared.threshold", i);
        assert_int_equal(written_int(e, "count"), written_int(e, "limit"));
        seen |= 1ull << (written_int(e, "limit") / 10000);
    }
    assert_int_equal(seen, (1ull << (THREADS * ADDS / 10000 + 1)) - 2);
    written_end(&w);
}

static void test_limits(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, 0);
    char name[130];
    memset(name, 'a', sizeof name);
    name[129] = '\0';
    assert_null(gridline_counter_get(g, name)); /* 129 */
    name[128] = '\0';
    gridline_counter *c = gridline_counter_get(g, name);
    assert_non_null(c);
    assert_int_equal(gridline_counter_threshold(c, 1), -ENAMETOOLONG);
    assert_null(gridline_counter_get(g, "not a name"));
    assert_null(gridline_counter_get(NULL, "a"));
    gridline_counter_add(NULL, 1);
    gridline_counter_report(NULL);
    assert_int_equal(gridline_counter_threshold(NULL, 1), 0);
    c = gridline_counter_get(g, "b");
    for (int i = 0; i < 16; i++)
        assert_int_equal(gridline_counter_threshold(c, i), 0);
    assert_int_equal(gridline_counter_threshold(c, 16), -ENOSPC);
    gridline_close(g);
    written_end(&w);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, 0);
    gridline_counter *c = NULL;
    for (uint64_t n = 1; !c; n++) {
        mem_fail_after(n);
        c = gridline_counter_get(g, "jobs");
        mem_fail_after(0);
        assert_true(n < 10);
    }
    mem_fail_after(1);
    assert_int_equal(gridline_counter_threshold(c, 1), -ENOMEM);
    mem_fail_after(0);
    gridline_close(g);
    written_end(&w);
}

/* What was counted before the fork is in the parent's report only. */
static void test_fork(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, 0);
    gridline_counter *c = gridline_counter_get(g, "jobs");
    gridline_counter_add(c, 3);
    pid_t pid = fork();
    if (pid == 0) {
        gridline_counter_add(c, 4);
        gridline_close(g);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    gridline_close(g);
    written_read(&w);
    assert_int_equal(written_count(&w, "jobs"), 2);
    assert_int_equal(written_int(written_event(&w, "jobs", 0), "count"), 4);
    assert_int_equal(written_int(written_event(&w, "jobs", 1), "count"), 3);
    written_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report_and_close),
        cmocka_unit_test(test_threshold_both_ways),
        cmocka_unit_test(test_one_event_a_crossing),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
