/* SPDX-License-Identifier: Apache-2.0 */
/* NAME_forecast: the rule "disk full within two hours" says so, of the right streams, within what may be
 * seen; long histories and many streams give the same as short and few; what is refused. */
#include "unit/archive/sql_run.h"

#include "archive/tier.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

#define SECOND INT64_C(1000000000)
#define MINUTE (60 * SECOND)
#define HOUR   (3600 * SECOND)
#define NOW    (INT64_C(1794816000) * SECOND) /* 2026-11-16T08:00:00Z */

static struct sql_run t;
static struct schema *schema;

static int set_up(void **state)
{
    const struct field fields[] = {{.name = SLICE_LIT("mount"), .type = VALUE_TEXT, .role = ROLE_KEY},
                                   {.name = SLICE_LIT("value"), .type = VALUE_INT, .role = ROLE_KEY},
                                   {.name = SLICE_LIT("free"), .type = VALUE_FLOAT},
                                   {.name = SLICE_LIT("used"), .type = VALUE_UINT},
                                   {.name = SLICE_LIT("kind"), .type = VALUE_TEXT}};
    (void)state;
    run_init(&t);
    t.query.now_ns = NOW;
    assert_int_equal(schema_create(SLICE_LIT("fs"), fields, 5, &schema), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    schema_unref(schema);
    run_fini(&t);
    return 0;
}

static void add(const char *host, const char *mount, int64_t at_ns, double free, uint64_t used)
{
    const struct event_head head = {.time_ns = at_ns, .host = slice_str(host), .prog = SLICE_LIT("p")};
    const struct value values[] = {value_text(slice_str(mount)), value_int(1), value_float(free),
                                   value_uint(used), value_text(SLICE_LIT("ext4"))};
    struct diag why = {0};
    if (batch_builder_add_known(t.builder, &head, schema, values, &why) < 0)
        fail_msg("%s", why.message);
}

/* /full loses a GB a minute and has 100 left; /slow a tenth of that; /same nothing. A minute each, with a
 * gap, half of them on disk. */
static void fill(const char *host)
{
    for (int i = 600; i > 0; i--) {
        if (i > 200 && i < 260)
            continue;
        int64_t at = NOW - i * MINUTE;
        add(host, "/full", at, 1e9 * (100 + i), UINT64_MAX - (uint64_t)i * 6000);
        add(host, "/slow", at, 1e8 * (1000 + i), 1);
        add(host, "/same", at, 5e8, 1);
        if (i == 300) {
            run_append(&t, NULL);
            assert_int_equal(archive_flush(t.a), 0);
        }
    }
    run_append(&t, NULL);
}

static void full_within_two_hours(void **state)
{
    (void)state;
    fill("a");
    assert_string_equal(
        run_text(&t, "SELECT host, mount FROM fs_forecast('free', '2h') WHERE value - error < 0"), "a|/full");
    assert_string_equal(run_text(&t, "SELECT host, mount FROM fs_forecast('free', '90m') WHERE value < 0"),
                        "");
    assert_string_equal(
        run_text(&t,
                 "SELECT time, host, prog, mount, \"$value\", round(value / 1e6), error < 1e6, rmse < 1e6, "
                 "predictor, points, tests > 300, last, last_time FROM fs_forecast('free', '2h') ORDER BY "
                 "mount"),
        "1794823200000000000|a|p|/full|1|-20000.0|1|1|trend_all|541|1|101000000000.0|1794815940000000000;"
        "1794823200000000000|a|p|/same|1|500.0|1|1|last|541|1|500000000.0|1794815940000000000;"
        "1794823200000000000|a|p|/slow|1|88000.0|1|1|trend_all|541|1|100100000000.0|1794815940000000000");
    assert_int_equal(archive_flush(t.a), 0);
    assert_string_equal(
        run_text(&t, "SELECT host, mount FROM fs_forecast('free', '2h') WHERE value - error < 0"), "a|/full");
}

static void arguments(void **state)
{
    (void)state;
    fill("a");
    assert_string_equal(run_text(&t, "SELECT points FROM fs_forecast('free', '10m', '1h') GROUP BY 1"), "59");
    assert_string_equal(run_text(&t, "SELECT predictor FROM fs_forecast('free', '10m', NULL, 0, 'mean_5') "
                                     "GROUP BY 1"),
                        "mean_5");
    assert_string_equal(run_text(&t, "SELECT substr(predictor, 1, 6) FROM fs_forecast('FREE', '10m') WHERE "
                                     "method = 'median' AND mount = '/full' AND history = '2h'"),
                        "median");
    /* a counter as it is, and by its rate: exact beyond 2^53 */
    assert_string_equal(run_text(&t,
                                 "SELECT round(value, 6), error < 1e-6, last FROM fs_forecast('used', '1h', "
                                 "NULL, 1) WHERE mount = '/full'"),
                        "100.0|1|100.0");
    assert_string_equal(run_text(&t, "SELECT value > 1.8446744e19 FROM fs_forecast('used', '1h') WHERE mount "
                                     "= '/full' AND host IN ('a', 'b') AND \"$value\" = 1"),
                        "1");
    assert_string_equal(run_text(&t,
                                 "SELECT count(*) FROM fs_forecast('free', '1h') WHERE mount = '/none' OR "
                                 "\"$value\" = 2"),
                        "0");
    assert_string_equal(run_text(&t,
                                 "SELECT field, horizon, history, rate FROM fs_forecast('free', '2h') LIMIT "
                                 "1"),
                        "free|7200000000000|86400000000000|0");
    assert_string_equal(run_text(&t,
                                 "SELECT f.mount FROM (SELECT '2h' AS h) JOIN fs_forecast('free', h) AS f "
                                 "WHERE f.value < 0"),
                        "/full");
}

static void refused(const char *text, int r, const char *says)
{
    assert_int_equal(run(&t, text), r);
    if (!strstr(t.why.message, says))
        fail_msg("%s: '%s'", text, t.why.message);
}

static void refuses(void **state)
{
    (void)state;
    fill("a");
    refused("SELECT * FROM fs_forecast", E_PROTO, "a field and a horizon");
    refused("SELECT * FROM fs_forecast('free')", E_PROTO, "a field and a horizon");
    refused("SELECT * FROM fs_forecast(NULL, '1h')", E_PROTO, "a field and a horizon");
    refused("SELECT * FROM fs_forecast('none', '1h')", E_PROTO, "a field with numbers");
    refused("SELECT * FROM fs_forecast('kind', '1h')", E_PROTO, "a field with numbers");
    refused("SELECT * FROM fs_forecast('mount', '1h')", E_PROTO, "a field with numbers");
    refused("SELECT * FROM fs_forecast('free', '0s')", E_PROTO, "above 0");
    refused("SELECT * FROM fs_forecast('free', '-2h')", E_PROTO, "above 0");
    refused("SELECT * FROM fs_forecast('free', '4000d')", E_PROTO, "ten years");
    refused("SELECT * FROM fs_forecast('free', 'soon')", E_PROTO, "soon");
    refused("SELECT * FROM fs_forecast('free', '1h', '0s')", E_PROTO, "above 0");
    refused("SELECT * FROM fs_forecast('free', '1h', NULL, 0, 'magic')", E_PROTO, "method is one of");
    refused("SELECT * FROM nothing_forecast('free', '1h')", E_PROTO, "no such table");
    assert_string_equal(run_text(&t, "SELECT count(*) FROM fs_forecast('free', '1ns', '3660d')"), "3");
    assert_string_equal(run_text(&t, "SELECT count(*) FROM fs_forecast('free', '3660d', '3660d')"), "3");
}

/* ---------------------------------------------------------------- little */

static void no_data_is_no_row(void **state)
{
    (void)state;
    add("a", "/old", NOW - 3 * 24 * HOUR, 5, 1);  /* before the history */
    add("a", "/future", NOW + SECOND, 5, 1);      /* not yet */
    add("a", "/nan", NOW - HOUR, (double)NAN, 1); /* no number */
    add("a", "/inf", NOW - HOUR, (double)INFINITY, 1);
    add("a", "/one", NOW, 7, 1);
    run_append(&t, NULL);
    assert_string_equal(
        run_text(&t,
                 "SELECT mount, value, error, rmse, predictor, points, tests FROM fs_forecast('free', '2h')"),
        "/one|7.0|NULL|NULL|last|1|0");
    assert_string_equal(
        run_text(&t, "SELECT count(*) FROM fs_forecast('free', '2h') WHERE value - error < 10"),
        "0"); /* unknown is no fault */
    assert_string_equal(run_text(&t, "SELECT count(*) FROM fs_forecast('used', '2h', NULL, 1)"), "0");
}

static void extremes(void **state)
{
    static const double odd[] = {1.7976931348623157e308, -1.7976931348623157e308, 0, INFINITY, NAN, 5e-324};
    (void)state;
    for (int i = 0; i < 300; i++)
        add("a", "/x", NOW - (300 - i) * MINUTE, odd[i % 6], i % 2 ? UINT64_MAX : 0);
    run_append(&t, NULL);
    assert_string_equal(run_text(&t, "SELECT points, abs(value) <= 1.8e308 FROM fs_forecast('free', '1h')"),
                        "200|1");
    assert_string_equal(run_text(&t, "SELECT points, abs(value) <= 1.9e19, error <= 1.9e19 FROM "
                                     "fs_forecast('used', '1h')"),
                        "300|1|1");
    assert_string_equal(
        run_text(&t, "SELECT points, value IS NOT NULL FROM fs_forecast('used', '1h', NULL, 1)"), "299|1");
}

/* ---------------------------------------------------------------- much */

/* Tiers of 10 s of all that was written. */
static void make_tiers(void)
{
    struct view *v;
    assert_int_equal(view_take(t.reader, &v), 0);
    size_t n = view_partitions(v);
    assert_true(n > 30);
    for (size_t i = 0; i < n; i++) {
        struct partition_span span = view_partition_at(v, i);
        struct tier *tier;
        int r;
        assert_int_equal(tier_create(t.a, &span, tier_steps[0], &tier), 0);
        while ((r = tier_step(tier)) > 0)
            ;
        assert_int_equal(r, 0);
        tier_destroy(tier);
    }
    view_release(v);
}

/* More values than points: by steps, from which the same follows; of rows in memory, on disk, and of tiers.
 */
static void long_history(void **state)
{
    (void)state;
    for (int i = 21600; i > 0; i--) {
        add("a", "/ramp", NOW - i * SECOND, 1e6 + 10.0 * i, (uint64_t)(21600 - i) * 7);
        if (i % 5000 == 0)
            run_append(&t, NULL);
    }
    run_append(&t, NULL);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(
            run_text(&t, "SELECT points BETWEEN 700 AND 1001, round(value), error < 1, last, last_time FROM "
                         "fs_forecast('free', '1h', '6h')"),
            "1|964000.0|1|1000010.0|1794815999000000000");
        assert_string_equal(
            run_text(&t, "SELECT round(value, 6), round(last, 6) FROM fs_forecast('used', '1h', '6h', 1)"),
            "7.0|7.0");
        assert_string_equal(run_text(&t, "SELECT max(tier) FROM fs_bucket('2026-11-16T03:00:00Z', "
                                         "'2026-11-16T07:00:00Z', '30s', NULL, '30s')"),
                            i < 2 ? "0" : "10000000000"); /* they are used */
        if (i == 0)
            assert_int_equal(archive_flush(t.a), 0);
        else if (i == 1)
            make_tiers();
    }
}

