/* SPDX-License-Identifier: Apache-2.0 */
/* A helper sensor in a real helper process (probe_helper.c, the program's argument), by sensor_remote. */
#include "unit/test.h"

#include "base/child.h"
#include "sensor/remote.h"
#include "base/strays.h"
#include "unit/sensor/probe.h"
#include "unit/sensor/processes.h"
#include "unit/sensor/sense.h"

#include <signal.h>

static char helper[64]; /* a link to it of our own, by whose name its processes are found */
static struct sense s;
static struct strbuf all; /* rows, events and marks, in order */

static void on_mark(struct sensor_out *out, struct slice position)
{
    sense_mark(out, position);
    strbuf_printf(&s.text, "mark %.*s\n", SLICE_ARG(position));
}

/* Settings: name, text, ..., NULL. */
static void begin(const char *const *pairs)
{
    struct parameter_setting settings[8];
    struct diag why = {0};
    size_t n = 0;
    s = (struct sense){.out = {.row = sense_row, .event = sense_event, .mark = on_mark}};
    for (; pairs && pairs[2 * n]; n++)
        settings[n] = (struct parameter_setting){pairs[2 * n], &pairs[2 * n + 1], 1};
    env_init(&s.env, "/some/root");
    strbuf_reset(&all);
    assert_int_equal(instance_create(&probe_ops, "p1", settings, n, &s.env, &s.instance, &why), 0);
}

static int sample(bool is_due)
{
    strbuf_reset(&s.text);
    int r = instance_sample(s.instance, &s.out, is_due, 1);
    strbuf_add_slice(&all, strbuf_slice(&s.text));
    return r;
}

/* Asks, and waits until it has failed, or said that there is nothing, or what it gave begins as expected. The
 * answer before may not be in yet, so it is asked again while nothing new has come; then there may be more
 * than expected. */
