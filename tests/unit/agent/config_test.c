/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "unit/agent/config_sensors.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---------------------------------------------------------------- a folder, and loading from it */

static char folder[64];
static struct agent_config *config;
static struct diag why;
static struct strbuf problems; /* all that were told, a line each */

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st, (void)flag, (void)at; /* whatever it is */
    return remove(path);
}

static void forget(void)
{
    config_destroy(config);
    config = NULL;
    strbuf_reset(&problems);
    strbuf_add_str(&problems, "");
    why = (struct diag){0};
}

static int set_up(void **unused)
{
    (void)unused;
    memcpy(folder, "/tmp/gridline-config.XXXXXX", 28);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(mkdir("agent.d", 0700), 0);
    assert_int_equal(setenv("HOME", "/home/one", 1), 0);
    unsetenv("XDG_STATE_HOME");
    unsetenv("XDG_RUNTIME_DIR");
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    forget();
    strbuf_fini(&problems);
    return chdir("/") == 0 && nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : -1;
}

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

static void take_problem(void *arg, const char *message)
{
    (void)arg; /* there is one list */
    strbuf_printf(&problems, "%s\n", message);
}

/* settings end with NULL. */
static int load_with(const char *text, const char *const *settings)
{
    struct config_flags flags = {.file = "agent.conf", .settings = settings, .on_problem = take_problem};
    while (settings && settings[flags.n_settings])
        flags.n_settings++;
    forget();
    write_file("agent.conf", text);
    return config_load(&flags, &config, &why);
}

static void loads_with(const char *text, const char *const *settings)
{
    if (load_with(text, settings) < 0)
        fail_msg("'%s': %s", text, why.message);
}

static void loads(const char *text)
{
    loads_with(text, NULL);
}

static void refuses_with(const char *text, const char *const *settings, const char *says)
{
    assert_int_equal(load_with(text, settings), -EINVAL);
    assert_null(config);
    if (strcmp(why.message, says) != 0)
        fail_msg("'%s' says '%s', not '%s'", text, why.message, says);
}

static void refuses(const char *text, const char *says)
{
    refuses_with(text, NULL, says);
}

static const struct sensor_config *find(const char *sensor, const char *name)
{
    for (size_t i = 0; i < config->n_sensors; i++)
        if (strcmp(config->sensors[i].ops->name, sensor) == 0 && strcmp(config->sensors[i].name, name) == 0)
            return &config->sensors[i];
    fail_msg("no %s %s", sensor, name);
    return NULL;
}

static const struct parameter_setting *setting(const struct sensor_config *s, const char *name)
{
    for (size_t i = 0; i < s->n_settings; i++)
        if (strcmp(s->settings[i].name, name) == 0)
            return &s->settings[i];
    return NULL;
}

static void came_from(const struct config_entry *given, size_t n, const char *key, const char *where,
                      unsigned line)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(given[i].setting.name, key) != 0)
            continue;
        assert_string_equal(given[i].from.where, where);
        assert_int_equal(given[i].from.line, line);
        return;
    }
    fail_msg("%s was not given", key);
}

/* ---------------------------------------------------------------- values */

static void test_defaults(void **unused)
{
    (void)unused;
    loads("");
    assert_null(config->host);
    assert_string_equal(config->gateways, "");
    assert_true(!config->is_guest && config->spool_samples);
    assert_true(config->runs_defaults);
    assert_int_equal(config->spool_max, 64 << 20);
    assert_int_equal(config->queue_max, 1 << 20);
    assert_int_equal(config->budget_memory, 16 << 20);
    assert_true(config->budget_cpu == 0.01);
    assert_int_equal(config->config_every_ns, 300 * NS_PER_S);
    assert_null(config->config_url);
    assert_null(config->config_ca);
    assert_int_equal(config->allow_programs.n + config->n_outputs + config->n_given, 0);
    assert_int_equal(config->n_sensors, 2);
    const struct sensor_config *alpha = find("alpha", "alpha");
    assert_null(alpha->from.where);
    assert_int_equal(alpha->mode, MODE_ALWAYS);
    assert_int_equal(alpha->every_ns, NS_PER_S);
    assert_int_equal(alpha->refresh_ns, 60 * NS_PER_S);
    assert_int_equal(alpha->hold_ns, 10 * NS_PER_S);
    assert_int_equal(alpha->priority, 2);
    assert_int_equal(alpha->n_changes + alpha->n_ports, 0);
    assert_false(alpha->compares_previous);
    assert_int_equal(alpha->n_settings, 3);
    assert_int_equal(setting(alpha, "names")->n, 2);
    assert_string_equal(setting(alpha, "names")->texts[1], "lo");
    assert_int_equal(find("beat", "beat")->priority, 5);
}

