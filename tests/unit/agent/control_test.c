/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs, with real sensors in a real manager; the test is the rest of the agent. */
#include "unit/test.h"

#include "agent/control.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/child.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static struct event_base *base;
static struct sensor_env env;
static struct flow *flow;
static struct manager *manager;
static struct control *control;
static struct settings settings;
static struct agent_config *config;
static char dir[] = "/tmp/gridline-control.XXXXXX";
static unsigned suspended, resumed, killed, applied;
static char answers[8192]; /* "STATUS NAME=VALUE... | text\n" each */

/* ---------------------------------------------------------------- the rest of the agent */

static int load(void *arg, const struct settings *s, struct agent_config **out, struct diag *why)
{
    static const char *const own[] = {"defaults=false", "load.every=20ms", "vector.every=10s", "memory.mode=on-request",
                                      "exec.true.command=/bin/true", "exec.true.mode=off"};
    const struct config_flags flags = {.file = "/dev/null", .settings = own, .n_settings = sizeof own / sizeof *own};
    const struct config_layers layers = {
        .flags = &flags, .assigned = (const char *const *)s->v, .n_assigned = s->n};
    (void)arg;
    return config_load_layers(&layers, out, why);
}

static void apply(void *arg, struct agent_config *next, struct settings *s)
{
    struct agent_config *old = config;
    (void)arg;
    applied++;
    config = next;
    if (s != &settings) {
        settings_fini(&settings);
        settings = *s;
    }
    manager_configure(manager, config);
    config_destroy(old);
}

static void suspend(void *arg, bool is_suspended)
{
    (void)arg;
    suspended += is_suspended;
    resumed += !is_suspended;
    manager_suspend(manager, is_suspended);
}

static void end(void *arg)
{
    (void)arg;
    killed++;
}

static int make_run_dir(void *arg, struct diag *why)
{
    (void)arg, (void)why;
    return 0;
}

static int answer(void *arg, const struct frame_answer *a)
{
    struct args args = a->args;
    struct arg v;
    size_t n = strlen(answers);
    (void)arg;
    assert_int_equal(a->request, 5);
    n += (size_t)snprintf(answers + n, sizeof answers - n, "%u", a->status);
    while (args_next(&args, &v)) {
        if (v.value.type == VALUE_TEXT)
            n += (size_t)snprintf(answers + n, sizeof answers - n, " %.*s=%.*s", SLICE_ARG(v.name),
                                  SLICE_ARG(value_slice(v.value)));
        else
            n += (size_t)snprintf(answers + n, sizeof answers - n, " %.*s", SLICE_ARG(v.name));
    }
    (void)snprintf(answers + n, sizeof answers - n, " | %.*s\n", SLICE_ARG(a->text));
    return 0;
}

static const struct control_ops ops = {.load = load, .apply = apply, .suspend = suspend, .kill = end,
                                       .make_run_dir = make_run_dir, .answer = answer};

static int set_up(void **state)
{
    struct diag why = {0};
    struct agent_config *first;
    (void)state;
    suspended = resumed = killed = applied = 0;
    base = event_base_new();
    env_init(&env, "");
    flow = flow_create("node7");
    manager = manager_create(base, &env, flow);
    control = control_create(manager, &settings, dir, &ops, NULL);
    if (load(NULL, &settings, &first, &why) < 0)
        fail_msg("%s", why.message);
    apply(NULL, first, &settings);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    control_destroy(control);
    manager_destroy(manager);
    flow_destroy(flow);
    env_fini(&env);
    event_base_free(base);
    config_destroy(config);
    config = NULL;
    settings_fini(&settings);
    return 0;
}

