/* SPDX-License-Identifier: Apache-2.0 */
/* The user's service manager: whatever tracks the job, cgroups too, the agent is not in it. The manager runs the
 * program from its own view of the host's files, so that must have it at the same path; nothing is handed over. */
#include "base/child.h"
#include "base/clock.h"
#include "launch/pinhole.h"
#include "net/agent_name.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ARGS_MAX = 16 + AGENT_ARGS_MAX };

/* Not looked for in PATH: that is the job's. */
static const char *find_program(void)
{
    static const char *const places[] = {"/usr/bin/systemd-run", "/bin/systemd-run"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    return NULL;
}

static bool has_manager(char runtime[64])
{
    char path[96];
    struct stat st;
    (void)snprintf(runtime, 64, "/run/user/%lu", (unsigned long)geteuid()); /* fits, as below */
    (void)snprintf(path, sizeof path, "%s/systemd/private", runtime);
    return stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

static bool systemd_is_here(const struct pinhole_terms *t, struct diag *why)
{
    char runtime[64];
    if (!find_program() || !has_manager(runtime))
        (void)diag_set(why, -ENOENT, 0, "no service manager of this user");
    else if (!t->program || t->program[0] != '/')
        (void)diag_set(why, -ENOENT, 0, "the service manager needs the agent's full path: give --agent");
    else
        return true;
    return false;
}

static int run(const char *const *argv, const char *const *env, int64_t until_ns, struct diag *why)
{
    const struct child_options o = {.argv = argv,
                                    .env = env,
                                    .env_is_all = true,
                                    .max_run_ns = (int64_t)pinhole_left_ms(until_ns) * 1000000 + 1,
                                    .grace_ns = 1000000,
                                    .max_bytes = 64 << 10};
    struct child *c;
    int r = child_start(&o, clock_mono_ns(), &c, why);
    if (r < 0)
        return r;
    while (child_pump(c, clock_mono_ns())) {
        struct pollfd p = {.fd = child_wait_fd(c), .events = POLLIN};
        child_consume(c, child_output(c).n);
        (void)poll(&p, 1, pinhole_left_ms(until_ns)); /* the pump looks itself */
    }
    const struct child_end *end = child_end(c);
    if (end->reason != CHILD_BY_ITSELF || end->code != 0)
        r = child_explain(c, why);
    child_destroy(c);
    return r;
}

static int systemd_start(const struct pinhole_terms *t, int64_t until_ns, struct diag *why)
{
    const char *argv[ARGS_MAX] = {find_program(),
                                  "--user",
                                  "--quiet",
                                  "--collect", /* nothing is remembered of it */
                                  "--no-block",
                                  "--property=KillMode=control-group",
                                  "--property=NoNewPrivileges=yes",
                                  "--property=StandardOutput=null",
                                  "--property=StandardError=null",
                                  "--"};
    char runtime[64], variable[96];
    const char *env[] = {"PATH=/usr/bin:/bin", variable, NULL};
    size_t n = 0;
    int r = agent_name_ask(t->agent.gateways, pinhole_left_ms(until_ns));
    if (r == 0)
        return 0;
    if (r != -ECONNREFUSED)
        return pinhole_confirm(t, until_ns, why);
    (void)has_manager(runtime);
    (void)snprintf(variable, sizeof variable, "XDG_RUNTIME_DIR=%s", runtime); /* fits */
    while (argv[n])
        n++;
    agent_args(&t->agent, t->program, argv + n);
    r = run(argv, env, until_ns, why);
    return r < 0 ? r : pinhole_confirm(t, until_ns, why);
}

const struct pinhole_ops pinhole_systemd = {
    .name = "systemd",
    .summary = "the user's service manager starts it",
    .is_here = systemd_is_here,
    .start = systemd_start,
    .tell = pinhole_tell_agent,
};
