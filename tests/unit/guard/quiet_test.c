/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clock.h"
#include "guard/quiet.h"

#include <time.h>

static int64_t at(const char *iso)
{
    int64_t t = 0;
    assert_int_equal(clock_parse_iso(slice_str(iso), &t), 0);
    return t;
}

static bool is_quiet(const char *text, const char *iso)
{
    struct quiet q;
    struct diag why;
    assert_int_equal(quiet_parse(slice_str(text), &q, &why), 0);
    return quiet_is(&q, 1, at(iso));
}

static void use_zone(const char *zone)
{
    assert_int_equal(setenv("TZ", zone, 1), 0);
    tzset();
}

static void nights_and_days(void **state)
{
    (void)state;
    use_zone("UTC0");
    /* 2026-11-16 is a Monday. */
    assert_true(is_quiet("22:00-06:00", "2026-11-16T22:00:00Z"));
    assert_true(is_quiet("22:00-06:00", "2026-11-16T05:59:59.999Z"));
    assert_false(is_quiet("22:00-06:00", "2026-11-16T06:00:00Z"));
    assert_false(is_quiet("22:00-06:00", "2026-11-16T21:59:59Z"));
    assert_true(is_quiet("08:00-17:30", "2026-11-16T17:29:59Z"));
    assert_false(is_quiet("08:00-17:30", "2026-11-16T17:30:00Z"));
    assert_true(is_quiet("sat,sun", "2026-11-15T23:59:59Z"));
    assert_false(is_quiet("sat,sun", "2026-11-16T00:00:00Z"));
    assert_true(is_quiet("Sat-Mon", "2026-11-16T12:00:00Z"));
    assert_false(is_quiet("sat-mon", "2026-11-17T12:00:00Z"));
    assert_true(is_quiet("00:00-24:00", "2026-11-17T12:00:00Z"));
    assert_true(is_quiet("22:00-24:00", "2026-11-17T23:59:00Z"));
    assert_false(is_quiet("22:00-24:00", "2026-11-18T00:00:00Z"));
    assert_true(is_quiet("22:00-00:00", "2026-11-17T23:59:00Z"));
    assert_false(is_quiet("22:00-00:00", "2026-11-18T00:00:00Z"));
    assert_true(is_quiet("sun", "1969-12-28T23:59:59Z")); /* before 1970, too */
}

static void nights_belong_to_the_day_they_begin(void **state)
{
    (void)state;
    use_zone("UTC0");
    assert_true(is_quiet("mon-fri 18:00-08:00", "2026-11-16T18:00:00Z"));
    assert_false(
        is_quiet("mon-fri 18:00-08:00", "2026-11-16T07:00:00Z")); /* Sunday's night is not one of them */
    assert_true(is_quiet("mon-fri 18:00-08:00", "2026-11-21T07:59:00Z")); /* Friday's is */
    assert_false(is_quiet("mon-fri 18:00-08:00", "2026-11-21T18:00:00Z"));
}

/* Zones are written out as POSIX has them: no tables of the system are needed. */
static void local_time_and_its_changes(void **state)
{
    (void)state;
    use_zone("CET-1CEST,M3.5.0,M10.5.0/3");
    assert_true(is_quiet("22:00-06:00", "2026-11-16T21:00:00Z"));
    assert_false(is_quiet("22:00-06:00", "2026-11-16T05:00:00Z"));
    assert_false(is_quiet("22:00-06:00 utc", "2026-11-16T21:00:00Z"));
    assert_true(is_quiet("22:00-06:00 UTC", "2026-11-16T05:00:00Z"));
    /* 2026-10-25, 01:00Z: 03:00 becomes 02:00. Both 02:30 count. */
    assert_true(is_quiet("02:00-03:00", "2026-10-25T00:30:00Z"));
    assert_true(is_quiet("02:00-03:00", "2026-10-25T01:30:00Z"));
    assert_false(is_quiet("02:00-03:00", "2026-10-25T02:00:00Z"));
    /* 2026-03-29, 01:00Z: 02:00 becomes 03:00. There is no 02:30. */
    for (int minute = 0; minute < 24 * 60; minute++) {
        struct quiet q;
        assert_int_equal(quiet_parse(SLICE_LIT("sun 02:00-03:00"), &q, NULL), 0);
        assert_false(quiet_is(&q, 1, at("2026-03-29T00:00:00Z") + minute * 60 * NS_PER_S));
    }
    /* A night across the change ends at the wall clock's time. */
    assert_true(is_quiet("22:00-06:00", "2026-03-29T03:59:00Z"));
    assert_false(is_quiet("22:00-06:00", "2026-03-29T04:00:00Z"));
    use_zone("UTC0");
}

/* Nothing changes before the time that quiet_next says, for a year, at each step. */
static void next_is_never_late(void **state)
{
    (void)state;
    static const char *const zones[] = {"UTC0", "CET-1CEST,M3.5.0,M10.5.0/3",
                                        "LHST-10:30LHDT-11,M10.1.0,M4.1.0"};
    struct quiet q[3];
    assert_int_equal(quiet_parse(SLICE_LIT("mon-fri 18:05-07:55"), &q[0], NULL), 0);
    assert_int_equal(quiet_parse(SLICE_LIT("sat 12:00-12:01"), &q[1], NULL), 0);
    assert_int_equal(quiet_parse(SLICE_LIT("01:50-02:10"), &q[2], NULL), 0);
    for (size_t z = 0; z < 3; z++) {
        use_zone(zones[z]);
        int64_t t = at("2026-01-01T00:00:07.5Z"), end = at("2027-01-01T00:00:00Z");
        while (t < end) {
            bool is = quiet_is(q, 3, t);
            int64_t next = quiet_next(q, 3, t);
            assert_true(next > t && next <= t + 15 * 60 * NS_PER_S);
            for (int64_t u = t; u < next; u += 60 * NS_PER_S)
                assert_true(quiet_is(q, 3, u) == is);
            assert_true(quiet_is(q, 3, next - 1) == is);
            t = next;
        }
    }
    use_zone("UTC0");
    assert_true(quiet_next(q, 0, 5) == INT64_MAX);
}

static void what_is_wrong_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",     "22:00",        "22:00-",  "25:00-06:00", "22:60-06:00", "sat,",
        "mon-", "monday-fri",   "22-06",   "22:00-22:00", "24:00-06:00", "2:00-6:00",
        "utc",  "22:00-06:00x", "sat sun", "24:01-24:00", "22:00 -06:00"};
    struct quiet q = {.days = 42};
    struct diag why;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(quiet_parse(slice_str(wrong[i]), &q, &why), E_PROTO);
        assert_true(why.col >= 1 && why.message[0]);
        assert_int_equal(q.days, 42);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nights_and_days),
        cmocka_unit_test(nights_belong_to_the_day_they_begin),
        cmocka_unit_test(local_time_and_its_changes),
        cmocka_unit_test(next_is_never_late),
        cmocka_unit_test(what_is_wrong_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
