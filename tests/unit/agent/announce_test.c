/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's list of sensors: sent when it is granted a lease and when something is different, and not
 * otherwise. Real sensors in a real manager; the gateway is made of sockets. */
#include "unit/agent/fake_gateway.h"

#include "agent/announce.h"
#include "base/clock.h"
#include "net/sensors.h"

enum { LEASE = 30000, RENEW = 10000 };

struct world {
    struct fake_gateway g;
    struct event_base *base;
    struct sensor_env env;
    struct flow *flow;
    struct manager *manager;
    struct upstream *u;
    struct announce *announce;
    struct agent_config *config;
};

static void configure(struct world *w, const char *const *settings, size_t n)
{
    const struct config_flags flags = {.file = "/dev/null", .settings = settings, .n_settings = n};
    struct agent_config *old = w->config;
    struct diag why = {0};
    if (config_load(&flags, &w->config, &why) < 0)
        fail_msg("%s", why.message);
    manager_configure(w->manager, w->config);
    config_destroy(old);
}
#define configure_as(w, ...)                         \
    configure(w, (const char *const[]){__VA_ARGS__}, \
              sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void open_world(struct world *w)
{
    static const struct upstream_ops none;
    struct diag why = {0};
    *w = (struct world){.base = event_base_new()};
    fake_open(&w->g);
    env_init(&w->env, "");
    w->flow = flow_create("node7");
    w->manager = manager_create(w->base, &w->env, w->flow);
    w->announce = announce_create(w->manager);
    const struct upstream_options o = {
        .gateways = w->g.address, .host = "node7", .queue_max = 1 << 20, .ops = &none};
    if (upstream_create(&o, &w->u, &why) < 0)
        fail_msg("%s", why.message);
}

static void close_world(struct world *w)
{
    announce_destroy(w->announce);
    manager_destroy(w->manager);
    upstream_destroy(w->u);
    flow_destroy(w->flow);
    config_destroy(w->config);
    event_base_free(w->base);
    env_fini(&w->env);
    fake_close(&w->g);
}

/* As the agent's loop does. */
static void turn(struct world *w)
{
    (void)upstream_pump(w->u, clock_mono_ns());
    announce_look(w->announce, w->u);
    fake_pump(&w->g);
}

static void turn_until(struct world *w, uint8_t type, size_t count)
{
    int64_t until = clock_mono_ns() + 20 * NS_PER_S;
    while (fake_count(&w->g, type) < count) {
        assert_true(clock_mono_ns() < until);
        turn(w);
        (void)poll(NULL, 0, 1);
    }
}

static void grant(struct world *w)
{
    struct slice payload;
    struct frame_register r;
    struct strbuf out = {0};
    assert_true(fake_next(&w->g, FRAME_REGISTER, &payload));
    assert_int_equal(frame_get_register(payload, &r), 0);
    frame_put_lease(&out, 0,
                    &(struct frame_lease){.status = LEASE_GRANTED,
                                          .worker = 77,
                                          .lease_ms = LEASE,
                                          .renew_ms = RENEW,
                                          .t0_ns = r.t0_ns,
                                          .key = {"", 0},
                                          .text = {"", 0}});
    fake_send(&w->g, &out);
}

/* The next list, as "NAME:MODE:STATUS:EVERY ..." in out, and what the first of it says besides. */
static struct sensors_one next_list(struct world *w, char *out, size_t size)
{
    struct slice payload;
    struct frame_sensors list;
    struct sensors_one one, first = {.sensor = {"", 0}};
    size_t n = 0;
    assert_true(fake_next(&w->g, FRAME_SENSORS, &payload));
    assert_int_equal(frame_get_sensors(payload, &list), 0);
    assert_true(list.is_first && !list.has_more);
    out[0] = '\0';
    while (sensors_next(&list, &one)) {
        first = first.sensor.n ? first : one;
        n += (size_t)snprintf(out + n, size - n, "%.*s:%.*s:%.*s:%u ", SLICE_ARG(one.sensor),
                              SLICE_ARG(one.mode), SLICE_ARG(one.status), (unsigned)one.every_ms);
    }
    return first;
}

static void a_list_follows_a_lease(void **state)
{
    (void)state;
    struct world w;
    char text[512];
    open_world(&w);
    configure_as(&w, "defaults=false", "load.every=2s", "memory.mode=on-request", "cpu.mode=off");
    turn_until(&w, FRAME_REGISTER, 1);
    for (int i = 0; i < 20; i++)
        turn(&w);
    assert_int_equal(fake_count(&w.g, FRAME_SENSORS), 0); /* nobody has granted anything */
    grant(&w);
    turn_until(&w, FRAME_SENSORS, 1);
    struct sensors_one first = next_list(&w, text, sizeof text);
    assert_string_equal(text, "cpu:off:stopped:1000 load:always:running:2000 memory:on-request:idle:1000 ");
    assert_slice(first.events, "cpu,cpu.system");
    assert_int_equal(first.schemas.n, 16 + 1 + 16);
    assert_true(first.since_ns > 0 && first.since_ns <= clock_utc_ns());
    for (int i = 0; i < 50; i++)
        turn(&w);
    assert_int_equal(fake_count(&w.g, FRAME_SENSORS), 1); /* nothing is different */
    close_world(&w);
}

static void what_changes_is_said_once(void **state)
{
    (void)state;
    struct world w;
    char text[512];
    open_world(&w);
    configure_as(&w, "defaults=false", "load.every=2s");
    turn_until(&w, FRAME_REGISTER, 1);
    grant(&w);
    turn_until(&w, FRAME_SENSORS, 1);
    int64_t since_ns = next_list(&w, text, sizeof text).since_ns;

    manager_suspend(w.manager, true);
    manager_suspend(w.manager, false); /* both in one round */
    for (int i = 0; i < 20; i++)
        turn(&w);
    assert_int_equal(fake_count(&w.g, FRAME_SENSORS), 1); /* it is as it was */
    manager_suspend(w.manager, true);
    turn_until(&w, FRAME_SENSORS, 2);
    struct sensors_one one = next_list(&w, text, sizeof text);
    assert_string_equal(text, "load:always:suspended:2000 ");
    assert_true(one.since_ns > since_ns);
    manager_suspend(w.manager, false);
    turn_until(&w, FRAME_SENSORS, 3);
    (void)next_list(&w, text, sizeof text);
    assert_string_equal(text, "load:always:running:2000 ");

    assert_string_equal(manager_slow_one(w.manager), "load");
    turn_until(&w, FRAME_SENSORS, 4);
    (void)next_list(&w, text, sizeof text);
    assert_string_equal(text, "load:always:running:4000 ");
    configure_as(&w, "defaults=false", "load.mode=off", "users.every=5s");
    turn_until(&w, FRAME_SENSORS, 5);
    (void)next_list(&w, text, sizeof text);
    assert_non_null(strstr(text, "load:off:stopped:"));
    assert_non_null(strstr(text, "users:always:running:5000 "));
    for (int i = 0; i < 50; i++)
        turn(&w);
    assert_int_equal(fake_count(&w.g, FRAME_SENSORS), 5);
    close_world(&w);
}

static void a_failure_has_its_reason(void **state)
{
    (void)state;
    struct world w;
    char text[512];
    open_world(&w);
    configure_as(&w, "defaults=false", "exec.x.command=/nowhere/at-all", "exec.x.every=20ms");
    turn_until(&w, FRAME_REGISTER, 1);
    grant(&w);
    turn_until(&w, FRAME_SENSORS, 1);
    (void)next_list(&w, text, sizeof text);
    int64_t until = clock_mono_ns() + 20 * NS_PER_S;
    struct sensors_one one = {.why = {"", 0}};
    while (!strstr(text, "exec/x:always:failed:")) {
        assert_true(clock_mono_ns() < until);
        manager_run(w.manager, clock_mono_ns());
        turn(&w);
        if (fake_count(&w.g, FRAME_SENSORS) > 1 && !strstr(text, "failed"))
            one = next_list(&w, text, sizeof text);
        (void)poll(NULL, 0, 1);
    }
    assert_true(one.why.n > 0);
    close_world(&w);
}

/* Another connection has its own list, also if nothing changed; since when is as it was. */
static void a_new_registration_is_told_again(void **state)
{
    (void)state;
    struct world w;
    char text[512];
    open_world(&w);
    configure_as(&w, "defaults=false", "load.every=2s");
    turn_until(&w, FRAME_REGISTER, 1);
    grant(&w);
    turn_until(&w, FRAME_SENSORS, 1);
    int64_t since_ns = next_list(&w, text, sizeof text).since_ns;
    fake_hang_up(&w.g);
    fake_forget(&w.g);
    turn_until(&w, FRAME_REGISTER, 1);
    grant(&w);
    turn_until(&w, FRAME_SENSORS, 1);
    assert_true(next_list(&w, text, sizeof text).since_ns == since_ns);
    assert_string_equal(text, "load:always:running:2000 ");
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_follows_a_lease),
        cmocka_unit_test(what_changes_is_said_once),
        cmocka_unit_test(a_failure_has_its_reason),
        cmocka_unit_test(a_new_registration_is_told_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
