/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's turn. Order is what makes it safe: what a turn found is put down and committed before anybody is
 * told of it, so that after a crash nothing was done that the guard does not know of. If the disk does not
 * take it, faults go on being judged, and actions and events wait until it does.
 *
 * What is to be done when goes by the time since boot, so that a clock that is set holds nothing up. */
#include "guard/guard_internal.h"

#include "base/clock.h"
#include "base/cursor.h"
#include "base/directory.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "guard/audit_line.h"
#include "guard/ping.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>

enum { NOTICES_A_TURN = 4096, PING_THREADS = 2 };
/* Ids of STATE_COUNTER: a varint, the last number that was given; the hash of the last line of the audit. */
enum { COUNTER_SILENCES = 1, COUNTER_AUDIT = 2 };

static const int64_t TELL_NS = 60 * NS_PER_S;  /* how often rule.state and guard.state */
static const int64_t LONGEST_NS = NS_PER_S;    /* between two turns */
static const int64_t FAILED_NS = NS_PER_S;     /* until a commit is tried again */
static const int64_t AGAIN_NS = 30 * NS_PER_S; /* a question without an answer is asked again, or sooner */
static const int64_t LEASES_NS = 5 * NS_PER_S; /* the gateway's answer about leases */
static const int64_t STEP_NS = NS_PER_S;       /* a clock that moved by more was set */

/* UTC. What was heard is not older or younger for a clock that was set. */
static int64_t look_at_clock(struct guard *g)
{
    const int64_t now_ns = clock_utc_ns(), offset_ns = now_ns - clock_boot_ns();
    const int64_t step_ns = offset_ns - g->offset_ns;
    if (step_ns > STEP_NS || step_ns < -STEP_NS) {
        log_info("the clock was set by %.0f s", (double)step_ns / 1e9);
        live_shift(g->live, step_ns);
    }
    g->offset_ns = offset_ns;
    return now_ns;
}

/* ---------------------------------------------------------------- putting down */

void guard_audit(struct guard *g, const char *what, const struct act_datum *data, size_t n)
{
    int r = audit_add(g->audit, clock_utc_ns(), what, data, n);
    if (r < 0)
        log_error("the audit can't be written: %s", err_text(r));
}

static void on_change(void *arg, const struct fault *f, enum fault_turn turn)
{
    struct guard *g = arg;
    struct strbuf record = {0};
    int r;
    if (f->life.state == FAULT_NONE) {
        r = state_drop(g->state, STATE_FAULT, f->id);
    } else {
        fault_pack(f, g->config, &record);
        r = strbuf_failed(&record) ? -ENOMEM : state_put(g->state, STATE_FAULT, f->id, strbuf_slice(&record));
    }
    if (r < 0)
        log_error("a fault of rule %s can't be put down: %s", f->of->name, err_text(r));
    strbuf_fini(&record);
    if (turn != TURN_PENDS && turn != TURN_DROPPED && f->life.state != FAULT_PENDING &&
        f->life.state != FAULT_NONE)
        announce_fault(g->announce, f);
}

/* Whoever ends a silence by its number ends that one, also after a restart. */
static int put_silence(struct guard *g, const struct silence *s)
{
    struct strbuf record = {0}, last = {0};
    silence_pack(s, &record);
    strbuf_add_varint(&last, s->id);
    int r = strbuf_failed(&record) || strbuf_failed(&last)
                ? -ENOMEM
                : state_put(g->state, STATE_SILENCE, s->id, strbuf_slice(&record));
    if (r == 0)
        r = state_put(g->state, STATE_COUNTER, COUNTER_SILENCES, strbuf_slice(&last));
    strbuf_fini(&record);
    strbuf_fini(&last);
    return r;
}

static void on_silence(void *arg, const struct silence *s, bool is_over)
{
    struct guard *g = arg;
    int r = is_over ? state_drop(g->state, STATE_SILENCE, s->id) : put_silence(g, s);
    if (r < 0)
        log_error("a silence can't be put down: %s", err_text(r));
    announce_silence(g->announce, s, is_over);
}

