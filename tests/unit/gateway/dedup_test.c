/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/err.h"
#include "base/mem.h"
#include "gateway/dedup.h"

#include <errno.h>

enum { NUMBERS = 300 };

/* Against a plain array of flags. */
static void test_against_array(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int round = 0; round < 200; round++) {
        struct seq_set s = {0};
        bool in[NUMBERS + 1] = {false};
        uint64_t count = 0, max = 0;
        for (int step = 0; step < 60; step++) {
            uint64_t first = 1 + test_random(&seed) % NUMBERS;
            uint64_t last = first + test_random(&seed) % 12;
            last = last > NUMBERS ? NUMBERS : last;
            struct seq_range gap = {0, 0}, want = {0, 0};
            for (uint64_t n = first; n <= last; n++) {
                if (!in[n] && (!want.first || n == want.last + 1))
                    want = (struct seq_range){want.first ? want.first : n, n};
            }
            assert_int_equal(seq_set_missing(&s, first, last, &gap), want.first != 0);
            assert_true(gap.first == want.first && gap.last == want.last);
            assert_int_equal(seq_set_add(&s, first, last), 0);
            for (uint64_t n = first; n <= last; n++) {
                count += !in[n];
                in[n] = true;
                max = n > max ? n : max;
            }
            assert_true(seq_set_check(&s));
            assert_int_equal(seq_set_count(&s), count);
            assert_int_equal(seq_set_max(&s), max);
        }
        seq_set_fini(&s);
    }
}

static void test_ends_of_the_numbers(void **state)
{
    (void)state;
    struct seq_set s = {0};
    struct seq_range gap;
    assert_int_equal(seq_set_add(&s, UINT64_MAX, UINT64_MAX), 0);
    assert_int_equal(seq_set_add(&s, 0, 0), 0);
    assert_true(seq_set_missing(&s, 0, UINT64_MAX, &gap));
    assert_true(gap.first == 1 && gap.last == UINT64_MAX - 1);
    assert_int_equal(seq_set_add(&s, 1, UINT64_MAX - 1), 0);
    assert_int_equal(s.n, 1);
    assert_false(seq_set_missing(&s, 0, UINT64_MAX, &gap));
    assert_true(seq_set_check(&s));
    seq_set_fini(&s);
}

/* Bounded; and adding within what was reserved can't fail. */
static void test_limit_and_memory(void **state)
{
    (void)state;
    struct seq_set s = {0};
    mem_fail_after(1);
    assert_int_equal(seq_set_add(&s, 1, 1), -ENOMEM);
    assert_int_equal(s.n, 0);
    assert_int_equal(seq_set_reserve(&s, SEQ_SET_MAX), 0);
    mem_fail_after(1);
    for (uint64_t i = 0; i < SEQ_SET_MAX; i++)
        assert_int_equal(seq_set_add(&s, 10 * i, 10 * i), 0);
    mem_fail_after(0);
    assert_int_equal(seq_set_add(&s, 5, 5), E_LIMIT);
    assert_int_equal(seq_set_reserve(&s, 1), E_LIMIT);
    assert_int_equal(seq_set_add(&s, 1, 9), 0); /* joins two: no new range */
    assert_int_equal(s.n, SEQ_SET_MAX - 1);
    assert_true(seq_set_check(&s));
    assert_int_equal(s.ranges[0].last, 10);
    assert_int_equal(s.ranges[1].first, 20);
    assert_int_equal(seq_set_max(&s), 10 * (SEQ_SET_MAX - 1));
    seq_set_fini(&s);
    assert_int_equal(seq_set_max(&s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_array),
        cmocka_unit_test(test_ends_of_the_numbers),
        cmocka_unit_test(test_limit_and_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
