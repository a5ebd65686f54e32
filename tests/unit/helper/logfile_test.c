/* SPDX-License-Identifier: Apache-2.0 */
/* The sensor as a whole, run by an instance as in gridline-helper: options, positions, gaps, wake-ups. */
#include "unit/test.h"

#include "base/clock.h"
#include "helper/serve.h"
#include "unit/sensor/sense.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

struct fixture {
    struct sense s;
    struct sensor_ops ops; /* the agent's table with the helper's functions */
    char dir[40], log[60], old[60], filter[60];
};

static int64_t mono_ns = 1;

static int64_t fake_mono_ns(void)
{
    return mono_ns;
}

static int setup(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);
    memcpy(x->dir, "/tmp/logfile_test.XXXXXX", 25);
    assert_non_null(mkdtemp(x->dir));
    (void)snprintf(x->log, sizeof x->log, "%s/log", x->dir);
    (void)snprintf(x->old, sizeof x->old, "%s/log.1", x->dir);
    (void)snprintf(x->filter, sizeof x->filter, "%s/f.conf", x->dir);
    assert_int_equal(helper_find("logfile", &x->ops), 0);
    *state = x;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *x = *state;
    if (x->s.instance)
        sense_close(&x->s);
    (void)unlink(x->log); /* those that are there */
    (void)unlink(x->old);
    (void)unlink(x->filter);
    assert_int_equal(rmdir(x->dir), 0);
    free(x);
    return 0;
}

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
}

/* Settings: name, text, ..., NULL; path is given. Goes on at the position of the run before. */
static int start(struct fixture *x, const char *const *pairs)
{
    struct parameter_setting settings[8] = {{"path", (const char *[]){x->log}, 1}};
    size_t n = 1;
    struct diag why = {0};
    struct strbuf position = {0};
    for (; pairs && pairs[2 * n - 2]; n++)
        settings[n] = (struct parameter_setting){pairs[2 * n - 2], &pairs[2 * n - 1], 1};
    if (x->s.instance) {
        strbuf_add_slice(&position, strbuf_slice(&x->s.position));
        sense_close(&x->s);
    }
    x->s = (struct sense){.out = {.row = sense_row, .event = sense_event, .mark = sense_mark}};
    env_init(&x->s.env, "");
    x->s.env.mono_ns = fake_mono_ns;
    int r = instance_create(&x->ops, "test", settings, n, &x->s.env, &x->s.instance, &why);
    if (r == 0)
        instance_set_position(x->s.instance, strbuf_slice(&position));
    strbuf_fini(&position);
    return r;
}

/* What a run gave but for the sensor's own reading. */
static void expect(struct fixture *x, const char *want)
{
    assert_int_equal(sense_run(&x->s), 0);
    char *reading = strstr(x->s.text.p ? x->s.text.p : "", "logfile file=");
    assert_non_null(reading);
    *reading = '\0';
    assert_string_equal(x->s.text.p, want);
}

static void test_plain_lines(void **state)
{
    struct fixture *x = *state;
    put(x->log, "old\n");
    assert_int_equal(start(x, NULL), 0);
    expect(x, "");
    put(x->log, "one\ntwo\n");
    expect(x, "log.line text=\"one\"\nlog.line text=\"two\"\n");
    put(x->log, "three\n");
    assert_int_equal(start(x, NULL), 0);
    expect(x, "log.line text=\"three\"\n");
}

static void test_missing_file(void **state)
{
    struct fixture *x = *state;
    assert_int_equal(start(x, NULL), 0);
    assert_int_equal(sense_run(&x->s), E_NODATA);
    assert_non_null(strstr(instance_stats(x->s.instance)->last_why, "no such file yet"));
    put(x->log, "first\n");
    expect(x, "log.line text=\"first\"\n");
}

static void test_bad_options(void **state)
{
    struct fixture *x = *state;
    static const char *const from[] = {"from", "middle", NULL}, *const filter[] = {"filter", "nosuchfilter",
                                                                                   NULL};
    struct diag why = {0};
    assert_int_equal(instance_check(&x->ops, NULL, 0, &why) < 0, 1); /* path is needed */
    assert_int_equal(start(x, from), 0);
    assert_int_equal(sense_run(&x->s), -EINVAL);
    assert_non_null(strstr(instance_stats(x->s.instance)->last_why, "start or end"));
    assert_int_equal(start(x, filter), 0);
    assert_int_equal(sense_run(&x->s), -ENOENT);
    assert_non_null(strstr(instance_stats(x->s.instance)->last_why, "no filter nosuchfilter"));
    put(x->filter, "event e {\n match = ')'\n}\n");
    const char *const bad[] = {"filter", x->filter, NULL};
    assert_int_equal(start(x, bad), 0);
    assert_int_equal(sense_run(&x->s), E_PROTO);
    assert_non_null(strstr(instance_stats(x->s.instance)->last_why, "f.conf:2: pattern"));
}

