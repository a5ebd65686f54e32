/* SPDX-License-Identifier: Apache-2.0 */
/* gridline-launch: opens the pinhole, runs the job, ends as the job did. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "cmd/launch_program.h"
#include "cmd/launch_verb.h"
#include "cmd/manual.h"
#include "cmd/say.h"
#include "gridline/gridline.h"
#include "launch/job.h"
#include "launch/pinhole.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    EVENT_MS = 1000,
    END_PART = 4 /* of the time that the job may be held up at its beginning, at its end */
};

struct launch {
    const struct launch_main *o;
    struct pinhole_terms terms;
    const struct pinhole_ops *pinhole; /* NULL: there is none */
    struct launch_request about;       /* the job */
    int64_t began_ns;
    struct diag why;
};

/* ---------------------------------------------------------------- before the job */

static void name_job(struct launch *l)
{
    static const char *const variables[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "OAR_JOB_ID", "JOB_ID"};
    const char *id = l->o->job;
    char made[32];
    uint64_t random = 0;
    for (size_t i = 0; !id && i < sizeof variables / sizeof *variables; i++) {
        id = getenv(variables[i]);
        if (id && !id[0])
            id = NULL;
    }
    if (!id) {
        (void)!getrandom(&random, sizeof random, GRND_NONBLOCK); /* then it is 0: a name all the same */
        (void)snprintf(made, sizeof made, "job-%016llx", (unsigned long long)random);
        id = made;
    }
    l->about.uid = LAUNCH_NO_UID;
    launch_set_id(&l->about, id);
}

/* "auto", "spawn", "systemd", "unix", "unix:PATH". false: it is none of these. */
static bool choose_pinhole(struct launch *l)
{
    const char *way = l->o->pinhole ? l->o->pinhole : "auto", *colon = strchr(way, ':');
    const char *given = getenv(PINHOLE_ENV);
    l->terms.socket = given && given[0] ? given : PINHOLE_SOCKET;
    if (strcmp(way, "auto") == 0)
        return true;
    l->pinhole = pinhole_by_name(colon ? slice_of(way, (size_t)(colon - way)) : slice_str(way));
    if (colon && l->pinhole && strcmp(l->pinhole->name, "unix") == 0)
        l->terms.socket = colon + 1;
    else if (colon)
        l->pinhole = NULL;
    return l->pinhole;
}

/* Without a gateway it is known only to a broker. */
static void open_pinhole(struct launch *l, struct strbuf *program)
{
    const struct pinhole_ops *wanted = l->pinhole;
    int64_t until = l->began_ns + l->o->timeout_ns;
    l->pinhole = NULL;
    if (!l->o->gateway) {
        l->terms.agent.gateways = "";
        if (!wanted)
            wanted = pinhole_by_name(SLICE_LIT("unix"));
        else if (strcmp(wanted->name, "unix") != 0) {
            (void)diag_set(&l->why, -EINVAL, 0, "no --gateway");
            return;
        }
    }
    launch_program(l->o->agent, program, &l->terms.is_carried);
    l->terms.program = program->n ? program->p : NULL;
    (void)pinhole_open(wanted, &l->terms, until, &l->pinhole, &l->why); /* l->pinhole and l->why say it */
}

/* ---------------------------------------------------------------- while it runs, and after */

static void tell(struct launch *l, enum launch_kind kind, int64_t until_ns)
{
    l->about.kind = kind;
    if (l->pinhole && l->pinhole->tell(&l->terms, &l->about, until_ns) < 0)
        l->pinhole = NULL; /* who does not answer now is not waited for again */
}

/* Nobody outside can say that there is no agent; the gateway may be in reach from here. */
static void tell_failure(struct launch *l)
{
    gridline *g = l->o->gateway ? gridline_open("gridline-launch", l->o->gateway, GRIDLINE_MANUAL) : NULL;
    if (!g)
        return;
    GRIDLINE_EVENT(g, GRIDLINE_WARNING, "launch.failed", (text, "id", l->about.id), (text, "why", l->why.message));
    (void)gridline_flush(g, EVENT_MS); /* it was worth a try */
    gridline_close(g);
}

