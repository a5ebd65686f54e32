/* SPDX-License-Identifier: Apache-2.0 */
/* The options and the manual of the agent: `gridline agent` has them and runs gridline-agent, whose main
 * parses the same table. */
#include "cmd/agent_verb.h"

#define AT(member) offsetof(struct agent_main, member)

static const struct option_spec table[] = {
    {'c', "config", OPTION_FILE, "FILE", AT(config),
     "read FILE (default /etc/gridline/agent.conf, if it is there)"},
    {'g', "gateway", OPTION_TEXT, "ADDRESS[,ADDRESS...]", AT(gateway),
     "send to the first of these that is there: `tls://HOST:PORT`, `tcp://HOST:PORT` or `unix:PATH`"},
    {'o', "output", OPTION_FILE, "FILE", AT(output),
     "write events to FILE, too; `-` is standard output, as ULM"},
    {'s', "set", OPTION_TEXTS, "KEY=VALUE", AT(settings), "change a configuration key, e.g. `disk.every=5s`"},
    {0, "guest", OPTION_FLAG, NULL, AT(is_guest),
     "keep nothing on this host's disks; leave to a resident agent"},
    {0, "token-file", OPTION_FILE, "FILE", AT(token_file),
     "a guest's: join with the token in FILE; key and certificate stay in memory"},
    {0, "ready-file", OPTION_FILE, "FILE", AT(ready_file), "write FILE once everything runs"},
    {'q', "quiet", OPTION_FLAG, NULL, AT(quiet), "say nothing but errors"},
    {0},
};

static const struct example examples[] = {
    {"gridline agent -o -", "Watch this host, on the screen, with the default sensors"},
    {"gridline agent -g tcp://127.0.0.1:14830", "Send to the gateway here"},
    {"gridline agent -c my.conf -s budget.cpu=2%", "A configuration, and one key changed"},
    {NULL, NULL},
};

const struct verb verb_agent = {
    .name = "agent",
    .summary = "run sensors and send what they say",
    .operands = "",
    .description =
        "Runs this host's sensors and sends their events to a gateway, to files, and to programs on this "
        "host that "
        "subscribe on its Unix socket. In the foreground, until SIGTERM or SIGINT.\n"
        "SIGHUP reads the configuration again: sensors appear, change and go, the others are not touched. A "
        "configuration with an error is refused and the old one stays. `gridline config explain` lists the "
        "keys.\n"
        "Only one agent runs on a host for one gateway: a second one finds the first and leaves, with exit "
        "code 3.",
    .options = table,
    .examples = examples,
    .state_size = sizeof(struct agent_main),
    .program = "gridline-agent",
};