static void test_own_keys(void **unused)
{
    (void)unused;
    loads("hostname = node7\n"
          "gateway = {\"tcp://127.0.0.1:14830\", \"unix:/run/g.sock\", \"tls://node1:99\"} "
          "gateway_names = {gw1, gw2} identity = \"/id\" insecure_control = yes lease = 5s newest_first = no\n"
          "state_dir = \"/s\" run_dir = /r socket = \"\" # none\n"
          "spool_max = 2GiB queue_max = 128KiB spool_samples = yes\n"
          "budget { cpu = 0.5% memory = 1MiB }\n"
          "config_url = \"https://h/agent.conf\" config_every = 30s config_ca = \"/etc/ca.pem\"\n"
          "allow_programs = {\"/bin/a\", \"/bin/b\"}\n"
          "output copy { path = \"-\" encoding = ndjson }\n"
          "output other { path = \"out.ulm\" }\n");
    assert_string_equal(config->host, "node7");
    assert_string_equal(config->gateways, "tcp://127.0.0.1:14830,unix:/run/g.sock,tls://node1:99");
    assert_string_equal(config->gateway_names, "gw1,gw2");
    assert_string_equal(config->identity, "/id");
    assert_true(config->takes_insecure_control && !config->is_insecure && !config->newest_first);
    assert_int_equal(config->lease_ns, 5 * INT64_C(1000000000));
    assert_string_equal(config->state_dir, "/s");
    assert_string_equal(config->run_dir, "/r");
    assert_string_equal(config->socket, "");
    assert_true(config->spool_max == UINT64_C(2) << 30);
    assert_int_equal(config->queue_max, 128 << 10);
    assert_true(config->spool_samples);
    assert_true(config->budget_cpu == 0.005);
    assert_string_equal(config->config_url, "https://h/agent.conf");
    assert_int_equal(config->config_every_ns, 30 * NS_PER_S);
    assert_string_equal(config->config_ca, "/etc/ca.pem");
    assert_int_equal(config->allow_programs.n, 2);
    assert_string_equal(config->allow_programs.v[1], "/bin/b");
    assert_int_equal(config->n_outputs, 2);
    assert_string_equal(config->outputs[0].name, "copy");
    assert_string_equal(config->outputs[0].encoding, "ndjson");
    assert_string_equal(config->outputs[1].path, "out.ulm");
    assert_string_equal(config->outputs[1].encoding, "ulm");
    came_from(config->given, config->n_given, "budget.cpu", "agent.conf", 5);
}

static void test_sensor_keys(void **unused)
{
    (void)unused;
    loads("alpha {\n"
          "  every = 250ms refresh = 5m compare = previous priority = 9\n"
          "  change = {\"user 5\", \"idle 10%\", \"* 0.5\"}\n"
          "  per_core = off\n"
          "  names = {}\n"
          "}\n"
          "run disk { command = {\"/bin/check\", \"-w\", \"10%\"} }\n"
          "beta { mode = port ports = {5001, 2811} hold = 3s text = \"\" }\n");
    const struct sensor_config *s = find("alpha", "alpha");
    assert_int_equal(s->every_ns, NS_PER_S / 4);
    assert_int_equal(s->refresh_ns, 300 * NS_PER_S);
    assert_true(s->compares_previous);
    assert_int_equal(s->priority, 9);
    assert_int_equal(s->n_changes, 3);
    assert_string_equal(s->changes[1].field, "idle");
    assert_true(s->changes[1].is_percent && s->changes[1].limit == 10 && !s->changes[2].is_percent);
    assert_int_equal(setting(s, "names")->n, 0);
    assert_string_equal(setting(s, "per_core")->texts[0], "off");
    assert_int_equal(s->from.line, 2);
    came_from(s->given, s->n_given, "names", "agent.conf",
              6); /* an empty list has no line but its section's end */
    s = find("run", "disk");
    assert_int_equal(s->from.line, 7);
    assert_int_equal(setting(s, "command")->n, 3);
    assert_string_equal(setting(s, "format")->texts[0], "ulm");
    assert_null(setting(s, "shell"));
    s = find("beta", "beta");
    assert_int_equal(s->mode, MODE_PORT);
    assert_int_equal(s->n_ports, 2);
    assert_int_equal(s->ports[1], 2811);
    assert_int_equal(s->hold_ns, 3 * NS_PER_S);
    assert_int_equal(setting(s, "ports")->n, 2); /* the sensor's own option of that name has it, too */
    assert_string_equal(setting(s, "text")->texts[0], "");
    assert_null(setting(s, "size"));
    /* list.def's order, whatever the file's */
    assert_ptr_equal(config->sensors[1].ops, &sensor_beta);
    assert_ptr_equal(config->sensors[2].ops, &sensor_run);
}

