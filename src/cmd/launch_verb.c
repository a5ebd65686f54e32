/* SPDX-License-Identifier: Apache-2.0 */
/* The options and the manuals of `gridline launch` and `gridline pinhole`, which are programs of their own. */
#include "cmd/launch_verb.h"

#include "base/clock.h"
#include "launch/pinhole.h"

#define AT(member) offsetof(struct launch_main, member)

static const struct option_spec launch_table[] = {
    {'g', "gateway", OPTION_TEXT, "ADDRESS[,ADDRESS...]", AT(gateway),
     "where the agent sends to; with a socket as pinhole its broker knows that"},
    {'p', "pinhole", OPTION_TEXT, "WAY", AT(pinhole),
     "`auto` (default), `unix:PATH`, `systemd` or `spawn`: how the agent gets out"},
    {0, "timeout", OPTION_DURATION, "TIME", AT(timeout_ns),
     "how long the job may be held up until the agent runs; at its end a quarter of that (default 2s)"},
    {'j', "job", OPTION_TEXT, "ID", AT(job),
     "the job's id (default: what `SLURM_JOB_ID`, `PBS_JOBID`, `LSB_JOBID`, `OAR_JOB_ID` or `JOB_ID` says)"},
    {0, "agent", OPTION_FILE, "FILE", AT(agent),
     "the agent's program (default: `gridline-agent` or `gridline-agent-static` beside this one, then the installed "
     "one)"},
    {0, "token-file", OPTION_FILE, "FILE", AT(token_file), "a token that the agent joins the gateway's site with"},
    {0, "cgroup", OPTION_FILE, "FOLDER", AT(cgroup), "the cgroup that a spawned agent goes to"},
    {'s', "set", OPTION_TEXTS, "KEY=VALUE", AT(settings), "change a configuration key of the agent, e.g. `lease=30s`"},
    {'q', "quiet", OPTION_FLAG, NULL, AT(quiet), "do not say why there is no agent"},
    {0},
};

static const struct launch_main launch_defaults = {.timeout_ns = 2 * NS_PER_S};

static const struct example launch_examples[] = {
    {"gridline launch -g tls://gw.example.org -- ./job in out", "The agent, then the job"},
    {"gridline launch --pinhole unix:/run/pinhole -- ./job", "In a sandbox into which the grid's client bound its socket"},
    {"gridline launch -g tcp://127.0.0.1:14830 -j 4711 -s vector.every=1s -- sh -c 'make test'",
     "With an id, and the agent's settings"},
    {NULL, NULL},
};

const struct verb verb_launch = {
    .name = "launch",
    .summary = "start this host's agent from inside a sandbox, then a job",
    .operands = "-- JOB [ARGUMENT...]",
    .description =
        "Has an agent created outside of the sandbox that it runs in, as a guest: one a host, however many jobs "
        "come, and none when its lease ends. Waits until the agent runs, then runs JOB. The agent is told when the "
        "job began and how it ended (event `job.state`) and how the machine looks from in here (`sandbox.view`).\n"
        "The job has the descriptors, environment, folder, limits and signals that it would have had, and its exit "
        "code or signal becomes this program's. If there is no agent for whatever reason, that is said in one line "
        "and the job runs all the same.\n"
        "Exit codes are the job's; 127: there is no such program, 126: it can't be run, 2: wrong usage of this "
        "command.",
    .operand_kind = OPERAND_FILES,
    .operands_min = 1,
    .operands_max = 1 << 20,
    .options = launch_table,
    .examples = launch_examples,
    .state_size = sizeof(struct launch_main),
    .defaults = &launch_defaults,
    .program = "gridline-launch",
};

#undef AT
#define AT(member) offsetof(struct pinhole_main, member)

static const struct option_spec pinhole_table[] = {
    {0, "socket", OPTION_FILE, "PATH", AT(socket),
     "serve this one (default `" PINHOLE_SOCKET "`); to be bound into sandboxes"},
    {'g', "gateway", OPTION_TEXT, "ADDRESS[,ADDRESS...]", AT(gateway), "where the agent sends to"},
    {0, "agent", OPTION_FILE, "FILE", AT(agent),
     "the program to start, and no other (default: `gridline-agent` or `gridline-agent-static` beside this one, then the "
     "installed one)"},
    {0, "token-file", OPTION_FILE, "FILE", AT(token_file), "a token that the agent joins the gateway's site with"},
    {0, "user", OPTION_TEXTS, "NAME|UID", AT(users), "another user whose jobs may ask; besides this one and root"},
    {0, "timeout", OPTION_DURATION, "TIME", AT(timeout_ns), "how long the agent may take to run (default 5s)"},
    {0, "cgroup", OPTION_FILE, "FOLDER", AT(cgroup), "the cgroup that the agent goes to"},
    {'s', "set", OPTION_TEXTS, "KEY=VALUE", AT(settings), "change a configuration key of the agent, e.g. `lease=30s`"},
    {0, "ready-file", OPTION_FILE, "FILE", AT(ready_file), "write FILE once the socket is served"},
    {'q', "quiet", OPTION_FLAG, NULL, AT(quiet), "say nothing but errors"},
    {0},
};

static const struct pinhole_main pinhole_defaults = {.socket = PINHOLE_SOCKET, .timeout_ns = 5 * NS_PER_S};

static const struct example pinhole_examples[] = {
    {"gridline pinhole --socket /run/user/1000/pinhole -g tls://gw.example.org", "For the jobs of this user"},
    {"bwrap --unshare-all --bind /run/user/1000/pinhole /run/gridline/pinhole.sock ... gridline launch -- ./job",
     "A sandbox with that socket in it"},
    {NULL, NULL},
};

const struct verb verb_pinhole = {
    .name = "pinhole",
    .summary = "let jobs in sandboxes have this host's agent started",
    .operands = "",
    .description =
        "Serves a Unix socket that the grid's client binds into the sandboxes of its jobs. Whoever may connect there "
        "can have one agent started on this host, with the program and the arguments that were given here, and tell "
        "it of jobs; requests are of one fixed size and name nothing. Others than this user, root, and those of "
        "`--user` are refused, as is who asks too often. Every request is a line on standard error.\n"
        "Run it as the user that the grid's client runs as, not as root. In the foreground, until SIGTERM or SIGINT; "
        "the agent it started stays until its lease ends.",
    .options = pinhole_table,
    .examples = pinhole_examples,
    .state_size = sizeof(struct pinhole_main),
    .defaults = &pinhole_defaults,
    .program = "gridline-pinhole",
};
