/* SPDX-License-Identifier: Apache-2.0 */
/* gridline-gateway: takes events from programs on this host and keeps them in a journal. Arguments and
 * tear-down; the work is in src/gateway. */
#include "base/clock.h"
#include "cmd/manual.h"
#include "cmd/options.h"
#include "gateway/gateway.h"
#include "gateway/log.h"

#include <signal.h>

struct gateway_main {
    struct gateway_options gateway;
    const char *dump;
    bool quiet;
};

static int run(void *state, struct operands operands)
{
    (void)operands; /* it has none */
    const struct gateway_main *o = state;
    struct gateway *g;
    struct diag why = {0};
    log_quiet(o->quiet);
    if (o->dump) {
        int r = gateway_dump(o->dump, o->gateway.print);
        if (r < 0)
            log_error("%s: %s", o->dump, err_text(r));
        return r == 0 ? EXIT_OK : r == E_DAMAGE ? EXIT_PARTLY : EXIT_FAILED;
    }
    if (!o->gateway.journal) {
        log_error("--journal DIR is needed: where the events are kept");
        return EXIT_USAGE;
    }
    (void)signal(SIGPIPE, SIG_IGN); /* a peer that has gone is an error of its write, not a death */
    int r = gateway_create(&o->gateway, &g, &why);
    if (r < 0) {
        log_error("%s", why.message);
        return EXIT_FAILED;
    }
    r = gateway_run(g);
    if (r < 0)
        log_error("the loop failed: %s", err_text(r));
    gateway_destroy(g);
    return r < 0 ? EXIT_FAILED : EXIT_OK;
}

#define AT(member) offsetof(struct gateway_main, member)

static const struct option_spec table[] = {
    {'l', "listen", OPTION_TEXT, "ADDRESS[,ADDRESS...]", AT(gateway.listen),
     "take connections there: `tcp://HOST:PORT` (loopback only; port 0 = any) or `unix:PATH`"},
    {'j', "journal", OPTION_FILE, "DIR", AT(gateway.journal), "keep the events in this directory"},
    {0, "journal-max", OPTION_SIZE, "SIZE", AT(gateway.journal_max),
     "let it grow to SIZE (default 1GiB); then senders are told to wait"},
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

static const struct gateway_main defaults = {.gateway = {.listen = "tcp://127.0.0.1:14830"}};

static const struct verb verb_gateway = {
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
    .run = run,
};

int main(int argc, char **argv)
{
    struct gateway_main state = defaults;
    struct operands operands;
    struct diag why = {0};
    struct strbuf usage = {0};
    switch (options_parse(&verb_gateway, argc - 1, argv + 1, clock_utc_ns(), &state, &operands, &why)) {
    case OPTIONS_OK:
        return verb_gateway.run(&state, operands);
    case OPTIONS_HELP:
        manual_usage(&usage, &verb_gateway);
        (void)fputs(usage.p ? usage.p : "", stdout); /* nowhere to report it */
        strbuf_fini(&usage);
        return EXIT_OK;
    case OPTIONS_BAD:
        break;
    }
    log_error("%s", why.message);
    return EXIT_USAGE;
}