static void test_refresh_grows_with_every(void **unused)
{
    (void)unused;
    loads("alpha { every = 5m } beta { }");
    assert_int_equal(find("alpha", "alpha")->refresh_ns, 300 * NS_PER_S);
    assert_int_equal(find("beta", "beta")->refresh_ns, 300 * NS_PER_S);
    refuses("alpha {\nevery = 5m\nrefresh = 1m }", "agent.conf:3: alpha: refresh is less than every; a "
                                                   "sample can't be sent more often than it is taken");
}

static void test_which_sensors_run(void **unused)
{
    (void)unused;
    loads("alpha { mode = off }");
    assert_int_equal(config->n_sensors, 2);
    assert_int_equal(find("alpha", "alpha")->mode, MODE_OFF);
    loads("defaults = false");
    assert_int_equal(config->n_sensors, 0);
    loads("defaults = no beta { mode = on-request }");
    assert_int_equal(config->n_sensors, 1);
    assert_int_equal(find("beta", "beta")->mode, MODE_ON_REQUEST);
    loads("run b { command = {/b} } run a { command = /a }");
    assert_int_equal(config->n_sensors, 4);
    assert_string_equal(config->sensors[1].name, "b"); /* as named */
    assert_string_equal(config->sensors[2].name, "a");
}

/* ---------------------------------------------------------------- messages */

static void test_refusals_name_line_and_remedy(void **unused)
{
    (void)unused;
    refuses("# comment\n/* and\n another */\nalpha { # here\n every = 1x }",
            "agent.conf:5: alpha.every: \"1x\" is not a duration; write 10s, 5m, 250ms");
    refuses("\nalpha { evry = 1s }", "agent.conf:2: alpha: no key \"evry\"; did you mean every?");
    refuses("alfa { }", "agent.conf:1: no key or sensor \"alfa\"; did you mean alpha?");
    refuses("hostnam = x", "agent.conf:1: no key or sensor \"hostnam\"; did you mean hostname?");
    refuses("budget { cpuu = 1% }", "agent.conf:1: budget: no key \"cpuu\"; did you mean cpu?");
    refuses("output a { pth = x }", "agent.conf:1: output: no key \"pth\"; did you mean path?");
    refuses("zzzzzzzz = 1",
            "agent.conf:1: no key or sensor \"zzzzzzzz\"; `gridline config explain` lists them");
    refuses("alpha { every = 1ms }",
            "agent.conf:1: alpha.every: \"1ms\" is out of range; it can be 10ms to 366d");
    refuses("budget { cpu = 0.001% }",
            "agent.conf:1: budget.cpu: \"0.001%\" is out of range; it can be 0.01% to 100%");
    refuses("budget { cpu = 101% }",
            "agent.conf:1: budget.cpu: \"101%\" is out of range; it can be 0.01% to 100%");
    refuses("budget { cpu = 1 }", "agent.conf:1: budget.cpu: \"1\" is not a percentage; write 1%, 0.5%");
    refuses("budget { cpu = NaN% }",
            "agent.conf:1: budget.cpu: \"NaN%\" is not a percentage; write 1%, 0.5%");
    refuses("spool_max = many", "agent.conf:1: spool_max: \"many\" is not a size; write 64KiB");
    refuses("guest = perhaps", "agent.conf:1: guest: \"perhaps\" is not a flag; write true or false");
    refuses("alpha { priority = 10 }",
            "agent.conf:1: alpha.priority: \"10\" is out of range; it can be 0 to 9");
    refuses("alpha { priority = -1 }", "agent.conf:1: alpha.priority: \"-1\" is not a number; write 5");
    refuses("alpha { mode = allways }",
            "agent.conf:1: alpha.mode: \"allways\" is none of always|on-request|port|off");
    refuses("alpha { mode = port }",
            "agent.conf:1: alpha: mode = port needs ports; write ports = {5001, 2811}");
    refuses("alpha { ports = {1, 65536} }",
            "agent.conf:1: alpha.ports: \"65536\" is not a port; a port is a number from 1 to 65535");
    refuses("alpha { change = {\"usr 5\"} }",
            "agent.conf:1: alpha.change: alpha has no field \"usr\"; did you mean user?");
    refuses(
        "alpha { change = {\"core 5\"} }",
        "agent.conf:1: alpha.change: alpha has no field \"core\"; `gridline sense --list alpha` shows them");
    refuses("alpha { change = {user} }",
            "agent.conf:1: alpha.change: \"user\" is not a limit; write \"FIELD 5\" or \"FIELD 10%\"");
    refuses("alpha { change = {\"user -1\"} }", "agent.conf:1: alpha.change: \"-1\" is not a limit; write a "
                                                "number that is not negative, or one and %");
    refuses("alpha { change = {\"user 1\", \"user 2\"} }",
            "agent.conf:1: alpha.change: user has two limits; leave one");
    refuses("run a { }", "agent.conf:1: run.a: run needs the option `command`: for tests");
    refuses("run \"a b\" { }",
            "agent.conf:1: run: \"a b\" is not a name; a name has letters, digits and . _ : -");
    refuses("beta { number = x }", "agent.conf:1: beta.number: \"x\" is not a number; write 10");
    refuses("gateway = {nowhere}",
            "agent.conf:1: gateway: \"nowhere\" is not an address; write tls://HOST:PORT, tcp://HOST:PORT or unix:PATH");
    refuses("gateway = {\"tcp://[::1]:1\", \"tcp://node2:5\"}",
            "agent.conf:1: gateway: \"tcp://node2:5\" is another host, without TLS; write tls://node2:5 after `gridline "
            "join`, or set insecure = true");
    refuses("gateway_names = {\"a b\"}",
            "agent.conf:1: gateway_names: \"a b\" is not a name; a name has letters, digits and . _ : -");
    refuses("state_dir = here",
            "agent.conf:1: state_dir: \"here\" is not a path from the root; begin with /");
    refuses("config_url = \"ftp://x\"", "agent.conf:1: config_url: \"ftp://x\" is not an address; write "
                                        "http://HOST/PATH or https://HOST/PATH");
    refuses("allow_programs = {\"/bin/../x\"}", "agent.conf:1: allow_programs: \"/bin/../x\" is not a path "
                                                "from the root without ..; write /usr/bin/NAME");
    refuses("output a { }", "agent.conf:1: output.a.path: it is missing: file that gets a copy of every "
                            "event; `-`: standard output");
    refuses("output a { path = \"-\" encoding = csv }",
            "agent.conf:1: output.a.encoding: \"csv\" is none of ulm|bp|ndjson|xml|binary");
}

