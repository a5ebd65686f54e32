/* SPDX-License-Identifier: Apache-2.0 */
/* The turn of guard.c by another clock, with the parts alone that judge. */
#include "guard/backtest.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>

enum { NOTICES_A_TURN = 4096 };
static const int64_t FORGET_NS = 60 * NS_PER_S;

struct tested {
    struct rule *rule; /* NULL: it is not enabled, or can't be tested: */
    struct diag why;
    int64_t next_ns; /* when it is evaluated */
    uint64_t fires, clears, notices;
    int64_t firing_ns;
};

struct backtest {
    struct backtest_options options;
    struct live *live;
    struct judge *judge;
    struct faults *faults;
    struct tested *rules;
    size_t n_rules;
    int64_t now_ns;  /* of the turn */
    int64_t next_ns; /* the next turn */
    int64_t forgot_ns;
};

/* ---------------------------------------------------------------- what is found */

static void say(struct backtest *b, enum backtest_kind kind, const struct fault *f)
{
    const struct backtest_deed d = {
        .kind = kind, .at_ns = b->now_ns, .rule = &b->options.config->rules[f->rule], .fault = f};
    b->options.on_deed(b->options.arg, &d);
}

static void on_change(void *arg, const struct fault *f, enum fault_turn turn)
{
    struct backtest *b = arg;
    struct tested *c = &b->rules[f->rule];
    if (turn == TURN_FIRES) {
        c->fires++;
        say(b, BACKTEST_FIRE, f);
    } else if (turn == TURN_CLEARS) {
        c->clears++;
        c->firing_ns += f->life.cleared_ns - f->life.fired_ns;
        say(b, BACKTEST_CLEAR, f);
    }
}

static void on_silence(void *arg, const struct silence *s, bool is_over)
{
    (void)arg, (void)s, (void)is_over; /* nobody silences here */
}

static bool has_data(void *arg, unsigned rule, const struct fault *f, int64_t now_ns)
{
    const struct backtest *b = arg;
    return b->rules[rule].rule && rule_has_data(b->rules[rule].rule, f, now_ns);
}

/* A notice that no action hears of is no deed. */
static void on_notice(void *arg, const struct notice *n)
{
    struct backtest *b = arg;
    const struct backtest_deed d = {.kind = BACKTEST_NOTICE,
                                    .at_ns = b->now_ns,
                                    .rule = n->rule,
                                    .fault = n->fault,
                                    .notice = n->kind,
                                    .actions = notice_actions(n)};
    if (d.actions->n == 0)
        return;
    b->rules[n->fault->rule].notices++;
    b->options.on_deed(b->options.arg, &d);
}

/* ---------------------------------------------------------------- the turn */

static void ask(struct backtest *b, struct rule *rule)
{
    const struct rule_config *c = rule_config(rule);
    struct rule_answer answers[2] = {0};
    int64_t from_ns = clock_mono_ns();
    if (!b->options.ask)
        return;
    b->options.ask(b->options.arg, c->query, b->now_ns, &answers[0]);
    if (*c->clear_query)
        b->options.ask(b->options.arg, c->clear_query, b->now_ns, &answers[1]);
    rule_judge(rule, b->now_ns, clock_mono_ns() - from_ns, &answers[0], *c->clear_query ? &answers[1] : NULL);
}