/* name, value, ..., NULL. "!name" is a bool, "#name" a number. */
static const char *ask(const char *verb, const char *const *pairs)
{
    struct args_writer args = {0};
    for (; pairs && *pairs; pairs += 2) {
        if (pairs[0][0] == '!')
            args_add(&args, slice_str(pairs[0] + 1), value_bool(true));
        else if (pairs[0][0] == '#')
            args_add(&args, slice_str(pairs[0] + 1), value_float(strtod(pairs[1], NULL)));
        else
            args_add_text(&args, pairs[0], slice_str(pairs[1]));
    }
    answers[0] = '\0';
    control_ask(control, &(struct frame_control){.request = 5, .verb = slice_str(verb), .args = args_of(&args)});
    args_writer_fini(&args);
    return answers;
}
#define ASK(verb, ...) ask(verb, (const char *[]){__VA_ARGS__, NULL})

/* Rounds until a line with a last status is there. */
static const char *observe(void)
{
    for (int i = 0; i < 10000 && control_next_ns(control) != INT64_MAX; i++) {
        manager_run(manager, clock_mono_ns());
        if (control_next_ns(control) <= clock_mono_ns())
            control_look(control, clock_mono_ns());
        (void)poll(NULL, 0, 1);
    }
    return answers;
}

static void says(const char *all, const char *what)
{
    if (!strstr(all, what))
        fail_msg("'%s' is not in: %s", what, all);
}

static const struct sensor_config *sensor(const char *name)
{
    return config_sensor(config, sensor_find(slice_str(name)), (struct slice){"", 0});
}

static const struct sensor_config *program(void)
{
    return config_sensor(config, sensor_find(SLICE_LIT("exec")), SLICE_LIT("true"));
}

/* ---------------------------------------------------------------- tests */

static void test_suspend(void **state)
{
    struct manager_stats s;
    (void)state;
    says(ask("worker.suspend", NULL), "0 | suspended\n");
    manager_stats(manager, &s);
    assert_int_equal(s.running, 0);
    assert_true(manager_next_ns(manager) == INT64_MAX);
    says(ask("worker.suspend", NULL), "0 | was suspended\n");
    assert_int_equal(suspended, 1);
    says(ask("worker.resume", NULL), "0 | resumed\n");
    manager_stats(manager, &s);
    assert_int_equal(s.running, 2);
}

static void test_kill(void **state)
{
    (void)state;
    says(ask("worker.kill", NULL), "0 | ends\n");
    assert_int_equal(killed, 1);
}

static void test_set(void **state)
{
    (void)state;
    says(ASK("worker.set", "set.load.every", "2s", "set.vector.change", "cpu_idle 5"), "0 | set\n");
    assert_int_equal(sensor("load")->every_ns, 2 * NS_PER_S);
    assert_int_equal(sensor("vector")->n_changes, 1);
    says(ASK("worker.set", "set.load.every", ""), "0 | set\n");
    assert_int_equal(sensor("load")->every_ns, NS_PER_S / 50);
    assert_int_equal(sensor("vector")->n_changes, 1);
    says(ASK("worker.set", "set.load.every", "3s", "!dry_run", ""), "would be set");
    assert_int_equal(sensor("load")->every_ns, NS_PER_S / 50);
}

static void test_what_may_not_be_set(void **state)
{
    unsigned before = applied;
    (void)state;
    says(ASK("worker.set", "set.gateway", "tcp://x:1"), "5 | gateway is not a sensor's key\n");
    says(ASK("worker.set", "set.exec.x.command", "/bin/sh"), "5 | exec.x.command: a gateway sets every,");
    says(ASK("worker.set", "set.output.x.path", "/etc/passwd"), "5 | output.x.path is not a sensor's key");
    says(ASK("worker.set", "set.exec.x.every", "1s"), "2 | exec.x.every: no such sensor is configured here\n");
    says(ASK("worker.set", "set.disk.every", "1s"), "2 | disk.every: no such sensor is configured here\n");
    says(ASK("worker.set", "set.load.every", "1ms"), "out of range");
    says(ASK("worker.set", "set.load.every", "1s", "set.load.mode", "sometimes"), "none of always|on-request|port|off");
    assert_int_equal(applied, before);
    assert_int_equal(settings.n, 0);
}