static void test_nothing_is_taken_silently(void **unused)
{
    (void)unused;
    refuses("hostname = a\nhostname = b", "agent.conf:2: hostname: is there twice, first on line 1; leave one");
    refuses("alpha { ports = {1}\nports = {2} }",
            "agent.conf:2: ports: is there twice, first on line 1; leave one");
    refuses("alpha { every = 1s }\nalpha { every = 2s }",
            "agent.conf:2: alpha: is there twice in this file; make one section of both");
    refuses("run a { command = /a }\nrun a { command = /b }",
            "agent.conf:2: a is there twice in this file; make one section of both");
    refuses("alpha { every = 1s\n", "agent.conf:1: this { is not closed; write } behind the last key");
    refuses("alpha { every = 1s }\n\"alpha|every\" = 2s",
            "agent.conf:2: every: write the key inside its section");
    refuses("\"alpha|every\" = 2s", "agent.conf:1: no section alpha yet; write the key inside it");
    refuses("\"\" = 1", "agent.conf:1: malformed; write KEY = VALUE or SENSOR { ... }");
    refuses("alpha x { }", "agent.conf:1: { is missing behind alpha, which has no name of its own");
    refuses("run { }", "agent.conf:1: run needs a name of its own; write it before the {");
    refuses("hostname node7", "agent.conf:1: = is missing behind hostname; write KEY = VALUE");
    refuses("alpha { every = {1s, 2s} }", "agent.conf:1: alpha: unexpected \"{\"; write KEY = VALUE, KEY = "
                                          "{VALUE, VALUE} for a list, SENSOR { ... } "
                                          "for a section");
    refuses("include(\"/etc/passwd\")",
            "agent.conf:1: unexpected (; a text with such characters is written in quotes");
    refuses("hostname = \"\\xff\"", "agent.conf:1: hostname: this is not UTF-8");
    /* libconfuse's scanner keeps its state over a failed parse; ours does not let it come to that. */
    loads("hostname = \"good\"");
    assert_string_equal(config->host, "good");
}

static void test_every_section_tells_its_problem(void **unused)
{
    struct strbuf text = {0};
    (void)unused;
    refuses("alpha { every = 1x priority = 12 }\nbeta { hold = 1y }\nrun a { }\nhostname = \"a b\"",
            "agent.conf:4: hostname: \"a b\" is not the name of a host; it has at most 255 bytes and no blanks");
    assert_non_null(strstr(problems.p, "\nagent.conf:1: alpha.every: "));
    assert_non_null(strstr(problems.p, "\nagent.conf:1: alpha.priority: "));
    assert_non_null(strstr(problems.p, "\nagent.conf:2: beta.hold: "));
    assert_non_null(strstr(problems.p, "\nagent.conf:3: run.a: run needs"));
    for (int i = 0; i < 30; i++)
        strbuf_printf(&text, "run r%d { }\n", i);
    assert_int_equal(load_with(text.p, NULL), -EINVAL);
    size_t lines = 0;
    for (const char *p = problems.p; *p; p++)
        lines += *p == '\n';
    assert_int_equal(lines, CONFIG_PROBLEMS_MAX);
    strbuf_fini(&text);
}

