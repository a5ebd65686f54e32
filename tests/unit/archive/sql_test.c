/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/archive/sql_run.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <stdatomic.h>

#define SECOND INT64_C(1000000000)
#define BASE (INT64_C(1794776400) * SECOND) /* 2026-11-15T21:00:00Z */

static struct sql_run t;

static void add(const char *name, const char *host, int64_t time_ns, uint8_t level, const struct named_value *v, size_t n)
{
    const struct event_head head = {
        .time_ns = time_ns, .name = slice_str(name), .host = slice_str(host), .prog = SLICE_LIT("p"), .level = level};
    struct diag why = {0};
    if (batch_builder_add(t.builder, &head, v, n, &why) < 0)
        fail_msg("%s", why.message);
}

#define FIELD(z, v) ((struct named_value){.name = {z, sizeof z - 1}, .value = v})
#define ADD(name, host, time, level, ...)                                    \
    add(name, host, time, level, (struct named_value[]){__VA_ARGS__},        \
        sizeof((struct named_value[]){__VA_ARGS__}) / sizeof(struct named_value))

/* cpu of two hosts, a second each; half of it on disk. */
static void fill_cpu(void)
{
    for (int i = 0; i < 200; i++) {
        ADD("cpu", "a", BASE + i * SECOND, LEVEL_INFO, FIELD("usage", value_float(i / 2.0)), FIELD("n", value_int(i)));
        ADD("cpu", "b", BASE + i * SECOND, i % 50 ? LEVEL_INFO : LEVEL_ERROR, FIELD("n", value_int(1000 + i)));
        if (i == 99) {
            run_append(&t, NULL);
            assert_int_equal(archive_flush(t.a), 0);
        }
    }
    run_append(&t, NULL);
}

static int set_up(void **state)
{
    (void)state;
    run_init(&t);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    run_fini(&t);
    return 0;
}

static void reads_rows(void **state)
{
    (void)state;
    fill_cpu();
    assert_string_equal(run_text(&t, "SELECT count(*), count(usage), min(n), max(n), sum(n) FROM cpu"),
                        "400|200|0|1199|239800");
    assert_string_equal(run_text(&t, "SELECT time, host, prog, level, usage, n FROM cpu WHERE host = 'a' AND n = 3"),
                        "1794776403000000000|a|p|info|1.5|3");
    assert_string_equal(run_text(&t, "SELECT n FROM cpu WHERE host = 'b' AND time > at('2026-11-15T21:00:10Z') AND "
                                     "time <= at('2026-11-15T21:00:12Z') ORDER BY time"),
                        "1011;1012");
    assert_string_equal(run_text(&t, "SELECT n FROM cpu WHERE level = 'error' ORDER BY n"), "1000;1050;1100;1150");
    assert_string_equal(run_text(&t, "SELECT host, count(*) FROM cpu WHERE host IN ('b', 'c') GROUP BY host"), "b|200");
    assert_string_equal(run_text(&t, "SELECT n FROM cpu WHERE n IN (7, 1007, 5000) ORDER BY n"), "7;1007");
    assert_string_equal(run_text(&t, "SELECT count(*) FROM cpu WHERE usage IS NULL"), "200");
    assert_string_equal(run_text(&t, "SELECT count(*) FROM cpu WHERE usage > 98.9 OR n > 1198 OR (host = 'a' AND n = 199)"),
                        "3");
}

static void says_the_newest(void **state)
{
    (void)state;
    fill_cpu();
    assert_string_equal(run_text(&t, "SELECT host, n FROM cpu_latest ORDER BY host"), "a|199;b|1199");
    assert_string_equal(run_text(&t, "SELECT host, n FROM cpu_latest WHERE n < 100"), "");
    assert_string_equal(run_text(&t, "SELECT n FROM cpu_latest WHERE host = 'a'"), "199");
}

static void joins_tables(void **state)
{
    (void)state;
    fill_cpu();
    ADD("job.state", "a", BASE + 5 * SECOND, LEVEL_INFO, FIELD("id", value_text(SLICE_LIT("j1"))));
    ADD("job.state", "b", BASE + 7 * SECOND, LEVEL_INFO, FIELD("id", value_text(SLICE_LIT("j2"))));
    run_append(&t, NULL);
    assert_string_equal(run_text(&t, "SELECT id, n FROM job_state JOIN cpu USING (time, host) ORDER BY id"), "j1|5;j2|1007");
    assert_string_equal(run_text(&t, "SELECT count(*) FROM \"job.state\""), "2");
    assert_string_equal(run_text(&t, "SELECT host FROM Job_State WHERE id = 'j2'"), "b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(says_the_newest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(joins_tables, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
