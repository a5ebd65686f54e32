/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/announce.h"

#include "base/clock.h"
#include "base/mem.h"
#include "event/json.h"

#include <errno.h>
#include <gridline/gridline.h>
#include <inttypes.h>
#include <stdio.h>

enum { VALUES_MAX = 24, BACKUP_BYTES = 64 << 20 };

struct announce {
    gridline *log;
    const struct guard_config *config;
};

/* An event that is being put together. */
struct values {
    struct gridline_value v[VALUES_MAX];
    size_t n;
};

static void add_text(struct values *to, const char *name, struct slice text)
{
    to->v[to->n++] =
        (struct gridline_value){.name = name, .type = 't', .v.p = text.n ? text.p : "", .n = text.n};
}

static void add_uint(struct values *to, const char *name, uint64_t v)
{
    to->v[to->n++] = (struct gridline_value){.name = name, .type = 'u', .v.u = v};
}

static void add_int(struct values *to, const char *name, int64_t v)
{
    to->v[to->n++] = (struct gridline_value){.name = name, .type = 'i', .v.i = v};
}

static void add_flag(struct values *to, const char *name, bool v)
{
    to->v[to->n++] = (struct gridline_value){.name = name, .type = 'b', .v.u = v};
}

static void write_out(const struct announce *a, int level, const char *event, const struct values *v)
{
    (void)gridline_write_values(a->log, clock_utc_ns(), level, event, v->v,
                                v->n); /* it counts what it drops */
}

/* ---------------------------------------------------------------- opening */

static const struct {
    const char *event, *key;
} keys[] = {
    {"fault.state", "rule,fault,target"},
    {"fault.action", "action,rule"},
    {"rule.state", "rule"},
    {"fault.silence", "silence"},
};

int announce_create(const struct guard_config *config, const char *url, const char *backup,
                    struct announce **out, struct diag *why)
{
    gridline *log = gridline_open("gridline-guard", url, 0);
    if (!log)
        return diag_set(why, -errno, 0, "%.80s can't be used for the guard's events: %s", url,
                        err_text(-errno));
    int r = gridline_set_host(log, config->host);
    for (size_t i = 0; r == 0 && i < sizeof keys / sizeof *keys; i++)
        r = gridline_set_key(log, keys[i].event, keys[i].key);
    if (r == 0)
        r = gridline_backup(log, backup, BACKUP_BYTES);
    if (r < 0) {
        gridline_close(log);
        return diag_set(why, r, 0, "the guard's events can't be kept in %.80s: %s", backup, err_text(r));
    }
    struct announce *a = mem_alloc(sizeof *a);
    *a = (struct announce){.log = log, .config = config};
    *out = a;
    return 0;
}

void announce_destroy(struct announce *a)
{
    if (!a)
        return;
    gridline_close(a->log);
    mem_free(a);
}

void announce_flush(struct announce *a)
{
    if (a)
        (void)gridline_flush(a->log, 0); /* what is not taken yet waits there */
}

/* ---------------------------------------------------------------- events */

const char *fault_shown_state(const struct fault *f)
{
    bool fires = f->life.state == FAULT_FIRING || f->life.state == FAULT_CLEARING;
    return fires && f->acked_ns ? "acknowledged" : fault_state_name(f->life.state);
}

static int level_of(const struct rule_config *rule, const struct fault *f)
{
    static const int levels[] = {GRIDLINE_NOTICE, GRIDLINE_WARNING, GRIDLINE_ERROR, GRIDLINE_CRITICAL};
    return f->life.state == FAULT_FIRING ? levels[rule->severity] : GRIDLINE_NOTICE;
}

static struct slice field_of(const struct fault *f, const char *name)
{
    for (size_t i = 0; i < f->n_fields; i++)
        if (slice_eq_str(f->fields[i].name, name))
            return f->fields[i].value;
    return SLICE_LIT("");
}

/* {"host":"c0-0","free":"12"} */
static void print_row(const struct fault *f, struct strbuf *out)
{
    strbuf_add_char(out, '{');
    for (size_t i = 0; i < f->n_fields; i++) {
        if (i)
            strbuf_add_char(out, ',');
        json_add_string(out, f->fields[i].name);
        strbuf_add_char(out, ':');
        json_add_string(out, f->fields[i].value);
    }
    strbuf_add_char(out, '}');
}

void announce_fault(struct announce *a, const struct fault *f)
{
    const struct rule_config *rule;
    char id[17], since[CLOCK_TEXT_MAX];
    struct strbuf summary = {0}, row = {0};
    struct values v = {.n = 0};
    if (!a)
        return;
    rule = f->of;
    fault_id_print(f->id, id);
    fault_summary(f, rule, &summary);
    print_row(f, &row);
    add_text(&v, "rule", slice_str(rule->name));
    add_text(&v, "fault", slice_str(id));
    add_text(&v, "target", field_of(f, "host"));
    add_text(&v, "state", slice_str(fault_shown_state(f)));
    add_text(&v, "severity", slice_str(severity_name(rule->severity)));
    add_uint(&v, "episode", f->life.episode);
    add_text(&v, "since", slice_of(since, clock_print_iso(since, fault_since(f))));
    add_int(&v, "fired", f->life.fired_ns);
    add_int(&v, "cleared", f->life.cleared_ns);
    add_text(&v, "summary", strbuf_slice(&summary));
    add_flag(&v, "told", f->is_told);
    add_flag(&v, "silenced", f->is_silenced);
    add_flag(&v, "hidden", f->is_hidden);
    add_flag(&v, "quiet", f->is_in_quiet);
    add_text(&v, "by", f->acked_ns ? f->acked_by : SLICE_LIT(""));
    add_text(&v, "note", f->acked_ns ? f->ack_note : SLICE_LIT(""));
    add_text(&v, "row", strbuf_slice(&row));
    write_out(a, level_of(rule, f), "fault.state", &v);
    strbuf_fini(&summary);
    strbuf_fini(&row);
}

