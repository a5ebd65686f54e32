/* SPDX-License-Identifier: Apache-2.0 */
/* The options and the manual of the gateway: `gridline gateway` has them and runs gridline-gateway, whose
 * main parses the same table. */
#include "cmd/gateway_verb.h"

#define AT(member) offsetof(struct gateway_main, member)

static const struct option_spec table[] = {
    {'c', "config", OPTION_FILE, "FILE", AT(config),
     "read FILE (default /etc/gridline/gateway.conf, if it is there)"},
    {'l', "listen", OPTION_TEXT, "ADDRESS[,ADDRESS...]", AT(listen),
     "take connections there: `tcp://HOST:PORT`, `tls://HOST:PORT` or `unix:PATH`; port 0 = any"},
    {0, "socket", OPTION_FILE, "PATH", AT(socket),
     "take connections on this Unix socket, too: its owner may give orders"},
    {0, "identity", OPTION_FILE, "DIR", AT(identity),
     "the site's folder, as `gridline init` makes it: needed for tls:// addresses"},
    {0, "insecure", OPTION_FLAG, NULL, AT(is_insecure), "other hosts may come without TLS"},
    {0, "udp", OPTION_TEXT, "ADDRESS", AT(udp),
     "take samples in datagrams there: `HOST:PORT` (default: as the first TCP address; empty: none)"},
    {0, "lease", OPTION_TEXT, "TIME", AT(lease), "how long a worker may be silent (default 30s)"},
    {0, "renew", OPTION_TEXT, "TIME", AT(renew),
     "how often workers renew (default 10s; at most a third of the lease)"},
    {0, "state-dir", OPTION_FILE, "DIR", AT(state_dir), "keep everything below this directory"},
    {'j', "journal", OPTION_FILE, "DIR", AT(journal), "keep the events in this directory"},
    {0, "journal-max", OPTION_TEXT, "SIZE", AT(journal_max),
     "let it grow to SIZE (default 1GiB); then the oldest gives way"},
    {'p', "print", OPTION_FORMAT, "FORMAT", AT(print),
     "write the events to standard output, too: an observer of type text"},
    {0, "ledger", OPTION_FILE, "FILE", AT(ledger),
     "write what was taken, passed, duplicate and refused as JSON, at the end and on SIGUSR1"},
    {0, "ready-file", OPTION_FILE, "FILE", AT(ready_file), "write the addresses there once it listens"},
    {'s', "set", OPTION_TEXTS, "KEY=VALUE", AT(settings),
     "change a configuration key, e.g. `lease.time=1m`; can be given again"},
    {0, "check", OPTION_FLAG, NULL, AT(is_check), "say what is wrong with the configuration, and end"},
    {0, "dump", OPTION_FILE, "DIR", AT(dump), "print what the journal DIR holds, and end"},
    {'q', "quiet", OPTION_FLAG, NULL, AT(quiet), "say nothing but errors"},
    {0},
};

static const struct example examples[] = {
    {"gridline-gateway --journal /var/lib/gridline/journal", "Take events on 127.0.0.1:14830"},
    {"gridline-gateway --journal j --listen unix:/run/user/1000/gridline.sock --print ulm",
     "The same, and show them"},
    {"gridline-gateway -c my.conf -s connections_max=100 --check", "Would that configuration do?"},
    {"gridline-gateway --dump j --print ndjson", "What is in a journal"},
    {NULL, NULL},
};

const struct verb verb_gateway = {
    .name = "gateway",
    .summary = "take events and keep them",
    .operands = "",
    .description =
        "Takes events by the stream of docs/protocol.md, and ULM, BP or NDJSON lines, and keeps each once in "
        "a "
        "journal. What it has acknowledged is on disk. In the foreground, until SIGTERM or SIGINT.\n"
        "Its configuration comes from FILE, the drop-ins `gateway.d/*.conf` beside it, the environment "
        "(`GRIDLINE_GATEWAY_` and the key in capitals, `_` for `.`) and flags, in this order, later values "
        "in place of "
        "earlier ones. `gridline config explain --gateway` lists the keys; docs/gateway.md has them with "
        "examples.\n"
        "Where only a journal or a state directory is given, nothing is kept anywhere else, and there is no "
        "socket for "
        "commands unless one is given, too.\n"
        "SIGHUP opens the files of observers again.",
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct gateway_main),
    .program = "gridline-gateway",
};
