/* SPDX-License-Identifier: Apache-2.0 */
/* A rule over live tables: what it sees, what it takes for no data, where it is asked, whom it trusts. */
#include "unit/test.h"

#include "base/clock.h"
#include "event/batch.h"
#include "guard/rule.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define T0 (INT64_C(1794776400) * NS_PER_S)

struct world {
    struct guard_config *config;
    struct live *live;
    struct judge *judge;
    struct faults *faults;
    struct rule *rule;
    struct registry *registry;
    struct batch_builder *builder;
    int64_t now_ns;
    int result; /* of rule_create */
    struct diag why;
    unsigned fires, clears;
};

static void on_change(void *arg, const struct fault *f, enum fault_turn turn)
{
    struct world *w = arg;
    (void)f;
    w->fires += turn == TURN_FIRES;
    w->clears += turn == TURN_CLEARS;
}

static void on_silence(void *arg, const struct silence *s, bool is_over)
{
    (void)arg, (void)s, (void)is_over; /* there are none */
}

static bool has_data(void *arg, unsigned rule, const struct fault *f, int64_t now_ns)
{
    const struct world *w = arg;
    assert_int_equal(rule, 0);
    return rule_has_data(w->rule, f, now_ns);
}

static struct guard_config *load(const char *text)
{
    char path[] = "/tmp/gridline-guard-rule-XXXXXX";
    int fd = mkstemp(path);
    const char *settings[] = {"state_dir=/var/lib/x", "run_dir=/run/x", "default_rules=false"};
    const struct config_flags flags = {.file = path, .settings = settings, .n_settings = 3};
    struct guard_config *c = NULL;
    struct diag why = {0};
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    if (guard_config_load(&flags, &c, &why) < 0)
        fail_msg("%s", why.message);
    (void)unlink(path);
    return c;
}

static void begin(struct world *w, const char *config)
{
    const struct faults_calls calls = {
        .arg = w, .on_change = on_change, .on_silence = on_silence, .has_data = has_data};
    *w = (struct world){.config = load(config), .now_ns = T0};
    w->registry = registry_create();
    w->builder = batch_builder_create(w->registry, 0);
    assert_int_equal(live_create(NULL, &w->live), 0);
    assert_int_equal(judge_create(w->live, NULL, 0, &w->judge), 0);
    assert_int_equal(faults_create(w->config, &calls, &w->faults), 0);
    const struct rule_env env = {w->config, w->live, w->judge, w->faults};
    w->result = rule_create(&env, 0, &w->rule, &w->why);
}

static void end(struct world *w)
{
    rule_destroy(w->rule);
    faults_destroy(w->faults);
    judge_destroy(w->judge);
    live_destroy(w->live);
    batch_builder_destroy(w->builder);
    registry_destroy(w->registry);
    guard_config_destroy(w->config);
}

static void heat(struct world *w, const char *host, int64_t degrees)
{
    const struct event_head head = {.time_ns = w->now_ns, .name = SLICE_LIT("heat"), .host = slice_str(host)};
    const struct named_value degrees_of = {SLICE_LIT("degrees"), value_int(degrees)};
    assert_int_equal(batch_builder_add(w->builder, &head, &degrees_of, 1, NULL), 0);
    struct batch *b = batch_builder_finish(w->builder, NULL);
    assert_non_null(b);
    assert_int_equal(live_take(w->live, &b->events[0], w->now_ns), 0);
    batch_unref(b);
}

static void step(struct world *w, int64_t s)
{
    w->now_ns += s * NS_PER_S;
    rule_evaluate(w->rule, w->now_ns);
}

static size_t firing(const struct world *w)
{
    struct faults_counts n;
    faults_count(w->faults, 0, &n);
    return n.firing;
}

static void test_fires_and_clears(void **state)
{
    struct world w;
    (void)state;
    begin(&w, "rule hot { query = \"SELECT host, degrees FROM heat_latest WHERE degrees > 80\" fresh = 1m }");
    assert_int_equal(w.result, 0);
    assert_false(rule_is_remote(w.rule));
    step(&w, 1); /* nobody has sent any heat yet: no data, no fault */
    assert_int_equal(rule_stats(w.rule)->code, E_NODATA);
    heat(&w, "a", 90);
    heat(&w, "b", 10);
    step(&w, 1);
    assert_int_equal(rule_stats(w.rule)->code, 0);
    assert_int_equal(w.fires, 1);
    heat(&w, "a", 10);
    step(&w, 1);
    assert_int_equal(w.clears, 1);
    assert_int_equal(firing(&w), 0);
    end(&w);
}

/* A host that is silent has not become well, though others go on. */
static void test_silence_holds(void **state)
{
    struct world w;
    (void)state;
    begin(&w,
          "rule hot { query = \"SELECT host, degrees FROM heat_latest WHERE degrees > 80\" fresh = 1m every "
          "= 1s }");
    heat(&w, "a", 90);
    step(&w, 1);
    for (int i = 0; i < 100; i++) {
        heat(&w, "b", 10);
        step(&w, 10);
    }
    assert_int_equal(firing(&w), 1);
    assert_int_equal(w.clears, 0);
    heat(&w, "a", 10);
    step(&w, 1);
    assert_int_equal(w.clears, 1);
    end(&w);
}

static void test_silence_is_a_fault(void **state)
{
    struct world w;
    (void)state;
    begin(&w,
          "rule hot { query = \"SELECT host, degrees FROM heat_latest WHERE degrees > 80\" fresh = 1m every "
          "= 1s no_data = "
          "fault key = {\"host\"} }");
    heat(&w, "a", 10);
    step(&w, 1);
    assert_int_equal(firing(&w), 0);
    step(&w, 120);
    assert_int_equal(firing(&w), 1);
    heat(&w, "a", 10);
    step(&w, 1);
    assert_int_equal(firing(&w), 0);
    assert_true(w.fires == 1 && w.clears == 1);
    end(&w);
}