static void evaluate(struct backtest *b, struct tested *t)
{
    if (rule_is_remote(t->rule))
        ask(b, t->rule);
    else
        rule_evaluate(t->rule, b->now_ns);
    t->next_ns += rule_config(t->rule)->every_ns;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void plan(struct backtest *b)
{
    int64_t next_ns = faults_next(b->faults, b->now_ns);
    next_ns = next_ns > b->now_ns ? next_ns : b->now_ns + NS_PER_S;
    for (size_t i = 0; i < b->n_rules; i++)
        if (b->rules[i].rule)
            next_ns = earlier(next_ns, b->rules[i].next_ns);
    b->next_ns = next_ns;
}

static void turn(struct backtest *b)
{
    b->now_ns = b->next_ns;
    live_forget(b->live, b->now_ns);
    for (size_t i = 0; i < b->n_rules; i++)
        if (b->rules[i].rule && b->rules[i].next_ns <= b->now_ns)
            evaluate(b, &b->rules[i]);
    while (faults_notices(b->faults, b->now_ns, NOTICES_A_TURN, on_notice, b) == NOTICES_A_TURN)
        ;
    if (b->now_ns - b->forgot_ns >= FORGET_NS) {
        b->forgot_ns = b->now_ns;
        faults_forget(b->faults, b->now_ns, b->options.config->keep_cleared_ns);
    }
    plan(b);
}

static void turn_until(struct backtest *b, int64_t until_ns)
{
    until_ns = earlier(until_ns, b->options.to_ns);
    while (b->next_ns < until_ns && !(b->options.is_stopped && b->options.is_stopped(b->options.arg)))
        turn(b);
}

void backtest_take(struct backtest *b, const struct event *e)
{
    turn_until(b, e->time_ns);
    if (e->time_ns < b->options.to_ns)
        (void)live_take(b->live, e, e->time_ns); /* what is left out is counted there */
}

void backtest_finish(struct backtest *b)
{
    turn_until(b, INT64_MAX);
}

/* ---------------------------------------------------------------- making */

static int open_judge(struct backtest *b)
{
    const struct guard_config *c = b->options.config;
    const struct live_limits limits = {.rows = c->rows_max, .bytes = c->memory_max};
    int r = live_create(&limits, &b->live);
    return r < 0 ? r : judge_create(b->live, NULL, 0, &b->judge);
}

static int open_faults(struct backtest *b)
{
    const struct faults_calls calls = {
        .arg = b, .on_change = on_change, .on_silence = on_silence, .has_data = has_data};
    return faults_create(b->options.config, &calls, &b->faults);
}

static int open_rules(struct backtest *b, struct diag *why)
{
    const struct rule_env env = {b->options.config, b->live, b->judge, b->faults};
    int r = 0;
    for (unsigned i = 0; r == 0 && i < b->n_rules; i++) {
        const struct rule_config *c = &b->options.config->rules[i];
        b->rules[i].next_ns = b->options.from_ns;
        if (c->is_enabled && (b->options.with_defaults || c->is_given))
            r = rule_create(&env, i, &b->rules[i].rule, why);
        if (r == -EXDEV) { /* it is to be evaluated here, over a table of the guard's own */
            const char *table = strrchr(why->message, ' '); /* the judge names it last */
            (void)diag_set(&b->rules[i].why, r, 0, "%s has no past", table ? table + 1 : "a table of it");
            *why = (struct diag){0};
            r = 0;
        }
    }
    return r;
}

int backtest_create(const struct backtest_options *o, struct backtest **out, struct diag *why)
{
    if (o->from_ns >= o->to_ns)
        return diag_set(why, -EINVAL, 0, "it ends before it begins");
    struct backtest *b = mem_alloc(sizeof *b);
    b->options = *o;
    b->next_ns = b->forgot_ns = o->from_ns;
    b->n_rules = o->config->n_rules;
    b->rules = mem_alloc((b->n_rules + 1) * sizeof *b->rules);
    int r = open_judge(b);
    if (r == 0)
        r = open_faults(b);
    if (r == 0)
        r = open_rules(b, why);
    if (r < 0) {
        backtest_destroy(b);
        return why->message[0] ? r : diag_set(why, r, 0, "%s", err_text(r));
    }
    *out = b;
    return 0;
}

void backtest_destroy(struct backtest *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->n_rules; i++)
        rule_destroy(b->rules[i].rule);
    mem_free(b->rules);
    judge_destroy(b->judge);
    faults_destroy(b->faults);
    live_destroy(b->live);
    mem_free(b);
}

/* ---------------------------------------------------------------- around it */

int64_t backtest_begins(const struct backtest *b)
{
    int64_t most_ns = 0, from_ns = b->options.from_ns;
    for (size_t i = 0; i < b->n_rules; i++)
        if (b->rules[i].rule && rule_config(b->rules[i].rule)->fresh_ns > most_ns)
            most_ns = rule_config(b->rules[i].rule)->fresh_ns;
    return from_ns > INT64_MIN + most_ns ? from_ns - most_ns : INT64_MIN;
}

int64_t backtest_now(const struct backtest *b)
{
    return b->next_ns;
}

/* A table's name in SQL may stand for several names of events: where it has _ they may have another
 * character. */
static void add_pattern(struct strbuf *out, struct slice table)
{
    if (out->n)
        strbuf_add_char(out, ',');
    for (size_t i = 0; i < table.n; i++)
        strbuf_add_char(out, table.p[i] == '_' ? '?' : table.p[i]);
}

void backtest_events(const struct backtest *b, struct strbuf *out)
{
    struct slice table;
    for (size_t i = 0; i < b->n_rules; i++)
        for (size_t k = 0; b->rules[i].rule && rule_table(b->rules[i].rule, k, &table); k++)
            add_pattern(out, table);
}

static const char *why_of(const struct backtest *b, const struct tested *t)
{
    if (!t->rule)
        return t->why.message[0] ? t->why.message : "it is not enabled";
    if (rule_is_remote(t->rule) && !b->options.ask)
        return "it is asked at the gateway, which only knows of now";
    return rule_stats(t->rule)->why;
}

bool backtest_rule(const struct backtest *b, size_t i, struct backtest_result *out)
{
    static const struct rule_stats none;
    struct faults_counts count;
    if (i >= b->n_rules)
        return false;
    const struct tested *t = &b->rules[i];
    const struct rule_stats *s = t->rule ? rule_stats(t->rule) : &none;
    faults_count(b->faults, (unsigned)i, &count);
    *out = (struct backtest_result){.rule = &b->options.config->rules[i],
                                    .is_tested = s->evaluations > s->failures,
                                    .why = why_of(b, t),
                                    .evaluations = s->evaluations,
                                    .failures = s->failures,
                                    .fires = t->fires,
                                    .clears = t->clears,
                                    .notices = t->notices,
                                    .left_out = faults_left_out(b->faults, (unsigned)i),
                                    .firing = count.firing + count.clearing,
                                    .firing_ns = t->firing_ns};
    return true;
}
