/* SPDX-License-Identifier: Apache-2.0 */
/* What is shown means the same again: for random configurations with awkward texts, through text and with
 * origins. */
#include "unit/test.h"

#include "base/strbuf.h"
#include "event/json.h"
#include "unit/agent/config_sensors.h"

#include <unistd.h>

static char path[64];
static struct strbuf shown;

static void write_conf(struct slice text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text.p, 1, text.n, f), text.n);
    assert_int_equal(fclose(f), 0);
}

static struct agent_config *load(struct slice text)
{
    struct config_flags flags = {.file = path};
    struct agent_config *c = NULL;
    struct diag why = {0};
    write_conf(text);
    if (config_load(&flags, &c, &why) < 0)
        fail_msg("%s in:\n%.*s", why.message, SLICE_ARG(text));
    return c;
}

static const char *show(const struct agent_config *c, enum config_form form, bool with_origins)
{
    strbuf_reset(&shown);
    config_show(c, form, with_origins, &shown);
    assert_false(strbuf_failed(&shown));
    return shown.p;
}

static void comes_back(struct slice text)
{
    struct strbuf plain = {0};
    struct agent_config *first = load(text);
    (void)show(first, CONFIG_FORM_TEXT, true);
    struct agent_config *second = load(strbuf_slice(&shown));
    if (!same_config(first, second))
        fail_msg("%.*s\nis shown as\n%s", SLICE_ARG(text), shown.p);
    strbuf_add_str(&plain, show(first, CONFIG_FORM_TEXT, false));
    assert_string_equal(plain.p, show(second, CONFIG_FORM_TEXT, false));
    strbuf_fini(&plain);
    config_destroy(first);
    config_destroy(second);
}

/* ---------------------------------------------------------------- random configurations */

static uint64_t state;

static unsigned below(unsigned n)
{
    return (unsigned)(test_random(&state) % n);
}

static const char *one_of(const char *const *words, size_t n)
{
    return words[below((unsigned)n)];
}