/* More streams than are folded at a time: each comes once, with its own points. */
static void many_streams(void **state)
{
    (void)state;
    enum { STREAMS = 900, POINTS = 600 };
    for (int i = 0; i < STREAMS; i++) {
        char host[16];
        (void)snprintf(host, sizeof host, "h%d", i);
        for (int k = POINTS; k > 0; k--)
            add(host, "/", NOW - k * SECOND, i * 1000.0 + (i % 2 ? k : 0), 1);
        run_append(&t, NULL);
    }
    assert_string_equal(run_text(&t,
                                 "SELECT count(*), count(DISTINCT host), min(points), max(points), "
                                 "sum(round(value) = 1000 * substr(host, 2) - (substr(host, 2) % 2) * 60), "
                                 "max(error) < 1 FROM fs_forecast('free', '1m', '15m')"),
                        "900|900|600|600|900|1");
    assert_string_equal(run_text(&t,
                                 "SELECT count(*) FROM (SELECT * FROM fs_forecast('free', '1m', '15m') LIMIT "
                                 "5)"),
                        "5");
}

static void is_bounded(void **state)
{
    (void)state;
    for (int i = 0; i < 500; i++)
        for (int k = 0; k < 200; k++) {
            char host[16];
            (void)snprintf(host, sizeof host, "h%d", i);
            add(host, "/", NOW - k * SECOND, k, 1);
        }
    run_append(&t, NULL);
    struct sql_limits limits = {.bytes = 200000};
    t.query.limits = &limits;
    assert_int_equal(run(&t, "SELECT count(*) FROM fs_forecast('free', '1m')"), E_LIMIT);
    limits = (struct sql_limits){.time_ns = 1000};
    assert_int_equal(run(&t, "SELECT count(*) FROM fs_forecast('free', '1m')"), -ETIMEDOUT);
    t.query.limits = NULL;
    assert_string_equal(run_text(&t, "SELECT count(*) FROM fs_forecast('free', '1m')"), "500");
}