static void test_hysteresis(void **state)
{
    struct world w;
    (void)state;
    begin(&w, "rule hot { query = \"SELECT host FROM heat_latest WHERE degrees > 80\" clear_query = \"SELECT "
              "host FROM "
              "heat_latest WHERE degrees < 60\" }");
    static const int64_t levels[] = {90, 70, 85, 70, 61, 81, 70};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        heat(&w, "a", levels[i]);
        step(&w, 1);
    }
    assert_true(w.fires == 1 && w.clears == 0);
    heat(&w, "a", 59);
    step(&w, 1);
    assert_int_equal(w.clears, 1);
    end(&w);
}

/* What the gateway is asked for: rows that came, none that came, and no answer. */
static void test_remote(void **state)
{
    const struct slice names[] = {SLICE_LIT("host"), SLICE_LIT("n")};
    const struct value values[] = {value_text(SLICE_LIT("a")), value_int(3), value_text(SLICE_LIT("b")),
                                   value_int(4)};
    const struct rule_answer two = {.names = names, .values = values, .n_columns = 2, .n_rows = 2};
    const struct rule_answer none = {.names = names, .n_columns = 2};
    const struct rule_answer failed = {.code = -ETIMEDOUT, .why = "too late"};
    struct world w;
    (void)state;
    begin(&w, "rule often { query = \"SELECT host, count(*) AS n FROM heat GROUP BY host\" }");
    assert_int_equal(w.result, 0);
    assert_true(rule_is_remote(w.rule));
    rule_judge(w.rule, T0, 1000, &two, NULL);
    assert_int_equal(firing(&w), 2);
    rule_judge(w.rule, T0 + NS_PER_S, 1000, &failed, NULL);
    assert_int_equal(firing(&w), 2);
    assert_string_equal(rule_stats(w.rule)->why, "too late");
    rule_judge(w.rule, T0 + 2 * NS_PER_S, 1000, &none, NULL);
    assert_true(firing(&w) == 0 && w.clears == 2);
    end(&w);
}

static void test_refused(void **state)
{
    static const struct {
        const char *config;
        int code;
        const char *says;
    } cases[] = {
        {"rule a { query = \"SELEC host\" }", E_PROTO, "rule a"},
        {"rule a { query = \"DELETE FROM heat_latest\" }", -EACCES, "rule a"},
        {"rule a { query = \"SELECT host FROM heat\" place = here }", -EXDEV, "rule a"},
        {"rule a { query = \"SELECT host FROM heat_latest\" on_fire = {\"n\"} }\nlog n { }", -EACCES,
         "trust"},
        {"rule a { query = \"SELECT host FROM heat_latest\" on_fire = {\"n\"} trust = {\"heat\"} }\nlog n { "
         "}",
         0, ""},
        {"rule a { query = \"SELECT host FROM load_latest\" on_fire = {\"n\"} }\nlog n { }", 0, ""},
        /* The same for what is asked at the gateway. */
        {"rule a { query = \"SELECT host FROM heat\" on_fire = {\"n\"} }\nlog n { }", -EACCES, "\"heat\""},
        {"rule a { query = \"SELECT host FROM heat_latest\" place = gateway on_fire = {\"n\"} }\nlog n { }",
         -EACCES, "\"heat\""},
        {"rule a { query = \"SELECT host FROM load\" clear_query = \"SELECT host FROM heat\" on_clear = "
         "{\"n\"} }\nlog n { }",
         -EACCES, "\"heat\""},
        {"rule a { query = \"SELECT host FROM load, (SELECT 1 FROM heat_bucket('a', 'b', '1m'))\" on_fire = "
         "{\"n\"} }\nlog n { }",
         -EACCES, "\"heat\""},
        {"rule a { query = \"SELECT host FROM load WHERE host IN (SELECT host FROM heat)\" on_fire = {\"n\"} "
         "}\n"
         "log n { }",
         -EACCES, "\"heat\""},
        {"rule a { query = \"SELECT host FROM heat, load\" on_fire = {\"n\"} trust = {\"heat\"} }\nlog n { }",
         0, ""},
        {"rule a { query = \"SELECT host FROM heat\" }", 0, ""},
        {"rule a { query = \"SELECT p.host AS host FROM host_health p JOIN host_health b ON b.host = 'b'\" "
         "on_fire = "
         "{\"n\"} }\nlog n { }",
         0, ""},
        {"rule a { query = \"WITH x AS (SELECT host FROM load) SELECT x.host FROM x JOIN workers w ON w.host "
         "= "
         "x.host WHERE w.state IN ('late', 'expired') ORDER BY 1, 2\" on_fire = {\"n\"} }\nlog n { }",
         0, ""},
        {"rule a { query = \"SELECT host FROM filesystem_forecast('free', '2h') WHERE value < 0\" on_fire = "
         "{\"n\"} }\nlog n { }",
         0, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world w;
        begin(&w, cases[i].config);
        if ((cases[i].code == 0) != (w.result == 0) || !strstr(w.why.message, cases[i].says))
            fail_msg("%s: %d, %s", cases[i].config, w.result, w.why.message);
        end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fires_and_clears),
        cmocka_unit_test(test_silence_holds),
        cmocka_unit_test(test_silence_is_a_fault),
        cmocka_unit_test(test_hysteresis),
        cmocka_unit_test(test_remote),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
