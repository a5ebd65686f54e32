/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "guard/fault.h"

#include <string.h>

static const int64_t s = 1000000000;
static const int64_t start = 1800000000 * INT64_C(1000000000);

/* A story: one letter a sight, ten seconds apart (P present, C clear, B between, N no data, H held), and what
 * each turns: . nothing, p pends, d dropped, F fires, c clearing, r returns, X clears. */
static void tell(const struct fault_policy *p, const char *sights, const char *turns)
{
    static const char letters[] = "PCBNH", answers[] = ".pdFcrX";
    struct fault_life f = {0};
    char told[64] = {0};
    assert_int_equal(strlen(sights), strlen(turns));
    for (size_t i = 0; sights[i]; i++) {
        enum fault_sight sight = (enum fault_sight)(strchr(letters, sights[i]) - letters);
        told[i] = answers[fault_see(&f, p, sight, start + (int64_t)i * 10 * s)];
    }
    assert_string_equal(told, turns);
}

static void without_times(void **state)
{
    (void)state;
    const struct fault_policy p = {0};
    tell(&p, "PPPCCPC", "F..X.FX");
    tell(&p, "CBNHC", ".....");
    tell(&p, "PNNHHC", "F....X");
    tell(&p, "PBBPBC", "F....X");
}

static void counts_for_and_clear_for(void **state)
{
    (void)state;
    const struct fault_policy p = {.for_ns = 20 * s, .clear_for_ns = 30 * s};
    tell(&p, "PPPPCCCCC", "p.F.c..X.");
    tell(&p, "PPCPPPC", "p.dp.Fc");
    tell(&p, "PPBPPP", "p.dp.F");         /* between breaks a run of presents, */
    tell(&p, "PPPCCBCCCC", "p.Fc.rc..X"); /* and one of clears */
    tell(&p, "PPPCCPCCCC", "p.Fc.rc..X"); /* a flap is no new episode */
}

static void time_without_data_does_not_count(void **state)
{
    (void)state;
    const struct fault_policy p = {.for_ns = 20 * s, .clear_for_ns = 20 * s};
    tell(&p, "PPNPPP", "p...F.");
    tell(&p, "PNNNNNPPP", "p.......F");
    tell(&p, "PPPNNNCNNNCC", "p.F...c.....");
    tell(&p, "PPPNNNCNNNCCC", "p.F...c.....X");
    tell(&p, "PPPHHHHPCCC", "p.F.....c.X");
}

static void no_data_by_policy(void **state)
{
    (void)state;
    const struct fault_policy fault = {.for_ns = 20 * s, .no_data = NO_DATA_FAULT};
    tell(&fault, "PNNNC", "p.F.X");
    tell(&fault, "NNNNN", "....."); /* makes no fault where there was none */
    tell(&fault, "PPPCNNNN", "p.FX....");
    tell(&fault, "PHHHHPPP", "p......F"); /* an evaluation that failed is no "no data" */
    const struct fault_policy ignore = {.for_ns = 20 * s, .clear_for_ns = 10 * s, .no_data = NO_DATA_IGNORE};
    tell(&ignore, "PPNPPPNNN", "p.dp.FcX.");
    tell(&ignore, "PPPHHHHC", "p.F....c");
}

static void held_down_after_a_clear(void **state)
{
    (void)state;
    const struct fault_policy p = {.hold_down_ns = 30 * s};
    tell(&p, "PCPPPPC", "FXp.F.X");
    tell(&p, "PCPCPPPC", "FXpdF..X");
    tell(&p, "PCCCCPC", "FX...FX");
    const struct fault_policy both = {.for_ns = 20 * s, .hold_down_ns = 30 * s};
    tell(&both, "PPPCPPPPC", "p.FXp.F.X"); /* both run at the same time */
    tell(&both, "PPPCCCPPP", "p.FX..p.F");
}