/* ---------------------------------------------------------------- where values come from */

static void test_dropins_environment_flags(void **unused)
{
    (void)unused;
    write_file("agent.d/20-b.conf", "hostname = third\nrun x { format = bp }\n");
    write_file("agent.d/10-a.conf", "hostname = second alpha { every = 3s }\noutput o { path = \"/b\" }");
    write_file("agent.d/.hidden.conf", "hostname = hidden");
    write_file("agent.d/other.txt", "hostname = other");
    setenv("GRIDLINE_AGENT_BUDGET_CPU", "2%", 1);
    setenv("GRIDLINE_AGENT_ALPHA_REFRESH", "30s", 1);
    setenv("GRIDLINE_AGENT_RUN_X_HOLD", "7s", 1);
    setenv("GRIDLINE_AGENT_QUEUE_MAX", "2MiB", 1);
    loads_with("hostname = first\nalpha { every = 2s priority = 1 }\nrun x { command = {\"/bin/x\"} }\noutput o "
               "{ path = "
               "\"/a\" encoding = bp }",
               (const char *[]){"queue_max=3MiB", "beta.every=7s", "gateway=localhost:1, 127.9.9.9:2",
                                "run.y.command=/bin/y,-v", "queue_max=4MiB", "alpha.names=", NULL});
    unsetenv("GRIDLINE_AGENT_BUDGET_CPU");
    unsetenv("GRIDLINE_AGENT_ALPHA_REFRESH");
    unsetenv("GRIDLINE_AGENT_RUN_X_HOLD");
    unsetenv("GRIDLINE_AGENT_QUEUE_MAX");
    assert_string_equal(config->host, "third");
    came_from(config->given, config->n_given, "hostname", "agent.d/20-b.conf", 1);
    came_from(config->given, config->n_given, "budget.cpu", "environment GRIDLINE_AGENT_BUDGET_CPU", 0);
    came_from(config->given, config->n_given, "queue_max", "flag -s queue_max", 0);
    assert_int_equal(config->queue_max, 4 << 20);
    assert_string_equal(config->gateways, "localhost:1,127.9.9.9:2");
    assert_true(config->budget_cpu == 0.02);
    const struct sensor_config *s = find("alpha", "alpha"); /* key by key */
    assert_int_equal(s->every_ns, 3 * NS_PER_S);
    assert_int_equal(s->refresh_ns, 30 * NS_PER_S);
    assert_int_equal(s->priority, 1);
    assert_int_equal(setting(s, "names")->n, 0);
    came_from(s->given, s->n_given, "every", "agent.d/10-a.conf", 1);
    came_from(s->given, s->n_given, "priority", "agent.conf", 2);
    assert_string_equal(s->from.where, "agent.conf");
    s = find("run", "x");
    assert_int_equal(s->hold_ns, 7 * NS_PER_S);
    assert_string_equal(setting(s, "format")->texts[0], "bp");
    assert_string_equal(setting(s, "command")->texts[0], "/bin/x");
    assert_string_equal(setting(find("run", "y"), "command")->texts[1], "-v");
    assert_int_equal(find("beta", "beta")->every_ns, 7 * NS_PER_S);
    assert_string_equal(config->outputs[0].path, "/b");
    assert_string_equal(config->outputs[0].encoding, "bp");
    unlink("agent.d/20-b.conf");
    unlink("agent.d/10-a.conf");
    unlink("agent.d/.hidden.conf");
    unlink("agent.d/other.txt");
}

static void test_sensor_with_a_dot_in_its_name(void **unused)
{
    (void)unused;
    setenv("GRIDLINE_AGENT_ALPHA_FAR_PRIORITY", "3", 1);
    loads_with("alpha.far { every = 2m }", (const char *[]){"alpha.far.hold=7s", "run.a.b.command=/x", NULL});
    unsetenv("GRIDLINE_AGENT_ALPHA_FAR_PRIORITY");
    const struct sensor_config *s = find("alpha.far", "alpha.far");
    assert_int_equal(s->every_ns, 120 * NS_PER_S);
    assert_int_equal(s->hold_ns, 7 * NS_PER_S);
    assert_int_equal(s->priority, 3);
    assert_string_equal(setting(find("run", "a.b"), "command")->texts[0], "/x");
    refuses_with("", (const char *[]){"run.command=/x", NULL},
                 "flag -s run.command: a name is missing; write -s run.NAME.command=VALUE");
}

