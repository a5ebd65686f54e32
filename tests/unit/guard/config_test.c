/* SPDX-License-Identifier: Apache-2.0 */
/* The guard's configuration: rules, actions, defaults, and everything that is refused with a reason. */
#include "unit/test.h"

#include "guard/config.h"
#include "guard/defaults.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct problems {
    char text[4096];
    size_t n;
};

static void note(void *arg, const char *message)
{
    struct problems *p = arg;
    size_t used = strlen(p->text);
    (void)snprintf(p->text + used, sizeof p->text - used, "%s\n", message);
    p->n++;
}

/* Loads a text as guard.conf; NULL: *p says why. */
static struct guard_config *load(const char *text, const char *setting, struct problems *p)
{
    char path[] = "/tmp/gridline-guard-config-XXXXXX";
    int fd = mkstemp(path);
    const char *settings[] = {"state_dir=/var/lib/x", "run_dir=/run/x", setting};
    const struct config_flags flags = {
        .file = path, .settings = settings, .n_settings = setting ? 3 : 2, .on_problem = note, .arg = p};
    struct guard_config *c = NULL;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    *p = (struct problems){.n = 0};
    (void)guard_config_load(&flags, &c, NULL);
    (void)unlink(path);
    return c;
}

static const struct rule_config *find(const struct guard_config *c, const char *name)
{
    for (size_t i = 0; i < c->n_rules; i++)
        if (strcmp(c->rules[i].name, name) == 0)
            return &c->rules[i];
    return NULL;
}

static void test_defaults(void **state)
{
    struct problems p;
    struct guard_config *c = load("", NULL, &p);
    (void)state;
    if (!c)
        fail_msg("%s", p.text);
    assert_int_equal(c->n_rules, default_rules_n + 1); /* and guard.blind */
    assert_int_equal(c->n_actions, 0);
    assert_string_equal(c->socket, "/run/x/guard.sock");
    assert_string_equal(c->gateway, "unix:/run/x/gateway.sock");
    assert_string_equal(c->agent, "unix:/run/x/agent.sock");
    assert_non_null(find(c, "guard.blind"));
    for (size_t i = 0; i < c->n_rules; i++)
        assert_true(c->rules[i].is_default && c->rules[i].is_enabled && *c->rules[i].query);
    guard_config_destroy(c);
    c = load("default_rules = false", NULL, &p);
    assert_non_null(c);
    assert_int_equal(c->n_rules, 1);
    guard_config_destroy(c);
}

static void test_rule_and_actions(void **state)
{
    struct problems p;
    struct guard_config *c = load("default_rules = false\n"
                                  "on_blind = {\"note\"}\n"
                                  "log note { rate = \"7/2m\" attempts = 2 }\n"
                                  "rule parent { query = \"SELECT host FROM host_health\" }\n"
                                  "rule hot {\n"
                                  "    query = \"SELECT host, max FROM heat_latest WHERE max > 80\"\n"
                                  "    key = {\"host\", \"max\"}\n"
                                  "    for = 1m\n"
                                  "    no_data = fault\n"
                                  "    severity = critical\n"
                                  "    parents = {\"parent\"}\n"
                                  "    quiet = {\"22:00-06:00\"}\n"
                                  "    on_fire = {\"note\"}\n"
                                  "    repeat = 1h on_repeat = {\"note\", \"note\"}\n"
                                  "}\n",
                                  NULL, &p);
    (void)state;
    if (!c)
        fail_msg("%s", p.text);
    const struct rule_config *hot = find(c, "hot");
    assert_non_null(hot);
    assert_int_equal(hot->key.n, 2);
    assert_int_equal(hot->policy.for_ns, INT64_C(60000000000));
    assert_int_equal(hot->policy.no_data, NO_DATA_FAULT);
    assert_int_equal(hot->severity, SEVERITY_CRITICAL);
    assert_string_equal(c->rules[hot->parent_rules[0]].name, "parent");
    assert_int_equal(hot->on_fire.n, 1);
    assert_int_equal(hot->on_repeat.n, 2);
    assert_string_equal(c->actions[hot->on_fire.v[0]].name, "note");
    assert_string_equal(c->actions[0].actuator, "log");
    assert_int_equal(c->actions[0].rate_count, 7);
    assert_int_equal(c->actions[0].rate_ns, INT64_C(120000000000));
    assert_int_equal(c->actions[0].attempts, 2);
    const struct rule_config *blind = find(c, "guard.blind");
    assert_true(blind->on_fire.n == 1 && blind->on_clear.n == 1);
    guard_config_destroy(c);
}

