/* SPDX-License-Identifier: Apache-2.0 */
/* What people ask the guard, and order: `gridline faults`, `ack`, `silence`, `rule` at its socket; and the
 * same orders as events of a gateway. Every order is audited with who gave it. */
#include "guard/guard_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* What an answer is made of. */
struct answer {
    struct guard *guard;
    const struct frame_control *question;
    struct serve_reply *to; /* NULL: an event asks, nobody hears */
    struct strbuf *text;
    struct args_writer *values;
    struct args_writer row;
    struct slice by;
    size_t rows;
};

static void add_iso(struct args_writer *row, const char *name, int64_t at_ns)
{
    char text[CLOCK_TEXT_MAX];
    args_add_text(row, name, at_ns ? slice_of(text, clock_print_iso(text, at_ns)) : SLICE_LIT(""));
}

static void add_flag(struct args_writer *row, const char *name, bool v)
{
    args_add(row, slice_str(name), value_bool(v));
}

static int put_row(struct answer *a)
{
    bool is_taken = serve_row(a->to, &a->row);
    args_writer_reset(&a->row);
    a->rows += is_taken;
    return is_taken ? 0 : -ENOBUFS;
}

static uint16_t end_rows(struct answer *a, int r)
{
    if (r == 0)
        return CONTROL_DONE;
    strbuf_printf(a->text, "there is more than these %zu; narrow it down by rule or host", a->rows);
    return CONTROL_PARTLY;
}

static uint16_t refuse(struct answer *a, uint16_t status, const char *text)
{
    strbuf_add_str(a->text, text);
    return status;
}

/* ---------------------------------------------------------------- faults */

static struct slice host_of(const struct fault *f)
{
    for (size_t i = 0; i < f->n_fields; i++)
        if (slice_eq_str(f->fields[i].name, "host"))
            return f->fields[i].value;
    return SLICE_LIT("");
}

static bool is_meant(const struct answer *a, const struct fault *f, const struct rule_config *rule)
{
    struct slice state = args_text(a->question->args, "state"), name = args_text(a->question->args, "rule");
    struct slice host = args_text(a->question->args, "host");
    bool is_open = f->life.state == FAULT_FIRING || f->life.state == FAULT_CLEARING;
    if (state.n == 0 ? !is_open : !slice_eq_str(state, "all") && !slice_eq_str(state, fault_shown_state(f)))
        return false;
    return (name.n == 0 || text_glob_any(name, slice_str(rule->name))) &&
           (host.n == 0 || text_glob_any(host, host_of(f)));
}

static int put_fault(void *arg, const struct fault *f)
{
    struct answer *a = arg;
    const struct rule_config *rule = f->of;
    struct strbuf summary = {0};
    char id[17];
    if (!is_meant(a, f, rule))
        return 0;
    fault_id_print(f->id, id);
    fault_summary(f, rule, &summary);
    args_add_text(&a->row, "fault", slice_str(id));
    args_add_text(&a->row, "rule", slice_str(rule->name));
    args_add_text(&a->row, "severity", slice_str(severity_name(rule->severity)));
    args_add_text(&a->row, "state", slice_str(fault_shown_state(f)));
    args_add_text(&a->row, "host", host_of(f));
    add_iso(&a->row, "since", fault_since(f));
    add_iso(&a->row, "fired", f->life.fired_ns);
    add_iso(&a->row, "cleared", f->life.state == FAULT_CLEARED ? f->life.cleared_ns : 0);
    args_add_uint(&a->row, "episode", f->life.episode);
    args_add_text(&a->row, "summary", strbuf_slice(&summary));
    add_flag(&a->row, "told", f->is_told);
    add_flag(&a->row, "silenced", f->is_silenced);
    add_flag(&a->row, "hidden", f->is_hidden);
    add_flag(&a->row, "quiet", f->is_in_quiet);
    args_add_text(&a->row, "acked_by", f->acked_ns ? f->acked_by : SLICE_LIT(""));
    args_add_text(&a->row, "ack_note", f->acked_ns ? f->ack_note : SLICE_LIT(""));
    add_iso(&a->row, "acked", f->acked_ns);
    strbuf_fini(&summary);
    return put_row(a);
}

static uint16_t list_faults(struct answer *a)
{
    return end_rows(a, faults_each(a->guard->faults, put_fault, a));
}

