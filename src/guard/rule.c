/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/rule.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "guard/judge_internal.h"

#include <errno.h>
#include <gridline/sensor.h>
#include <stdio.h>

struct rule {
    struct rule_env env;
    const struct rule_config *config;
    unsigned index;
    struct query *query, *clear; /* NULL: at the gateway; clear also: there is none */
    bool is_remote;
    struct rule_stats stats;
};

/* ---------------------------------------------------------------- whom to trust */

struct sensor_name {
    struct slice table;
    bool is_found;
};

/* Is the table's name that of this event in SQL? Characters outside of [a-z0-9_] are _ there. */
static bool is_table_of(struct slice table, const char *event)
{
    if (strlen(event) != table.n)
        return false;
    for (size_t i = 0; i < table.n; i++) {
        char c = slice_lower(event[i]);
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
        if (slice_lower(table.p[i]) != (is_plain ? c : '_') && table.p[i] != event[i])
            return false;
    }
    return true;
}

static int look_at_event(void *arg, const char *event, const char *field, char type, int is_key,
                         const char *kind, const char *unit, const char *help)
{
    struct sensor_name *n = arg;
    (void)field, (void)type, (void)is_key, (void)kind, (void)unit, (void)help; /* its name is all */
    n->is_found |= is_table_of(n->table, event);
    return n->is_found;
}

static bool is_sensors(struct slice table)
{
    struct sensor_name n = {.table = table};
    const char *sensor;
    for (size_t i = 0; !n.is_found && (sensor = gridline_sensor_name(i)); i++)
        (void)gridline_sensor_fields(sensor, look_at_event, &n); /* there is one of that name */
    return n.is_found;
}

static bool is_trusted(const struct rule_config *c, struct slice table)
{
    for (size_t i = 0; i < c->trust.n; i++)
        if (is_table_of(table, c->trust.v[i]))
            return true;
    return is_sensors(table);
}

/* Tables that a gateway or guard fills by itself, and those of SQLite that only take apart what they are
 * given. */
static bool is_own(struct slice table)
{
    static const char *const names[] = {"guard_health", "host_health",   "baselines", "domains",
                                        "faults",       "json_each",     "json_tree", "ledger",
                                        "partitions",   "rules",         "schemas",   "schema_fields",
                                        "sensors",      "subscriptions", "tables",    "workers"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_eq_nocase(table, slice_str(names[i])))
            return true;
    return false;
}

/* NAME_latest and the like are of NAME. */
static struct slice event_of(struct slice table)
{
    static const char *const ends[] = {"_latest", "_bucket", "_forecast"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t n = strlen(ends[i]);
        if (table.n > n && slice_eq_nocase(slice_from(table, table.n - n), slice_str(ends[i])))
            return slice_of(table.p, table.n - n);
    }
    return table;
}

struct distrust {
    const struct rule_config *config;
    struct slice table; /* empty: none was found */
};

static bool note_untrusted(void *arg, struct slice name, size_t at)
{
    struct distrust *d = arg;
    (void)at; /* its name says enough */
    if (is_own(name) || is_trusted(d->config, name) || is_trusted(d->config, event_of(name)))
        return true;
    d->table = event_of(name);
    return false;
}

/* Gateways take events of sensors' names from agents alone; any other name may be anybody's. */
static int check_trust(const struct rule *r, struct diag *why)
{
    const struct rule_config *c = r->config;
    struct distrust d = {.config = c, .table = SLICE_LIT("")};
    struct slice table;
    if (c->on_fire.n + c->on_repeat.n + c->on_escalate.n + c->on_clear.n == 0)
        return 0;
    for (size_t i = 0; !r->is_remote && d.table.n == 0 && rule_table(r, i, &table); i++)
        if (!is_trusted(c, table))
            d.table = table;
    if (r->is_remote)
        judge_tables(slice_str(c->query), note_untrusted, &d);
    if (r->is_remote && d.table.n == 0)
        judge_tables(slice_str(c->clear_query), note_untrusted, &d);
    if (d.table.n == 0)
        return 0;
    return diag_set(
        why, -EACCES, 0,
        "rule %.60s acts on events %.*s, which are no sensor's: whoever may publish them sets it off; "
        "if that is meant: trust = {\"%.*s\"}",
        c->name, SLICE_ARG(d.table), SLICE_ARG(d.table));
}

