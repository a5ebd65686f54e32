/* SPDX-License-Identifier: Apache-2.0 */
/* gridline-gateway: takes events from programs on this host and keeps them in a journal. Arguments and
 * tear-down; the work is in src/gateway. */
#include "base/clock.h"
#include "cmd/gateway_verb.h"
#include "cmd/manual.h"
#include "base/log.h"

#include <signal.h>

static int run(const struct gateway_main *o)
{
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

int main(int argc, char **argv)
{
    log_start("gridline-gateway");
    struct gateway_main state = *(const struct gateway_main *)verb_gateway.defaults;
    struct operands operands; /* it has none */
    struct diag why = {0};
    struct strbuf usage = {0};
    switch (options_parse(&verb_gateway, argc - 1, argv + 1, clock_utc_ns(), &state, &operands, &why)) {
    case OPTIONS_OK:
        return run(&state);
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