/* ---------------------------------------------------------------- orders */

static void audit_order(struct answer *a, const char *what, const struct act_datum *more, size_t n)
{
    struct act_datum data[8] = {{SLICE_LIT("by"), a->by}};
    for (size_t i = 0; i < n; i++)
        data[1 + i] = more[i];
    guard_audit(a->guard, what, data, 1 + n);
}

static uint16_t ack(struct answer *a, bool is_undone)
{
    struct args args = a->question->args;
    struct slice fault = args_text(args, "fault"), note = args_text(args, "note");
    int64_t now_ns = clock_utc_ns();
    uint64_t id;
    if (!fault_id_parse(fault, &id))
        return refuse(a, CONTROL_USAGE, "that is not the id of a fault; `gridline faults` lists them");
    int r = is_undone ? faults_unack(a->guard->faults, id, now_ns)
                      : faults_ack(a->guard->faults, id, a->by, note, now_ns);
    if (r == -ENOENT)
        return refuse(a, CONTROL_NOT_FOUND, "there is no such fault");
    if (r == -EINVAL)
        return refuse(a, CONTROL_FAILED, "it does not fire: there is nothing to acknowledge");
    if (r < 0 && r != -EALREADY)
        return refuse(a, CONTROL_FAILED, err_text(r));
    const struct act_datum data[] = {{SLICE_LIT("fault"), fault}, {SLICE_LIT("note"), note}};
    audit_order(a, is_undone ? "unack" : "ack", data, 2);
    if (r == -EALREADY)
        return refuse(a, CONTROL_DONE, is_undone ? "it was not acknowledged" : "it was acknowledged already");
    return CONTROL_DONE;
}

static uint16_t do_ack(struct answer *a)
{
    return ack(a, false);
}

static uint16_t do_unack(struct answer *a)
{
    return ack(a, true);
}

static struct slice print_number(char to[24], uint64_t v)
{
    return slice_of(to, (size_t)snprintf(to, 24, "%" PRIu64, v)); /* 20 digits fit */
}

static uint16_t do_silence(struct answer *a)
{
    struct args args = a->question->args;
    int64_t now_ns = clock_utc_ns();
    struct value until = args_value(args, "until");
    struct silence s = {.rule = args_text(args, "rule"),
                        .host = args_text(args, "host"),
                        .where = args_text(args, "where"),
                        .from_ns = now_ns,
                        .until_ns = until.type == VALUE_INT || until.type == VALUE_UINT ? until.i : 0,
                        .by = a->by,
                        .note = args_text(args, "note")};
    struct diag why = {0};
    uint64_t id;
    int r = faults_silence(a->guard->faults, &s, now_ns, &id, &why);
    if (r < 0)
        return refuse(a, r == -EINVAL ? CONTROL_USAGE : CONTROL_FAILED,
                      why.message[0] ? why.message : err_text(r));
    char number[24], iso[CLOCK_TEXT_MAX];
    const struct act_datum data[] = {{SLICE_LIT("silence"), print_number(number, id)},
                                     {SLICE_LIT("rule"), s.rule},
                                     {SLICE_LIT("host"), s.host},
                                     {SLICE_LIT("where"), s.where},
                                     {SLICE_LIT("until"), slice_of(iso, clock_print_iso(iso, s.until_ns))},
                                     {SLICE_LIT("note"), s.note}};
    audit_order(a, "silence", data, sizeof data / sizeof *data);
    args_add_uint(a->values, "id", id);
    return CONTROL_DONE;
}

static uint16_t do_unsilence(struct answer *a)
{
    uint64_t id = args_uint(a->question->args, "id", 0);
    int r = faults_unsilence(a->guard->faults, id, clock_utc_ns());
    if (r < 0)
        return refuse(a, CONTROL_NOT_FOUND, "there is no such silence; `gridline silence --list` lists them");
    char number[24];
    const struct act_datum data = {SLICE_LIT("silence"), print_number(number, id)};
    audit_order(a, "unsilence", &data, 1);
    return CONTROL_DONE;
}