static void test_start_tells_costs(void **state)
{
    (void)state;
    says(ASK("sensor.start", "sensor", "disk", "set.every", "30ms"), "65535 sensor=disk cost_predicted | starts: predicted ");
    assert_int_equal(sensor("disk")->every_ns, 30 * NS_PER_S / 1000);
    says(observe(), "\n0 sensor=disk cost_predicted cost_observed | predicted ");
    says(ASK("sensor.stop", "sensor", "disk"), "0 | disk stopped\n");
    assert_int_equal(sensor("disk")->mode, MODE_OFF);
    says(ASK("sensor.stop", "sensor", "disk"), "0 | disk was not running\n");
}

static void test_ceiling(void **state)
{
    unsigned before = applied;
    (void)state;
    says(ASK("sensor.start", "sensor", "disk", "set.every", "10ms", "#ceiling", "0.001"),
         "1 sensor=disk cost_predicted | refused: predicted ");
    says(answers, "above the ceiling of 0.0 us/s\n");
    says(ASK("sensor.start", "sensor", "disk", "#ceiling", "1000000", "!dry_run", ""),
         "0 sensor=disk cost_predicted | not changed: predicted ");
    assert_int_equal(applied, before);
    assert_null(sensor("disk"));
    assert_int_equal(settings.n, 0);
}

/* A program is not run to see what it costs: the ceiling holds for what is observed, and what was set is taken back. */
static void test_observed_above_the_ceiling(void **state)
{
    (void)state;
    says(ASK("sensor.set", "sensor", "exec.true", "set.every", "3s"), "0 | ");
    assert_int_equal(program()->mode, MODE_OFF);
    says(ASK("sensor.start", "sensor", "exec/true", "set.every", "50ms", "#ceiling", "0.001"),
         "65535 sensor=exec/true | starts: predicted not known\n");
    assert_int_equal(program()->mode, MODE_ALWAYS);
    says(observe(), "\n1 sensor=exec/true cost_observed | taken back: observed ");
    says(answers, "above the ceiling of 0.0 us/s\n");
    assert_int_equal(program()->mode, MODE_OFF);
    assert_int_equal(program()->every_ns, 3 * NS_PER_S);
    (void)child_settle(CHILD_GRACE);
}

static void test_list(void **state)
{
    (void)state;
    says(ask("sensor.list", NULL), "65535 sensor=load mode=always state=running every runs rows");
    says(answers, "65535 sensor=memory mode=on-request state=idle every runs rows cost_predicted cost_observed | \n");
    says(answers, "0 | 4 sensors\n");
    says(ASK("sensor.list", "sensor", "v*"), "sensor=vector");
    assert_null(strstr(answers, "sensor=load"));
    says(ASK("sensor.list", "sensor", "nothing"), "3 | ");
}

static void test_unknown(void **state)
{
    (void)state;
    says(ask("worker.dance", NULL), "2 | no verb \"worker.dance\"\n");
    says(ASK("sensor.start", "sensor", "gateway"), "3 | no sensor \"gateway\"");
    says(ask("sensor.start", NULL), "3 | no sensor \"\"");
    says(ASK("sensor.start", "sensor", "exec.x"), "exec needs the option `command`");
    says(ASK("sensor.set", "sensor", "disk", "set.every", "1s"), "2 | disk.every: no such sensor is configured here");
}

static struct args_writer bad_keys;
static void on_bad(void *arg, struct slice key, const char *why)
{
    (void)arg;
    assert_true(why[0]);
    args_add(&bad_keys, key, value_bool(true));
}

static void assign(const char *const *pairs)
{
    struct args_writer args = {0};
    for (; *pairs; pairs += 2)
        args_add_text(&args, pairs[0], slice_str(pairs[1]));
    args_writer_reset(&bad_keys);
    control_assign(control, args_of(&args), on_bad, NULL);
    args_writer_fini(&args);
}

