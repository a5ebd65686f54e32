/* SPDX-License-Identifier: Apache-2.0 */
/* exec with real programs: one-line scripts, given to /bin/sh by the test, not by the sensor. After each, no
 * process with the test's mark in its arguments is alive. */
#include "unit/test.h"

#include "base/child.h"
#include "base/strays.h"
#include "unit/sensor/processes.h"
#include "unit/sensor/sense.h"

static struct sense s;
static char mark[64];
static struct strbuf all;  /* everything it gave */
static uint8_t last_level; /* of the last row or event */

static void on_row(struct sensor_out *out, unsigned schema, int64_t time_ns, uint8_t level,
                   const struct value *values)
{
    last_level = level;
    sense_row(out, schema, time_ns, level, values);
}

static int on_event(struct sensor_out *out, const struct event_head *head, const struct named_value *values,
                    size_t n, struct diag *why)
{
    last_level = head->level;
    assert_true(clock_utc_ns() - head->time_ns < 3600 * NS_PER_S || head->time_ns < NS_PER_S * 1000000000);
    return sense_event(out, head, values, n, why);
}

/* An instance "probe" that runs sh -c SCRIPT MARK; options are name, text, ..., NULL. */
static void begin(const char *script, const char *const *options)
{
    static unsigned number;
    const char *command[] = {"/bin/sh", "-c", script, mark};
    struct parameter_setting settings[16] = {{"command", command, 4}};
    size_t n = 1;
    struct diag why = {0};
    (void)snprintf(mark, sizeof mark, "gridline-exec-test-%d-%u", (int)getpid(), ++number);
    for (; options && options[0]; options += 2)
        settings[n++] = (struct parameter_setting){options[0], &options[1], 1};
    s = (struct sense){.out = {.row = on_row, .event = on_event, .mark = sense_mark}};
    strbuf_reset(&all);
    env_init(&s.env, "");
    assert_int_equal(
        instance_create(sensor_find(SLICE_LIT("exec")), "probe", settings, n, &s.env, &s.instance, &why), 0);
}

/* One call; what it gave is in all. */
static int sample(bool is_due)
{
    strbuf_reset(&s.text);
    int r = instance_sample(s.instance, &s.out, is_due, 1); /* ns: the back-off is over at once */
    strbuf_add_slice(&all, strbuf_slice(&s.text));
    return r;
}

/* Starts a run and waits for its end. */
static int run(void)
{
    int64_t until = clock_mono_ns() + LIMIT;
    int r = sample(true);
    while (r == 0 && instance_wait_fd(s.instance) >= 0) {
        struct pollfd p = {.fd = instance_wait_fd(s.instance), .events = POLLIN};
        assert_true(clock_mono_ns() < until);
        assert_int_not_equal(poll(&p, 1, (int)(LIMIT / 1000000)), 0);
        r = sample(false);
    }
    return r;
}

static const char *said(void)
{
    return instance_stats(s.instance)->last_why;
}

static void end(void)
{
    sense_close(&s);
    assert_int_equal(child_settle(LIMIT), 0);
    assert_int_equal(processes_alive(mark), 0);
}

static void lines_of_each_format(void **state)
{
    (void)state;
    const struct {
        const char *format, *script, *expected;
    } cases[] = {
        {"ulm", "echo DATE=20010203040506.7 HOST=h PROG=p LVL=Error NL.EVNT=a.b N=5", "a.b N=5\n"},
        {"bp", "echo ts=2001-02-03T04:05:06.7Z event=a.b level=Error n=5", "a.b n=5\n"},
        {"ndjson",
         "echo '{\"time\":\"2001-02-03T04:05:06.7Z\",\"name\":\"a.b\",\"level\":\"error\",\"n\":5}'",
         "a.b n=5\n"},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        bool is_auto = i & 1;
        begin(cases[i / 2].script, (const char *[]){"format", is_auto ? "auto" : cases[i / 2].format, NULL});
        assert_int_equal(run(), 0);
        assert_string_equal(all.p, cases[i / 2].expected);
        assert_int_equal(last_level, LEVEL_ERROR);
        end();
    }
}

