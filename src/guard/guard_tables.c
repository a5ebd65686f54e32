/* SPDX-License-Identifier: Apache-2.0 */
/* What the guard says of itself in SQL. */
#include "guard/guard_internal.h"

#include "base/clock.h"

static struct value text_of(const char *s)
{
    return value_text(slice_str(s));
}

/* ---------------------------------------------------------------- guard_health */

static const char *const health_columns[] = {"state", "feeds", "heard", "age_s", NULL};

/* Nothing has been heard since it began counts from then; what a gateway has said of before does not. */
static int fill_health(void *arg, int (*put)(void *to, const struct value *row), void *to)
{
    const struct guard *g = arg;
    struct live_stats s;
    live_stats(g->live, &s);
    const int64_t age_ns = clock_boot_ns() - g->heard_boot;
    const struct value row[] = {text_of(age_ns > g->config->blind_ns ? "blind" : "seeing"),
                                value_uint(g->feeds), s.newest_ns ? value_int(s.newest_ns) : value_none(),
                                value_float((double)age_ns / 1e9)};
    return put(to, row);
}

/* ---------------------------------------------------------------- faults */

static const char *const faults_columns[] = {"fault",    "rule",    "severity", "state",   "host",
                                             "fired",    "cleared", "episode",  "summary", "told",
                                             "silenced", "hidden",  NULL};

struct putting {
    const struct guard *guard;
    int (*put)(void *to, const struct value *row);
    void *to;
};

static struct value host_of(const struct fault *f)
{
    for (size_t i = 0; i < f->n_fields; i++)
        if (slice_eq_str(f->fields[i].name, "host"))
            return value_text(f->fields[i].value);
    return value_none();
}

static int put_fault(void *arg, const struct fault *f)
{
    const struct putting *p = arg;
    const struct rule_config *rule = f->of;
    struct strbuf summary = {0};
    char id[17];
    fault_id_print(f->id, id);
    fault_summary(f, rule, &summary);
    const struct value row[] = {text_of(id),
                                text_of(rule->name),
                                text_of(severity_name(rule->severity)),
                                text_of(fault_shown_state(f)),
                                host_of(f),
                                f->life.fired_ns ? value_int(f->life.fired_ns) : value_none(),
                                f->life.cleared_ns ? value_int(f->life.cleared_ns) : value_none(),
                                value_uint(f->life.episode),
                                value_text(strbuf_slice(&summary)),
                                value_bool(f->is_told),
                                value_bool(f->is_silenced),
                                value_bool(f->is_hidden)};
    int r = p->put(p->to, row);
    strbuf_fini(&summary);
    return r;
}

static int fill_faults(void *arg, int (*put)(void *to, const struct value *row), void *to)
{
    struct putting p = {arg, put, to};
    return faults_each(p.guard->faults, put_fault, &p);
}

/* ---------------------------------------------------------------- rules */

static const char *const rules_columns[] = {"rule",     "severity", "place", "evaluations",
                                            "failures", "last_ms",  "why",   "pending",
                                            "firing",   "left_out", NULL};

static int fill_rules(void *arg, int (*put)(void *to, const struct value *row), void *to)
{
    const struct guard *g = arg;
    int r = 0;
    for (unsigned i = 0; r == 0 && i < g->config->n_rules; i++) {
        const struct rule_config *c = &g->config->rules[i];
        struct faults_counts n;
        if (!g->rules[i].rule)
            continue;
        const struct rule_stats *s = rule_stats(g->rules[i].rule);
        faults_count(g->faults, i, &n);
        const struct value row[] = {text_of(c->name),
                                    text_of(severity_name(c->severity)),
                                    text_of(rule_is_remote(g->rules[i].rule) ? "gateway" : "here"),
                                    value_uint(s->evaluations),
                                    value_uint(s->failures),
                                    value_float((double)s->took_ns / 1e6),
                                    text_of(s->why),
                                    value_uint(n.pending),
                                    value_uint(n.firing),
                                    value_uint(faults_left_out(g->faults, i))};
        r = put(to, row);
    }
    return r;
}

void guard_tables(struct guard *g, struct judge_table out[GUARD_TABLES])
{
    out[0] = (struct judge_table){"guard_health", health_columns, fill_health, g};
    out[1] = (struct judge_table){"faults", faults_columns, fill_faults, g};
    out[2] = (struct judge_table){"rules", rules_columns, fill_rules, g};
}

void guard_sum_up(const struct guard *g, struct guard_totals *out)
{
    struct live_stats s;
    live_stats(g->live, &s);
    *out = (struct guard_totals){.feeds = g->feeds,
                                 .events = s.events,
                                 .rows = s.rows,
                                 .rules = g->config->n_rules,
                                 .late = health_count(g->health, HEALTH_LATE) +
                                         health_count(g->health, HEALTH_AGENT_DEAD) +
                                         health_count(g->health, HEALTH_UNREACHABLE),
                                 .left_out = s.refused + health_left_out(g->health),
                                 .audit = audit_head(g->audit)};
    out->hosts = out->late + health_count(g->health, HEALTH_LIVE);
    for (unsigned i = 0; i < g->config->n_rules; i++)
        out->left_out += faults_left_out(g->faults, i);
    faults_count(g->faults, UINT32_MAX, &out->faults);
}
