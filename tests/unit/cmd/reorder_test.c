/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cmd/reorder.h"
#include "event/batch.h"

#include <errno.h>

enum { EVENTS_MAX = 20000 };

struct got {
    int64_t times[EVENTS_MAX];
    uint64_t numbers[EVENTS_MAX];
    size_t n;
    int fails; /* the sink says this */
};

static struct registry *registry;
static struct got got;

static int keep(void *arg, const struct batch *events)
{
    (void)arg;
    for (size_t i = 0; i < events->n; i++) {
        assert_true(got.n < EVENTS_MAX);
        got.times[got.n] = events->events[i].time_ns;
        got.numbers[got.n++] = event_get(&events->events[i], SLICE_LIT("n")).u;
    }
    return got.fails;
}

/* Events of these times, with n = number, number + 1, ... */
static struct batch *make(const int64_t *times, size_t n, uint64_t number)
{
    struct batch_builder *b = batch_builder_create(registry, 0);
    for (size_t i = 0; i < n; i++) {
        const struct event_head head = {times[i], SLICE_LIT("x"), SLICE_LIT("h"), SLICE_LIT("p"), LEVEL_INFO};
        const struct named_value v = {SLICE_LIT("n"), value_uint(number + i)};
        assert_int_equal(batch_builder_add(b, &head, &v, 1, NULL), 0);
    }
    struct batch *made = batch_builder_finish(b, NULL);
    batch_builder_destroy(b);
    assert_non_null(made);
    return made;
}

static void add(struct reorder *r, const int64_t *times, size_t n, int64_t now_ns)
{
    static uint64_t number = 1;
    struct batch *b = make(times, n, number);
    number += n;
    assert_int_equal(reorder_add(r, b, 0, now_ns, 1000000), 0);
    batch_unref(b);
}