void announce_action(struct announce *a, const struct action_end *e)
{
    char id[17];
    struct values v = {.n = 0};
    if (!a)
        return;
    fault_id_print(e->fault, id);
    add_text(&v, "action", slice_str(e->action->name));
    add_text(&v, "rule", e->rule);
    add_text(&v, "actuator", slice_str(e->action->actuator));
    add_uint(&v, "order", e->order);
    add_text(&v, "kind", slice_str(notice_name(e->kind)));
    add_text(&v, "fault", slice_str(id));
    add_uint(&v, "faults", e->faults);
    add_text(&v, "result", slice_str(action_result_name(e->result)));
    add_uint(&v, "attempt", e->attempt);
    add_flag(&v, "is_last", e->is_last);
    add_int(&v, "waited_ms", e->waited_ns / 1000000);
    add_int(&v, "ran_ms", e->ran_ns / 1000000);
    add_int(&v, "exit_code", e->exit_code);
    add_text(&v, "text", e->text);
    write_out(a, e->result == ACTION_DONE ? GRIDLINE_NOTICE : GRIDLINE_ERROR, "fault.action", &v);
}

void announce_silence(struct announce *a, const struct silence *s, bool is_over)
{
    struct values v = {.n = 0};
    char id[24];
    if (!a)
        return;
    int n = snprintf(id, sizeof id, "%" PRIu64, s->id); /* key fields are text */
    add_text(&v, "silence", slice_of(id, (size_t)n));
    add_flag(&v, "over", is_over);
    add_text(&v, "rule", s->rule);
    add_text(&v, "hosts", s->host);
    add_text(&v, "where", s->where);
    add_int(&v, "from", s->from_ns);
    add_int(&v, "until", s->until_ns);
    add_text(&v, "by", s->by);
    add_text(&v, "note", s->note);
    write_out(a, GRIDLINE_NOTICE, "fault.silence", &v);
}

/* "" = without memory; it is told again. */
static struct slice rule_text(const struct rule_config *c, struct strbuf *out)
{
    guard_config_show_rule(c, out);
    return strbuf_failed(out) ? SLICE_LIT("") : strbuf_slice(out);
}

void announce_rule(struct announce *a, const struct rule *r, const struct faults *faults, unsigned index)
{
    const struct rule_config *c = rule_config(r);
    const struct rule_stats *s = rule_stats(r);
    struct faults_counts n;
    struct values v = {.n = 0};
    struct strbuf text = {0};
    if (!a)
        return;
    faults_count(faults, index, &n);
    add_text(&v, "rule", slice_str(c->name));
    add_text(&v, "severity", slice_str(severity_name(c->severity)));
    add_text(&v, "place", slice_str(rule_is_remote(r) ? "gateway" : "here"));
    add_uint(&v, "every_ms", (uint64_t)c->every_ns / 1000000);
    add_uint(&v, "evaluations", s->evaluations);
    add_uint(&v, "failures", s->failures);
    add_int(&v, "last_ms", s->took_ns / 1000000);
    add_text(&v, "why", slice_str(s->why));
    add_uint(&v, "pending", n.pending);
    add_uint(&v, "firing", n.firing);
    add_uint(&v, "clearing", n.clearing);
    add_uint(&v, "left_out", faults_left_out(faults, index));
    add_text(&v, "help", slice_str(c->help));
    add_text(&v, "query", slice_str(c->query));
    add_int(&v, "evaluated", s->at_ns);
    add_text(&v, "text", rule_text(c, &text));
    write_out(a, GRIDLINE_INFO, "rule.state", &v);
    strbuf_fini(&text);
}

void announce_guard(struct announce *a, const struct guard_totals *t)
{
    struct values v = {.n = 0};
    if (!a)
        return;
    add_uint(&v, "feeds", t->feeds);
    add_uint(&v, "events", t->events);
    add_uint(&v, "rows", t->rows);
    add_uint(&v, "rules", t->rules);
    add_uint(&v, "pending", t->faults.pending);
    add_uint(&v, "firing", t->faults.firing);
    add_uint(&v, "acknowledged", t->faults.acked);
    add_uint(&v, "silenced", t->faults.silenced);
    add_uint(&v, "hidden", t->faults.hidden);
    add_uint(&v, "hosts", t->hosts);
    add_uint(&v, "late", t->late);
    add_uint(&v, "left_out", t->left_out);
    add_text(&v, "audit", slice_str(t->audit));
    write_out(a, GRIDLINE_INFO, "guard.state", &v);
}