/* Does the rule judge by what is known of hosts? */
static bool is_about_hosts(const struct rule_config *c)
{
    return strstr(c->query, "host_health") != NULL;
}

static bool has_data(void *arg, unsigned rule, const struct fault *f, int64_t now_ns)
{
    const struct guard *g = arg;
    struct slice host = rule_host_of(f);
    if (host.n && is_about_hosts(&g->config->rules[rule]) && !health_knows(g->health, host))
        return false; /* we have just started, and have not heard of it yet */
    return g->rules[rule].rule && rule_has_data(g->rules[rule].rule, f, now_ns);
}

/* So that it is seen at the next start if lines of the audit are cut off meanwhile. */
static int put_head(struct guard *g)
{
    const char *head = audit_head(g->audit);
    if (strcmp(head, g->kept_head) == 0)
        return 0;
    int r = state_put(g->state, STATE_COUNTER, COUNTER_AUDIT, slice_str(head));
    if (r == 0)
        (void)snprintf(g->kept_head, sizeof g->kept_head, "%s", head); /* as long */
    return r;
}

/* All or nothing, and told once when it begins to fail and once when it works again. */
static bool commit(struct guard *g)
{
    int r = put_head(g);
    if (r == 0 && state_is_dirty(g->state))
        r = state_commit(g->state);
    if (r == 0)
        r = audit_commit(g->audit);
    if (r < 0 && !g->is_failing)
        log_error("what the guard knows can't be written in %s: %s; actions wait", g->config->state_dir,
                  err_text(r));
    if (r == 0 && g->is_failing)
        log_info("%s can be written again", g->config->state_dir);
    g->is_failing = r < 0;
    return r == 0;
}

/* ---------------------------------------------------------------- notices */

static void on_notice(void *arg, const struct notice *n)
{
    struct guard *g = arg;
    const struct action_names *actions = notice_actions(n);
    for (size_t i = 0; i < actions->n; i++)
        (void)actions_give(g->actions, actions->v[i], n); /* what does not fit is counted and told there */
}

static void on_action_end(void *arg, const struct action_end *e)
{
    struct guard *g = arg;
    announce_action(g->announce, e);
    guard_plan(g);
}

