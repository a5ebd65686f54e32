/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - the guard's configuration: what it listens to, its rules, and what it may do. Loaded from
 * guard.conf, guard.d/, the environment and flags (config/config.h); immutable then. What may be done is here
 * and nowhere else: nothing of it can come from the network.
 *
 *     mail operators { to = "ops@example.org"  rate = "10/1h" }
 *     rule disk-full {
 *         query = "SELECT host, mount, free FROM filesystem_latest WHERE free < 1e9"
 *         key = {"host", "mount"}  for = "1m"  severity = "error"  on_fire = {"operators"}  on_clear =
 * {"operators"}
 *     }
 *
 * A section of an actuator's name is an action: what rules name. */
#ifndef GRIDLINE_GUARD_CONFIG_H
#define GRIDLINE_GUARD_CONFIG_H

#include "base/parameter.h"
#include "config/config.h"
#include "guard/fault.h"

enum severity { SEVERITY_INFO, SEVERITY_WARNING, SEVERITY_ERROR, SEVERITY_CRITICAL };
const char *severity_name(enum severity s);

enum { GUARD_RULES_MAX = 1000, GUARD_ACTIONS_MAX = 200, RULE_KEY_MAX = 16 };

struct config_texts {
    const char *const *v;
    size_t n;
};

/* Which actions, by their place in guard_config.actions. */
struct action_names {
    const unsigned *v;
    size_t n;
};

enum rule_place { RULE_ANYWHERE, RULE_HERE, RULE_AT_GATEWAY };

struct rule_config {
    const char *name;
    const char *help;                /* what it means and what to do, for people; "" = nothing */
    const char *query, *clear_query; /* clear_query "" = none */
    const char
        *summary; /* "{host}: {mount} has {free} bytes left": a template over the row; "" = its fields */
    struct config_texts key; /* columns that tell faults apart; none: `host`, if the rows have it */
    int64_t every_ns, fresh_ns, deadline_ns;
    struct fault_policy policy;
    enum severity severity;
    struct config_texts parents; /* names of rules; place in guard_config.rules in parent_rules */
    const unsigned *parent_rules;
    struct config_texts
        quiet; /* "22:00-06:00", "sat,sun", "mon-fri 18:00-08:00": no actions on fire then (quiet.h) */
    struct config_texts trust; /* event names besides those of sensors that its actions may rely on */
    struct action_names on_fire, on_repeat, on_escalate, on_clear;
    int64_t repeat_ns, escalate_ns; /* 0 = never */
    enum rule_place place;
    bool is_enabled, is_default; /* is_default: one of ours (defaults.h), perhaps changed by the site */
    bool is_given;               /* the site's configuration has a section of it */
    struct config_origin from;
    const struct config_entry *given; /* for guard_config_show, here and below */
    size_t n_given;
};

struct actuator_ops;
enum after_crash { CRASH_BY_ACTUATOR, CRASH_REPEAT, CRASH_FORGET };

struct action_config {
    const char *name, *actuator;
    const struct actuator_ops *ops;           /* its table, without functions */
    const struct parameter_setting *settings; /* the actuator's own options */
    size_t n_settings;
    uint32_t rate_count; /* at most so many runs in rate_ns; "10/1h" */
    int64_t rate_ns;
    uint32_t concurrency;           /* runs at a time */
    uint32_t attempts;              /* of one, the first included */
    int64_t retry_ns, retry_max_ns; /* pause before the second; doubles up to */
    int64_t timeout_ns;
    uint32_t breaker; /* after so many failures in a row nothing is tried for breaker_ns; 0 = never */
    int64_t breaker_ns;
    uint32_t queue;   /* how many may wait; more are left out and counted */
    int64_t group_ns; /* groupable ones: faults within this time of the first go in one run; 0 = each alone */
    enum after_crash after_crash;
    bool is_repeatable, is_groupable; /* the actuator's traits */
    const struct config_entry *given;
    size_t n_given;
};

struct guard_config {
    struct arena arena;
    const char *host; /* this host's name */
    const char *state_dir, *run_dir, *socket;
    const char *gateway;  /* "" = that of this host */
    const char *agent;    /* this host's agent's socket: listened to as well, or alone; "" = not */
    const char *identity; /* for tls:// */
    const char *publish;  /* where its own events go; "" = as gateway, else agent */
    const char *act; /* the program that acts; "" = gridline-act beside this one, or where it is installed */
    struct config_texts events; /* what to subscribe to, besides what rules name */
    bool has_default_rules;
    int64_t blind_ns;                           /* no event for so long: guard.blind */
    int64_t heartbeat_ns, heartbeat_timeout_ns; /* 10 s, 12 s */
    bool is_pinging;                            /* pings a late host */
    uint64_t faults_max, rows_max, memory_max;
    int64_t keep_cleared_ns; /* how long a fault that has cleared is listed */
    uint32_t questions;      /* threads for what is asked at the gateway */
    uint64_t audit_max;      /* bytes of one audit file: then the next begins */
    const struct rule_config *rules;
    size_t n_rules;
    const struct action_config *actions;
    size_t n_actions;
    const struct config_entry *given;
    size_t n_given;
};

#define GUARD_CONFIG_FILE "/etc/gridline/guard.conf"
int guard_config_load(const struct config_flags *flags, struct guard_config **out, struct diag *why);
/* A rule as text that stands alone: without actions and parents, which are sections of their own. */
void guard_config_show_rule(const struct rule_config *r, struct strbuf *out);
void guard_config_destroy(struct guard_config *c); /* NULL is fine */
/* As agent/config.h. */
void guard_config_show(const struct guard_config *c, enum config_form form, bool with_origins,
                       struct strbuf *out);
int guard_config_explain(const char *key, enum config_form form, struct strbuf *out, struct diag *why);

#endif
