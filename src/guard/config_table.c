/* SPDX-License-Identifier: Apache-2.0 */
/* The tables: all that parser, check, show, explain and docs know of a key is here or in an actuator's
 * options. */
#include "guard/config_internal.h"

#define GUARD(member)  offsetof(struct guard_config, member)
#define RULE(member)   offsetof(struct rule_config, member)
#define ACTION(member) offsetof(struct action_config, member)

static const struct config_key guard_keys[] = {
    {.name = "hostname",
     .type = CONFIG_OWN,
     .own = &guard_own_host,
     .offset = GUARD(host),
     .default_text = "",
     .help = "this host's name in the guard's own events; empty: what the system says"},
    {.name = "state_dir",
     .type = CONFIG_PATH,
     .offset = GUARD(state_dir),
     .help = "keeps faults, silences, actions under way and the audit. Default: `/var/lib/gridline/guard` "
             "for root, "
             "else `gridline/guard` in $XDG_STATE_HOME or ~/.local/state"},
    {.name = "run_dir",
     .type = CONFIG_PATH,
     .offset = GUARD(run_dir),
     .help = "has the socket. Default: `/run/gridline` for root, else `gridline` in $XDG_RUNTIME_DIR, else "
             "/tmp/gridline-UID"},
    {.name = "socket",
     .type = CONFIG_PATH,
     .offset = GUARD(socket),
     .help =
         "answers `gridline faults`, `ack`, `silence` and `rule` of this guard's user; empty: none. Default: "
         "`guard.sock` in run_dir"},
    {.name = "gateway",
     .type = CONFIG_OWN,
     .own = &guard_own_addresses,
     .offset = GUARD(gateway),
     .default_text = "",
     .help = "where events come from, and where rules over the archive are asked (the first): `unix:PATH`, "
             "`tcp://HOST:PORT`, `tls://HOST:PORT`; empty: the gateway of this host"},
    {.name = "agent",
     .type = CONFIG_OWN,
     .own = &guard_own_socket,
     .offset = GUARD(agent),
     .help = "this host's agent, listened to as well, so that the guard does not go blind with the gateway: "
             "`unix:PATH`; empty: not. Default: `agent.sock` in run_dir"},
    {.name = "identity",
     .type = CONFIG_PATH,
     .offset = GUARD(identity),
     .help = "folder with key and certificates, for `tls://`. Default: `/var/lib/gridline/identity` for "
             "root, else "
             "`gridline/identity` in $XDG_STATE_HOME or ~/.local/state"},
    {.name = "publish",
     .type = CONFIG_OWN,
     .own = &guard_own_addresses,
     .offset = GUARD(publish),
     .default_text = "",
     .help = "where the guard's own events go: `unix:PATH` or `tcp://HOST:PORT`; empty: the gateway, or the "
             "agent if that "
             "is reached by `tls://`"},
    {.name = "act",
     .type = CONFIG_PATH,
     .offset = GUARD(act),
     .default_text = "",
     .help = "the program that acts; empty: `gridline-act` beside the guard, or where it is installed"},
    {.name = "events",
     .type = CONFIG_OWN,
     .own = &guard_own_texts,
     .offset = GUARD(events),
     .default_text = "",
     .help = "patterns of event names to listen to, besides those that rules name"},
    {.name = "default_rules",
     .type = CONFIG_FLAG,
     .offset = GUARD(has_default_rules),
     .default_text = "true",
     .help = "has the rules that come with gridline; each can be changed, or switched off, by a section of "
             "its name"},
    {.name = "blind",
     .type = CONFIG_DURATION,
     .offset = GUARD(blind_ns),
     .default_text = "60s",
     .min = "1s",
     .max = "1d",
     .help = "no event at all for so long is the fault `guard.blind`"},
    {.name = "on_blind",
     .type = CONFIG_LIST,
     .default_text = "",
     .help = "actions when the guard is blind, and when it sees again"},
    {.name = "keep_cleared",
     .type = CONFIG_DURATION,
     .offset = GUARD(keep_cleared_ns),
     .default_text = "1d",
     .min = "0s",
     .max = "366d",
     .help = "how long a fault that has cleared is listed; the archive keeps it as long as it keeps events"},
    {.name = "questions",
     .type = CONFIG_COUNT,
     .offset = GUARD(questions),
     .default_text = "2",
     .min = "1",
     .max = "16",
     .help = "how many questions to gateway and hosts at a time"},
    {.name = "heartbeat.every",
     .type = CONFIG_DURATION,
     .offset = GUARD(heartbeat_ns),
     .default_text = "10s",
     .min = "100ms",
     .max = "1h",
     .help = "how often hosts send heartbeats, where they do not say"},
    {.name = "heartbeat.timeout",
     .type = CONFIG_DURATION,
     .offset = GUARD(heartbeat_timeout_ns),
     .default_text = "12s",
     .min = "200ms",
     .max = "2h",
     .help = "a host whose heartbeat is missing for so long is late; more than `heartbeat.every`"},
    {.name = "heartbeat.ping",
     .type = CONFIG_FLAG,
     .offset = GUARD(is_pinging),
     .default_text = "true",
     .help = "pings a host that is late before it is called dead"},
    {.name = "limit.faults",
     .type = CONFIG_SIZE,
     .offset = GUARD(faults_max),
     .default_text = "200000",
     .min = "100",
     .max = "10000000",
     .help = "how many faults are kept; more are left out and counted"},
    {.name = "limit.rows",
     .type = CONFIG_SIZE,
     .offset = GUARD(rows_max),
     .default_text = "1000000",
     .min = "1000",
     .max = "100000000",
     .help = "how many streams are kept in live tables"},
    {.name = "limit.memory",
     .type = CONFIG_SIZE,
     .offset = GUARD(memory_max),
     .default_text = "256MiB",
     .min = "1MiB",
     .max = "1TiB",
     .help = "memory for live tables"},
    {.name = "audit.max",
     .type = CONFIG_SIZE,
     .offset = GUARD(audit_max),
     .default_text = "16MiB",
     .min = "64KiB",
     .max = "1TiB",
     .help = "size of one file of the audit; then the next begins. None is ever deleted"},
    {0},
};