static void test_assigned(void **state)
{
    (void)state;
    assign((const char *[]){"load.every", "2s", "vector.every", "3s", NULL});
    assert_int_equal(bad_keys.n, 0);
    assert_int_equal(sensor("load")->every_ns, 2 * NS_PER_S);
    assign((const char *[]){"load.every", "4s", "load.refresh", "1s", "gateway", "x:1", "disk.every", "1s",
                            "vector.priority", "7", NULL});
    assert_int_equal(bad_keys.n, 3); /* a refresh below every, an address, a sensor that is not there */
    assert_true(args_value(args_of(&bad_keys), "load.refresh").type == VALUE_BOOL);
    assert_int_equal(sensor("load")->every_ns, 4 * NS_PER_S);
    assert_int_equal(sensor("vector")->every_ns, 10 * NS_PER_S); /* not assigned any more */
    assert_int_equal(sensor("vector")->priority, 7);
    assign((const char *[]){"load.mode", "port", "load.ports", "2811, 5001", NULL}); /* as the viewer's port monitor */
    assert_int_equal(bad_keys.n, 0);
    assert_int_equal(sensor("load")->n_ports, 2);
    assert_int_equal(sensor("load")->ports[0], 2811);
    assign((const char *[]){NULL});
    assert_int_equal(settings.n, 0);
    assert_int_equal(sensor("load")->every_ns, NS_PER_S / 50);
    args_writer_fini(&bad_keys);
}

static void read_file(char *to, size_t size)
{
    char path[100];
    (void)snprintf(path, sizeof path, "%s/activate", dir);
    FILE *f = fopen(path, "r");
    to[0] = '\0';
    if (!f)
        return;
    to[fread(to, 1, size - 1, f)] = '\0';
    (void)fclose(f);
}

static void test_activate(void **state)
{
    char text[1000];
    (void)state;
    says(ASK("activate", "pattern", "job.*", "level", "debug", "!dry_run", ""), "0 ns_an_event | not changed");
    read_file(text, sizeof text);
    assert_string_equal(text, "");
    says(ASK("activate", "pattern", "job.*", "level", "debug", "#ceiling", "5"), "1 ns_an_event | refused: the cost is not known");
    says(ASK("activate", "pattern", "job.*", "level", "debug"), "0 ns_an_event | ");
    says(ASK("activate", "pattern", "net.*", "level", "off"), "0 ");
    read_file(text, sizeof text);
    says(text, "\njob.* debug\nnet.* off\n");
    says(ASK("activate", "pattern", "job.*", "level", "info"), "0 ");
    read_file(text, sizeof text);
    says(text, "\nnet.* off\njob.* info\n");
    says(ASK("activate", "pattern", "net.*", "level", "default"), "0 ");
    read_file(text, sizeof text);
    assert_null(strstr(text, "net"));
    says(ASK("activate", "pattern", "a b", "level", "info"), "2 ns_an_event | pattern: ");
    says(ASK("activate", "pattern", "a", "level", "loud"), "2 ns_an_event | level: \"loud\" is none");
    control_destroy(control); /* takes it with it */
    control = control_create(manager, &settings, dir, &ops, NULL);
    read_file(text, sizeof text);
    assert_string_equal(text, "");
}

/* Nobody waits for an answer of a connection that is gone. */
static void test_forget(void **state)
{
    (void)state;
    (void)ASK("sensor.start", "sensor", "disk");
    assert_true(control_next_ns(control) != INT64_MAX);
    control_forget(control);
    assert_true(control_next_ns(control) == INT64_MAX);
    assert_non_null(sensor("disk"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_suspend, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_kill, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_set, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_may_not_be_set, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_start_tells_costs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ceiling, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_observed_above_the_ceiling, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_list, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unknown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_assigned, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_activate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forget, set_up, tear_down),
    };
    if (!mkdtemp(dir))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return rmdir(dir) < 0 ? 1 : failed;
}