/* One key of a default rule changed, the others stay. */
static void test_default_changed(void **state)
{
    char text[300];
    struct problems p;
    (void)state;
    (void)snprintf(text, sizeof text, "rule %s { severity = info enabled = false }", default_rules[0].name);
    struct guard_config *c = load(text, NULL, &p);
    if (!c)
        fail_msg("%s", p.text);
    const struct rule_config *r = find(c, default_rules[0].name);
    assert_int_equal(r->severity, SEVERITY_INFO);
    assert_false(r->is_enabled);
    assert_string_equal(r->query, default_rules[0].query);
    guard_config_destroy(c);
}

static void test_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"rule a { }", "query"},
        {"rule a { query = \"SELECT 1\" on_fire = {\"nobody\"} }", "no action \"nobody\""},
        {"rule a { query = \"SELECT 1\" parents = {\"b\"} }", "\"b\" is no rule"},
        {"rule a { query = \"SELECT 1\" parents = {\"b\"} }\nrule b { query = \"SELECT 1\" parents = {\"a\"} "
         "}",
         "parent of itself"},
        {"rule a { query = \"SELECT 1\" quiet = {\"25:00-26:00\"} }", "25:00"},
        {"rule a { query = \"SELECT 1\" key = {\"x\", \"x\"} }", "twice"},
        {"rule a { query = \"SELECT 1\" severity = loud }", "loud"},
        {"rule a { query = \"SELECT 1\" every = 1h fresh = 1m }", "fresh"},
        {"rule a { query = \"SELECT 1\" on_repeat = {\"n\"} }\nlog n { }", "repeat"},
        {"log n { rate = \"often\" }", "rate"},
        {"log n { rate = \"4000000000/1h\" }", "too much"},
        {"log n { rate = \"1/90000d\" }", "too much"},
        {"log n { no_such = 1 }", "no_such"},
        {"log n { }\nexec n { program = \"/bin/true\" }", "n"},
        {"heartbeat { every = 10s timeout = 5s }", "heartbeat.timeout"},
        {"gateway = \"somewhere\"", "somewhere"},
        {"unknown = 1", "unknown"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct problems p;
        struct guard_config *c = load(cases[i].text, NULL, &p);
        if (c || !strstr(p.text, cases[i].says))
            fail_msg("%s\nsays: %s\nnot: %s", cases[i].text, p.text, cases[i].says);
        assert_true(p.n >= 1);
    }
}

/* What is shown is a configuration that means the same. */
static void test_shown(void **state)
{
    struct problems p;
    struct strbuf once = {0}, again = {0};
    struct guard_config *c = load(
        "log note { rate = \"7/2m\" }\n"
        "rule hot { query = \"SELECT host FROM x_latest WHERE a > 'it''s'\" on_fire = {\"note\"} trust = "
        "{\"x\"} }\n",
        NULL, &p);
    (void)state;
    if (!c)
        fail_msg("%s", p.text);
    guard_config_show(c, CONFIG_FORM_TEXT, false, &once);
    guard_config_destroy(c);
    c = load(once.p, NULL, &p);
    if (!c)
        fail_msg("%s", p.text);
    guard_config_show(c, CONFIG_FORM_TEXT, false, &again);
    assert_string_equal(once.p, again.p);
    guard_config_destroy(c);
    strbuf_fini(&once);
    strbuf_fini(&again);
}

/* Two rules a layer, each with both of the next as parents: a billion ways, and none is a circle. */
static void test_many_ways(void **state)
{
    struct strbuf text = {0};
    struct problems p;
    (void)state;
    for (int i = 0; i < 30; i++)
        for (int k = 0; k < 2; k++) {
            strbuf_printf(&text, "rule r%d-%d { query = \"SELECT 1\"", i, k);
            if (i < 29)
                strbuf_printf(&text, " parents = {\"r%d-0\", \"r%d-1\"}", i + 1, i + 1);
            strbuf_add_str(&text, " }\n");
        }
    struct guard_config *c = load(text.p, NULL, &p);
    if (!c)
        fail_msg("%s", p.text);
    guard_config_destroy(c);
    strbuf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),        cmocka_unit_test(test_rule_and_actions),
        cmocka_unit_test(test_default_changed), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_shown),           cmocka_unit_test(test_many_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