static const struct config_key rule_keys[] = {
    {.name = "query",
     .type = CONFIG_STRING,
     .offset = RULE(query),
     .is_needed = true,
     .help = "SQL whose rows are the faults: over `NAME_latest` and `host_health` here, or over the archive "
             "and the "
             "gateway's tables there"},
    {.name = "clear_query",
     .type = CONFIG_STRING,
     .offset = RULE(clear_query),
     .default_text = "",
     .help = "SQL whose rows are what is well again (hysteresis): a fault clears only when it is among them; "
             "empty: when "
             "`query` no longer has it"},
    {.name = "key",
     .type = CONFIG_OWN,
     .own = &guard_own_columns,
     .offset = RULE(key),
     .default_text = "",
     .help =
         "columns that tell faults apart; empty: `host`, if the rows have it, else one fault for the rule"},
    {.name = "summary",
     .type = CONFIG_STRING,
     .offset = RULE(summary),
     .default_text = "",
     .help = "one line for people, `{COLUMN}` for values; empty: all columns"},
    {.name = "help",
     .type = CONFIG_STRING,
     .offset = RULE(help),
     .default_text = "",
     .help = "what it means and what to do about it"},
    {.name = "every",
     .type = CONFIG_DURATION,
     .offset = RULE(every_ns),
     .default_text = "10s",
     .min = "100ms",
     .max = "366d",
     .help = "how often it is evaluated"},
    {.name = "for",
     .type = CONFIG_DURATION,
     .offset = RULE(policy.for_ns),
     .default_text = "0s",
     .min = "0s",
     .max = "366d",
     .help = "how long it must last before it counts"},
    {.name = "clear_for",
     .type = CONFIG_DURATION,
     .offset = RULE(policy.clear_for_ns),
     .default_text = "0s",
     .min = "0s",
     .max = "366d",
     .help = "how long it must be gone before it has cleared"},
    {.name = "hold_down",
     .type = CONFIG_DURATION,
     .offset = RULE(policy.hold_down_ns),
     .default_text = "0s",
     .min = "0s",
     .max = "366d",
     .help = "after it has cleared it does not fire again for so long"},
    {.name = "no_data",
     .type = CONFIG_OWN,
     .own = &guard_own_no_data,
     .offset = RULE(policy.no_data),
     .default_text = "hold",
     .words = "hold|fault|ignore",
     .help = "what it means that there is nothing fresh about a fault or host: everything stays as it is; it "
             "is a fault; or it "
             "is as if all were well"},
    {.name = "fresh",
     .type = CONFIG_DURATION,
     .offset = RULE(fresh_ns),
     .default_text = "150s",
     .min = "1s",
     .max = "366d",
     .help =
         "events older than this are not looked at; more than the sensor's longest silence (`refresh`, 60s)"},
    {.name = "severity",
     .type = CONFIG_OWN,
     .own = &guard_own_severity,
     .offset = RULE(severity),
     .default_text = "warning",
     .words = "info|warning|error|critical",
     .help = "how bad it is"},
    {.name = "parents",
     .type = CONFIG_OWN,
     .own = &guard_own_texts,
     .offset = RULE(parents),
     .default_text = "",
     .help = "rules whose faults hide this one's, where all columns that both keys have are equal; never its "
             "end"},
    {.name = "quiet",
     .type = CONFIG_OWN,
     .own = &guard_own_quiet,
     .offset = RULE(quiet),
     .default_text = "",
     .help = "when no action begins: `22:00-06:00`, `sat,sun`, `mon-fri 18:00-08:00`; what still fires "
             "afterwards is told "
             "then"},
    {.name = "trust",
     .type = CONFIG_OWN,
     .own = &guard_own_texts,
     .offset = RULE(trust),
     .default_text = "",
     .help = "event names, besides those of sensors, that its actions may rely on: whoever may publish them "
             "can set them "
             "off"},
    {.name = "on_fire", .type = CONFIG_LIST, .default_text = "", .help = "actions when it fires"},
    {.name = "on_repeat",
     .type = CONFIG_LIST,
     .default_text = "",
     .help = "actions each `repeat` while it fires and nobody has acknowledged it"},
    {.name = "on_escalate",
     .type = CONFIG_LIST,
     .default_text = "",
     .help = "actions once it has fired for `escalate` and nobody has acknowledged it"},
    {.name = "on_clear",
     .type = CONFIG_LIST,
     .default_text = "",
     .help = "actions when it clears, if its fire was told"},
    {.name = "repeat",
     .type = CONFIG_DURATION,
     .offset = RULE(repeat_ns),
     .default_text = "0s",
     .min = "0s",
     .max = "366d",
     .help = "how often on_repeat; 0: never"},
    {.name = "escalate",
     .type = CONFIG_DURATION,
     .offset = RULE(escalate_ns),
     .default_text = "0s",
     .min = "0s",
     .max = "366d",
     .help = "when on_escalate; 0: never"},
    {.name = "deadline",
     .type = CONFIG_DURATION,
     .offset = RULE(deadline_ns),
     .default_text = "5s",
     .min = "10ms",
     .max = "10m",
     .help = "how long an evaluation may take; then it has failed, and nothing is known of its faults"},
    {.name = "place",
     .type = CONFIG_OWN,
     .own = &guard_own_place,
     .offset = RULE(place),
     .default_text = "anywhere",
     .words = "anywhere|here|gateway",
     .help = "where it is evaluated; `anywhere`: here, if it can be"},
    {.name = "enabled",
     .type = CONFIG_FLAG,
     .offset = RULE(is_enabled),
     .default_text = "true",
     .help = "false: it is not"},
    {0},
};

