/* SPDX-License-Identifier: Apache-2.0 */
/* A back-test by the second: when rules are evaluated, what they had heard by then, whom they would have
 * told; rules that others must answer; and a property: over random signals every rule gives what the life of
 * a fault gives by itself. */
#include "unit/test.h"

#include "event/batch.h"
#include "guard/backtest.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define T0     (INT64_C(1794700800) * SECOND)
#define SPACE                                                                                               \
    "rule low { query = \"SELECT host, free FROM space_latest WHERE free < 100\"  key = {\"host\"}  every " \
    "= "                                                                                                    \
    "\"10s\"  for = \"20s\"  clear_for = \"20s\"  fresh = \"1m\"  "

struct world {
    struct guard_config *config;
    struct backtest *backtest;
    struct registry *registry;
    struct batch_builder *builder;
    struct strbuf said; /* "30 low fires a; ..." */
    struct strbuf asked;
    int answer_code;
    bool is_answer_present;
};

static struct world w;

static struct guard_config *load(const char *text)
{
    char path[] = "/tmp/gridline-backtest-XXXXXX";
    int fd = mkstemp(path);
    const char *settings[] = {"state_dir=/var/lib/x", "run_dir=/run/x", "default_rules=true"};
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

static struct slice host_of(const struct fault *f)
{
    for (size_t i = 0; i < f->n_fields; i++)
        if (slice_eq_str(f->fields[i].name, "host"))
            return f->fields[i].value;
    return SLICE_LIT("-");
}

static void on_deed(void *arg, const struct backtest_deed *d)
{
    static const char *const kinds[] = {"fires", "clears"};
    struct world *to = arg;
    strbuf_printf(&to->said, "%s%d %s %s %.*s", to->said.n ? "; " : "", (int)((d->at_ns - T0) / SECOND),
                  d->rule->name, d->kind == BACKTEST_NOTICE ? notice_name(d->notice) : kinds[d->kind],
                  SLICE_ARG(host_of(d->fault)));
    for (size_t i = 0; d->kind == BACKTEST_NOTICE && i < d->actions->n; i++)
        strbuf_printf(&to->said, "%c%s", i ? ',' : ' ', to->config->actions[d->actions->v[i]].name);
}

static void ask(void *arg, const char *text, int64_t now_ns, struct rule_answer *out)
{
    static const struct slice names[] = {{"host", 4}};
    static const struct value values[] = {{.p = "far", .n = 3, .type = VALUE_TEXT}};
    struct world *to = arg;
    (void)text;
    strbuf_printf(&to->asked, "%d ", (int)((now_ns - T0) / SECOND));
    *out = (struct rule_answer){.names = names,
                                .values = values,
                                .n_columns = 1,
                                .n_rows = to->is_answer_present,
                                .code = to->answer_code,
                                .why = "the archive is away"};
}

static int create(const char *config, int from, int to, bool can_ask, struct diag *why)
{
    w.config = load(config);
    const struct backtest_options o = {.config = w.config,
                                       .from_ns = T0 + from * SECOND,
                                       .to_ns = T0 + to * SECOND,
                                       .ask = can_ask ? ask : NULL,
                                       .on_deed = on_deed,
                                       .arg = &w};
    return backtest_create(&o, &w.backtest, why);
}

static void begin(const char *config, int from, int to, bool can_ask)
{
    struct diag why = {0};
    if (create(config, from, to, can_ask, &why) < 0)
        fail_msg("%s", why.message);
}

static int set_up(void **state)
{
    (void)state;
    w = (struct world){.registry = registry_create()};
    w.builder = batch_builder_create(w.registry, 0);
    strbuf_add_str(&w.said, "");
    strbuf_add_str(&w.asked, "");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    backtest_destroy(w.backtest);
    guard_config_destroy(w.config);
    batch_builder_destroy(w.builder);
    registry_destroy(w.registry);
    strbuf_fini(&w.said);
    strbuf_fini(&w.asked);
    return 0;
}

static void hear(int at, const char *host, double free)
{
    const struct event_head head = {.time_ns = T0 + at * SECOND,
                                    .name = SLICE_LIT("space"),
                                    .host = slice_str(host),
                                    .prog = SLICE_LIT("df")};
    const struct named_value v[] = {{SLICE_LIT("free"), value_float(free)}};
    assert_int_equal(batch_builder_add(w.builder, &head, v, 1, NULL), 0);
    struct batch *b = batch_builder_finish(w.builder, NULL);
    assert_non_null(b);
    backtest_take(w.backtest, &b->events[0]);
    batch_unref(b);
}

static struct backtest_result result(const char *rule)
{
    struct backtest_result r;
    for (size_t i = 0; backtest_rule(w.backtest, i, &r); i++)
        if (strcmp(r.rule->name, rule) == 0)
            return r;
    fail_msg("no rule %s", rule);
    return r;
}

/* ---------------------------------------------------------------- */

static void fires_and_clears(void **state)
{
    (void)state;
    begin("log note { }\nlog off { }\n" SPACE
          "trust = {\"space\"} on_fire = {\"note\", \"off\"} on_clear = {\"off\"} }",
          0, 200, false);
    for (int t = 0; t < 200; t += 10)
        hear(t, "a", t >= 50 && t < 120 ? 10 : 500);
    backtest_finish(w.backtest);
    assert_string_equal(w.said.p,
                        "70 low fires a; 70 low fire a note,off; 140 low clears a; 140 low clear a off");
    struct backtest_result r = result("low");
    assert_true(r.is_tested && r.fires == 1 && r.clears == 1 && r.notices == 2 && r.firing == 0);
    assert_true(r.evaluations == 20 && r.failures == 0 && r.firing_ns == 70 * SECOND);
    assert_string_equal(r.why, "");
}

/* An event of the moment of an evaluation is heard before it, one of the next nanosecond after it. */
static void hears_up_to_the_moment(void **state)
{
    (void)state;
    begin(SPACE "}", 0, 1000, false);
    hear(0, "a", 10);
    hear(10, "a", 10);
    hear(20, "a", 10);
    hear(21, "a", 500); /* it was present at 0, 10 and 20 */
    hear(22, "b", 10);  /* only from 30 on; then nothing is heard of it for long */
    hear(40, "a", 500);
    hear(50, "a", 500);
    backtest_finish(w.backtest);
    /* a: not there at 30, 40, 50. b: its row counts as long as it is fresh: present at 30, 40, 50 */
    assert_string_equal(w.said.p, "20 low fires a; 50 low fires b; 50 low clears a");
    assert_int_equal(result("low").firing, 1); /* b: no data holds it */
}

/* What was known before `from` counts from the first evaluation on; the order of rules and times is kept. */
static void knows_what_was_before(void **state)
{
    (void)state;
    struct strbuf events = {0};
    begin(SPACE "}", 100, 200, false);
    assert_true(backtest_begins(w.backtest) == T0 + 40 * SECOND);
    backtest_events(w.backtest, &events);
    assert_string_equal(events.p, "space");
    strbuf_fini(&events);
    for (int t = 60; t < 300; t += 10) /* what is after `to` does nothing */
        hear(t, "a", t < 250 ? 10 : 500);
    backtest_finish(w.backtest);
    assert_string_equal(w.said.p, "120 low fires a");
    assert_true(result("low").evaluations == 10 && result("low").firing == 1);
}

static void repeats_between_evaluations(void **state)
{
    (void)state;
    begin("log note { }\n" SPACE
          "trust = {\"space\"} on_fire = {\"note\"} on_repeat = {\"note\"} repeat = \"35s\" }",
          0, 120, false);
    for (int t = 0; t < 120; t += 10)
        hear(t, "a", 10);
    backtest_finish(w.backtest);
    assert_string_equal(w.said.p,
                        "20 low fires a; 20 low fire a note; 55 low repeat a note; 90 low repeat a note");
}

static void asks_as_of_then(void **state)
{
    (void)state;
    begin("rule far { query = \"SELECT host FROM space_bucket('now-1h', 'now')\"  key = {\"host\"}  every = "
          "\"30s\" for = \"0s\" "
          "clear_for = \"0s\" }",
          0, 100, true);
    w.is_answer_present = true;
    hear(31, "a", 1); /* turns at 0 and 30 are over */
    w.is_answer_present = false;
    backtest_finish(w.backtest);
    assert_string_equal(w.asked.p, "0 30 60 90 ");
    assert_string_equal(w.said.p, "0 far fires far; 60 far clears far");
}

static void says_what_is_not_tested(void **state)
{
    (void)state;
    static const char config[] =
        SPACE "}\n"
              "rule far { query = \"SELECT host FROM space_bucket('now-1h', 'now')\"  key = {\"host\"} }\n"
              "rule gone { query = \"SELECT host FROM host_health\"  key = {\"host\"} place = \"here\" }\n"
              "rule off { query = \"SELECT host FROM space_latest\"  key = {\"host\"} enabled = false }\n";
    begin(config, 0, 100, false);
    backtest_finish(w.backtest);
    assert_false(result("low").is_tested); /* nothing was ever heard */
    assert_true(result("low").evaluations == 10 && result("low").failures == 10 && *result("low").why);
    assert_false(result("far").is_tested);
    assert_non_null(strstr(result("far").why, "at the gateway"));
    assert_string_equal(result("off").why, "it is not enabled");
    assert_false(result("gone").is_tested);
    assert_string_equal(result("gone").why, "host_health has no past");
    assert_false(result("guard.blind").is_tested); /* ours: not asked for */
    assert_int_equal(result("guard.blind").evaluations, 0);
    (void)tear_down(NULL);
    (void)set_up(NULL);
    begin(config, 0, 100, true);
    w.answer_code = -EIO;
    backtest_finish(w.backtest);
    assert_false(result("far").is_tested);
    assert_string_equal(result("far").why, "the archive is away");
    assert_string_equal(w.said.p, "");
}

static void refuses(void **state)
{
    struct diag why = {0};
    (void)state;
    assert_int_equal(create(SPACE "}", 10, 10, false, &why), -EINVAL);
    assert_true(why.message[0]);
    assert_null(w.backtest);
    guard_config_destroy(w.config);
    why = (struct diag){0};
    assert_int_equal(create("log note { }\n" SPACE "on_fire = {\"note\"} }", 0, 10, false, &why), -EACCES);
    assert_non_null(strstr(why.message, "trust"));
    assert_null(w.backtest);
}

/* The life of one fault, fed with the same signal at the same times, says the same. */
static void is_the_life_of_a_fault(void **state)
{
    uint64_t seed = 7;
    (void)state;
    begin(SPACE "}", 0, 4000, false);
    const struct fault_policy policy = {.for_ns = 20 * SECOND, .clear_for_ns = 20 * SECOND};
    struct fault_life life = {.state = FAULT_NONE};
    struct strbuf want = {0};
    bool is_low = false;
    strbuf_add_str(&want, "");
    for (int t = 0; t < 4000; t += 10) {
        is_low = test_random(&seed) % 5 ? is_low : !is_low;
        hear(t, "a", is_low ? 10 : 500);
        enum fault_turn turn =
            fault_see(&life, &policy, is_low ? SIGHT_PRESENT : SIGHT_CLEAR, T0 + t * SECOND);
        if (turn == TURN_FIRES || turn == TURN_CLEARS)
            strbuf_printf(&want, "%s%d low %s a", want.n ? "; " : "", t,
                          turn == TURN_FIRES ? "fires" : "clears");
    }
    backtest_finish(w.backtest);
    assert_true(want.n > 200);
    assert_string_equal(w.said.p, want.p);
    strbuf_fini(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fires_and_clears, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hears_up_to_the_moment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(knows_what_was_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(repeats_between_evaluations, set_up, tear_down),
        cmocka_unit_test_setup_teardown(asks_as_of_then, set_up, tear_down),
        cmocka_unit_test_setup_teardown(says_what_is_not_tested, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(is_the_life_of_a_fault, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
