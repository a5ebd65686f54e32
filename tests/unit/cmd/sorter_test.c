/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/err.h"
#include "base/mem.h"
#include "cmd/sorter.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>

/* Records hold the number in which they were added, so that order and stability can be checked. */
struct expected {
    int64_t time;
    uint64_t number;
};

static int by_time(const void *a, const void *b)
{
    const struct expected *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static struct slice record_of(char *buffer, size_t size, uint64_t number)
{
    memset(buffer, (int)('a' + number % 26), size);
    memcpy(buffer, &number, sizeof number);
    return slice_of(buffer, size);
}

/* n records of 8 to size bytes, with times from give(i). Returns the number of spills. */
static uint64_t sort_check(size_t n, size_t size, int64_t (*give)(uint64_t *seed, size_t i))
{
    struct sorter *s;
    uint64_t seed = 7;
    struct expected *want = mem_alloc(n * sizeof *want + 1);
    char *buffer = mem_alloc(size);
    struct slice record;
    int64_t time;
    assert_int_equal(sorter_create(0, &s), 0);
    for (size_t i = 0; i < n; i++) {
        want[i] = (struct expected){give(&seed, i), i};
        size_t length = size > 1000 ? size : 8 + test_random(&seed) % (size - 7);
        assert_int_equal(sorter_add(s, want[i].time, record_of(buffer, length, i)), 0);
    }
    assert_int_equal(sorter_sort(s), 0);
    qsort(want, n, sizeof *want, by_time);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(sorter_next(s, &time, &record), 1);
        uint64_t number;
        memcpy(&number, record.p, sizeof number);
        assert_int_equal(time, want[i].time);
        assert_int_equal(number, want[i].number);
        assert_true(memcmp(record.p, record_of(buffer, record.n, number).p, record.n) == 0);
    }
    assert_int_equal(sorter_next(s, &time, &record), 0);
    assert_int_equal(sorter_next(s, &time, &record), 0);
    uint64_t spills = sorter_spills(s);
    sorter_destroy(s);
    mem_free(buffer);
    mem_free(want);
    return spills;
}

static int64_t any_time(uint64_t *seed, size_t i)
{
    (void)i;
    return (int64_t)test_random(seed);
}

static int64_t few_times(uint64_t *seed, size_t i)
{
    (void)i;
    return (int64_t)(test_random(seed) % 5) - 2;
}

static int64_t an_hour(uint64_t *seed, size_t i)
{
    (void)i;
    return 1794777628000000000 + (int64_t)(test_random(seed) % 3600000000) * 1000;
}

static int64_t in_order(uint64_t *seed, size_t i)
{
    (void)seed;
    return (int64_t)(i / 3);
}

static int64_t backwards(uint64_t *seed, size_t i)
{
    (void)seed;
    return -(int64_t)i;
}

static int64_t extremes(uint64_t *seed, size_t i)
{
    const int64_t t[] = {INT64_MIN, INT64_MAX, 0, -1, INT64_MAX - 1, INT64_MIN + 1};
    (void)i;
    return t[test_random(seed) % 6];
}

static void test_in_memory(void **unused)
{
    (void)unused;
    assert_int_equal(sort_check(0, 8, any_time), 0);
    assert_int_equal(sort_check(1, 8, any_time), 0);
    assert_int_equal(sort_check(2, 8, backwards), 0);
    assert_int_equal(sort_check(20000, 64, any_time), 0);
    assert_int_equal(sort_check(20000, 64, few_times), 0);
    assert_int_equal(sort_check(20000, 64, an_hour), 0);
    assert_int_equal(sort_check(20000, 64, in_order), 0);
    assert_int_equal(sort_check(20000, 64, extremes), 0);
}

static void test_with_runs(void **unused)
{
    (void)unused;
    assert_in_range(sort_check(600000, 100, an_hour), 2, 14);
    assert_in_range(sort_check(600000, 100, few_times), 2, 14);
    assert_in_range(sort_check(600000, 100, backwards), 2, 14);
    assert_in_range(sort_check(600000, 9, in_order), 1, 14);
    assert_in_range(sort_check(600000, 40, extremes), 1, 14);
}

/* 14 records of the largest size fill the memory, 15 runs are merged into one: 240 of them make a second
 * level, and some more are left beside it. */
static void test_many_runs(void **unused)
{
    (void)unused;
    assert_in_range(sort_check(250, SORTER_RECORD_MAX, few_times), 16, 19);
}

static void test_limits(void **unused)
{
    struct sorter *s;
    (void)unused;
    char *big = mem_alloc(SORTER_RECORD_MAX + 1);
    assert_int_equal(sorter_create(UINT64_MAX, &s), 0);
    assert_int_equal(sorter_add(s, 1, slice_of(big, SORTER_RECORD_MAX + 1)), E_LIMIT);
    assert_int_equal(sorter_add(s, 1, slice_of(big, SORTER_RECORD_MAX)), 0);
    assert_int_equal(sorter_add(s, 0, slice_of(big, 0)), 0);
    assert_int_equal(sorter_sort(s), 0);
    struct slice record;
    int64_t time;
    assert_int_equal(sorter_next(s, &time, &record), 1);
    assert_int_equal(record.n, 0);
    assert_int_equal(sorter_next(s, &time, &record), 1);
    assert_int_equal(record.n, SORTER_RECORD_MAX);
    sorter_destroy(s);
    sorter_destroy(NULL);
    mem_free(big);
}

/* Without a place for runs nothing is lost in silence. */
static void test_no_temp(void **unused)
{
    struct sorter *s;
    int r = 0;
    (void)unused;
    char *big = mem_alloc(1 << 20);
    assert_int_equal(setenv("TMPDIR", "/nonexistent/gridline", 1), 0);
    assert_int_equal(sorter_create(0, &s), 0);
    for (int i = 0; i < 20 && r == 0; i++)
        r = sorter_add(s, i, slice_of(big, 1 << 20));
    assert_int_equal(r, -ENOENT);
    sorter_destroy(s);
    assert_int_equal(unsetenv("TMPDIR"), 0);
    mem_free(big);
}

static size_t open_files(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* The nth allocation fails: an error or a right result, and no file is left open. */
static void test_no_memory(void **unused)
{
    (void)unused;
    char *record = mem_alloc(1 << 20);
    size_t files = open_files();
    for (uint64_t n = 1; n < 40; n++) {
        struct sorter *s = NULL;
        struct slice out;
        int64_t time;
        size_t count = 0;
        mem_fail_after(n);
        int r = sorter_create(0, &s);
        for (int i = 0; i < 40 && r == 0; i++)
            r = sorter_add(s, -i, slice_of(record, 1 << 20));
        if (r == 0)
            r = sorter_sort(s);
        while (r >= 0 && s && (r = sorter_next(s, &time, &out)) > 0)
            count++;
        mem_fail_after(0);
        assert_true(r == -ENOMEM || (r == 0 && count == 40));
        sorter_destroy(s);
        assert_int_equal(open_files(), files);
    }
    mem_free(record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_memory), cmocka_unit_test(test_with_runs), cmocka_unit_test(test_many_runs),
        cmocka_unit_test(test_limits),    cmocka_unit_test(test_no_temp),   cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