static const struct config_key action_keys[] = {
    {.name = "rate",
     .type = CONFIG_OWN,
     .own = &guard_own_rate,
     .default_text = "60/1h",
     .help = "at most so many runs in what time"},
    {.name = "concurrency",
     .type = CONFIG_COUNT,
     .offset = ACTION(concurrency),
     .default_text = "1",
     .min = "1",
     .max = "100",
     .help = "runs at a time"},
    {.name = "attempts",
     .type = CONFIG_COUNT,
     .offset = ACTION(attempts),
     .default_text = "3",
     .min = "1",
     .max = "1000",
     .help = "how often one is tried, the first time included"},
    {.name = "retry",
     .type = CONFIG_DURATION,
     .offset = ACTION(retry_ns),
     .default_text = "10s",
     .min = "10ms",
     .max = "1d",
     .help = "pause before it is tried again; doubles each time"},
    {.name = "retry_max",
     .type = CONFIG_DURATION,
     .offset = ACTION(retry_max_ns),
     .default_text = "10m",
     .min = "10ms",
     .max = "7d",
     .help = "longest pause"},
    {.name = "run_time",
     .type = CONFIG_DURATION,
     .offset = ACTION(timeout_ns),
     .default_text = "30s",
     .min = "100ms",
     .max = "1d",
     .help = "how long a run may take; then it is ended and has failed"},
    {.name = "breaker",
     .type = CONFIG_COUNT,
     .offset = ACTION(breaker),
     .default_text = "5",
     .min = "0",
     .max = "1000",
     .help = "after so many failures in a row nothing is tried for `breaker_for`, then one; 0: never"},
    {.name = "breaker_for",
     .type = CONFIG_DURATION,
     .offset = ACTION(breaker_ns),
     .default_text = "5m",
     .min = "100ms",
     .max = "7d",
     .help = "see breaker"},
    {.name = "queue",
     .type = CONFIG_COUNT,
     .offset = ACTION(queue),
     .default_text = "1000",
     .min = "1",
     .max = "100000",
     .help = "how many may wait; more are left out, counted, and the next run says how many"},
    {.name = "group",
     .type = CONFIG_DURATION,
     .offset = ACTION(group_ns),
     .default_text = "5s",
     .min = "0s",
     .max = "1d",
     .help = "where one run can be about many faults: those within this time of the first go together; 0: "
             "each alone"},
    {.name = "after_crash",
     .type = CONFIG_OWN,
     .own = &guard_own_crash,
     .offset = ACTION(after_crash),
     .default_text = "auto",
     .words = "auto|repeat|forget",
     .help = "what becomes of a run that was cut off by the guard's end: it is repeated, or given up and "
             "told as unknown; "
             "`auto`: repeated where that does no harm"},
    {0},
};
enum { ACTION_KEYS = sizeof action_keys / sizeof *action_keys - 1 };

