/* SPDX-License-Identifier: Apache-2.0 */
/* gridline-agent: arguments and tear-down; the work is in src/agent. */
#include "agent/agent.h"
#include "agent/guest_identity.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "cmd/agent_verb.h"
#include "cmd/manual.h"
#include "net/agent_name.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>

enum { SETTINGS_MAX = OPTION_TEXTS_MAX + 4 };

/* The short options are settings, too: those given with -s come later and win. */
static void add_setting(struct config_flags *flags, const char **settings, struct strbuf *text,
                        const char *key, const char *value)
{
    if (!value)
        return;
    strbuf_printf(text, "%s=%s", key, value);
    settings[flags->n_settings++] = text->p ? text->p : "";
}

/* A token may be used up by that: not by a second agent. */
static int join(const struct agent_main *o, struct strbuf *dir, struct diag *why)
{
    if (!o->token_file)
        return 0;
    if (!o->is_guest || !o->gateway)
        return diag_set(why, -EINVAL, 0, "--token-file is for a guest, with --gateway; others use `gridline join`");
    if (agent_name_ask(o->gateway, 2000) != -ECONNREFUSED)
        return diag_set(why, -EEXIST, 0, "an agent runs on this host for %s already; this one leaves", o->gateway);
    return guest_identity_make(o->token_file, dir, why);
}

/* While there is a folder with a guest's identity, who ends us has to wait: it would stay. */
static void hold_off_signals(bool is_needed, sigset_t *before)
{
    sigset_t ends;
    (void)sigemptyset(&ends); /* can't fail, as those below */
    (void)sigaddset(&ends, SIGHUP);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, is_needed ? &ends : NULL, before);
}

static int run(const struct agent_main *o)
{
    sigset_t before;
    const char *settings[SETTINGS_MAX];
    struct strbuf gateway = {0}, output = {0}, identity = {0}, dir = {0};
    struct agent_options options = {.config = {.file = o->config, .settings = settings},
                                    .ready_file = o->ready_file};
    struct agent *a;
    struct diag why = {0};
    log_quiet(o->quiet);
    add_setting(&options.config, settings, &gateway, "gateway", o->gateway);
    add_setting(&options.config, settings, &output, "output.flag.path", o->output);
    if (o->is_guest)
        settings[options.config.n_settings++] = "guest=true";
    for (size_t i = 0; i < o->settings.n; i++)
        settings[options.config.n_settings++] = o->settings.v[i];
    (void)signal(SIGPIPE, SIG_IGN); /* a peer that has gone is an error of its write, not a death */
    hold_off_signals(o->token_file, &before);
    int r = join(o, &dir, &why);
    add_setting(&options.config, settings, &identity, "identity", dir.n ? dir.p : NULL);
    if (r == 0)
        r = agent_create(&options, &a, &why);
    guest_identity_remove(&dir); /* it has been read */
    (void)sigprocmask(SIG_SETMASK, &before, NULL); /* can't fail */
    if (r < 0) {
        log_error("%s", why.message[0] ? why.message : err_text(r));
    } else {
        r = agent_run(a);
        if (r < 0)
            log_error("the loop failed: %s", err_text(r));
        agent_destroy(a);
    }
    strbuf_fini(&gateway);
    strbuf_fini(&output);
    strbuf_fini(&identity);
    strbuf_fini(&dir);
    return r == 0 ? EXIT_OK : r == -EEXIST ? EXIT_NOT_FOUND : EXIT_FAILED;
}

int main(int argc, char **argv)
{
    struct agent_main state = {0};
    struct operands operands; /* it has none */
    struct diag why = {0};
    struct strbuf usage = {0};
    (void)mallopt(M_ARENA_MAX, 1);             /* one thread; small on the host */
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 10); /* what a reload needed goes back */
    (void)prctl(PR_SET_NAME, "gridline-agent"); /* one that was executed by a descriptor has that as its name */
    log_start("gridline-agent");
    switch (options_parse(&verb_agent, argc - 1, argv + 1, clock_utc_ns(), &state, &operands, &why)) {
    case OPTIONS_OK:
        return run(&state);
    case OPTIONS_HELP:
        manual_usage(&usage, &verb_agent);
        (void)fputs(usage.p ? usage.p : "", stdout); /* nowhere to report it */
        strbuf_fini(&usage);
        return EXIT_OK;
    case OPTIONS_BAD:
        break;
    }
    log_error("%s", why.message);
    return EXIT_USAGE;
}
