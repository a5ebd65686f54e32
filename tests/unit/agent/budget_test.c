/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "agent/budget.h"
#include "base/clock.h"

enum { MIB = 1 << 20 };

/* One window of 10 s in which so many percent of a core were used. */
static enum budget_verdict window(struct budget *b, double percent, uint64_t memory)
{
    return budget_judge(b, b->at_ns + BUDGET_WINDOW, b->cpu_ns + (uint64_t)(percent / 100 * BUDGET_WINDOW),
                        memory);
}

static void slows_and_recovers_without_swinging(void **state)
{
    (void)state;
    struct budget b;
    budget_init(&b, 0.01, 16 * MIB, NS_PER_S, 5);
    assert_int_equal(window(&b, 0.9, MIB), BUDGET_KEEP);
    assert_int_equal(window(&b, 1.1, MIB), BUDGET_SLOW);
    assert_int_equal(window(&b, 0.7, MIB), BUDGET_KEEP); /* under the ceiling, not far under */
    assert_int_equal(window(&b, 0.4, MIB), BUDGET_KEEP);
    assert_int_equal(window(&b, 0.4, MIB), BUDGET_KEEP);
    assert_int_equal(window(&b, 0.4, MIB), BUDGET_HASTEN);
    assert_int_equal(window(&b, 0.4, MIB), BUDGET_KEEP); /* counts anew */
}

static void memory_counts_too(void **state)
{
    (void)state;
    struct budget b;
    budget_init(&b, 0.01, 16 * MIB, NS_PER_S, 0);
    assert_int_equal(window(&b, 0, 17 * MIB), BUDGET_SLOW);
    for (int i = 0; i < 10; i++) /* just under: no reason to go faster */
        assert_int_equal(window(&b, 0, 16 * MIB - 1), BUDGET_KEEP);
}

static void own_use_is_known(void **state)
{
    (void)state;
    uint64_t before = budget_own_cpu_ns();
    while (budget_own_cpu_ns() < before + 5000000) /* burns 5 ms */
        ;
    assert_true(budget_own_memory() > 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slows_and_recovers_without_swinging),
        cmocka_unit_test(memory_counts_too),
        cmocka_unit_test(own_use_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
