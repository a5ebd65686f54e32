/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/num.h"
#include "sensor/nagios.h"

static void add_value(struct strbuf *out, const char *name, struct value v)
{
    char number[NUM_TEXT_MAX];
    if (v.type == VALUE_FLOAT)
        strbuf_printf(out, " %s=%.*s", name, (int)num_print_float(number, v.f), number);
}

/* All that is in it, as text; "bad" for an item that is none. */
static const char *read_all(const char *text)
{
    static struct strbuf out;
    struct strbuf scratch = {0};
    struct nagios n;
    struct nagios_perf p;
    int r;
    strbuf_reset(&out);
    nagios_read(slice_str(text), &n);
    strbuf_printf(&out, "[%.*s]", SLICE_ARG(n.output));
    if (n.detail.n)
        strbuf_printf(&out, " [%.*s]", SLICE_ARG(n.detail));
    while ((r = nagios_next_perf(&n, &scratch, &p)) != 0) {
        if (r < 0) {
            assert_int_equal(r, E_PROTO);
            strbuf_add_str(&out, " | bad");
            continue;
        }
        strbuf_printf(&out, " | %.*s:", SLICE_ARG(p.label));
        add_value(&out, "value", p.value);
        if (p.unit.n)
            strbuf_printf(&out, " %.*s", SLICE_ARG(p.unit));
        if (p.warn.n)
            strbuf_printf(&out, " warn=%.*s", SLICE_ARG(p.warn));
        if (p.crit.n)
            strbuf_printf(&out, " crit=%.*s", SLICE_ARG(p.crit));
        add_value(&out, "min", p.min);
        add_value(&out, "max", p.max);
    }
    strbuf_fini(&scratch);
    return out.p;
}

static void what_plugins_print(void **state)
{
    (void)state;
    /* The examples of the plugin guidelines and of Nagios' plugin API. */
    assert_string_equal(read_all("DISK OK - free space: / 3326 MB (56%);"),
                        "[DISK OK - free space: / 3326 MB (56%);]");
    assert_string_equal(
        read_all("DISK OK - free space: / 3326 MB (56%); | /=2643MB;5948;5958;0;5968\n"),
        "[DISK OK - free space: / 3326 MB (56%);] | /: value=2643.0 MB warn=5948 crit=5958 min=0.0 "
        "max=5968.0");
    assert_string_equal(read_all("DISK OK - free space: / 3326 MB (56%); | /=2643MB;5948;5958;0;5968\n"
                                 "/ 15272 MB (77%);\n/boot 68 MB (69%);\n/home 69357 MB (27%);\n"
                                 "/var/log 819 MB (84%); | /boot=68MB;88;93;0;98\n"
                                 "/home=69357MB;253404;253409;0;253414\n/var/log=818MB;970;975;0;980\n"),
                        "[DISK OK - free space: / 3326 MB (56%);] [/ 15272 MB (77%);\n/boot 68 MB "
                        "(69%);\n/home 69357 MB (27%);\n"
                        "/var/log 819 MB (84%);] | /: value=2643.0 MB warn=5948 crit=5958 min=0.0 max=5968.0"
                        " | /boot: value=68.0 MB warn=88 crit=93 min=0.0 max=98.0"
                        " | /home: value=69357.0 MB warn=253404 crit=253409 min=0.0 max=253414.0"
                        " | /var/log: value=818.0 MB warn=970 crit=975 min=0.0 max=980.0");
    assert_string_equal(read_all("PING OK|rta=12.445000ms;100.000000;200.000000;0.000000 pl=0%;5;15;0"),
                        "[PING OK] | rta: value=12.445 ms warn=100.000000 crit=200.000000 min=0.0"
                        " | pl: value=0.0 % warn=5 crit=15 min=0.0");
}

static void labels(void **state)
{
    (void)state;
    assert_string_equal(read_all("x|'a b'=1 'it''s'=2 'c=d'=3 ''''=4"),
                        "[x] | a b: value=1.0 | it's: value=2.0 | c=d: value=3.0 | ': value=4.0");
    assert_string_equal(read_all("x|''=1 'open=2"), "[x] | bad | bad");
    assert_string_equal(read_all("x|'a'b=1 a'b=2 =3 c = 4"), "[x] | bad | bad | bad | bad | bad | bad");
}

static void values(void **state)
{
    (void)state;
    assert_string_equal(read_all("x|a=-1.5 b=+2 c=.5 c=-.5 c=5. d=1e3B e=1E f=1e-3s g=5c"),
                        "[x] | a: value=-1.5 | b: value=2.0 | c: value=0.5 | c: value=-0.5 | c: value=5.0"
                        " | d: value=1000.0 B | e: value=1.0 E"
                        " | f: value=0.001 s | g: value=5.0 c");
    assert_string_equal(read_all("x|a=U b=;1 c=x d=1.2.3 e=1e999 f=-"),
                        "[x] | a: | bad | bad | bad | bad | bad");
    assert_string_equal(read_all("x|a=1;10:20;~:5 b=2;@1:3;;; c=3;;;-1;2"),
                        "[x] | a: value=1.0 warn=10:20 crit=~:5 | b: value=2.0 warn=@1:3"
                        " | c: value=3.0 min=-1.0 max=2.0");
    assert_string_equal(read_all("x|a=1MB;;;0MB;2MB b=1;;;low"),
                        "[x] | a: value=1.0 MB min=0.0 max=2.0 | bad");
}

static void hardly_anything(void **state)
{
    (void)state;
    assert_string_equal(read_all(""), "[]");
    assert_string_equal(read_all("\n\n"), "[]");
    assert_string_equal(read_all("|"), "[]");
    assert_string_equal(read_all("|\n|"), "[]");
    assert_string_equal(read_all(" a \r\nb|\r\n c=1\r\n"), "[a] [b] | c: value=1.0");
}

static void what_looks_like_one(void **state)
{
    (void)state;
    assert_true(nagios_detect(SLICE_LIT("LOAD WARNING - 5.1\nOK")));
    assert_false(nagios_detect(SLICE_LIT("12.5\nOK")));
    assert_false(nagios_detect(SLICE_LIT("")));
    assert_slice(nagios_state_name(NAGIOS_CRITICAL), "critical");
    assert_slice(nagios_state_name((enum nagios_state)17), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_plugins_print),
        cmocka_unit_test(labels),
        cmocka_unit_test(values),
        cmocka_unit_test(hardly_anything),
        cmocka_unit_test(what_looks_like_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
