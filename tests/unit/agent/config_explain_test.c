/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "event/json.h"
#include "unit/agent/config_sensors.h"

static struct strbuf out;
static struct diag why;

static const char *explain(const char *key, enum config_form form)
{
    strbuf_reset(&out);
    why = (struct diag){0};
    if (config_explain(key, form, &out, &why) < 0)
        fail_msg("%s: %s", key, why.message);
    return out.p;
}

static void test_one_key(void **unused)
{
    (void)unused;
    assert_string_equal(
        explain("budget.cpu", CONFIG_FORM_TEXT),
        "budget.cpu\n    how much of one core the agent may use; over it, sensors are slowed by "
        "priority\n    percentage from 0.01% to 100%; default 1%\n");
    assert_string_equal(explain("alpha.window", CONFIG_FORM_TEXT),
                        "alpha.window\n    for tests\n    duration; default 5s\n");
    assert_string_equal(
        explain("run.command", CONFIG_FORM_TEXT),
        "run.NAME.command\n    for tests\n    list; must be given; names a program or file: in a document "
        "from config_url only if it is\n    signed or allowed\n");
    assert_string_equal(explain("run.some.name.format", CONFIG_FORM_TEXT),
                        "run.NAME.format\n    for tests\n    text; default ulm\n");
    assert_non_null(
        strstr(explain("beta.every", CONFIG_FORM_TEXT), "duration from 10ms to 366d; default 5m\n"));
    assert_non_null(strstr(explain("alpha.far.every", CONFIG_FORM_TEXT), "alpha.far.every\n"));
    assert_non_null(strstr(explain("priority", CONFIG_FORM_TEXT), "SENSOR.priority\n"));
    assert_non_null(
        strstr(explain("SENSOR.mode", CONFIG_FORM_TEXT), "always, on-request, port, off; default always\n"));
    assert_non_null(strstr(explain("output.path", CONFIG_FORM_TEXT), "output.NAME.path\n"));
}

static void test_sections(void **unused)
{
    (void)unused;
    assert_non_null(strstr(explain("budget", CONFIG_FORM_TEXT), "budget.memory\n"));
    assert_null(strstr(out.p, "host\n"));
    assert_non_null(strstr(explain("agent", CONFIG_FORM_TEXT), "spool_max\n"));
    assert_null(strstr(out.p, "alpha"));
    assert_non_null(strstr(explain("sensor", CONFIG_FORM_TEXT), "SENSOR.compare\n"));
    assert_non_null(strstr(explain("alpha", CONFIG_FORM_TEXT), "alpha: a\n\nalpha.mode\n"));
    assert_non_null(strstr(out.p, "alpha.names\n"));
    assert_non_null(strstr(explain("output", CONFIG_FORM_TEXT), "output.NAME.encoding\n"));
    /* All: each sensor's own options once, the common keys once. */
    assert_non_null(strstr(explain(NULL, CONFIG_FORM_TEXT), "beta.ratio\n"));
    assert_null(strstr(out.p, "beta.every\n"));
    assert_null(strstr(out.p, "beta.ports\n"));
}

static void test_json(void **unused)
{
    struct json_reader r;
    struct json_item item = {0};
    size_t keys = 0;
    (void)unused;
    (void)explain(NULL, CONFIG_FORM_JSON);
    json_init(&r, strbuf_slice(&out), 8, &why);
    do {
        assert_int_equal(json_next(&r, &item), 0);
        keys += slice_eq_str(item.key, "key");
    } while (item.kind != JSON_END);
    assert_true(keys > 30);
    assert_string_equal(
        explain("budget.memory", CONFIG_FORM_JSON),
        "[\n {\"key\": \"budget.memory\", \"type\": \"size\", \"default\": \"16MiB\", \"min\": "
        "\"1MiB\", \"max\": \"1TiB\", \"help\": \"how much private memory the agent may use\"}\n]\n");
}

static void suggests(const char *key, const char *says)
{
    strbuf_reset(&out);
    strbuf_add_str(&out, "kept");
    assert_int_equal(config_explain(key, CONFIG_FORM_JSON, &out, &why), E_NODATA);
    assert_string_equal(out.p, "kept");
    if (!strstr(why.message, says))
        fail_msg("'%s' says '%s'", key, why.message);
}

static void test_unknown(void **unused)
{
    (void)unused;
    suggests("budget.cup", "did you mean budget.cpu?");
    suggests("alpha.windw", "did you mean alpha.window?");
    suggests("alhpa", "did you mean alpha?");
    suggests("evrey", "did you mean every?");
    suggests("outptu", "did you mean output?");
    suggests("nothing.at.all.here", "`gridline config explain` lists them");
    suggests("", "lists them");
    suggests(".", "lists them");
}

static int free_out(void **unused)
{
    (void)unused;
    strbuf_fini(&out);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_key),
        cmocka_unit_test(test_sections),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, free_out);
}
