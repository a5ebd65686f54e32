/* SPDX-License-Identifier: Apache-2.0 */
/* Sensors on request: who asks for what, how often they run then, and that they stop. Real sensors; time is
 * the test's. */
#include "unit/test.h"

#include "agent/manager.h"
#include "base/clock.h"
#include "base/text.h"

#define MS INT64_C(1000000)

enum { ASKERS = 3 };

struct asker {
    const char *events; /* NULL = asks for nothing */
    int64_t period_ns;  /* 0 = the sensor's own */
};

static struct event_base *base;
static struct sensor_env env;
static struct flow *flow;
static struct manager *manager;
static struct agent_config *config;
static struct asker askers[ASKERS];

/* ---------------------------------------------------------------- the world */

static int64_t asks(void *arg, const char *event, int64_t own_ns)
{
    int64_t least_ns = 0;
    (void)arg;
    for (size_t i = 0; i < ASKERS; i++) {
        int64_t period_ns = askers[i].period_ns ? askers[i].period_ns : own_ns;
        if (askers[i].events && text_glob_any(slice_str(askers[i].events), slice_str(event)))
            least_ns = least_ns && least_ns < period_ns ? least_ns : period_ns;
    }
    return least_ns;
}

static void ask(size_t i, const char *events, int64_t period_ns)
{
    askers[i] = (struct asker){events, period_ns};
    manager_set_requests(manager, asks, NULL);
}

static void configure(const char *const *settings, size_t n)
{
    const struct config_flags flags = {.file = "/dev/null", .settings = settings, .n_settings = n};
    struct agent_config *next, *old = config;
    struct diag why = {0};
    if (config_load(&flags, &next, &why) < 0)
        fail_msg("%s", why.message);
    config = next;
    manager_configure(manager, config);
    config_destroy(old);
}

static int set_up(void **state)
{
    static const char *const settings[] = {"defaults=false",    "cpu.mode=on-request",    "cpu.every=2s",
                                           "cpu.fastest=500ms", "memory.mode=on-request", "memory.every=50ms",
                                           "load.every=1s"};
    (void)state;
    memset(askers, 0, sizeof askers);
    base = event_base_new();
    env_init(&env, "");
    flow = flow_create("node7");
    flow_set_sinks(flow, &(const struct flow_sinks){0});
    manager = manager_create(base, &env, flow);
    configure(settings, sizeof settings / sizeof *settings);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    manager_destroy(manager);
    flow_destroy(flow);
    env_fini(&env);
    event_base_free(base);
    config_destroy(config);
    config = NULL;
    return 0;
}

struct found {
    const char *sensor;
    struct self_cost cost;
};

static void look(void *arg, const struct self_cost *cost)
{
    struct found *f = arg;
    if (strcmp(cost->sensor, f->sensor) == 0)
        f->cost = *cost;
}

static struct self_cost cost_of(const char *sensor)
{
    struct found f = {.sensor = sensor};
    manager_each(manager, look, &f);
    assert_non_null(f.cost.sensor);
    return f.cost;
}

static bool runs(const char *sensor)
{
    return strcmp(cost_of(sensor).state, "running") == 0;
}

static double period_s(const char *sensor)
{
    return cost_of(sensor).every_s;
}

/* ---------------------------------------------------------------- tests */

static void runs_while_it_is_asked_for(void **state)
{
    (void)state;
    assert_false(runs("cpu"));
    assert_true(runs("load"));
    ask(0, "memory,c*", 0);
    assert_true(runs("cpu") && runs("memory"));
    assert_int_equal(manager_next_ns(manager), 0); /* at once */
    ask(0, "memory", 0);
    assert_true(!runs("cpu") && runs("memory"));
    ask(0, NULL, 0);
    assert_true(!runs("cpu") && !runs("memory") && runs("load"));
}