static void a_clock_that_goes_back_counts_nothing(void **state)
{
    (void)state;
    const struct fault_policy p = {.for_ns = 20 * s, .hold_down_ns = 60 * s};
    struct fault_life f = {0};
    assert_int_equal(fault_see(&f, &p, SIGHT_PRESENT, start), TURN_PENDS);
    assert_int_equal(fault_see(&f, &p, SIGHT_PRESENT, start + 10 * s), TURN_NONE);
    /* A year back; 10 s have counted, and 10 are to come by the new clock. */
    int64_t back = start - 365 * 86400 * s;
    assert_int_equal(fault_see(&f, &p, SIGHT_PRESENT, back), TURN_NONE);
    assert_int_equal(fault_see(&f, &p, SIGHT_PRESENT, back + 9 * s), TURN_NONE);
    assert_int_equal(fault_see(&f, &p, SIGHT_PRESENT, back + 10 * s), TURN_FIRES);
    assert_int_equal(fault_see(&f, &p, SIGHT_CLEAR, back + 20 * s), TURN_CLEARS);
    /* And the hold-down ends 60 s after the clear, by whatever clock. */
    back -= 1000 * s;
    assert_int_equal(fault_see(&f, &p, SIGHT_PRESENT, back), TURN_PENDS);
    assert_int_equal(fault_see(&f, &p, SIGHT_PRESENT, back + 59 * s), TURN_NONE);
    assert_int_equal(fault_see(&f, &p, SIGHT_PRESENT, back + 60 * s), TURN_FIRES);
}

static void absurd_times_do_not_overflow(void **state)
{
    (void)state;
    const struct fault_policy p = {.for_ns = INT64_MAX, .clear_for_ns = INT64_MAX, .hold_down_ns = INT64_MAX};
    const struct fault_policy at_once = {.hold_down_ns = INT64_MAX};
    const int64_t times[] = {INT64_MIN, INT64_MAX, 0, -1, INT64_MIN + 1, start};
    for (unsigned sights = 0; sights < 5 * 5 * 5 * 5; sights++) {
        struct fault_life f = {0}, g = {0};
        for (unsigned i = 0, left = sights; i < 12; i++, left /= 5) {
            (void)fault_see(&f, &p, left % 5, times[i % 6]);
            (void)fault_see(&g, &at_once, left % 5, times[(i * 5 + 1) % 6]);
        }
        assert_true(f.episode <= 1 || f.state != FAULT_NONE);
        assert_true(g.state != FAULT_NONE || g.episode == 0);
    }
}

static void ends(void **state)
{
    (void)state;
    const struct fault_policy p = {.clear_for_ns = 3600 * s};
    struct fault_life f = {0};
    assert_int_equal(fault_end(&f, start), TURN_NONE);
    (void)fault_see(&f, &p, SIGHT_PRESENT, start);
    assert_int_equal(fault_end(&f, start + s), TURN_CLEARS);
    assert_int_equal(f.state, FAULT_CLEARED);
    assert_true(f.cleared_ns == start + s && f.held_down_ns == 0);
    assert_int_equal(fault_end(&f, start + s), TURN_NONE);
}

static void names(void **state)
{
    (void)state;
    enum fault_state found;
    for (int i = FAULT_NONE; i <= FAULT_CLEARED; i++) {
        assert_true(fault_state_parse(fault_state_name((enum fault_state)i), &found));
        assert_int_equal(found, i);
    }
    assert_false(fault_state_parse("acknowledged", &found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_times),
        cmocka_unit_test(counts_for_and_clear_for),
        cmocka_unit_test(time_without_data_does_not_count),
        cmocka_unit_test(no_data_by_policy),
        cmocka_unit_test(held_down_after_a_clear),
        cmocka_unit_test(a_clock_that_goes_back_counts_nothing),
        cmocka_unit_test(absurd_times_do_not_overflow),
        cmocka_unit_test(ends),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