static void test_bad_flags_and_environment(void **unused)
{
    (void)unused;
    refuses_with("", (const char *[]){"alpha.evry=1s", NULL},
                 "flag -s alpha.evry: there is no such key; did you mean alpha.every?");
    refuses_with("", (const char *[]){"hostname", NULL}, "flag -s hostname: = is missing; write -s KEY=VALUE");
    refuses_with("", (const char *[]){"nothing.like.this=1", NULL},
                 "flag -s nothing.like.this: there is no such key; `gridline config explain` lists them");
    refuses_with("", (const char *[]){"alpha.x.every=1s", NULL},
                 "flag -s alpha.x.every: there is no such key; did you mean alpha.every?");
    refuses_with("", (const char *[]){"alpha.every=1x", NULL},
                 "flag -s alpha.every: alpha.every: \"1x\" is not a duration; write 10s, 5m, 250ms");
    refuses_with("", (const char *[]){"hostname=\xff", NULL},
                 "flag -s hostname: this is not UTF-8, or more than 4096 bytes");
    setenv("GRIDLINE_AGENT_BUDGET_CUP", "1%", 1);
    refuses("", "environment GRIDLINE_AGENT_BUDGET_CUP: there is no such key; did you mean "
                "GRIDLINE_AGENT_BUDGET_CPU?");
    unsetenv("GRIDLINE_AGENT_BUDGET_CUP");
}

static void test_files_that_cant_be_read(void **unused)
{
    struct config_flags flags = {.file = "nothing.conf", .on_problem = take_problem};
    (void)unused;
    forget();
    assert_int_equal(config_load(&flags, &config, &why), -ENOENT);
    assert_string_equal(why.message, "nothing.conf: can't read it: No such file or directory");
    flags.file = "agent.d";
    assert_int_equal(config_load(&flags, &config, &why), -EISDIR);
    assert_int_equal(mkfifo("agent.d/pipe.conf", 0600), 0); /* must not wait for a writer */
    refuses("", "agent.d/pipe.conf: can't read it: not a plain file");
    unlink("agent.d/pipe.conf");
    assert_int_equal(symlink("/nowhere", "agent.d/gone.conf"), 0);
    assert_int_equal(load_with("", NULL), -ENOENT);
    unlink("agent.d/gone.conf");
}

static void test_limits(void **unused)
{
    struct strbuf text = {0};
    (void)unused;
    for (int i = 0; i < CONFIG_SECTIONS_MAX; i++)
        strbuf_printf(&text, "run r%d { command = /a }\n", i);
    loads(text.p);
    assert_int_equal(config->n_sensors, CONFIG_SECTIONS_MAX + 2);
    refuses_with(text.p, (const char *[]){"run.more.command=/b", NULL},
                 "flag -s run.more.command: more than 1024 sections");
    strbuf_reset(&text);
    strbuf_add_str(&text, "alpha { names = {0");
    for (int i = 1; i < CONFIG_LIST_MAX; i++)
        strbuf_printf(&text, ", %d", i);
    size_t length = text.n;
    strbuf_add_str(&text, "} }");
    loads(text.p);
    assert_int_equal(setting(find("alpha", "alpha"), "names")->n, CONFIG_LIST_MAX);
    text.n = length;
    strbuf_add_str(&text, ", x} }");
    refuses(text.p, "agent.conf:1: names: more than 256 values");
    strbuf_reset(&text);
    for (int i = 0; i < CONFIG_FILE_MAX + 1; i++)
        strbuf_add_char(&text, '\n');
    refuses(text.p, "agent.conf:1: larger than 1048576 bytes");
    strbuf_fini(&text);
}

static void test_where_it_lives(void **unused)
{
    bool is_root = geteuid() == 0;
    char run[64];
    (void)unused;
    (void)snprintf(run, sizeof run, "/tmp/gridline-%u", (unsigned)geteuid());
    loads("");
    assert_string_equal(config->state_dir,
                        is_root ? "/var/lib/gridline/agent" : "/home/one/.local/state/gridline/agent");
    assert_string_equal(config->run_dir, is_root ? "/run/gridline" : run);
    setenv("XDG_STATE_HOME", "/x/state", 1);
    setenv("XDG_RUNTIME_DIR", "/x/run", 1);
    loads("");
    assert_string_equal(config->state_dir, is_root ? "/var/lib/gridline/agent" : "/x/state/gridline/agent");
    assert_string_equal(config->socket, is_root ? "/run/gridline/agent.sock" : "/x/run/gridline/agent.sock");
    loads("state_dir = \"\"");
    assert_null(config->state_dir);
    loads("run_dir = \"/r\"");
    assert_string_equal(config->socket, "/r/agent.sock");
    loads("guest = true");
    assert_null(config->state_dir);
    assert_string_equal(config->socket, "");
    refuses("guest = true\nstate_dir = \"/s\"",
            "agent.conf:2: state_dir: a guest leaves nothing on disk; leave out state_dir or guest");
    refuses("run_dir = \"\"", "agent.conf:1: run_dir: it can't be empty");
    struct strbuf text = {0};
    strbuf_printf(&text, "run_dir = \"/%0100d\"", 0);
    refuses(text.p,
            "socket: its path is longer than the 107 bytes of a socket; give a shorter socket or run_dir");
    strbuf_fini(&text);
    unsetenv("XDG_STATE_HOME");
    unsetenv("XDG_RUNTIME_DIR");
    if (!is_root) {
        unsetenv("HOME");
        refuses("", "state_dir: neither XDG_STATE_HOME nor HOME is set; give state_dir, or state_dir = \"\" "
                    "for none");
        setenv("HOME", "/home/one", 1);
    }
}