static void who_asks_most_often_counts(void **state)
{
    (void)state;
    ask(0, "cpu", 10000 * MS);
    assert_true(period_s("cpu") == 10); /* less often than configured, too: nobody asks for more */
    ask(1, "cpu", 700 * MS);
    assert_true(period_s("cpu") == 0.7);
    ask(2, "cpu", 0);
    assert_true(period_s("cpu") == 0.7);
    ask(1, NULL, 0);
    assert_true(period_s("cpu") == 2); /* its own */
    ask(2, NULL, 0);
    assert_true(period_s("cpu") == 10);
    ask(0, NULL, 0);
    assert_true(period_s("cpu") == 2 && !runs("cpu"));
    ask(0, "load", 10 * MS);
    assert_true(period_s("load") == 1); /* it does not run on request */
}

static void no_more_often_than_configured(void **state)
{
    (void)state;
    ask(0, "cpu,memory", 1);
    assert_true(period_s("cpu") == 0.5);
    assert_true(period_s("memory") == 0.05); /* its own period is below the default of fastest */
    ask(0, "memory", 80 * MS);
    assert_true(period_s("memory") == 0.08);
}

static void a_new_period_counts_at_once(void **state)
{
    (void)state;
    ask(0, "cpu", 100000 * MS);
    manager_run(manager, clock_mono_ns());
    uint64_t before = cost_of("cpu").runs;
    assert_true(before > 0);
    ask(1, "cpu", 600 * MS);
    int64_t next = manager_next_ns(manager), now = clock_mono_ns();
    assert_true(next <= now + 600 * MS);
    manager_run(manager, now + 600 * MS);
    assert_int_equal(cost_of("cpu").runs, before + 1);
    ask(1, NULL, 0);
    manager_run(manager, now + 1200 * MS);
    assert_int_equal(cost_of("cpu").runs, before + 1);
}

static void suspended_ones_wait(void **state)
{
    (void)state;
    ask(0, "cpu", 0);
    manager_suspend(manager, true);
    assert_false(runs("cpu"));
    ask(0, "cpu", 700 * MS);
    ask(1, "memory", 0);
    assert_true(!runs("cpu") && !runs("memory"));
    manager_suspend(manager, false);
    assert_true(runs("cpu") && runs("memory") && period_s("cpu") == 0.7);
    manager_suspend(manager, true);
    ask(0, NULL, 0);
    manager_suspend(manager, false);
    assert_true(!runs("cpu") && runs("memory"));
}

static void the_budget_slows_what_is_asked_for(void **state)
{
    static const char *const settings[] = {"defaults=false", "cpu.mode=on-request", "cpu.every=2s",
                                           "cpu.priority=9"};
    (void)state;
    configure(settings, sizeof settings / sizeof *settings);
    ask(0, "cpu", 700 * MS);
    assert_string_equal(manager_slow_one(manager), "cpu");
    assert_true(period_s("cpu") == 1.4);
    ask(0, "cpu", 1000 * MS);
    assert_true(period_s("cpu") == 2); /* still half as often */
    assert_string_equal(manager_hasten_one(manager), "cpu");
    assert_true(period_s("cpu") == 1);
}

static void a_reload_keeps_requests(void **state)
{
    static const char *const on[] = {"defaults=false", "cpu.mode=on-request", "cpu.every=9s"},
                             *const always[] = {"defaults=false", "cpu.mode=always", "cpu.every=9s"};
    (void)state;
    ask(0, "cpu", 700 * MS);
    configure(on, 3);
    assert_true(runs("cpu") && period_s("cpu") == 0.7);
    configure(always, 3);
    assert_true(runs("cpu") && period_s("cpu") == 9);
    configure(on, 3);
    ask(0, NULL, 0);
    assert_false(runs("cpu"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(runs_while_it_is_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_asks_most_often_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_more_often_than_configured, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_period_counts_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(suspended_ones_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_budget_slows_what_is_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reload_keeps_requests, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
