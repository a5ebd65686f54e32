/* SPDX-License-Identifier: Apache-2.0 */
/* The options and the manual of the gateway: `gridline gateway` has them and runs gridline-gateway, whose main
 * parses the same table. */
#include "cmd/gateway_verb.h"

#include "net/lease.h"

#define AT(member) offsetof(struct gateway_main, member)

static const struct option_spec table[] = {
    {'l', "listen", OPTION_TEXT, "ADDRESS[,ADDRESS...]", AT(gateway.listen),
     "take connections there: `tcp://HOST:PORT` (loopback only; port 0 = any) or `unix:PATH`"},
    {0, "socket", OPTION_FILE, "PATH", AT(gateway.socket),
     "take connections on this Unix socket, too: its owner may give orders"},
    {0, "identity", OPTION_FILE, "DIR", AT(gateway.identity),
     "the site's folder, as `gridline init` makes it: needed for tls:// addresses"},
    {0, "insecure", OPTION_FLAG, NULL, AT(gateway.is_insecure), "other hosts may come without TLS"},
    {0, "udp", OPTION_TEXT, "ADDRESS", AT(gateway.udp),
     "take samples in datagrams there: `HOST:PORT` (default: as the first TCP address; empty: none)"},
    {0, "lease", OPTION_DURATION, "TIME", AT(gateway.lease_ns), "how long a worker may be silent (default 30s)"},
    {0, "renew", OPTION_DURATION, "TIME", AT(gateway.renew_ns),
     "how often workers renew (default 10s; at most a third of the lease)"},
    {'j', "journal", OPTION_FILE, "DIR", AT(gateway.journal), "keep the events in this directory"},
    {0, "journal-max", OPTION_SIZE, "SIZE", AT(gateway.journal_max),
     "let it grow to SIZE (default 1GiB); then the oldest gives way"},
    {'p', "print", OPTION_FORMAT, "FORMAT", AT(gateway.print), "write the events to standard output, too"},
    {0, "ledger", OPTION_FILE, "FILE", AT(gateway.ledger_file),
     "write what was taken, passed, duplicate and refused as JSON, at the end and on SIGUSR1"},
    {0, "ready-file", OPTION_FILE, "FILE", AT(gateway.ready_file),
     "write the addresses there once it listens"},
    {0, "dump", OPTION_FILE, "DIR", AT(dump), "print what the journal DIR holds, and end"},
    {'q', "quiet", OPTION_FLAG, NULL, AT(quiet), "say nothing but errors"},
    {0},
};

static const struct example examples[] = {
    {"gridline-gateway --journal /var/lib/gridline/journal", "Take events on 127.0.0.1:14830"},
    {"gridline-gateway --journal j --listen unix:/run/user/1000/gridline.sock --print ulm",
     "The same, and show them"},
    {"gridline-gateway --dump j --print ndjson", "What is in a journal"},
    {NULL, NULL},
};

static const struct gateway_main defaults = {.gateway = {.listen = "tcp://127.0.0.1:14830", .level = SEAL_PRIVATE}};

const struct verb verb_gateway = {
    .name = "gateway",
    .summary = "take events and keep them",
    .operands = "",
    .description = "Takes events by the stream of docs/protocol.md, and ULM, BP or NDJSON lines, and keeps "
                   "each once in a "
                   "journal. What it has acknowledged is on disk.",
    .options = table,
    .examples = examples,
    .lists_formats = true,
    .state_size = sizeof(struct gateway_main),
    .defaults = &defaults,
    .program = "gridline-gateway",
};
