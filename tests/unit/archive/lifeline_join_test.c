/* SPDX-License-Identifier: Apache-2.0 */
/* Orders beside qsort's; what is remembered of ids, and forgotten. lifeline_test.c has the join itself. */
#include "unit/test.h"

#include "archive/lifeline_join.h"
#include "base/mem.h"

#include <errno.h>

enum { N = 5000 };

static int by_id(const void *a, const void *b)
{
    const struct life_event *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* ids: how many there are. spread: bits of their times. */
static void make(struct life_event *e, uint64_t seed, unsigned ids, unsigned spread)
{
    uint64_t s = seed;
    for (uint32_t i = 0; i < N; i++)
        e[i] = (struct life_event){.id = (test_random(&s) % ids + 1) * 0x9e3779b97f4a7c15u,
                                   .time_ns = (int64_t)(test_random(&s) >> (64 - spread)) -
                                              (INT64_C(1) << (spread - 1)),
                                   .seq = test_random(&s) % 3,
                                   .order = i,
                                   .name = i};
}

static void orders(void **state)
{
    (void)state;
    static struct life_event e[N], want[N], room[N];
    static uint32_t at[N];
    static const unsigned ids[] = {1, 3, 200, 5000, 1 << 30}, spreads[] = {1, 10, 11, 12, 33, 62, 63};
    for (unsigned i = 0; i < 5; i++)
        for (unsigned k = 0; k < 7; k++) {
            make(e, i * 10 + k, ids[i], spreads[k]);
            memcpy(want, e, sizeof e);
            qsort(want, N, sizeof *want, by_id);
            life_sort(e, room, N);
            assert_memory_equal(e, want, sizeof e);
            life_by_time(e, N, room, at);
            for (uint32_t n = 1; n < N; n++) {
                assert_true(e[at[n - 1]].time_ns <= e[at[n]].time_ns);
                assert_true(e[at[n - 1]].time_ns < e[at[n]].time_ns || at[n - 1] < at[n]);
            }
        }
    life_sort(e, room, 0);
    life_by_time(e, 0, room, at);
}

static bool is_known(const struct life_open *o, uint64_t id)
{
    struct life_event e = {.id = id, .time_ns = INT64_MAX, .name = 1, .host = 1};
    struct life_before b;
    life_join(&e, 1, o, &b);
    return b.name != LIFE_NONE;
}

/* The newest stay, exactly; everything else is forgotten. */
static void forgets_the_oldest(void **state)
{
    (void)state;
    struct life_open o = {NULL, 0, 0};
    static struct life_event e[N], room[N];
    for (uint64_t i = 0; i < N; i++)
        e[i] = (struct life_event){
            .id = (i + 1) * 0x9e3779b97f4a7c15u, .time_ns = (int64_t)(i * 7919 % N), .order = (uint32_t)i};
    life_sort(e, room, N);
    assert_int_equal(life_open_update(&o, e, N, N), 0);
    assert_int_equal(o.n, N);
    assert_int_equal(life_open_update(&o, e, N, N - 1), N - (N - 1 - (N - 1) / 4));
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(is_known(&o, (i + 1) * 0x9e3779b97f4a7c15u), i * 7919 % N >= N - o.n);
    life_open_fini(&o);
}

/* Without memory the table is as it was, or has what is new and has forgotten nothing. */
static void without_memory(void **state)
{
    (void)state;
    static struct life_event e[N];
    for (uint64_t i = 0; i < N; i++)
        e[i] = (struct life_event){.id = i + 1, .time_ns = (int64_t)i};
    for (uint64_t nth = 1; nth <= 4; nth++) {
        struct life_open o = {NULL, 0, 0};
        assert_int_equal(life_open_update(&o, e, 100, 200), 0);
        mem_fail_after(nth);
        int64_t r = life_open_update(&o, e, N, 200);
        mem_fail_after(0);
        assert_true(r == -ENOMEM || r == N - 150);
        assert_true(o.n == 100 || o.n == N || o.n == 150);
        for (size_t i = 0; i < o.n && o.n != 150; i++)
            assert_true(is_known(&o, i + 1));
        life_open_fini(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders),
        cmocka_unit_test(forgets_the_oldest),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