static int until(const char *expected)
{
    int64_t end = clock_mono_ns() + LIMIT;
    size_t before = all.n;
    int r = sample(true);
    while (r == 0 && !(expected && slice_starts(strbuf_slice(&all), slice_str(expected)))) {
        struct pollfd p = {.fd = instance_wait_fd(s.instance), .events = POLLIN};
        (void)poll(&p, 1, 10);
        assert_true(clock_mono_ns() < end);
        r = sample(all.n == before);
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
    processes_wait(helper, 0);
}

#define ROW(act, n)     "probe act=\"" act "\" count=" n " words=\"a/b/2\"\n"
#define EVENT(n)        "learned.event n=" n " x=0.5\n"
#define SAMPLED(act, n) ROW(act, n) EVENT(n) "mark " n "\n"

static void rows_events_and_marks(void **state)
{
    (void)state;
    begin(NULL);
    assert_int_equal(until(SAMPLED("count", "1")), 0);
    assert_int_equal(until(SAMPLED("count", "1") SAMPLED("count", "2")), 0);
    assert_true(instance_stats(s.instance)->rows >= 4);
    assert_int_equal(processes_alive(helper), 1);
    end();
}

static void settings_arrive(void **state)
{
    (void)state;
    const char *words[] = {"one", "two words", "three"}, *act[] = {"unmarked"};
    const struct parameter_setting settings[] = {{"words", words, 3}, {"act", act, 1}};
    struct diag why = {0};
    begin(NULL);
    instance_destroy(s.instance);
    assert_int_equal(instance_create(&probe_ops, "p1", settings, 2, &s.env, &s.instance, &why), 0);
    assert_int_equal(until("probe act=\"unmarked\" count=1 words=\"one/three/3\"\nlearned.event n=1 x=0.5\n"),
                     0);
    end();
}

/* What sensor_mark said last is what it opens with. */
static void a_position(void **state)
{
    (void)state;
    begin(NULL);
    instance_set_position(s.instance, SLICE_LIT("41"));
    assert_int_equal(until(SAMPLED("count", "42")), 0);
    end();
}

/* A helper that is killed: the sensor fails once, and goes on from its position. */
static void killed(void **state)
{
    (void)state;
    begin(NULL);
    assert_int_equal(until(SAMPLED("count", "1")), 0);
    DIR *proc = opendir("/proc");
    struct dirent *e;
    while ((e = readdir(proc))) { /* the only one with that name */
        char path[300], line[4096];
        (void)snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
        FILE *f = fopen(path, "re");
        size_t n = f ? fread(line, 1, sizeof line - 1, f) : 0;
        line[n] = '\0';
        if (n && strcmp(line, helper) == 0)
            assert_int_equal(kill((pid_t)strtol(e->d_name, NULL, 10), SIGKILL), 0);
        if (f)
            (void)fclose(f);
    }
    (void)closedir(proc);
    assert_int_equal(until(NULL), -ECHILD);
    assert_non_null(strstr(said(), ": ended by signal 9 (Killed)"));
    char expected[200];
    unsigned long next = strtoul(s.position.p, NULL, 10) + 1;
    (void)snprintf(expected, sizeof expected, ROW("count", "%lu") EVENT("%lu") "mark %lu\n", next, next,
                   next);
    strbuf_reset(&all);
    assert_int_equal(until(expected), 0);
    end();
}

static void unasked(void **state)
{
    (void)state;
    begin((const char *[]){"act", "follow", "n", "3", NULL});
    assert_int_equal(until(SAMPLED("follow", "1") SAMPLED("follow", "2") SAMPLED("follow", "3")), 0);
    end();
}

static void many(void **state)
{
    (void)state;
    struct strbuf expected = {0};
    begin((const char *[]){"act", "many", "n", "20000", NULL});
    for (int i = 1; i <= 20001; i++)
        strbuf_printf(&expected, "probe act=\"many\" count=%d words=\"a/b/2\"\n", i);
    strbuf_add_str(&expected, EVENT("20001") "mark 20001\n");
    assert_int_equal(until(expected.p), 0);
    strbuf_fini(&expected);
    end();
}

static void what_goes_wrong(void **state)
{
    (void)state;
    const struct {
        const char *act;
        int code;
        const char *message;
    } cases[] = {
        {"no open", -EACCES, "not allowed, as asked for"},
        {"nothing", E_NODATA, "nothing, as asked for"},
        {"fail", -EIO, "failed, as asked for"},
        {"die", -ECHILD, ": ended by signal 6 (Aborted); it said: about to die"},
        {"garbage", E_DAMAGE, "gridline-helper sent something that is no frame"},
        {"too much", E_LIMIT, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin((const char *[]){"act", cases[i].act, NULL});
        assert_int_equal(until(NULL), cases[i].code);
        assert_non_null(strstr(said(), cases[i].message));
        assert_true(said()[0] && s.rows == 0);
        end();
    }
}

/* Options are looked at before anything is started. */
static void wrong_settings(void **state)
{
    (void)state;
    const char *text[] = {"x"};
    const struct parameter_setting setting = {"n", text, 1};
    struct diag why = {0};
    struct instance *i = NULL;
    env_init(&s.env, "");
    assert_int_equal(instance_create(&probe_ops, "p1", &setting, 1, &s.env, &i, &why), -EINVAL);
    assert_null(i);
}

/* No answer: neither before three periods are over, nor before the deadline is. */
static void a_hang(void **state)
{
    (void)state;
    const char *act[] = {"hang"};
    const struct parameter_setting setting = {"act", act, 1};
    struct diag why = {0};
    struct sensor_env env;
    struct sensor_out out = {.is_due = true, .why = &why};
    struct remote_setup *setup = calloc(1, sensor_remote.state_size);
    assert_non_null(setup);
    for (int is_short = 0; is_short < 2; is_short++) {
        memset(setup, 0, sensor_remote.state_size);
        *setup = (struct remote_setup){.ops = &probe_ops,
                                       .name = "p1",
                                       .settings = &setting,
                                       .n = 1,
                                       .deadline_ns = is_short ? 1 : LIMIT};
        env_init(&env, "/some/root");
        assert_int_equal(sensor_remote.open(setup, &env, &why), 0);
        for (int i = 0; i < REMOTE_PERIODS; i++) /* the question, and two periods without an answer */
            assert_int_equal(sensor_remote.sample(setup, &env, &out), SENSOR_UNDERWAY);
        int r = sensor_remote.sample(setup, &env, &out);
        assert_int_equal(r, is_short ? -ETIMEDOUT : SENSOR_UNDERWAY);
        sensor_remote.close(setup);
        assert_int_equal(child_settle(LIMIT), 0);
        processes_wait(helper, 0);
    }
    assert_string_equal(why.message, "no answer from gridline-helper for 0s");
    free(setup);
}

static void no_helper(void **state)
{
    (void)state;
    assert_int_equal(setenv("GRIDLINE_HELPER", "/no/such/helper", 1), 0);
    begin(NULL);
    assert_int_equal(sample(true), -ENOENT);
    assert_string_equal(said(), "/no/such/helper: can't be started: No such file or directory");
    end();
    assert_int_equal(setenv("GRIDLINE_HELPER", helper, 1), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_events_and_marks),
        cmocka_unit_test(settings_arrive),
        cmocka_unit_test(a_position),
        cmocka_unit_test(killed),
        cmocka_unit_test(unasked),
        cmocka_unit_test(many),
        cmocka_unit_test(what_goes_wrong),
        cmocka_unit_test(wrong_settings),
        cmocka_unit_test(a_hang),
        cmocka_unit_test(no_helper),
    };
    (void)snprintf(helper, sizeof helper, "/tmp/gridline-remote-test-%d", (int)getpid());
    char *path = argc > 1 ? realpath(argv[1], NULL) : NULL;
    if (!path || symlink(path, helper) < 0 || setenv("GRIDLINE_HELPER", helper, 1) < 0 || strays_adopt() < 0)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(helper);
    free(path);
    strbuf_fini(&all);
    return failed;
}
