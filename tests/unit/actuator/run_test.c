/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "actuator/actuator.h"
#include "actuator/template.h"

#include <errno.h>

/* An actuator that says what it was given. */
struct echo {
    const char *program, *text, *more;
    struct parameter_list args;
    int64_t number, wait_ns;
};

static const struct parameter echo_options[] = {
    {SETTING_STRING, "program", NULL, offsetof(struct echo, program), "what to run", true, true},
    {SETTING_STRING, "text", "{host}: {summary?none}", offsetof(struct echo, text), "a text", false, false},
    {SETTING_STRING, "more", NULL, offsetof(struct echo, more), "another", false, false},
    {SETTING_LIST, "args", NULL, offsetof(struct echo, args), "arguments", false, false},
    {SETTING_INT, "number", "7", offsetof(struct echo, number), "a number", false, false},
    {SETTING_DURATION, "wait", "1s", offsetof(struct echo, wait_ns), "a time", false, false},
    {0},
};

static int echo_plan(void *state, const struct actuator_env *env, struct strbuf *out, struct diag *why)
{
    const struct echo *e = state;
    (void)env;
    if (e->number == 13)
        return diag_set(why, -EINVAL, 0, "not 13");
    strbuf_printf(out, "%s|%s|%s|%lld|%lld", e->program, e->text, e->more ? e->more : "-",
                  (long long)e->number, (long long)e->wait_ns);
    for (size_t i = 0; i < e->args.n; i++)
        strbuf_printf(out, "|%s", e->args.v[i]);
    return 0;
}

static int echo_run(void *state, const struct actuator_env *env, struct actuator_report *report)
{
    const struct echo *e = state;
    (void)env;
    strbuf_printf(&report->text, "ran %s\nwith \x1b%s", e->program, e->text);
    return e->number == 5 ? -EAGAIN : 0;
}

static const struct actuator_ops echo = {.name = "echo",
                                         .summary = "says it",
                                         .options = echo_options,
                                         .state_size = sizeof(struct echo),
                                         .plan = echo_plan,
                                         .run = echo_run};

static const char *one(const char *text)
{
    static const char *kept[16];
    static size_t at;
    const char **slot = &kept[at++ % 16];
    *slot = text;
    return (const char *)(void *)slot;
}
#define SET(name, text)                                       \
    {                                                         \
        name, (const char *const *)(const void *)one(text), 1 \
    }

static int plan(const struct parameter_setting *s, size_t n, const struct act_datum *data, size_t n_data,
                struct strbuf *out, struct diag *why)
{
    const struct actuator_env env = {
        .data = data, .n_data = n_data, .deadline_ns = INT64_MAX, .attempt = "a"};
    strbuf_reset(out);
    return actuator_plan(&echo, s, n, &env, out, why);
}

static void test_fill(void **state)
{
    (void)state;
    struct strbuf out = {0};
    struct diag why = {0};
    const struct act_datum data[] = {{SLICE_LIT("host"), SLICE_LIT("c0\n{x}")},
                                     {SLICE_LIT("n"), SLICE_LIT("42")}};
    const char *args[] = {"-a", "{host}", "{{b}", "x{n}y"};
    const struct parameter_setting s[] = {
        SET("program", "/bin/{host}"), {"args", args, 4}, SET("number", "{n}"), SET("wait", "{n}ms")};
    assert_int_equal(plan(s, 4, data, 2, &out, &why), 0);
    /* What names a program has no templates; a default has. */
    assert_slice(strbuf_slice(&out), "/bin/{host}|c0\n{x}: none|-|42|42000000|-a|c0\n{x}|{b}|x42y");
    const struct parameter_setting bad[] = {SET("program", "p"), SET("number", "{host}")};
    assert_int_equal(plan(bad, 2, data, 2, &out, &why), -EINVAL);
    assert_non_null(strstr(why.message, "number"));
    strbuf_fini(&out);
}

