/* SPDX-License-Identifier: Apache-2.0 */
/* gridline-guard: arguments, wiring and tear-down; the work is in src/guard. */
#include "base/child.h"
#include "base/clock.h"
#include "base/directory.h"
#include "base/log.h"
#include "base/strays.h"
#include "cmd/guard_actions.h"
#include "cmd/guard_feed.h"
#include "cmd/guard_verb.h"
#include "cmd/manual.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { SETTINGS_MAX = OPTION_TEXTS_MAX + 1, SIGNALS = 3 };

enum outcome { OUTCOME_END, OUTCOME_RELOAD, OUTCOME_FAILED };

struct running {
    const struct guard_main *options;
    struct guard_config *config;
    struct event_base *base;
    bool is_reload;
    struct guard_config *next; /* on reload: what comes then */
};

static void say_problem(void *arg, const char *message)
{
    (void)arg; /* all go to the log */
    log_error("%s", message);
}

/* NULL after having said what is wrong. */
static struct guard_config *load(const struct guard_main *o)
{
    const char *settings[SETTINGS_MAX];
    struct config_flags flags = {.file = o->config, .settings = settings, .on_problem = say_problem};
    struct guard_config *c = NULL;
    struct strbuf gateway = {0};
    if (o->gateway) {
        strbuf_printf(&gateway, "gateway=%s", o->gateway);
        settings[flags.n_settings++] = strbuf_slice(&gateway).p;
    }
    for (size_t i = 0; i < o->settings.n; i++)
        settings[flags.n_settings++] = o->settings.v[i];
    (void)guard_config_load(&flags, &c, NULL); /* said */
    strbuf_fini(&gateway);
    return c;
}

/* With the process's number in it: whoever waits for the file waits until something is there. */
static int write_ready(const char *path)
{
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
    if (!path)
        return 0;
    int r = fd < 0 || dprintf(fd, "%d\n", (int)getpid()) < 0 ? -errno : 0;
    if (fd >= 0 && close(fd) < 0 && r == 0)
        r = -errno;
    if (r < 0)
        log_error("%s: %s", path, err_text(r));
    return r;
}

/* ---------------------------------------------------------------- signals */

static void on_end(evutil_socket_t signal, short what, void *arg)
{
    struct running *r = arg;
    (void)signal, (void)what; /* either ends it */
    (void)event_base_loopbreak(r->base);
}

/* What is in force stays if the new one has an error. */
static void on_reload(evutil_socket_t signal, short what, void *arg)
{
    struct running *r = arg;
    (void)signal, (void)what;
    guard_config_destroy(r->next);
    if (!(r->next = load(r->options))) {
        log_error("the configuration has an error; the old one stays");
        return;
    }
    r->is_reload = true;
    (void)event_base_loopbreak(r->base);
}

/* ---------------------------------------------------------------- running */

static enum outcome serve(struct running *r)
{
    struct guard *g = NULL;
    struct guard_feed *feed = NULL;
    struct diag why = {0};
    struct strbuf act = {0};
    enum outcome outcome = OUTCOME_FAILED;
    int code = 0;
    if (slice_starts(slice_str(r->config->socket), slice_str(r->config->run_dir)))
        code = directory_make_own(r->config->run_dir, &why);
    if (code == 0)
        code = guard_actions_find(r->config, &act, &why);
    if (code == 0)
        code = guard_actions_check(r->config, strbuf_slice(&act).p, &why);
    if (code == 0)
        code = guard_create(r->config, strbuf_slice(&act).p, r->base, &g, &why);
    if (code == 0)
        code = guard_feed_create(r->base, r->config, g, &feed, &why);
    if (code == 0)
        code = write_ready(r->options->ready_file);
    if (code == 0) {
        log_info("%zu rules, %zu actions", r->config->n_rules, r->config->n_actions);
        (void)event_base_dispatch(r->base); /* ends by loopbreak */
        outcome = r->is_reload ? OUTCOME_RELOAD : OUTCOME_END;
    } else {
        log_error("%s", why.message[0] ? why.message : err_text(code));
    }
    guard_feed_destroy(feed);
    guard_destroy(g);
    (void)child_settle(CHILD_GRACE); /* what was still running is ended */
    strbuf_fini(&act);
    return outcome;
}

