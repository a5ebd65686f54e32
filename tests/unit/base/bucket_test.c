/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/bucket.h"

static unsigned take_all(struct bucket *b, int64_t now_ns)
{
    unsigned n = 0;
    while (bucket_take(b, now_ns))
        n++;
    return n;
}

static void burst_then_rate(void **state)
{
    (void)state;
    struct bucket b = bucket_of(5, NS_PER_S / 2);
    assert_int_equal(take_all(&b, 0), 5);
    assert_int_equal(take_all(&b, NS_PER_S / 4), 0);
    assert_int_equal(take_all(&b, NS_PER_S), 2);
    assert_int_equal(take_all(&b, 100 * NS_PER_S), 5); /* never more than a burst */
}

static void over_time(void **state)
{
    (void)state;
    struct bucket b = bucket_of(3, NS_PER_S);
    unsigned n = 0;
    for (int64_t t = 0; t < 100 * NS_PER_S; t += NS_PER_S / 50)
        n += bucket_take(&b, t);
    assert_int_equal(n, 3 + 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(burst_then_rate), cmocka_unit_test(over_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