/* ---------------------------------------------------------------- a document from a URL */

static int load_remote(const char *local, const char *document, bool is_signed, const char *const *settings)
{
    struct config_flags flags = {.file = "agent.conf", .settings = settings, .on_problem = take_problem};
    while (settings && settings[flags.n_settings])
        flags.n_settings++;
    forget();
    write_file("agent.conf", local);
    return config_load_remote(&flags, slice_str(document), "https://h/a.conf", is_signed, &config, &why);
}

static void remote_says(const char *local, const char *document, const char *says)
{
    assert_int_equal(load_remote(local, document, false, NULL), -EINVAL);
    assert_null(config);
    if (!strstr(problems.p, says))
        fail_msg("'%s' says '%s'", document, problems.p);
}

static void test_document_replaces_the_sensors(void **unused)
{
    (void)unused;
    assert_int_equal(load_remote("hostname = h\noutput o { path = \"-\" }\nbeta { }\nalpha { every = 9s }\n",
                                 "alpha { every = 2s }", false, (const char *[]){"alpha.hold=1s", NULL}),
                     0);
    assert_string_equal(config->host, "h");
    assert_int_equal(config->n_outputs, 1);
    assert_int_equal(config->n_sensors, 2); /* alpha, beat; not beta */
    const struct sensor_config *s = find("alpha", "alpha");
    assert_int_equal(s->every_ns, 2 * NS_PER_S);
    assert_int_equal(s->hold_ns, NS_PER_S);
    assert_string_equal(s->from.where, "https://h/a.conf");
    assert_int_equal(load_remote("beta { }", "", false, NULL), 0);
    assert_int_equal(config->n_sensors, 2);
    assert_int_equal(load_remote("", "defaults = false", false, NULL), 0);
    assert_int_equal(config->n_sensors, 0);
    assert_int_equal(load_remote("run a { }", "defaults = true", false, NULL),
                     0); /* it is replaced, so not looked at */
}

static void test_document_has_sensors_only(void **unused)
{
    (void)unused;
    remote_says("", "state_dir = \"/x\"",
                "https://h/a.conf:1: state_dir is for this host's own files; a document has "
                "sensors only");
    remote_says("", "alpha { }\nallow_programs = {\"/bin/sh\"}", "https://h/a.conf:2: allow_programs is for");
    remote_says("", "budget { cpu = 100% }", "budget is for this host's own files");
    remote_says("", "output o { path = \"/etc/passwd\" }", "output is for this host's own files");
    remote_says("", "alpha { every = 1x }", "https://h/a.conf:1: alpha.every: ");
    remote_says("", "alpha { names = {\"${HOME}\"} }", "not replaced by the environment");
    remote_says("hostname = \"a b\"", "", "agent.conf:1: hostname: ");
}

static void test_programs_of_a_document(void **unused)
{
    static const char local[] = "allow_programs = {\"/bin/a\", \"/usr/bin/b\"}";
    static const char says[] =
        "is not allowed here; sign the document, or add exactly this path to allow_programs";
    (void)unused;
    assert_int_equal(load_remote(local, "run x { command = {\"/bin/a\", \"-v\"} }", false, NULL), 0);
    assert_string_equal(setting(find("run", "x"), "command")->texts[1], "-v");
    remote_says(local, "\nrun x { command = {\"/bin/sh\"} }",
                "https://h/a.conf:2: run.x.command: \"/bin/sh\" is not allowed here; sign");
    remote_says(local, "run x { command = {\"/bin//a\"} }", says);
    remote_says(local, "run x { command = {\"/bin/./a\"} }", says);
    remote_says(local, "run x { command = {\"/usr/../bin/a\"} }", says);
    remote_says(local, "run x { command = {a} }", says);
    remote_says(local, "run x { command = {\"\"} }", says);
    remote_says(local, "run x { command = {\"/bin/a \"} }", says);
    remote_says(local, "run x { command = {\"/bin/a\"} shell = \"/bin/sh\" }", "run.x.shell: \"/bin/sh\" is not allowed");
    remote_says("", "run x { command = {\"/bin/a\"} }", says);
    assert_int_equal(load_remote("", "run x { command = {\"/bin/sh\"} }", true, NULL), 0);
    /* What this host's own flags name needs no leave. */
    assert_int_equal(load_remote("", "", false, (const char *[]){"run.x.command=/bin/sh", NULL}), 0);
    assert_int_equal(load_remote("", "run x { command = {\"/bin/sh\"} }", false,
                                 (const char *[]){"run.x.command=/bin/true", NULL}),
                     0);
    assert_string_equal(setting(find("run", "x"), "command")->texts[0], "/bin/true");
}