void guard_settle(struct guard *g)
{
    int64_t now_ns = clock_utc_ns();
    while (faults_notices(g->faults, now_ns, NOTICES_A_TURN, on_notice, g) == NOTICES_A_TURN)
        ;
    if (commit(g)) {
        actions_turn(g->actions, clock_utc_ns());
        announce_flush(g->announce);
    }
    if (!g->is_in_turn)
        guard_plan(g);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---------------------------------------------------------------- rules */

/* Only what is new is said: that it fails, why now, that it works again. */
static void tell_failure(struct running_rule *r)
{
    const struct rule_stats *s = rule_stats(r->rule);
    const char *name = rule_config(r->rule)->name;
    uint64_t left_out = faults_left_out(r->guard->faults, r->index);
    if (s->code != r->told_code && s->code < 0 && s->code != E_NODATA)
        log_error("rule %s can't be evaluated: %s", name, s->why);
    else if (s->code != r->told_code && s->code == E_NODATA)
        log_info("rule %s has no data: %s", name, s->why);
    else if (s->code != r->told_code)
        log_info("rule %s is evaluated again", name);
    if (left_out && !r->told_left_out)
        log_error("rule %s has more faults than can be kept; the others are counted. See limit.faults", name);
    r->told_code = s->code;
    r->told_left_out = left_out;
}

static void on_answer(void *arg, const struct rule_answer *answers, size_t n, int64_t took_ns)
{
    struct running_rule *r = arg;
    r->is_asked = false;
    rule_judge(r->rule, clock_utc_ns(), took_ns, &answers[0], n > 1 ? &answers[1] : NULL);
    tell_failure(r);
    if (rule_stats(r->rule)->code < 0)
        r->next_boot = earlier(r->next_boot, clock_boot_ns() + AGAIN_NS);
    guard_settle(r->guard);
}

static void ask_gateway(struct running_rule *r)
{
    const struct rule_config *c = rule_config(r->rule);
    const char *const texts[] = {c->query, c->clear_query};
    if (r->is_asked)
        return; /* it has a deadline: it will be answered */
    int code = remote_ask(r->guard->remote, texts, *c->clear_query ? 2 : 1, c->deadline_ns, on_answer, r);
    r->is_asked = code == 0;
    if (code < 0) {
        const struct rule_answer none = {.code = code, .why = err_text(code)};
        rule_judge(r->rule, clock_utc_ns(), 0, &none, NULL);
        tell_failure(r);
    }
}

/* One that is behind (the guard stood still) is evaluated once, not once for each time that it missed. */
static void evaluate(struct running_rule *r, int64_t now_ns)
{
    const int64_t every_ns = rule_config(r->rule)->every_ns, boot = r->guard->turn_boot;
    if (rule_is_remote(r->rule)) {
        ask_gateway(r);
    } else {
        rule_evaluate(r->rule, now_ns);
        tell_failure(r);
    }
    r->next_boot = r->next_boot + every_ns > boot ? r->next_boot + every_ns : boot + every_ns;
}

/* ---------------------------------------------------------------- hosts that are late */

static struct slice text_at(const struct rule_answer *a, size_t row, size_t column)
{
    struct value v = a->values[row * a->n_columns + column];
    return v.type == VALUE_TEXT ? value_slice(v) : SLICE_LIT("");
}

/* A host that waits for the answer about leases. */
struct lease_wait {
    struct lease_wait *next;
    struct slice host; /* behind it */
    enum lease_state state;
    struct slice address; /* of the answer */
};

static struct lease_wait *find_wait(const struct map *m, struct slice host)
{
    return map_get(m, host);
}

/* What the answer says of those who wait; of whom it says nothing, the gateway does not know. */
static void on_leases(void *arg, const struct rule_answer *answers, size_t n, int64_t took_ns)
{
    struct guard *g = arg;
    const struct rule_answer *a = &answers[0];
    struct lease_wait *w, *next;
    struct map waiting = {0};
    (void)n, (void)took_ns; /* one text was asked */
    for (w = g->leases; w; w = w->next)
        if (map_put(&waiting, w->host, w) == 0)
            w->state = a->code == 0 ? LEASE_NONE : LEASE_UNKNOWN;
    for (size_t i = 0; a->code == 0 && a->n_columns == 3 && i < a->n_rows; i++)
        if ((w = find_wait(&waiting, text_at(a, i, 0)))) {
            w->state = lease_state_parse(text_at(a, i, 1));
            w->address = text_at(a, i, 2);
        }
    map_fini(&waiting);
    for (size_t i = 0; a->code == 0 && a->n_columns == 3 && i < a->n_rows; i++)
        if (lease_state_parse(text_at(a, i, 1)) != LEASE_DEREGISTERED)
            health_expect(g->health, text_at(a, i, 0), text_at(a, i, 2), clock_utc_ns());
    w = g->leases;
    g->leases = NULL;
    for (; w; w = next) {
        next = w->next;
        health_leased(g->health, w->host, w->state, w->address, clock_utc_ns());
        mem_free(w);
    }
    guard_plan(g);
}

static int ask_leases(struct guard *g)
{
    const char *const text[] = {"SELECT host, state, address FROM workers"};
    return remote_ask(g->remote, text, 1, LEASES_NS, on_leases, g);
}

/* One question about all hosts, however many wait for its answer. */
static int ask_lease(void *arg, struct slice host)
{
    struct guard *g = arg;
    int r = g->leases ? 0 : ask_leases(g);
    if (r < 0)
        return r;
    struct lease_wait *w = mem_alloc(sizeof *w + host.n);
    *w = (struct lease_wait){
        .next = g->leases, .host = {(const char *)(w + 1), host.n}, .address = SLICE_LIT("")};
    memcpy(w + 1, host.p, host.n);
    g->leases = w;
    return 0;
}

static void forget_leases(struct guard *g)
{
    for (struct lease_wait *w; (w = g->leases); mem_free(w))
        g->leases = w->next;
}

static void on_pinged(void *arg, struct slice host, int code, int64_t rtt_ns)
{
    struct guard *g = arg;
    health_pinged(g->health, host, code, rtt_ns, clock_utc_ns());
    guard_plan(g);
}

static int ask_ping(void *arg, struct slice host, struct slice address)
{
    struct guard *g = arg;
    return pings_ask(g->pings, host, address);
}

/* ---------------------------------------------------------------- the turn */

static void tell_state(struct guard *g, int64_t now_ns)
{
    struct guard_totals totals;
    if (now_ns - g->told_ns < TELL_NS && now_ns >= g->told_ns)
        return;
    g->told_ns = now_ns;
    for (unsigned i = 0; i < g->config->n_rules; i++)
        if (g->rules[i].rule)
            announce_rule(g->announce, g->rules[i].rule, g->faults, i);
    guard_sum_up(g, &totals);
    announce_guard(g->announce, &totals);
    if (g->feeds)
        (void)ask_leases(g); /* who is new and has not been heard yet; if it can't be asked, in a minute */
    faults_forget(g->faults, now_ns, g->config->keep_cleared_ns);
}

/* One that stood still has heard nothing for its own sake. */
static void begin_turn(struct guard *g)
{
    const int64_t boot = clock_boot_ns();
    if (boot - g->turn_boot > g->config->blind_ns / 2)
        g->heard_boot = boot;
    g->turn_boot = boot;
    g->is_in_turn = true;
}

static void turn(struct guard *g)
{
    const int64_t now_ns = look_at_clock(g);
    begin_turn(g);
    live_forget(g->live, now_ns);
    if (g->turn_boot >= g->health_boot)
        g->health_boot = g->turn_boot + (health_turn(g->health, now_ns) - now_ns);
    for (unsigned i = 0; i < g->config->n_rules; i++)
        if (g->rules[i].rule && g->turn_boot >= g->rules[i].next_boot)
            evaluate(&g->rules[i], now_ns);
    tell_state(g, now_ns);
    guard_settle(g);
    g->is_in_turn = false;
    guard_plan(g);
}

void guard_plan(struct guard *g)
{
    const int64_t now_ns = clock_utc_ns(), boot = clock_boot_ns();
    int64_t wait_ns = LONGEST_NS;
    if (g->is_in_turn || !g->timer)
        return;
    for (unsigned i = 0; i < g->config->n_rules; i++)
        if (g->rules[i].rule)
            wait_ns = earlier(wait_ns, g->rules[i].next_boot - boot);
    wait_ns = earlier(wait_ns, g->health_boot - boot);
    wait_ns = earlier(wait_ns, faults_next(g->faults, now_ns) - now_ns);
    wait_ns = earlier(wait_ns, actions_next(g->actions) - now_ns);
    if (g->is_failing && wait_ns < FAILED_NS)
        wait_ns = FAILED_NS;
    int64_t wait_us = wait_ns > 0 ? wait_ns / 1000 + 1 : 0;
    const struct timeval after = {wait_us / 1000000, wait_us % 1000000};
    (void)evtimer_add(g->timer, &after); /* it is there already: this only moves it */
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what; /* it is time in any case */
    turn(arg);
}

/* ---------------------------------------------------------------- events */

void guard_take(struct guard *g, const struct event *e, bool from_gateway)
{
    const int64_t now_ns = look_at_clock(g);
    struct slice name = e->schema->name;
    if (slice_eq(name, SLICE_LIT("fault.order"))) {
        if (from_gateway)
            guard_obey(g, e);
        return;
    }
    g->heard_boot = now_ns - g->offset_ns;
    (void)live_take(g->live, e, now_ns); /* what is left out is counted */
    if (e->host.n)
        health_heard(g->health, e->host, slice_eq(name, SLICE_LIT("heartbeat")), 0, now_ns);
}

void guard_prime(struct guard *g, const struct event *e)
{
    const int64_t now_ns = look_at_clock(g);
    if (!slice_eq(e->schema->name, SLICE_LIT("fault.order")))
        (void)live_take(g->live, e,
                        e->time_ns < now_ns ? e->time_ns : now_ns); /* what is left out is counted */
}

/* A gateway that has just started knows none of them. */
static int announce_open(void *arg, const struct fault *f)
{
    const struct guard *g = arg;
    if (f->life.state == FAULT_FIRING || f->life.state == FAULT_CLEARING)
        announce_fault(g->announce, f);
    return 0;
}

static int announce_quiet(void *arg, const struct silence *s)
{
    const struct guard *g = arg;
    announce_silence(g->announce, s, false);
    return 0;
}

void guard_feeds(struct guard *g, size_t connected)
{
    if (connected == g->feeds)
        return;
    if (connected > g->feeds) { /* the callbacks do not fail */
        (void)faults_each(g->faults, announce_open, g);
        (void)faults_silences(g->faults, announce_quiet, g);
    }
    g->feeds = connected;
    health_blind(g->health, connected == 0, clock_utc_ns());
    if (connected)
        (void)ask_leases(g); /* who is expected; where it can't be asked, those that are heard are known */
    guard_plan(g);
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

void guard_events(const struct guard *g, struct strbuf *out)
{
    struct slice table;
    strbuf_add_str(out, "heartbeat,fault.order");
    for (size_t i = 0; i < g->config->events.n; i++)
        strbuf_printf(out, ",%s", g->config->events.v[i]);
    for (unsigned i = 0; i < g->config->n_rules; i++)
        for (size_t k = 0; g->rules[i].rule && rule_table(g->rules[i].rule, k, &table); k++)
            add_pattern(out, table);
}

/* ---------------------------------------------------------------- making */

/* An action's record, until there is somebody to give it to. */
struct kept_record {
    struct kept_record *next;
    uint64_t id;
    struct slice record; /* behind it */
};

static void keep_record(struct guard *g, uint64_t id, struct slice record)
{
    struct kept_record *k = mem_alloc(sizeof *k + record.n);
    *k = (struct kept_record){.next = g->kept, .id = id, .record = {(const char *)(k + 1), record.n}};
    memcpy(k + 1, record.p, record.n);
    g->kept = k;
}

static void restore_actions(struct guard *g)
{
    struct kept_record *next;
    for (struct kept_record *k = g->kept; k; k = next) {
        int r = g->actions ? actions_restore(g->actions, k->id, k->record) : 0;
        if (r < 0 && r != -ENOENT)
            g->uncertain++;
        next = k->next;
        mem_free(k);
    }
    g->kept = NULL;
}

static int restore_counter(struct guard *g, uint64_t id, struct slice record)
{
    struct cursor c = cursor_of(record);
    const uint64_t last = cursor_varint(&c);
    if (id == COUNTER_AUDIT && record.n == sizeof g->kept_head - 1) {
        memcpy(g->kept_head, record.p, record.n);
        return 0;
    }
    if (c.bad || id != COUNTER_SILENCES)
        return E_PROTO;
    faults_restore_numbers(g->faults, last);
    return 0;
}

static void restore(void *arg, enum state_kind kind, uint64_t id, struct slice record)
{
    struct guard *g = arg;
    int r = kind == STATE_FAULT     ? faults_restore_fault(g->faults, record)
            : kind == STATE_SILENCE ? faults_restore_silence(g->faults, record)
            : kind == STATE_COUNTER ? restore_counter(g, id, record)
                                    : 0;
    if (kind == STATE_ACTION)
        keep_record(g, id, record);
    if (r < 0 && r != -ENOENT)
        g->uncertain++;
}

static int open_state(struct guard *g, struct diag *why)
{
    char path[4096];
    uint64_t damaged = 0;
    (void)snprintf(path, sizeof path, "%s/state",
                   g->config->state_dir); /* a path that is too long is not found */
    int r = state_open(path, NULL, restore, g, &damaged, &g->state);
    if (r == -EBUSY)
        return diag_set(why, r, 0, "another guard runs with %.120s", g->config->state_dir);
    if (r < 0)
        return diag_set(why, r, 0, "%.120s: %s", path, err_text(r));
    g->uncertain += damaged;
    return 0;
}

static int open_audit(struct guard *g, struct diag *why)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/audit", g->config->state_dir);
    return audit_open(path, g->config->audit_max, &g->audit, why);
}

/* Whoever cuts off the end of an audit leaves one that is whole. */
static void check_audit(struct guard *g)
{
    const struct act_datum missing = {SLICE_LIT("missing"), slice_str(g->kept_head)};
    if (!g->kept_head[0] || strcmp(g->kept_head, AUDIT_NO_HASH) == 0 ||
        audit_has(g->audit, g->kept_head) != 0)
        return;
    log_error("lines of the audit in %s are missing: the one with the hash %s was the last",
              g->config->state_dir, g->kept_head);
    guard_audit(g, AUDIT_CUT, &missing, 1);
}

static const char *publish_url(const struct guard *g, char *out, size_t size)
{
    const struct guard_config *c = g->config;
    const char *from = *c->publish ? c->publish : c->gateway;
    if (strncmp(from, "tls://", 6) == 0)
        (void)snprintf(out, size, "%s", c->agent);
    else
        (void)snprintf(out, size, "%.*s", (int)strcspn(from, ","), from);
    return out;
}

static int open_announce(struct guard *g, struct diag *why)
{
    char url[4096], backup[4096];
    (void)snprintf(backup, sizeof backup, "%s/events", g->config->state_dir);
    return announce_create(g->config, publish_url(g, url, sizeof url), backup, &g->announce, why);
}

static int open_judge(struct guard *g)
{
    struct judge_table tables[GUARD_TABLES + 1];
    const struct live_limits limits = {.rows = g->config->rows_max, .bytes = g->config->memory_max};
    const struct health_options health = {.every_ns = g->config->heartbeat_ns,
                                          .timeout_ns = g->config->heartbeat_timeout_ns,
                                          .is_pinging = g->config->is_pinging,
                                          .hosts_max = g->config->rows_max,
                                          .ping = ask_ping,
                                          .lease = ask_lease,
                                          .arg = g};
    int r = live_create(&limits, &g->live);
    if (r == 0)
        r = health_create(&health, &g->health);
    if (r < 0)
        return r;
    guard_tables(g, tables);
    health_table(g->health, &tables[GUARD_TABLES]);
    return judge_create(g->live, tables, GUARD_TABLES + 1, &g->judge);
}

static int open_faults(struct guard *g)
{
    const struct faults_calls calls = {
        .arg = g, .on_change = on_change, .on_silence = on_silence, .has_data = has_data};
    return faults_create(g->config, &calls, &g->faults);
}

static int open_actions(struct guard *g)
{
    const struct actions_options options = {.config = g->config,
                                            .state = g->state,
                                            .audit = g->audit,
                                            .base = g->base,
                                            .act = g->act,
                                            .on_end = on_action_end,
                                            .arg = g};
    int r = actions_create(&options, &g->actions);
    if (r < 0)
        return r;
    restore_actions(g);
    if (g->uncertain)
        log_error("%llu records of what the guard knew can't be read", (unsigned long long)g->uncertain);
    return 0;
}

/* Rules begin one after the other within their period, or within the first second where that is longer:
 * evaluations are spread over time and not all at once. */
static int open_rules(struct guard *g, struct diag *why)
{
    const struct rule_env env = {g->config, g->live, g->judge, g->faults};
    const int64_t boot = clock_boot_ns();
    g->rules = mem_alloc((g->config->n_rules + 1) * sizeof *g->rules);
    for (unsigned i = 0; i < g->config->n_rules; i++) {
        const struct rule_config *c = &g->config->rules[i];
        int64_t within_ns = c->every_ns < NS_PER_S ? c->every_ns : NS_PER_S;
        g->rules[i] = (struct running_rule){.guard = g, .index = i};
        if (!c->is_enabled)
            continue;
        int r = rule_create(&env, i, &g->rules[i].rule, why);
        if (r < 0)
            return r;
        g->rules[i].next_boot = boot + within_ns * (i + 1) / (int64_t)(g->config->n_rules + 1);
    }
    return 0;
}

static int open_all(struct guard *g, struct diag *why)
{
    int r = directory_make(g->config->state_dir, why);
    if (r < 0 || (r = open_audit(g, why)) < 0 ||
        (r = errands_create(g->base, g->config->questions, &g->questions)) < 0 ||
        (r = errands_create(g->base, PING_THREADS, &g->pingers)) < 0 ||
        (r = pings_create(g->base, g->pingers, on_pinged, g, &g->pings)) < 0 ||
        (r = remote_create(g->questions, g->config->gateway, g->config->identity, &g->remote)) < 0 ||
        (r = open_announce(g, why)) < 0 || (r = open_judge(g)) < 0 || (r = open_faults(g)) < 0 ||
        (r = open_rules(g, why)) < 0 || (r = open_state(g, why)) < 0 || (r = open_actions(g)) < 0)
        return r;
    g->timer = evtimer_new(g->base, on_timer, g);
    return g->timer ? 0 : -ENOMEM;
}

/* What was open when the last guard ended is told again: whoever listens may have missed it. */
static int announce_again(void *arg, const struct fault *f)
{
    struct guard *g = arg;
    if (f->life.state != FAULT_PENDING)
        announce_fault(g->announce, f);
    if (is_about_hosts(f->of) && f->life.state != FAULT_CLEARED)
        health_expect(g->health, rule_host_of(f), SLICE_LIT(""), g->started_ns);
    return 0;
}

/* Without state, audit or events: what is asked of them is not asked here. */
int guard_check(const struct guard_config *config, struct diag *why)
{
    struct guard *g = mem_alloc(sizeof *g);
    *g = (struct guard){.config = config, .started_ns = clock_utc_ns()};
    int r = open_judge(g);
    if (r == 0)
        r = open_faults(g);
    if (r == 0)
        r = open_rules(g, why);
    if (r < 0 && !why->message[0])
        (void)diag_set(why, r, 0, "%s", err_text(r)); /* what is returned is r */
    guard_destroy(g);
    return r;
}

int guard_create(const struct guard_config *config, const char *act, struct event_base *base,
                 struct guard **out, struct diag *why)
{
    struct guard *g = mem_alloc(sizeof *g);
    *g = (struct guard){.config = config, .act = act, .base = base, .started_ns = clock_utc_ns()};
    g->turn_boot = g->heard_boot = clock_boot_ns();
    g->offset_ns = g->started_ns - g->heard_boot;
    int r = open_all(g, why);
    if (r == 0 && *config->socket)
        r = serve_create(base, config->socket, guard_answer, g, &g->serve, why);
    if (r < 0) {
        if (!why->message[0])
            (void)diag_set(why, r, 0, "%s", err_text(r)); /* what is returned is r */
        guard_destroy(g);
        return r;
    }
    check_audit(g);
    guard_audit(g, "start", NULL, 0);
    faults_restored(g->faults, g->started_ns);
    (void)faults_each(g->faults, announce_again, g); /* the callbacks do not fail */
    (void)faults_silences(g->faults, announce_quiet, g);
    guard_settle(g);
    *out = g;
    return 0;
}

void guard_destroy(struct guard *g)
{
    if (!g)
        return;
    serve_destroy(g->serve);
    if (g->timer)
        event_free(g->timer);
    g->timer = NULL;
    errands_destroy(g->questions);
    pings_destroy(g->pings);
    errands_destroy(g->pingers);
    remote_destroy(g->remote);
    actions_destroy(g->actions);
    g->actions = NULL;
    if (g->state && g->audit) {
        guard_audit(g, "end", NULL, 0);
        if (commit(g))
            (void)commit(g); /* with the hash of that; told there */
    }
    for (unsigned i = 0; g->rules && i < g->config->n_rules; i++)
        rule_destroy(g->rules[i].rule);
    mem_free(g->rules);
    restore_actions(g);
    forget_leases(g);
    judge_destroy(g->judge);
    faults_destroy(g->faults);
    health_destroy(g->health);
    live_destroy(g->live);
    state_close(g->state);
    audit_close(g->audit);
    announce_destroy(g->announce);
    mem_free(g);
}