/* As little memory as it may be, more and more: it says that it is too little, until it is enough. */
static void little_memory(void **state)
{
    static const char text[] =
        "SELECT host, mount FROM fs_forecast('free', '2h', '5h', 0, 'trend') WHERE value < 0";
    struct sql_limits limits = {.bytes = 500};
    unsigned refused = 0;
    int r;
    (void)state;
    fill("a");
    t.query.limits = &limits;
    while ((r = run(&t, text)) < 0) {
        assert_int_equal(r, E_LIMIT);
        refused++;
        limits.bytes += limits.bytes / 8;
        sql_engine_destroy(t.engine); /* so that all is made anew */
        assert_int_equal(sql_engine_create(t.reader, &t.engine), 0);
    }
    assert_true(refused > 10);
    assert_string_equal(t.out.p, "a|/full");
}

/* ---------------------------------------------------------------- who asks */

static bool may_table(void *arg, struct slice event)
{
    (void)event;
    return *(const int *)arg != 1;
}

static bool may_stream(void *arg, struct slice event, struct slice host)
{
    (void)event;
    return *(const int *)arg != 2 || slice_eq_str(host, "a");
}

static bool may_field(void *arg, struct slice event, struct slice host, struct slice field)
{
    int what = *(const int *)arg;
    (void)event;
    return !(what == 3 && slice_eq_str(field, "free")) && !(what == 4 && slice_eq_str(field, "mount")) &&
           !(what == 5 && slice_eq_str(field, "free") && slice_eq_str(host, "b"));
}

