/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "client/ticks.h"

/* The machine's own clock is followed to well under a microsecond, whatever the distance of the anchors. */
static void test_follows_the_clock(void **state)
{
    (void)state;
    struct tick_map m;
    tick_map_init(&m);
    for (int round = 0; round < 200; round++) {
        enum { N = 50 };
        uint64_t ticks[N];
        int64_t before[N], after[N], worst = 0;
        for (int i = 0; i < N; i++) {
            before[i] = clock_utc_ns();
            ticks[i] = ticks_now(ticks_are_tsc);
            after[i] = clock_utc_ns();
            int64_t until = clock_mono_ns() + round * 100; /* rounds of 5 us to 1 ms */
            while (clock_mono_ns() < until)
                ;
        }
        tick_map_update(&m);
        int64_t last = 0;
        for (int i = 0; i < N; i++) {
            int64_t t = tick_map_ns(&m, ticks[i]);
            assert_true(t >= last);
            last = t;
            int64_t early = before[i] - t, late = t - after[i];
            worst = early > worst ? early : late > worst ? late : worst;
        }
        assert_true(worst < 1000);
    }
}

static void anchors(struct tick_map *m, uint64_t from, int64_t from_ns, uint64_t rate)
{
    *m = (struct tick_map){.base_ticks = from, .base_ns = from_ns, .rate = rate};
}

static void test_arithmetic(void **state)
{
    (void)state;
    struct tick_map m;
    anchors(&m, UINT64_C(1) << 62, 1000, (uint64_t)1 << 47); /* half a nanosecond a tick */
    assert_int_equal(tick_map_ns(&m, UINT64_C(1) << 62), 1000);
    assert_int_equal(tick_map_ns(&m, (UINT64_C(1) << 62) + 2000), 2000);
    assert_int_equal(tick_map_ns(&m, (UINT64_C(1) << 62) - 2000), 0); /* from before the last anchor */
    int64_t year = INT64_C(365) * 86400 * NS_PER_S;
    assert_int_equal(tick_map_ns(&m, (UINT64_C(1) << 62) + 2 * (uint64_t)year), 1000 + year);
    anchors(&m, 0, 0, (uint64_t)1 << 48); /* ticks that are nanoseconds stay what they are */
    assert_int_equal(tick_map_ns(&m, (uint64_t)INT64_MAX), INT64_MAX);
}

/* After a suspend or a migration the counter may be anywhere. */
static void test_counter_jumps(void **state)
{
    (void)state;
    if (!ticks_are_tsc)
        skip();
    for (int i = 0; i < 2; i++) {
        struct tick_map m;
        tick_map_init(&m);
        m.last.ticks = i ? m.last.ticks + (UINT64_C(1) << 50) : m.last.ticks - (UINT64_C(1) << 50);
        m.last.mono_ns -= 10 * NS_PER_S;
        uint64_t now = ticks_now(true);
        int64_t utc = clock_utc_ns();
        tick_map_update(&m);
        int64_t off = tick_map_ns(&m, now) - utc;
        assert_true(off > -1000000 && off < 1000000);
    }
}

/* Somebody sets the clock: from then on the new time counts. */
static void test_clock_is_set(void **state)
{
    (void)state;
    struct tick_map m;
    if (!ticks_are_tsc)
        skip();
    tick_map_init(&m);
    m.utc_offset -= 3600 * NS_PER_S; /* as if it had been an hour earlier till now */
    tick_map_update(&m);
    int64_t off = tick_map_ns(&m, ticks_now(true)) - clock_utc_ns();
    assert_true(off > -1000000 && off < 1000000);
}

static void wait_ns(int64_t ns)
{
    int64_t until = clock_mono_ns() + ns;
    while (clock_mono_ns() < until)
        ;
}

/* A rate measured badly at the start is found out. */
static void test_wrong_rate_heals(void **state)
{
    (void)state;
    struct tick_map m;
    if (!ticks_are_tsc)
        skip();
    tick_map_init(&m);
    m.nominal *= 2;
    m.is_new = false;
    for (int i = 0; i < 3; i++) {
        wait_ns(2000000);
        tick_map_update(&m);
    }
    wait_ns(2000000);
    uint64_t ticks = ticks_now(true);
    int64_t utc = clock_utc_ns();
    wait_ns(2000000);
    tick_map_update(&m);
    int64_t off = tick_map_ns(&m, ticks) - utc;
    assert_true(off > -10000 && off < 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_follows_the_clock), cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_counter_jumps),     cmocka_unit_test(test_clock_is_set),
        cmocka_unit_test(test_wrong_rate_heals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