static void times_must_be(const int64_t *times, size_t n)
{
    assert_int_equal(got.n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(got.times[i], times[i]);
}

#define ADD(r, now, ...) add(r, (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8, now)
#define MUST_BE(...)     times_must_be((const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8)

static void test_waits(void **state)
{
    (void)state;
    struct reorder *r = reorder_create(100, 1 << 20);
    struct reorder_counts n;
    got.n = 0;
    assert_int_equal(reorder_due_ns(r), INT64_MAX);
    ADD(r, 1000, 50, 30, 40);
    assert_int_equal(reorder_due_ns(r), 1100);
    assert_int_equal(reorder_run(r, 1099, keep, NULL), 0);
    assert_int_equal(got.n, 0);
    ADD(r, 1099, 10, 60); /* 10 belongs before, 60 has not waited */
    assert_int_equal(reorder_run(r, 1100, keep, NULL), 0);
    MUST_BE(10, 30, 40, 50);
    assert_int_equal(reorder_due_ns(r), 1199);
    assert_int_equal(reorder_run(r, INT64_MAX, keep, NULL), 0);
    MUST_BE(10, 30, 40, 50, 60);
    reorder_counts(r, &n);
    assert_true(n.given == 5 && n.late == 0 && n.hurried == 0);
    reorder_destroy(r);
}

/* What comes too late is given all the same, and counted. */
static void test_late(void **state)
{
    (void)state;
    struct reorder *r = reorder_create(100, 1 << 20);
    struct reorder_counts n;
    got.n = 0;
    ADD(r, 0, 50);
    assert_int_equal(reorder_run(r, 100, keep, NULL), 0);
    ADD(r, 101, 20, 10);
    assert_int_equal(reorder_run(r, 201, keep, NULL), 0);
    MUST_BE(50, 10, 20);
    reorder_counts(r, &n);
    assert_int_equal(n.late, 2); /* both are behind 50 */
    reorder_destroy(r);
}

/* Old events that keep coming do not hold up newer ones for more than the wait. */
static void test_is_not_held_up(void **state)
{
    (void)state;
    struct reorder *r = reorder_create(100, 1 << 20);
    got.n = 0;
    ADD(r, 0, 5000);
    for (int64_t now = 10; now <= 100; now += 10) {
        ADD(r, now, now);
        assert_int_equal(reorder_run(r, now, keep, NULL), 0);
    }
    assert_int_equal(got.n, 11); /* at 100: all of them, as they are before 5000 */
    assert_int_equal(got.times[10], 5000);
    reorder_destroy(r);
}

/* A clock that is ahead moves its own events only. */
static void test_clock_ahead(void **state)
{
    (void)state;
    struct reorder *r = reorder_create(100, 1 << 20);
    struct reorder_counts n;
    got.n = 0;
    ADD(r, 0, INT64_MAX - 5, 999900); /* here it is 1000000 */
    ADD(r, 50, 1000020);
    assert_int_equal(reorder_run(r, 100, keep, NULL), 0);
    MUST_BE(999900, INT64_MAX - 5); /* 1000020 goes on waiting */
    ADD(r, 120, 1000010);
    assert_int_equal(reorder_run(r, INT64_MAX, keep, NULL), 0);
    MUST_BE(999900, INT64_MAX - 5, 1000010, 1000020);
    reorder_counts(r, &n);
    assert_int_equal(n.late, 0);
    reorder_destroy(r);
}

static void test_memory(void **state)
{
    (void)state;
    struct reorder *r = reorder_create(INT64_MAX / 2, 64 << 10);
    struct reorder_counts n;
    int64_t times[100];
    got.n = 0;
    for (int64_t i = 0; i < 100; i++) {
        for (int64_t k = 0; k < 100; k++)
            times[k] = i * 100 + k;
        add(r, times, 100, i);
        assert_int_equal(reorder_run(r, i, keep, NULL), 0);
    }
    assert_true(got.n > 9000); /* nothing has waited long enough, and yet they went: memory is bounded */
    assert_int_equal(reorder_run(r, INT64_MAX, keep, NULL), 0);
    assert_int_equal(got.n, 10000);
    for (size_t i = 1; i < got.n; i++)
        assert_true(got.times[i] > got.times[i - 1]);
    reorder_counts(r, &n);
    assert_true(n.hurried > 9000 && n.given == 10000 && n.late == 0);
    reorder_destroy(r);
}

/* Whatever comes, in whatever order: each is given once, and in order as long as none was late by more than
 * the wait. */
static void test_any_order(void **state)
{
    (void)state;
    uint64_t seed = 42, given = 0;
    for (int round = 0; round < 50; round++) {
        struct reorder *r = reorder_create(1000, 1 << 30);
        struct reorder_counts n;
        got.n = 0;
        given = 0;
        for (int64_t now = 0; now < 10000; now += 100) {
            int64_t times[20];
            size_t k = 1 + test_random(&seed) % 20;
            for (size_t i = 0; i < k; i++)
                times[i] = now - (int64_t)(test_random(&seed) % 900);
            add(r, times, k, now);
            given += k;
            assert_int_equal(reorder_run(r, now, keep, NULL), 0);
        }
        assert_int_equal(reorder_run(r, INT64_MAX, keep, NULL), 0);
        assert_int_equal(got.n, given);
        for (size_t i = 1; i < got.n; i++)
            assert_true(got.times[i] > got.times[i - 1] ||
                        (got.times[i] == got.times[i - 1] && got.numbers[i] > got.numbers[i - 1]));
        reorder_counts(r, &n);
        assert_int_equal(n.late, 0);
        reorder_destroy(r);
    }
}

static void test_failures(void **state)
{
    (void)state;
    struct reorder *r = reorder_create(100, 1 << 20);
    struct batch *b = make((const int64_t[]){1, 2, 3}, 3, 1);
    got = (struct got){.fails = -EPIPE};
    for (uint64_t n = 1; n <= 2; n++) {
        mem_fail_after(n);
        assert_int_equal(reorder_add(r, b, 0, 0, 0), -ENOMEM);
        mem_fail_after(0);
    }
    assert_int_equal(reorder_due_ns(r), INT64_MAX); /* none of them was taken */
    assert_int_equal(reorder_add(r, b, 1, 0, 0), 0);
    assert_int_equal(reorder_run(r, 100, keep, NULL), -EPIPE);
    MUST_BE(2, 3);
    assert_int_equal(reorder_add(r, b, 3, 0, 0), 0); /* none is left of it */
    assert_int_equal(reorder_add(r, b, 0, 0, 0), 0);
    batch_unref(b);
    reorder_destroy(r); /* with some still in it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits),          cmocka_unit_test(test_late),
        cmocka_unit_test(test_is_not_held_up), cmocka_unit_test(test_clock_ahead),
        cmocka_unit_test(test_memory),         cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_failures),
    };
    registry = registry_create();
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    registry_destroy(registry);
    return r;
}