#define ONE_OF(...) \
    one_of((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* A quoted text of anything that may be in one. */
static void add_string(struct strbuf *out)
{
    strbuf_add_char(out, '"');
    for (unsigned n = below(8); n > 0; n--)
        strbuf_add_str(out, ONE_OF("a", "Z9", " ", "\\\\", "\\\"", "'", "\\$", "\\${x}", "$ ", "#", "//",
                                   "/*", "*/", "{", "}", "=", ",", "\\n", "\\t", "\\x01", "\\x7f", "\t",
                                   "\xc3\xbc", "%", "\\e"));
    strbuf_add_char(out, '"');
}

static void add_list(struct strbuf *out)
{
    unsigned n = below(4);
    strbuf_add_char(out, '{');
    for (unsigned i = 0; i < n; i++) {
        strbuf_add_str(out, i ? ", " : "");
        add_string(out);
    }
    strbuf_add_char(out, '}');
}

static void add_common(struct strbuf *out)
{
    if (below(2))
        strbuf_printf(out, " every = %s", ONE_OF("10ms", "1s", "\"2.5s\"", "61", "7m", "1d"));
    if (below(3) == 0)
        strbuf_printf(out, " refresh = %s", ONE_OF("1d", "48h", "366d"));
    if (below(2))
        strbuf_printf(out, " mode = %s", ONE_OF("always", "off", "'on-request'"));
    if (below(3) == 0)
        strbuf_printf(out, " ports = %s", ONE_OF("{}", "1", "{65535, 22}"));
    if (below(3) == 0)
        strbuf_printf(out, " compare = %s", ONE_OF("sent", "previous"));
    if (below(3) == 0)
        strbuf_printf(out, " priority = %u hold = %us", below(10), below(100));
    if (below(3) == 0)
        strbuf_printf(out, " change = %s", ONE_OF("{}", "{\"* 1\"}", "{\"user 1e3\", \"idle  0.5%\"}"));
}

static void add_agent(struct strbuf *out)
{
    bool is_guest = below(3) == 0;
    strbuf_printf(out, "guest = %s\n", is_guest ? "on" : "no");
    strbuf_printf(out, "state_dir = %s\n", is_guest || below(3) == 0 ? "\"\"" : "'/s/a b'");
    if (below(2))
        strbuf_printf(out, "gateway = %s\n", ONE_OF("{}", "tcp://localhost:1", "{\"unix:/x\", \"[::1]:5\"}"));
    if (below(2))
        strbuf_printf(out, "budget { cpu = %s }\n", ONE_OF("0.01%", "100%", "\"33.3%\""));
    if (below(2))
        strbuf_printf(out, "defaults = %s hostname = \"%s\" config_every = 1h\n", ONE_OF("true", "0"),
                      ONE_OF("", "h"));
    if (below(2))
        strbuf_add_str(out, "allow_programs = {\"/a b\", /c} config_url = 'http://x/' config_ca = /x.pem\n");
}

static void add_sections(struct strbuf *out)
{
    if (below(2)) {
        strbuf_add_str(out, "alpha { change = {\"user 5\"} names = ");
        add_list(out);
        strbuf_printf(out, " per_core = %s}\n", ONE_OF("yes", "off"));
    }
    if (below(2)) {
        strbuf_add_str(out, "beta { size = 10MiB ratio = -1.5e3 text = ");
        add_string(out);
        add_common(out);
        strbuf_add_str(out, "}\n");
    }
    for (unsigned i = below(4); i > 0; i--) {
        strbuf_printf(out, "run %s%u {", ONE_OF("r", "a.b:", "X-"), i);
        add_common(out);
        strbuf_add_str(out, " command = ");
        add_list(out);
        strbuf_add_str(out, "}\n");
    }
    for (unsigned i = below(3); i > 0; i--)
        strbuf_printf(out, "output o%u { path = '%s' encoding = %s }\n", i, ONE_OF("-", "x y", "/a#b"),
                      ONE_OF("xml", "binary"));
}

static void test_shown_means_the_same(void **unused)
{
    struct strbuf text = {0};
    unsigned rounds = 300 * test_scale();
    (void)unused;
    comes_back(SLICE_LIT(""));
    comes_back(SLICE_LIT("beta { } alpha { every = 5m }")); /* refresh grows */
    for (unsigned i = 0; i < rounds; i++) {
        state = i;
        strbuf_reset(&text);
        add_agent(&text);
        add_sections(&text);
        comes_back(strbuf_slice(&text));
    }
    strbuf_fini(&text);
}

/* ---------------------------------------------------------------- forms */

static void test_origins(void **unused)
{
    struct agent_config *c = load(SLICE_LIT("\nbudget { cpu = 2% }\nrun a { command = {/a, \"b c\"} }"));
    char expected[128];
    (void)unused;
    (void)show(c, CONFIG_FORM_TEXT, true);
    (void)snprintf(expected, sizeof expected, "\n    cpu = 2%%  # %s:2\n    memory = 16MiB  # default\n}\n",
                   path);
    assert_non_null(strstr(shown.p, expected));
    (void)snprintf(expected, sizeof expected, "    command = {\"/a\", \"b c\"}  # %s:3\n", path);
    assert_non_null(strstr(shown.p, expected));
    assert_non_null(strstr(shown.p, "\nrun a {\n"));
    assert_null(strchr(show(c, CONFIG_FORM_TEXT, false), '#'));
    config_destroy(c);
}

static void test_json_is_json(void **unused)
{
    struct agent_config *c =
        load(SLICE_LIT("alpha { names = {\"a\\\"b\", \"\\x01\"} }\nbudget { cpu = 2% }"));
    struct json_reader r;
    struct json_item item = {0};
    struct diag why = {0};
    size_t keys = 0;
    (void)unused;
    (void)show(c, CONFIG_FORM_JSON, true);
    json_init(&r, strbuf_slice(&shown), 8, &why);
    do {
        if (json_next(&r, &item) < 0)
            fail_msg("%s in %s", why.message, shown.p);
        keys += slice_eq_str(item.key, "key");
    } while (item.kind != JSON_END);
    assert_true(keys > 20);
    assert_non_null(
        strstr(shown.p, "{\"key\": \"budget.memory\", \"value\": \"16MiB\", \"origin\": \"default\"}"));
    assert_non_null(strstr(
        shown.p, "{\"key\": \"alpha.names\", \"value\": [\"a\\\"b\", \"\\u0001\"], \"origin\": \"/tmp"));
    assert_null(strstr(show(c, CONFIG_FORM_JSON, false), "origin"));
    config_destroy(c);
}

static int set_up(void **unused)
{
    (void)unused;
    memcpy(path, "/tmp/gridline-show.XXXXXX", 26);
    assert_non_null(mkdtemp(path));
    memcpy(path + strlen(path), "/agent.conf", 12);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    strbuf_fini(&shown);
    (void)unlink(path); /* the folder's removal tells */
    *strrchr(path, '/') = '\0';
    return rmdir(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shown_means_the_same),
        cmocka_unit_test(test_origins),
        cmocka_unit_test(test_json_is_json),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