static bool is_common(const char *name)
{
    for (size_t i = 0; i < ACTION_KEYS; i++)
        if (strcmp(action_keys[i].name, name) == 0)
            return true;
    return false;
}

static struct config_key key_of_option(const struct parameter *o)
{
    return (struct config_key){.name = o->name,
                               .type = (enum config_type)o->type,
                               .default_text = o->default_text,
                               .help = o->help,
                               .note = o->is_program ? "used as it stands: no `{NAME}` in it" : NULL,
                               .is_needed = o->is_needed};
}

/* The keys that every action has, then the actuator's own. */
static bool action_key_at(const struct actuator_ops *ops, size_t i, struct config_key *out)
{
    if (i < ACTION_KEYS) {
        *out = action_keys[i];
        out->is_common = true;
        return true;
    }
    i -= ACTION_KEYS;
    for (const struct parameter *o = ops ? ops->options : NULL; o && o->name; o++) {
        if (is_common(o->name) || i-- > 0)
            continue;
        *out = key_of_option(o);
        return true;
    }
    return false;
}

static bool key_at(struct config_scope scope, size_t i, struct config_key *out)
{
    if (scope.is_family || scope_actuator(scope))
        return action_key_at(scope_actuator(scope), i, out);
    return config_table_at(scope_is_rule(scope) ? rule_keys : guard_keys, i, out);
}

/* ---------------------------------------------------------------- scopes */

const struct config_scope scope_rule = {
    .name = "rule", .summary = "a query whose rows are faults", .is_titled = true};

struct config_scope scope_of_actuator(const struct actuator_ops *ops)
{
    return (struct config_scope){.name = ops->name, .summary = ops->summary, .of = ops, .is_titled = true};
}

static bool scope_at(size_t i, struct config_scope *out)
{
    static const struct config_scope root = {.name = ""}, family = {.name = "ACTION", .is_family = true};
    const struct config_scope *const first[] = {&root, &scope_rule, &family};
    enum { FIRST = sizeof first / sizeof *first };
    if (i < FIRST)
        *out = *first[i];
    else if (actuator_tables[i - FIRST])
        *out = scope_of_actuator(actuator_tables[i - FIRST]);
    else
        return false;
    return true;
}

const struct config_schema guard_schema = {.program = "guard",
                                           .environment = "GRIDLINE_GUARD_",
                                           .explain = "gridline config explain --guard",
                                           .section = "rule or action",
                                           .example = "rule NAME { ... }",
                                           .inner =
                                               (const char *const[]){"heartbeat", "limit", "audit", NULL},
                                           .scope_at = scope_at,
                                           .key_at = key_at};

int guard_config_explain(const char *key, enum config_form form, struct strbuf *out, struct diag *why)
{
    return config_explain_schema(&guard_schema, key, form, out, why);
}