/* A record that may go on is not lost and not repeated by a restart; what a table holds is kept. */
static void test_held_record(void **state)
{
    struct fixture *x = *state;
    const char *const options[] = {"filter", x->filter, "from", "start", NULL};
    put(x->filter, "multiline { start = '^\\S' join = '/' wait = 2s }\n"
                   "event a { match = '^a(?<n>\\d)(?<more>.*)' remember = 'last x' keep = {n} }\n"
                   "event b { match = '^b' recall = 'last x' }\n");
    put(x->log, "a1\n m\na2\n n\n");
    assert_int_equal(start(x, options), 0);
    expect(x, "a n=1 more=\"/ m\"\n");
    assert_int_equal(start(x, options), 0);
    put(x->log, " o\n");
    expect(x, "");
    assert_int_equal(start(x, options), 0);
    put(x->log, "b\n");
    expect(x, "a n=2 more=\"/ n/ o\"\n");
    assert_int_equal(start(x, options), 0);
    expect(x, ""); /* b may go on, for all anyone knows */
    mono_ns += 3 * NS_PER_S;
    expect(x, "b n=2\n");
    assert_int_equal(start(x, options), 0);
    mono_ns += 3 * NS_PER_S;
    expect(x, "");
}

static void test_gap(void **state)
{
    struct fixture *x = *state;
    put(x->log, "one\n");
    assert_int_equal(start(x, (const char *const[]){"from", "start", NULL}), 0);
    expect(x, "log.line text=\"one\"\n");
    assert_int_equal(truncate(x->log, 0), 0);
    put(x->log, "2\n");
    char want[300];
    (void)snprintf(
        want, sizeof want,
        "logfile.gap file=\"%s\" reason=\"the file was truncated and there is no copy of what it held\"\n"
        "log.line text=\"2\"\n",
        x->log);
    assert_int_equal(sense_run(&x->s), 0);
    assert_memory_equal(x->s.text.p, want, strlen(want));
    assert_int_equal(start(x, NULL), 0);
    expect(x, ""); /* once */
}

static void test_grace(void **state)
{
    struct fixture *x = *state;
    put(x->log, "one\n");
    assert_int_equal(start(x, (const char *const[]){"from", "start", "grace", "0s", NULL}), 0);
    expect(x, "log.line text=\"one\"\n");
    assert_int_equal(rename(x->log, x->old), 0);
    put(x->old, "two\n");
    put(x->log, "three\n");
    expect(x, "log.line text=\"two\"\nlog.line text=\"three\"\n");
    assert_non_null(strstr(x->s.text.p + strlen(x->s.text.p) + 1, "rotations=1"));
}

/* One call takes a bounded part of a large log, and asks to be called again at once. */
static void test_backlog(void **state)
{
    struct fixture *x = *state;
    struct strbuf text = {0};
    enum { LINES = 60000 };
    for (int i = 0; i < LINES; i++)
        strbuf_printf(&text, "this is line %d of a log that was long before anyone looked\n", i);
    put(x->log, text.p);
    strbuf_fini(&text);
    assert_int_equal(start(x, (const char *const[]){"from", "start", NULL}), 0);
    assert_int_equal(instance_sample(x->s.instance, &x->s.out, true, NS_PER_S), 0);
    int fd = instance_wait_fd(x->s.instance);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_true(fd >= 0);
    assert_int_equal(poll(&p, 1, 0), 1);
    assert_true(x->s.rows > 1000 && x->s.rows < LINES);
    for (int i = 0; i < 100 && instance_wait_fd(x->s.instance) == fd; i++)
        assert_int_equal(instance_sample(x->s.instance, &x->s.out, false, NS_PER_S), 0);
    assert_int_equal(x->s.rows, LINES + 1); /* and the reading of the first call */
}

static void test_wake_ups(void **state)
{
    struct fixture *x = *state;
    put(x->log, "one\n");
    assert_int_equal(start(x, NULL), 0);
    expect(x, "");
    int fd = instance_wait_fd(x->s.instance);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (fd < 0)
        skip();
    put(x->log, "two\n");
    assert_int_equal(poll(&p, 1, 10000), 1);
    strbuf_reset(&x->s.text);
    assert_int_equal(instance_sample(x->s.instance, &x->s.out, false, NS_PER_S), 0);
    assert_string_equal(x->s.text.p, "log.line text=\"two\"\n");
    assert_int_equal(instance_wait_fd(x->s.instance), -1); /* the rest of the period is slept */
    expect(x, "");
    assert_int_equal(instance_wait_fd(x->s.instance), fd);
}

#define ON_FILES(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_FILES(test_plain_lines), ON_FILES(test_missing_file), ON_FILES(test_bad_options),
        ON_FILES(test_held_record), ON_FILES(test_gap),          ON_FILES(test_grace),
        ON_FILES(test_backlog),     ON_FILES(test_wake_ups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
