/* SPDX-License-Identifier: Apache-2.0 */
/* gridline/sensor.h as a program has it: the shared library, nothing of ours inside. */
#include "unit/test.h"

#include <gridline/sensor.h>

#include <errno.h>

struct seen {
    unsigned events, values, fields;
    bool has_total;
};

static int on_event(void *arg, int64_t time_ns, int level, const char *event,
                    const struct gridline_value *values, size_t n)
{
    struct seen *s = arg;
    assert_true(time_ns > 0);
    assert_int_equal(level, GRIDLINE_INFO);
    assert_true(strncmp(event, "cpu", 3) == 0);
    s->events++;
    s->values += (unsigned)n;
    for (size_t i = 0; i < n; i++)
        s->has_total |= values[i].type == 't' && values[i].n == 3 && memcmp(values[i].v.p, "all", 3) == 0;
    return 0;
}

static int on_field(void *arg, const char *event, const char *field, char type, int is_key, const char *kind,
                    const char *unit, const char *help)
{
    (void)kind, (void)unit;
    assert_true(event[0] && field[0] && help[0] && strchr("iufbtx", type));
    assert_true(!is_key || type == 't');
    (*(unsigned *)arg)++;
    return 0;
}

static void every_sensor_describes_itself(void **state)
{
    (void)state;
    size_t n = 0;
    for (; gridline_sensor_name(n); n++) {
        unsigned fields = 0;
        assert_non_null(gridline_sensor_summary(gridline_sensor_name(n)));
        assert_int_equal(gridline_sensor_fields(gridline_sensor_name(n), on_field, &fields), 0);
    }
    assert_true(n >= 20);
    assert_null(gridline_sensor_summary("nonsense"));
    assert_int_equal(gridline_sensor_fields("nonsense", on_field, NULL), -ENOENT);
}

static void sample(void **state)
{
    (void)state;
    char why[200] = "";
    struct seen s = {0};
    gridline_sensor *cpu =
        gridline_sensor_open("cpu", NULL, GRIDLINE_SOURCE "/tests/fixtures/hosts/small", why, sizeof why);
    assert_non_null(cpu);
    assert_int_equal(gridline_sensor_sample(cpu, 0, on_event, &s), 0);
    assert_int_equal(s.events, 4);
    assert_true(s.has_total);
    gridline_sensor_close(cpu);
}

static int stop(void *arg, int64_t time_ns, int level, const char *event, const struct gridline_value *values,
                size_t n)
{
    (void)time_ns, (void)level, (void)event, (void)values, (void)n;
    (*(unsigned *)arg)++;
    return 42;
}

static void what_goes_wrong(void **state)
{
    (void)state;
    char why[200] = "";
    unsigned called = 0;
    assert_null(gridline_sensor_open("nonsense", NULL, NULL, why, sizeof why));
    assert_non_null(strstr(why, "nonsense"));
    assert_null(
        gridline_sensor_open("cpu", (const char *[]){"per_core=perhaps", NULL}, NULL, why, sizeof why));
    assert_non_null(strstr(why, "per_core"));
    assert_null(gridline_sensor_open("cpu", (const char *[]){"per_core", NULL}, NULL, why, sizeof why));
    gridline_sensor *s = gridline_sensor_open("cpu", NULL, "/nowhere", why, sizeof why);
    assert_non_null(s);
    assert_int_equal(gridline_sensor_sample(s, 0, stop, &called), GRIDLINE_NO_DATA);
    assert_true(gridline_sensor_why(s)[0]);
    assert_int_equal(called, 0);
    gridline_sensor_close(s);
    s = gridline_sensor_open("cpu", NULL, NULL, why, sizeof why);
    assert_int_equal(gridline_sensor_sample(s, 0, stop, &called), 42); /* the callback ends it */
    assert_int_equal(called, 1);
    gridline_sensor_close(s);
    gridline_sensor_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sensor_describes_itself),
        cmocka_unit_test(sample),
        cmocka_unit_test(what_goes_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