static int put_silence(void *arg, const struct silence *s)
{
    struct answer *a = arg;
    args_add_uint(&a->row, "id", s->id);
    args_add_text(&a->row, "rule", s->rule);
    args_add_text(&a->row, "host", s->host);
    args_add_text(&a->row, "where", s->where);
    add_iso(&a->row, "from", s->from_ns);
    add_iso(&a->row, "until", s->until_ns);
    args_add_text(&a->row, "by", s->by);
    args_add_text(&a->row, "note", s->note);
    return put_row(a);
}

static uint16_t list_silences(struct answer *a)
{
    return end_rows(a, faults_silences(a->guard->faults, put_silence, a));
}

/* ---------------------------------------------------------------- rules, actions, the guard */

static int put_rule(struct answer *a, unsigned i)
{
    const struct guard *g = a->guard;
    const struct rule_config *c = &g->config->rules[i];
    const struct rule *rule = g->rules[i].rule;
    struct faults_counts n;
    faults_count(g->faults, i, &n);
    args_add_text(&a->row, "rule", slice_str(c->name));
    args_add_text(&a->row, "severity", slice_str(severity_name(c->severity)));
    add_flag(&a->row, "enabled", c->is_enabled);
    add_flag(&a->row, "is_default", c->is_default);
    args_add_text(&a->row, "place", slice_str(!rule ? "" : rule_is_remote(rule) ? "gateway" : "here"));
    args_add_uint(&a->row, "every_ms", (uint64_t)c->every_ns / 1000000);
    args_add_uint(&a->row, "evaluations", rule ? rule_stats(rule)->evaluations : 0);
    args_add_uint(&a->row, "failures", rule ? rule_stats(rule)->failures : 0);
    args_add(&a->row, SLICE_LIT("last_ms"), value_float(rule ? (double)rule_stats(rule)->took_ns / 1e6 : 0));
    args_add_text(&a->row, "why", slice_str(rule ? rule_stats(rule)->why : ""));
    args_add_uint(&a->row, "pending", n.pending);
    args_add_uint(&a->row, "firing", n.firing);
    args_add_uint(&a->row, "clearing", n.clearing);
    args_add_uint(&a->row, "left_out", faults_left_out(g->faults, i));
    args_add(&a->row, SLICE_LIT("next_ms"), value_int((g->rules[i].next_boot - clock_boot_ns()) / 1000000));
    args_add_text(&a->row, "query", slice_str(c->query));
    args_add_text(&a->row, "help", slice_str(c->help));
    return put_row(a);
}

static uint16_t list_rules(struct answer *a)
{
    struct slice name = args_text(a->question->args, "rule");
    int r = 0;
    for (unsigned i = 0; r == 0 && i < a->guard->config->n_rules; i++)
        if (name.n == 0 || text_glob_any(name, slice_str(a->guard->config->rules[i].name)))
            r = put_rule(a, i);
    return end_rows(a, r);
}

static uint16_t list_actions(struct answer *a)
{
    const struct guard_config *c = a->guard->config;
    int r = 0;
    for (unsigned i = 0; r == 0 && i < c->n_actions; i++) {
        struct action_counts n;
        actions_count(a->guard->actions, i, &n);
        args_add_text(&a->row, "action", slice_str(c->actions[i].name));
        args_add_text(&a->row, "actuator", slice_str(c->actions[i].actuator));
        args_add_uint(&a->row, "given", n.given);
        args_add_uint(&a->row, "joined", n.joined);
        args_add_uint(&a->row, "started", n.started);
        args_add_uint(&a->row, "done", n.done);
        args_add_uint(&a->row, "failed", n.failed);
        args_add_uint(&a->row, "unknown", n.unknown);
        args_add_uint(&a->row, "left_out", n.left_out_queue + n.left_out_memory);
        args_add_uint(&a->row, "waiting", n.waiting);
        args_add_uint(&a->row, "running", n.running);
        add_flag(&a->row, "broken", n.is_broken);
        r = put_row(a);
    }
    return end_rows(a, r);
}