/* ---------------------------------------------------------------- comparing, memory */

static bool is_same_as_base(const char *changed)
{
    static const char base[] = "beta { every = 1s ports = {1, 2} change = {\"a 1\", \"b 2%\"} text = x }";
    struct agent_config *first;
    loads(base);
    first = config;
    config = NULL;
    loads(changed ? changed : base);
    bool same = config_same_sensor(find("beta", "beta"), &first->sensors[1]);
    config_destroy(first);
    return same;
}

static void test_same_sensor(void **unused)
{
    (void)unused;
    assert_true(is_same_as_base(NULL));
    assert_true(
        is_same_as_base("\n\nbeta { text = \"x\"\nchange = {\"a 1\", \"b 2%\"} ports = {1, 2} every = 1000ms "
                        "number = -3 }")); /* the default, written */
    static const char *const others[] = {
        "beta { every = 2s ports = {1, 2} change = {\"a 1\", \"b 2%\"} text = x }",
        "beta { every = 1s ports = {1, 3} change = {\"a 1\", \"b 2%\"} text = x }",
        "beta { every = 1s ports = {1} change = {\"a 1\", \"b 2%\"} text = x }",
        "beta { every = 1s ports = {1, 2} change = {\"a 1\", \"b 2\"} text = x }",
        "beta { every = 1s ports = {1, 2} change = {\"a 1\", \"c 2%\"} text = x }",
        "beta { every = 1s ports = {1, 2} change = {\"a 1\"} text = x }",
        "beta { every = 1s ports = {1, 2} change = {\"a 1\", \"b 2%\"} text = y }",
        "beta { every = 1s ports = {1, 2} change = {\"a 1\", \"b 2%\"} }",
        "beta { every = 1s ports = {1, 2} change = {\"a 1\", \"b 2%\"} text = x size = 1 }",
        "beta { every = 1s ports = {1, 2} change = {\"a 1\", \"b 2%\"} text = x refresh = 1h }",
        "beta { every = 1s ports = {1, 2} change = {\"a 1\", \"b 2%\"} text = x mode = off }",
        "beta { every = 1s ports = {1, 2} change = {\"a 1\", \"b 2%\"} text = x compare = previous }",
        "beta { every = 1s ports = {1, 2} change = {\"a 1\", \"b 2%\"} text = x priority = 1 }",
        "beta { every = 1s ports = {1, 2} change = {\"a 1\", \"b 2%\"} text = x hold = 1s }",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (is_same_as_base(others[i]))
            fail_msg("the same: %s", others[i]);
}

/* Each allocation of ours fails once. */
static void test_out_of_memory(void **unused)
{
    static const char text[] = "hostname = h gateway = {localhost:1} output o { path = \"-\" }\n"
                               "alpha { change = {\"user 1\"} ports = {1} } run a { command = {/a, b} }";
    uint64_t n = 1;
    int r = -ENOMEM;
    (void)unused;
    for (; r < 0 && n < 2000; n++) {
        struct config_flags flags = {
            .file = "agent.conf", .settings = (const char *[]){"beta.every=1s"}, .n_settings = 1};
        forget();
        write_file("agent.conf", text);
        mem_fail_after(n);
        r = config_load(&flags, &config, &why);
        mem_fail_after(0);
        assert_true(r == 0 ? config != NULL : config == NULL);
        if (r < 0)
            assert_true(why.message[0]);
    }
    assert_int_equal(r, 0);
    assert_true(n > 10);
    assert_string_equal(config->gateways, "localhost:1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_own_keys),
        cmocka_unit_test(test_sensor_keys),
        cmocka_unit_test(test_refresh_grows_with_every),
        cmocka_unit_test(test_which_sensors_run),
        cmocka_unit_test(test_refusals_name_line_and_remedy),
        cmocka_unit_test(test_nothing_is_taken_silently),
        cmocka_unit_test(test_every_section_tells_its_problem),
        cmocka_unit_test(test_dropins_environment_flags),
        cmocka_unit_test(test_sensor_with_a_dot_in_its_name),
        cmocka_unit_test(test_bad_flags_and_environment),
        cmocka_unit_test(test_files_that_cant_be_read),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_where_it_lives),
        cmocka_unit_test(test_document_replaces_the_sensors),
        cmocka_unit_test(test_document_has_sensors_only),
        cmocka_unit_test(test_programs_of_a_document),
        cmocka_unit_test(test_same_sensor),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