static void test_check(void **state)
{
    (void)state;
    struct diag why = {0};
    const struct parameter_setting good[] = {SET("program", "p"), SET("number", "{n}"), SET("wait", "{n}s")};
    assert_int_equal(actuator_check(&echo, good, 3, &why), 0);
    const struct {
        struct parameter_setting s;
        const char *says;
    } bad[] = {
        {SET("textt", "x"), "`text`"}, /* what was meant */
        {SET("text", "{"), "{{"},          {SET("number", "x"), "number"},
        {SET("number", "x{n}"), "number"}, {SET("number", "13"), "not 13"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct parameter_setting s[] = {good[0], bad[i].s};
        assert_int_equal(actuator_check(&echo, s, 2, &why), -EINVAL);
        assert_non_null(strstr(why.message, bad[i].says));
    }
    assert_int_equal(actuator_check(&echo, NULL, 0, &why), -EINVAL);
    assert_non_null(strstr(why.message, "program"));
}

/* A long value costs nothing but its own end. */
static void test_long(void **state)
{
    (void)state;
    struct strbuf out = {0}, text = {0};
    struct diag why = {0};
    static char big[300 << 10];
    memset(big, 'x', sizeof big);
    const struct act_datum data[] = {{SLICE_LIT("big"), {big, sizeof big}},
                                     {SLICE_LIT("host"), SLICE_LIT("c0-0")},
                                     {SLICE_LIT("half"), {big, 100 << 10}}};
    const struct parameter_setting s[] = {SET("program", "p"), SET("text", "<{big}> on {host}")};
    assert_int_equal(plan(s, 2, data, 3, &out, &why), 0);
    assert_true(out.n < TEMPLATE_TEXT_MAX && out.n > TEMPLATE_TEXT_MAX / 4);
    assert_non_null(strstr(out.p, " bytes more]> on c0-0|"));

    /* All of them have to fit together. */
    const char *args[16];
    for (size_t i = 0; i < 16; i++)
        args[i] = "{half}{host}";
    const struct parameter_setting many[] = {SET("program", "p"), {"args", args, 16}};
    assert_int_equal(plan(many, 2, data, 3, &out, &why), 0);
    assert_true(out.n <= TEMPLATE_ALL_MAX && out.n > TEMPLATE_ALL_MAX / 4);
    /* What fits is not touched. */
    const struct parameter_setting fits[] = {SET("program", "p"), SET("text", "{half}")};
    assert_int_equal(plan(fits, 2, data, 3, &out, &why), 0);
    assert_null(strstr(out.p, "bytes more"));
    assert_int_equal(strspn(out.p + 2, "x"), 100 << 10);

    for (size_t i = 0; i < TEMPLATE_TEXT_MAX + 1; i++)
        strbuf_add_char(&text, 'y');
    const struct parameter_setting own[] = {SET("program", "p"), SET("text", text.p)};
    assert_int_equal(plan(own, 2, data, 3, &out, &why), E_LIMIT);
    strbuf_fini(&text);
    strbuf_fini(&out);
}

static void test_run(void **state)
{
    (void)state;
    const struct actuator_env env = {.deadline_ns = INT64_MAX, .attempt = "a"};
    struct actuator_report report = {0};
    const struct parameter_setting s[] = {SET("program", "p"), SET("text", "t"), SET("number", "5")};
    assert_int_equal(actuator_run(&echo, s, 3, &env, &report), -EAGAIN);
    assert_slice(strbuf_slice(&report.text), "ran p\\x0awith \\x1bt"); /* one line */
    assert_int_equal(report.exit_code, -1);
    actuator_report_fini(&report);
    report = (struct actuator_report){0};
    assert_int_equal(actuator_run(&echo, s + 1, 2, &env, &report), -EINVAL);
    assert_non_null(strstr(report.text.p, "program"));
    actuator_report_fini(&report);
}

static void test_find(void **state)
{
    (void)state;
    assert_ptr_equal(actuator_find(SLICE_LIT("log")), actuator_find(slice_str("log")));
    assert_non_null(actuator_find(SLICE_LIT("log")));
    assert_null(actuator_find(SLICE_LIT("logg")));
    for (size_t i = 0; actuator_list[i]; i++) {
        const struct actuator_ops *ops = actuator_list[i];
        assert_ptr_equal(actuator_find(slice_str(ops->name)), ops);
        assert_true(ops->summary[0] && ops->plan && ops->run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fill), cmocka_unit_test(test_check),
                                       cmocka_unit_test(test_long), cmocka_unit_test(test_run),
                                       cmocka_unit_test(test_find)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
