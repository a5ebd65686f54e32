/* SPDX-License-Identifier: Apache-2.0 */
/* gridline-pinhole: arguments and tear-down; the work is in launch/broker.h. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/ready.h"
#include "cmd/launch_program.h"
#include "cmd/launch_verb.h"
#include "cmd/manual.h"
#include "launch/broker.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

static int find_users(const struct option_texts *names, uid_t out[BROKER_USERS_MAX], size_t *n)
{
    for (size_t i = 0; i < names->n && i < BROKER_USERS_MAX; i++) {
        const struct passwd *user = getpwnam(names->v[i]);
        uint64_t uid = UINT64_MAX;
        if (user)
            uid = user->pw_uid;
        else if (num_parse_uint(slice_str(names->v[i]), &uid) < 0 || uid >= UINT32_MAX) {
            log_error("--user: there is no user '%s'", names->v[i]);
            return -EINVAL;
        }
        out[(*n)++] = (uid_t)uid;
    }
    return 0;
}

/* The rights that it can do without. */
static void give_up_rights(void)
{
    const struct rlimit none = {0};
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* all three are wishes */
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)setrlimit(RLIMIT_CORE, &none);
    if (geteuid() == 0)
        log_error("runs as root, and so will the agent: better run it as the user of the grid's client");
}

static int watch_signals(void)
{
    sigset_t set;
    (void)sigemptyset(&set); /* can't fail, as those below */
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static int serve(const struct pinhole_main *o, struct broker_options *options)
{
    struct broker *b;
    struct diag why = {0};
    int stop = watch_signals();
    int r = stop < 0 ? -errno : broker_create(options, &b, &why);
    if (r < 0) {
        log_error("%s", why.message[0] ? why.message : err_text(r));
        return r;
    }
    log_info("serves %s; starts %s for %s", options->socket, options->program, options->agent.gateways);
    r = ready_write(o->ready_file);
    if (r < 0)
        log_error("%s: %s", o->ready_file, err_text(r));
    else
        r = broker_run(b, stop);
    broker_destroy(b);
    (void)close(stop);
    return r;
}

static int run(const struct pinhole_main *o)
{
    struct strbuf program = {0};
    char *token_file = launch_path(o->token_file);
    uid_t users[BROKER_USERS_MAX];
    bool is_carried; /* of no interest: it runs where it lies */
    struct broker_options options = {.socket = o->socket,
                                     .cgroup = o->cgroup,
                                     .agent = {.gateways = o->gateway,
                                               .token_file = token_file,
                                               .settings = o->settings.v,
                                               .n_settings = o->settings.n},
                                     .timeout_ns = o->timeout_ns,
                                     .users = users};
    int code = EXIT_USAGE;
    log_quiet(o->quiet);
    launch_program(o->agent, &program, &is_carried);
    if (!o->gateway) {
        log_error("--gateway: where is the agent to send to?");
    } else if (program.n == 0) {
        log_error("there is no gridline-agent beside this program or installed: give --agent");
        code = EXIT_NOT_FOUND;
    } else if (find_users(&o->users, users, &options.n_users) == 0) {
        options.program = program.p;
        give_up_rights();
        code = serve(o, &options) < 0 ? EXIT_FAILED : EXIT_OK;
    }
    strbuf_fini(&program);
    free(token_file); /* libc's own */
    return code;
}

int main(int argc, char **argv)
{
    struct pinhole_main *state = mem_alloc(sizeof *state);
    struct operands operands; /* it has none */
    struct diag why = {0};
    struct strbuf usage = {0};
    int code = EXIT_USAGE;
    memcpy(state, verb_pinhole.defaults, sizeof *state);
    log_start("gridline-pinhole");
    switch (options_parse(&verb_pinhole, argc - 1, argv + 1, clock_utc_ns(), state, &operands, &why)) {
    case OPTIONS_OK:
        code = run(state);
        break;
    case OPTIONS_HELP:
        manual_usage(&usage, &verb_pinhole);
        (void)fputs(usage.p ? usage.p : "", stdout); /* nowhere to report it */
        strbuf_fini(&usage);
        code = EXIT_OK;
        break;
    case OPTIONS_BAD:
        log_error("%s", why.message);
        break;
    }
    mem_free(state);
    return code;
}