/* The time at which the line was read (on_event looks at it). */
static void lines_without_a_time(void **state)
{
    (void)state;
    begin("echo NL.EVNT=a N=1; echo NL.EVNT=b N=2", (const char *[]){"format", "ulm", NULL});
    assert_int_equal(run(), 0);
    assert_string_equal(all.p, "a N=1\nb N=2\n");
    end();
    begin("echo event=a n=1", (const char *[]){"format", "bp", NULL});
    assert_int_equal(run(), 0);
    assert_string_equal(all.p, "a n=1\n");
    end();
    begin("echo '{\"name\":\"a\",\"n\":1}'", (const char *[]){"format", "ndjson", NULL});
    assert_int_equal(run(), 0);
    assert_string_equal(all.p, "a n=1\n");
    end();
}

static void a_value(void **state)
{
    (void)state;
    begin("echo 12.50", (const char *[]){"name", "room.temperature", NULL});
    assert_int_equal(run(), 0);
    assert_string_equal(all.p, "room.temperature value=12.5\n");
    assert_int_equal(run(), 0); /* and again */
    end();
    begin("printf 7", (const char *[]){"format", "value", NULL}); /* no line end */
    assert_int_equal(run(), 0);
    assert_string_equal(all.p, "probe value=7.0\n");
    end();
    begin("true", (const char *[]){"format", "value", NULL});
    assert_int_equal(run(), E_NODATA);
    end();
}

static void a_nagios_plugin(void **state)
{
    (void)state;
    const struct {
        const char *code, *word;
        uint8_t level;
    } states[] = {{"0", "ok", LEVEL_INFO},
                  {"1", "warning", LEVEL_WARNING},
                  {"2", "critical", LEVEL_CRITICAL},
                  {"3", "unknown", LEVEL_ERROR}};
    for (size_t i = 0; i < 4; i++) {
        char script[200], expected[200];
        (void)snprintf(script, sizeof script, "echo \"DISK OK - 56%% free\"; exit %s", states[i].code);
        begin(script, NULL);
        assert_int_equal(run(), 0);
        (void)snprintf(
            expected, sizeof expected,
            "check check=\"probe\" state=%s status=\"%s\" output=\"DISK OK - 56%% free\" duration=",
            states[i].code, states[i].word);
        assert_memory_equal(all.p, expected, strlen(expected));
        assert_int_equal(last_level, states[i].level);
        end();
    }
    begin("echo 'OK | /=2643MB;5948;5958;0;5968 load=U;1'; echo 'more | oops'; exit 1",
          (const char *[]){"format", "nagios", NULL});
    assert_int_equal(run(), 0);
    assert_non_null(strstr(all.p, "output=\"OK\" detail=\"more\" duration="));
    assert_non_null(strstr(all.p,
                           "\ncheck.perf check=\"probe\" label=\"/\" value=2643.0 unit=\"MB\" warn=\"5948\" "
                           "crit=\"5958\" min=0.0 max=5968.0\n"
                           "check.perf check=\"probe\" label=\"load\" warn=\"1\"\n"
                           "exec.skipped exec=\"probe\" lines=1 line=1 why=\"performance data"));
    end();
    begin("echo PLUGIN LOST; exit 4", (const char *[]){"format", "nagios", NULL});
    assert_int_equal(run(), -ECHILD);
    assert_string_equal(said(), "sh: ended with code 4");
    end();
}

static void bad_lines_among_good(void **state)
{
    (void)state;
    begin("echo NL.EVNT=a N=1; echo garbage; echo 'more garbage'; echo NL.EVNT=b N=2",
          (const char *[]){"format", "ulm", NULL});
    assert_int_equal(run(), 0);
    assert_string_equal(
        all.p, "a N=1\nb N=2\nexec.skipped exec=\"probe\" lines=2 line=2 why=\"'=' is missing: a line "
               "is made of name=value pairs\"\n");
    strbuf_reset(&all);
    assert_int_equal(run(), 0); /* told once */
    assert_string_equal(all.p, "a N=1\nb N=2\n");
    end();
}