static uint16_t tell_guard(struct answer *a)
{
    struct guard_totals t;
    guard_sum_up(a->guard, &t);
    args_add_text(&a->row, "host", slice_str(a->guard->config->host));
    args_add_uint(&a->row, "feeds", t.feeds);
    args_add_uint(&a->row, "events", t.events);
    args_add_uint(&a->row, "rows", t.rows);
    args_add_uint(&a->row, "rules", t.rules);
    args_add_uint(&a->row, "hosts", t.hosts);
    args_add_uint(&a->row, "late", t.late);
    args_add_uint(&a->row, "pending", t.faults.pending);
    args_add_uint(&a->row, "firing", t.faults.firing);
    args_add_uint(&a->row, "acknowledged", t.faults.acked);
    args_add_uint(&a->row, "silenced", t.faults.silenced);
    args_add_uint(&a->row, "hidden", t.faults.hidden);
    args_add_uint(&a->row, "left_out", t.left_out);
    args_add_text(&a->row, "audit", slice_str(t.audit));
    add_iso(&a->row, "started", a->guard->started_ns);
    return end_rows(a, put_row(a));
}

/* ---------------------------------------------------------------- verbs */

static const struct {
    const char *name;
    uint16_t (*run)(struct answer *a);
    bool is_order;
} verbs[] = {
    {"faults", list_faults, false},    {"ack", do_ack, true},
    {"unack", do_unack, true},         {"silence", do_silence, true},
    {"unsilence", do_unsilence, true}, {"silences", list_silences, false},
    {"rules", list_rules, false},      {"actions", list_actions, false},
    {"guard", tell_guard, false},
};
enum { VERBS = sizeof verbs / sizeof *verbs };

uint16_t guard_answer(void *arg, const struct frame_control *q, struct serve_reply *to, struct strbuf *text,
                      struct args_writer *values)
{
    struct answer a = {.guard = arg, .question = q, .to = to, .text = text, .values = values};
    struct slice by = args_text(q->args, "by");
    struct strbuf who = {0};
    uint16_t status = CONTROL_USAGE;
    size_t i = 0;
    while (i < VERBS && !slice_eq_str(q->verb, verbs[i].name))
        i++;
    if (i == VERBS)
        return refuse(&a, CONTROL_USAGE,
                      "a guard does not know this; it knows faults, ack, unack, silence, unsilence, "
                      "silences, rules, actions and guard");
    /* Who it is is what the kernel says; a name that the asker gives stands beside it. */
    strbuf_add_slice(&who, by.n > 100 ? slice_of(by.p, 100) : by);
    strbuf_printf(&who, by.n ? " (%s)" : "%s", serve_asker(to));
    a.by = strbuf_slice(&who);
    status = verbs[i].run(&a);
    strbuf_fini(&who);
    args_writer_fini(&a.row);
    if (verbs[i].is_order)
        guard_settle(a.guard);
    return status;
}

void guard_obey(struct guard *g, const struct event *e)
{
    static const char *const fields[] = {"fault", "rule", "where", "note"};
    struct args_writer args = {0}, values = {0};
    struct strbuf text = {0};
    struct value order = event_get(e, SLICE_LIT("order")), by = event_get(e, SLICE_LIT("by"));
    struct value guard = event_get(e, SLICE_LIT("guard"));
    struct answer a = {.guard = g, .text = &text, .values = &values};
    if (guard.type == VALUE_TEXT && !slice_eq_str(value_slice(guard), g->config->host))
        return; /* another guard is meant: silences are numbered by each for itself */
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        struct value v = event_get(e, slice_str(fields[i]));
        if (v.type == VALUE_TEXT)
            args_add_text(&args, fields[i], value_slice(v));
    }
    args_add(&args, SLICE_LIT("host"), event_get(e, SLICE_LIT("target")));
    args_add(&args, SLICE_LIT("until"), event_get(e, SLICE_LIT("until")));
    args_add(&args, SLICE_LIT("id"), event_get(e, SLICE_LIT("id")));
    a.by = by.type == VALUE_TEXT ? value_slice(by) : SLICE_LIT("gateway");
    const struct frame_control q = {.verb = order.type == VALUE_TEXT ? value_slice(order) : SLICE_LIT(""),
                                    .args = args_of(&args)};
    a.question = &q;
    for (size_t i = 0; i < VERBS; i++)
        if (verbs[i].is_order && slice_eq_str(q.verb, verbs[i].name) && verbs[i].run(&a) != CONTROL_DONE)
            log_info("an order of %.*s was not obeyed: %s", SLICE_ARG(a.by), text.p ? text.p : "");
    args_writer_fini(&args);
    args_writer_fini(&values);
    strbuf_fini(&text);
    guard_settle(g);
}