/* ---------------------------------------------------------------- making */

/* Compiles it here, or finds that it is to be asked at the gateway. */
static int make_query(struct rule *r, const char *text, const char *key, struct query **out, struct diag *why)
{
    struct diag said = {0};
    if (r->config->place == RULE_AT_GATEWAY) {
        r->is_remote = true;
        return 0;
    }
    int code = query_create(r->env.judge, slice_str(text), out, &said);
    if (code == 0 || code == E_NODATA)
        return 0;
    if (code == -EXDEV && r->config->place == RULE_ANYWHERE) {
        r->is_remote = true;
        return 0;
    }
    return diag_set(why, code, said.col, "rule %s, %s: %s", r->config->name, key,
                    said.message[0] ? said.message : err_text(code));
}

int rule_create(const struct rule_env *env, unsigned index, struct rule **out, struct diag *why)
{
    struct rule *r = mem_alloc(sizeof *r);
    *r = (struct rule){.env = *env, .config = &env->config->rules[index], .index = index};
    int code = make_query(r, r->config->query, "query", &r->query, why);
    if (code == 0 && *r->config->clear_query)
        code = make_query(r, r->config->clear_query, "clear_query", &r->clear, why);
    if (code == 0)
        code = check_trust(r, why);
    if (code < 0) {
        rule_destroy(r);
        return code;
    }
    *out = r;
    return 0;
}

void rule_destroy(struct rule *r)
{
    if (!r)
        return;
    query_destroy(r->query);
    query_destroy(r->clear);
    mem_free(r);
}

const struct rule_config *rule_config(const struct rule *r)
{
    return r->config;
}

const struct rule_stats *rule_stats(const struct rule *r)
{
    return &r->stats;
}

bool rule_is_remote(const struct rule *r)
{
    return r->is_remote;
}

bool rule_table(const struct rule *r, size_t i, struct slice *name)
{
    size_t n = 0;
    if (!r->query)
        return false;
    while (query_table(r->query, n, name))
        if (n++ == i)
            return true;
    return r->clear && query_table(r->clear, i - n, name);
}

/* ---------------------------------------------------------------- evaluating */

/* The first row that can't be used is what is told. */
struct seeing {
    struct rule *rule;
    bool is_clear;
    int code;
    struct diag why;
};

static int see_row(void *arg, const struct slice *names, const struct value *values, size_t n)
{
    struct seeing *s = arg;
    struct diag why = {0};
    int code = s->is_clear ? faults_see_clear(s->rule->env.faults, names, values, n, &why)
                           : faults_see(s->rule->env.faults, names, values, n, &why);
    if (code == E_NODATA && s->code == 0) {
        s->code = code;
        s->why = why;
    }
    return 0; /* what is left out is counted there; the others are judged all the same */
}

static int run_here(struct rule *r, struct query *q, bool is_clear, int64_t now_ns, struct diag *why)
{
    struct seeing s = {.rule = r, .is_clear = is_clear};
    const struct query_run run = {.now_ns = now_ns,
                                  .since_ns = now_ns - r->config->fresh_ns,
                                  .time_ns = r->config->deadline_ns,
                                  .row = see_row,
                                  .arg = &s};
    int code = query_run(q, &run, why);
    if (code == 0 && s.code < 0) {
        *why = s.why;
        code = s.code;
    }
    return code;
}

