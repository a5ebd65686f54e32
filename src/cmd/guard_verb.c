/* SPDX-License-Identifier: Apache-2.0 */
/* The options and the manual of the guard: `gridline guard` has them and runs gridline-guard, whose main
 * parses the same table. */
#include "cmd/guard_verb.h"

#define AT(member) offsetof(struct guard_main, member)

static const struct option_spec table[] = {
    {'c', "config", OPTION_FILE, "FILE", AT(config),
     "read FILE (default /etc/gridline/guard.conf, if it is there)"},
    {'g', "gateway", OPTION_TEXT, "ADDRESS[,ADDRESS...]", AT(gateway),
     "listen to these: `unix:PATH`, `tcp://HOST:PORT`, `tls://HOST:PORT` (default: this host's gateway)"},
    {'s', "set", OPTION_TEXTS, "KEY=VALUE", AT(settings),
     "change a configuration key, e.g. `heartbeat.timeout=30s`"},
    {0, "check", OPTION_FLAG, NULL, AT(is_check),
     "only look whether the configuration and every rule can be used"},
    {0, "ready-file", OPTION_FILE, "FILE", AT(ready_file), "write FILE once everything runs"},
    {'q', "quiet", OPTION_FLAG, NULL, AT(quiet), "say nothing but errors"},
    {0},
};

static const struct example examples[] = {
    {"gridline guard", "Watch what this host's gateway hears, by the default rules"},
    {"gridline guard -c my.conf --check", "Is every rule and action in order?"},
    {"gridline guard -g tls://gw.example -s default_rules=false -c site.conf", "The rules of the site alone"},
    {NULL, NULL},
};

const struct verb verb_guard = {
    .name = "guard",
    .summary = "judge what comes in by rules, and act on faults",
    .operands = "",
    .description = "Keeps the newest event of every stream, evaluates rules over them (SQL whose rows are "
                   "faults), follows each "
                   "fault from its fire to its clear, and runs the actions that the configuration gives it. "
                   "In the foreground, "
                   "until SIGTERM or SIGINT.\n"
                   "It listens to a gateway and to this host's agent, so that it does not go blind with "
                   "either. What may be done "
                   "is in its configuration on this host and nowhere else; every deed is in the audit.\n"
                   "SIGHUP reads the configuration again; one with an error is refused and the old one "
                   "stays. Faults, silences and "
                   "actions under way outlive a restart. `gridline config explain --guard` lists the keys, "
                   "`gridline act --list` "
                   "what can be done, `gridline faults` what is wrong now.",
    .options = table,
    .examples = examples,
    .state_size = sizeof(struct guard_main),
    .program = "gridline-guard",
};