static void garbage(void **state)
{
    (void)state;
    begin("printf x; head -c 20000 /dev/urandom", (const char *[]){"format", "ndjson", NULL});
    assert_int_equal(run(), E_PROTO);
    assert_non_null(strstr(said(), "/bin/sh: none of "));
    assert_non_null(strstr(said(), "lines is ndjson; line 1: "));
    end();
    begin("echo hello world", NULL);
    assert_int_equal(run(), E_PROTO);
    assert_string_equal(said(),
                        "/bin/sh: its output looks like none of the formats; set the option `format`");
    end();
    begin("printf '\\377\\376 OK'", (const char *[]){"format", "nagios", NULL});
    assert_int_equal(run(), E_PROTO);
    end();
    begin("yes garbage | head -n 150; exec sleep 1000", (const char *[]){"run", "long", NULL});
    assert_int_equal(run(), E_PROTO);
    assert_non_null(strstr(said(), "lines is of a format we know; line 1: looks like none of the formats"));
    end();
}

static void limits(void **state)
{
    (void)state;
    const struct {
        const char *script;
        int code;
        const char *message;
        const char *options[6];
    } cases[] = {
        {"sleep 1000", -ETIMEDOUT, "sh: killed after 0.1s: no end", {"timeout", "100ms"}},
        {"trap '' TERM; while :; do sleep 1000; done",
         -ETIMEDOUT,
         "sh: killed after 0.1s: no end",
         {"timeout", "100ms"}},
        {"yes", E_LIMIT, "sh: killed: it printed more than 1000 bytes", {"max_bytes", "1000"}},
        {"yes", E_LIMIT, "sh: killed: it printed more than 10 lines", {"max_events", "10"}},
        {"tr '\\0' x </dev/zero", E_LIMIT, "sh: killed: it printed more than 65536 bytes", {NULL}},
        {"yes",
         E_LIMIT,
         "sh: killed: it printed more than 500 bytes in a second",
         {"max_bytes", "500", "run", "long"}},
        {"kill -KILL $$", -ECHILD, "sh: ended by signal 9 (Killed)", {NULL}},
        {"echo no luck >&2; exit 1", -ECHILD, "sh: ended with code 1; it said: no luck", {NULL}},
        {"exit 0", -ECHILD, "sh: ended with code 0", {"run", "long"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(cases[i].script, cases[i].options);
        assert_int_equal(run(), cases[i].code);
        assert_string_equal(said(), cases[i].message);
        assert_int_equal(processes_alive(mark), 0); /* before close, too */
        end();
    }
}

static void can_not_be_started(void **state)
{
    (void)state;
    struct diag why = {0};
    const char *command[] = {"/no/such/plugin"};
    struct parameter_setting setting = {"command", command, 1};
    begin("true", NULL);
    end();
    s = (struct sense){.out = {.row = on_row, .event = on_event, .mark = sense_mark}};
    env_init(&s.env, "");
    assert_int_equal(
        instance_create(sensor_find(SLICE_LIT("exec")), "probe", &setting, 1, &s.env, &s.instance, &why), 0);
    assert_int_equal(run(), -ENOENT);
    assert_string_equal(said(), "/no/such/plugin: can't be started: No such file or directory");
    sense_close(&s);
    s = (struct sense){.out = {.row = on_row, .event = on_event, .mark = sense_mark}};
    env_init(&s.env, FIXTURES "small");
    assert_int_equal(
        instance_create(sensor_find(SLICE_LIT("exec")), "probe", &setting, 1, &s.env, &s.instance, &why), 0);
    assert_int_equal(run(), E_NODATA);
    assert_int_equal(run(), E_NODATA); /* it was not open: it is opened again */
    sense_close(&s);
}

static void wrong_options(void **state)
{
    (void)state;
    const char *const cases[][5] = {
        {"format: \"xml\" is none; there are auto, ulm, bp, ndjson, nagios and value", "format", "xml"},
        {"run: \"twice\" is neither once nor long", "run", "twice"},
        {"a Nagios plugin is run once each period, not `long`", "run", "long", "format", "nagios"},
        {"timeout, max_bytes and max_events are more than 0", "timeout", "0s"},
        {"\"not a name\" can't be an event's name; set the option `name`", "format", "value", "name",
         "not a name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *options[] = {cases[i][1], cases[i][2], cases[i][3], cases[i][4], NULL, NULL};
        begin("true", options);
        assert_int_equal(run(), -EINVAL);
        assert_string_equal(said(), cases[i][0]);
        end();
    }
}

/* What it forks is gone when the run is over, and when it is closed in the middle. */
static void forks(void **state)
{
    (void)state;
#define SLEEPER "sh -c 'trap \"\" TERM HUP; while :; do sleep 1000; done' $0"
    static const char *const scripts[] = {
        SLEEPER " & echo 1",
        "(setsid " SLEEPER " &); echo 1",
        "(setsid env -i PATH=/usr/bin:/bin " SLEEPER " &); echo 1",
    };
    for (size_t i = 0; i < 3; i++) {
        begin(scripts[i], NULL);
        assert_int_equal(run(), 0);
        assert_string_equal(all.p, "probe value=1.0\n");
        assert_int_equal(processes_alive(mark), 0);
        end();
    }
    begin("(setsid " SLEEPER " &); trap '' TERM; while :; do sleep 1000; done", NULL);
    assert_int_equal(sample(true), 0);
    processes_wait(mark, 2);
    end(); /* looks for them */
}

/* Events come as they are printed, and a run that is under way is not started a second time. */
static void long_runs(void **state)
{
    (void)state;
    begin("echo NL.EVNT=a N=1; read line </dev/null; echo NL.EVNT=b N=$$; exec sleep 1000",
          (const char *[]){"format", "ulm", "run", "long", NULL});
    int64_t until = clock_mono_ns() + LIMIT;
    assert_int_equal(sample(true), 0);
    while (!strstr(all.n ? all.p : "", "b N=")) {
        struct pollfd p = {.fd = instance_wait_fd(s.instance), .events = POLLIN};
        assert_true(poll(&p, 1, 1000) >= 0 && clock_mono_ns() < until);
        assert_int_equal(sample(true), 0);
    }
    size_t n = all.n;
    for (int i = 0; i < 10; i++)
        assert_int_equal(sample(true), 0);
    assert_int_equal(all.n, n);
    assert_int_equal(instance_stats(s.instance)->failures, 0);
    end();
}

/* A failing program is tried less and less often: starting it is no success. */
static void back_off(void **state)
{
    (void)state;
    begin("exit 1", NULL);
    int64_t until = clock_mono_ns() + LIMIT, wait = 1000000;
    for (uint64_t i = 1; i <= 5; i++, wait *= 2) {
        int64_t before = 0;
        int r = 0;
        while (r == 0 || r == -EAGAIN) { /* the back-off, and then until the run has ended */
            before = clock_mono_ns();
            assert_true(before < until);
            r = instance_sample(s.instance, &s.out, true, 1000000);
        }
        assert_int_equal(r, -ECHILD);
        assert_int_equal(instance_stats(s.instance)->failures, i);
        assert_true(instance_retry_at(s.instance) - before >= wait);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_each_format),
        cmocka_unit_test(lines_without_a_time),
        cmocka_unit_test(a_value),
        cmocka_unit_test(a_nagios_plugin),
        cmocka_unit_test(bad_lines_among_good),
        cmocka_unit_test(garbage),
        cmocka_unit_test(limits),
        cmocka_unit_test(can_not_be_started),
        cmocka_unit_test(wrong_options),
        cmocka_unit_test(forks),
        cmocka_unit_test(long_runs),
        cmocka_unit_test(back_off),
    };
    if (strays_adopt() < 0)
        return 77; /* as the agent does */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    strbuf_fini(&all);
    return failed;
}