static int see_answer(struct rule *r, const struct rule_answer *a, bool is_clear, struct diag *why)
{
    struct seeing s = {.rule = r, .is_clear = is_clear};
    if (a->code < 0) {
        /* An event name is a table there, too, from its first event on: none yet is no mistake. */
        bool is_to_come =
            a->code == E_PROTO && a->why && slice_starts(slice_str(a->why), SLICE_LIT("no such table"));
        return diag_set(why, is_to_come ? E_NODATA : a->code, 0, "%s",
                        a->why && *a->why ? a->why : err_text(a->code));
    }
    for (size_t i = 0; i < a->n_rows; i++)
        (void)see_row(&s, a->names, a->values + i * a->n_columns, a->n_columns); /* told below */
    if (s.code < 0)
        *why = s.why;
    return s.code;
}

static int see_silent_host(void *arg, struct slice host, int64_t heard_ns)
{
    const struct seeing *s = arg;
    if (heard_ns < s->rule->stats.at_ns - s->rule->config->fresh_ns)
        (void)faults_see_no_data(s->rule->env.faults, host); /* over the limit: counted there */
    return 0;
}

/* no_data = fault: a host that was heard of and is silent is one. */
static void see_silent_hosts(struct rule *r)
{
    struct seeing s = {.rule = r};
    struct slice name;
    for (size_t i = 0; rule_table(r, i, &name); i++) {
        struct live_table *t = live_find(r->env.live, name);
        if (t)
            (void)live_hosts(t, see_silent_host, &s); /* the callback does not fail */
    }
}

static void begin(struct rule *r, int64_t now_ns)
{
    r->stats.at_ns = now_ns;
    faults_begin(r->env.faults, r->index, now_ns);
}

static void end(struct rule *r, int code, const struct diag *why, int64_t took_ns)
{
    struct rule_stats *s = &r->stats;
    s->evaluations++;
    s->failures += code < 0;
    s->code = code;
    s->took_ns = took_ns;
    s->why[0] = '\0';
    if (code < 0)
        (void)snprintf(s->why, sizeof s->why, "%s",
                       why->message[0] ? why->message : err_text(code)); /* cut to fit */
    faults_end(r->env.faults, code < 0);
}

void rule_evaluate(struct rule *r, int64_t now_ns)
{
    struct diag why = {0};
    int64_t from_ns = clock_mono_ns();
    begin(r, now_ns);
    int code = run_here(r, r->query, false, now_ns, &why);
    if (code == 0 && r->clear)
        code = run_here(r, r->clear, true, now_ns, &why);
    if (r->config->policy.no_data == NO_DATA_FAULT)
        see_silent_hosts(r);
    end(r, code, &why, clock_mono_ns() - from_ns);
}

void rule_judge(struct rule *r, int64_t now_ns, int64_t took_ns, const struct rule_answer *query,
                const struct rule_answer *clear)
{
    struct diag why = {0};
    begin(r, now_ns);
    int code = see_answer(r, query, false, &why);
    if (code == 0 && clear)
        code = see_answer(r, clear, true, &why);
    end(r, code, &why, took_ns);
}

/* ---------------------------------------------------------------- data */

struct slice rule_host_of(const struct fault *f)
{
    for (size_t i = 0; i < f->n_key; i++)
        if (slice_eq(f->fields[i].name, SLICE_LIT("host")))
            return f->fields[i].value;
    return SLICE_LIT("");
}

bool rule_has_data(const struct rule *r, const struct fault *f, int64_t now_ns)
{
    struct slice host = rule_host_of(f), name;
    int64_t since_ns = now_ns - r->config->fresh_ns;
    for (size_t i = 0; rule_table(r, i, &name); i++) {
        const struct live_table *t = live_find(r->env.live, name);
        bool is_known = t && host.n && live_is_fresh(t, host, INT64_MIN);
        if (host.n && !is_known && f->is_unheard)
            return false; /* the guard has started: others were heard first */
        if (!t || !live_is_fresh(t, is_known ? host : SLICE_LIT(""), since_ns))
            return false;
    }
    return true;
}