static void shows_what_may_be_seen(void **state)
{
    int what = 0;
    const struct sql_access access = {may_table, may_stream, may_field, &what};
    (void)state;
    fill("a");
    fill("b");
    t.query.access = &access;
    assert_string_equal(run_text(&t, "SELECT host, count(*) FROM fs_forecast('free', '1h') GROUP BY 1"),
                        "a|3;b|3");
    what = 1;
    refused("SELECT * FROM fs_forecast('free', '1h')", E_PROTO, "no such table");
    what = 2;
    assert_string_equal(run_text(&t, "SELECT host, count(*) FROM fs_forecast('free', '1h') GROUP BY 1"),
                        "a|3");
    assert_string_equal(run_text(&t, "SELECT count(*) FROM fs_forecast('free', '1h') WHERE host = 'b'"), "0");
    what = 3;
    assert_string_equal(run_text(&t, "SELECT count(*) FROM fs_forecast('free', '1h')"), "0");
    assert_string_equal(run_text(&t, "SELECT count(*) FROM fs_forecast('used', '1h')"), "6");
    what = 4;
    assert_string_equal(run_text(&t, "SELECT count(*), count(mount) FROM fs_forecast('free', '1h')"), "6|0");
    assert_string_equal(run_text(&t, "SELECT count(*) FROM fs_forecast('free', '1h') WHERE mount = '/full'"),
                        "0");
    what = 5;
    assert_string_equal(run_text(&t, "SELECT host, count(*) FROM fs_forecast('free', '1h') GROUP BY 1"),
                        "a|3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(full_within_two_hours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(arguments, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_data_is_no_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(extremes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_history, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_streams, set_up, tear_down),
        cmocka_unit_test_setup_teardown(is_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(little_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shows_what_may_be_seen, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