/* A reload is a restart within the process: what was known is on disk. If the new configuration can't be used
 * after all (a rule that is wrong), the old one is. */
static int run_until_end(struct running *r)
{
    enum outcome outcome = serve(r);
    while (outcome == OUTCOME_RELOAD) {
        struct guard_config *old = r->config;
        r->config = r->next;
        r->next = NULL;
        r->is_reload = false;
        outcome = serve(r);
        if (outcome == OUTCOME_FAILED) {
            log_error("the new configuration can't be used; the old one is taken again");
            guard_config_destroy(r->config);
            r->config = old;
            outcome = serve(r);
            continue;
        }
        guard_config_destroy(old);
    }
    guard_config_destroy(r->next);
    return outcome == OUTCOME_END ? EXIT_OK : EXIT_FAILED;
}

/* Every rule is compiled, every action looked at; nothing is listened to, nothing done. */
static int check(const struct guard_config *c)
{
    struct diag why = {0};
    int r = guard_check_all(c, &why);
    if (r < 0)
        log_error("%s", why.message);
    else
        log_info("no problem, %zu rules, %zu actions", c->n_rules, c->n_actions);
    return r < 0 ? EXIT_FAILED : EXIT_OK;
}

/* For as long as the process lives, over reloads, too. */
static int listen_to_signals(struct running *r, struct event *out[SIGNALS])
{
    out[0] = evsignal_new(r->base, SIGTERM, on_end, r);
    out[1] = evsignal_new(r->base, SIGINT, on_end, r);
    out[2] = evsignal_new(r->base, SIGHUP, on_reload, r);
    for (size_t i = 0; i < SIGNALS; i++)
        if (!out[i] || event_add(out[i], NULL) < 0)
            return -ENOMEM;
    return 0;
}

static int run_loop(struct running *r)
{
    struct event *signals[SIGNALS];
    r->base = event_base_new();
    if (!r->base)
        return EXIT_FAILED;
    int code = listen_to_signals(r, signals) == 0 ? run_until_end(r) : EXIT_FAILED;
    for (size_t i = 0; i < SIGNALS; i++)
        if (signals[i])
            event_free(signals[i]);
    event_base_free(r->base);
    return code;
}

static int run(const struct guard_main *o)
{
    struct running r = {.options = o};
    log_quiet(o->quiet);
    (void)signal(SIGPIPE, SIG_IGN); /* a peer that has gone is an error of its write, not a death */
    (void)signal(SIGXFSZ, SIG_IGN); /* so is a file that may not grow further */
    if (!(r.config = load(o)))
        return EXIT_FAILED;
    if (o->is_check) {
        int code = check(r.config);
        guard_config_destroy(r.config);
        return code;
    }
    /* No strays_adopt here: gridline-act has it, for what its programs leave. Orphans that came to us would
     * be taken for strays, and among them are the servers that an action has started to stay. */
    (void)strays_of_the_dead();
    int code = run_loop(&r);
    guard_config_destroy(r.config);
    return code;
}

int main(int argc, char **argv)
{
    struct guard_main state = {0};
    struct operands operands; /* it has none */
    struct diag why = {0};
    struct strbuf usage = {0};
    log_start("gridline-guard");
    switch (options_parse(&verb_guard, argc - 1, argv + 1, clock_utc_ns(), &state, &operands, &why)) {
    case OPTIONS_OK:
        return run(&state);
    case OPTIONS_HELP:
        manual_usage(&usage, &verb_guard);
        (void)fputs(usage.p ? usage.p : "", stdout); /* nowhere to report it */
        strbuf_fini(&usage);
        return EXIT_OK;
    case OPTIONS_BAD:
        break;
    }
    log_error("%s", why.message);
    return EXIT_USAGE;
}