/* What is told while the job runs is told by a process of its own: we are there for the job's signals and its end. */
static pid_t tell_beginning(struct launch *l)
{
    pid_t launcher = getpid(), teller = fork();
    if (teller != 0)
        return teller < 0 ? 0 : teller;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* can't fail */
    if (getppid() != launcher)
        _exit(1);
    if (l->pinhole) {
        int64_t until = clock_mono_ns() + l->o->timeout_ns;
        machine_view(&l->about.view);
        tell(l, LAUNCH_VIEW, until);
        tell(l, LAUNCH_BEGAN, until);
    } else {
        tell_failure(l);
    }
    _exit(l->pinhole ? 0 : 1);
}

/* After the job, and not for long. What hangs is killed, and whoever let it hang is not told more. */
static void tell_end(struct launch *l, struct job *job)
{
    int64_t until = clock_mono_ns() + l->o->timeout_ns / END_PART;
    while (job->beside && !job->beside_has_ended && clock_mono_ns() < until) {
        (void)poll(NULL, 0, 1);
        job->beside_has_ended = waitpid(job->beside, &job->beside_status, WNOHANG) == job->beside;
    }
    if (job->beside && !job->beside_has_ended) {
        (void)kill(job->beside, SIGKILL); /* it is our child and not reaped: it is there */
        (void)waitpid(job->beside, NULL, 0);
    }
    if (!job->beside_has_ended || job->beside_status != 0)
        return;
    l->about.is_signal = job->is_signal;
    l->about.code = (uint8_t)job->code;
    l->about.duration_ns = (uint64_t)(job->ended_ns - job->began_ns);
    tell(l, LAUNCH_ENDED, until);
}

/* Returns only if the job could not be started: with the code to exit with. */
static int run_job(struct launch *l, char *const *argv)
{
    struct job job;
    struct diag why = {0};
    int64_t overhead = clock_mono_ns() - l->began_ns;
    l->about.overhead_ns = overhead > 0 ? (uint64_t)overhead : 0;
    if (job_start(argv, &job, &why) < 0) {
        say("%s", why.message);
        return job.code;
    }
    job.beside = tell_beginning(l);
    job_wait(&job);
    tell_end(l, &job);
    job_exit(&job);
}

static int run(const struct launch_main *o, struct operands words, int64_t began_ns)
{
    char *token_file = launch_path(o->token_file);
    struct launch l = {.o = o,
                       .terms = {.agent = {.gateways = o->gateway,
                                           .token_file = token_file,
                                           .settings = o->settings.v,
                                           .n_settings = o->settings.n},
                                 .cgroup = o->cgroup},
                       .began_ns = began_ns};
    struct strbuf program = {0};
    int code = EXIT_USAGE;
    name_job(&l);
    if (choose_pinhole(&l)) {
        open_pinhole(&l, &program);
        if (!l.pinhole && !o->quiet)
            say("no agent was started, the job runs without: %s", l.why.message);
        code = run_job(&l, words.v);
    } else {
        say("--pinhole: there are auto, unix:PATH, systemd and spawn, not '%s'", o->pinhole);
    }
    strbuf_fini(&program);
    free(token_file); /* libc's own */
    return code;
}

int main(int argc, char **argv)
{
    int64_t began_ns = clock_mono_ns();
    struct launch_main *state = mem_alloc(sizeof *state);
    struct operands operands;
    struct diag why = {0};
    struct strbuf usage = {0};
    int code = EXIT_USAGE;
    memcpy(state, verb_launch.defaults, sizeof *state);
    say_start("launch");
    switch (options_parse(&verb_launch, argc - 1, argv + 1, clock_utc_ns(), state, &operands, &why)) {
    case OPTIONS_OK:
        /* Words were moved to the front of argv, which ends with NULL; the job's must, too. */
        operands.v[operands.n] = NULL;
        code = run(state, operands, began_ns);
        break;
    case OPTIONS_HELP:
        manual_usage(&usage, &verb_launch);
        (void)fputs(usage.p ? usage.p : "", stdout); /* nowhere to report it */
        strbuf_fini(&usage);
        code = EXIT_OK;
        break;
    case OPTIONS_BAD:
        say("%s", why.message);
        break;
    }
    mem_free(state);
    return code;
}
