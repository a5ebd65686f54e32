/* SPDX-License-Identifier: Apache-2.0 */
/* Signals are blocked and taken by sigwaitinfo: no handler, nothing to race. Those that the kernel itself makes of
 * a terminal's keys go to the whole process group, so the job has had them already; all others are passed on: also
 * what it sends to one process alone, a session's leader whose terminal has gone, or who had an alarm set. */
#include "launch/job.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void make_mask(sigset_t *out)
{
    static const int ours[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    (void)sigfillset(out); /* can't fail, as those below */
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        (void)sigdelset(out, ours[i]);
}

static void let_go_of_files(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++)
        if (null < 0 || dup2(null, i) < 0)
            (void)close(i);
    (void)syscall(SYS_close_range, 3, ~0u, 0); /* before Linux 5.9 what was inherited stays open */
}

/* In the new process, or in ours if there can't be one. */
struct start {
    char *const *argv;
    sigset_t mask;                 /* as they were */
    struct sigaction child_action; /* before us */
    int report;                    /* -1 = none */
};

__attribute__((noreturn)) static void become(const struct start *s)
{
    (void)sigaction(SIGCHLD, &s->child_action, NULL); /* can't fail, as that below */
    (void)sigprocmask(SIG_SETMASK, &s->mask, NULL);
    (void)execvp(s->argv[0], s->argv); /* returns on failure */
    int error = errno;
    if (s->report >= 0)
        (void)!write(s->report, &error, sizeof error); /* the exit code says it, too */
    _exit(error == ENOENT ? JOB_NOT_FOUND : JOB_NOT_RUN);
}

static pid_t start(const struct start *s)
{
    pid_t launcher = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* can't fail */
    if (getppid() != launcher)
        _exit(JOB_NOT_RUN); /* it was killed before the line above */
    become(s);
}

int job_start(char *const *argv, struct job *out, struct diag *why)
{
    sigset_t mask;
    struct sigaction plain = {.sa_handler = SIG_DFL};
    struct start s = {.argv = argv, .report = -1};
    int ends[2] = {-1, -1}, error = 0;
    *out = (struct job){.code = JOB_NOT_RUN, .began_ns = clock_mono_ns()};
    make_mask(&mask);
    (void)sigprocmask(SIG_BLOCK, &mask, &s.mask);
    (void)sigaction(SIGCHLD, &plain, &s.child_action); /* who ignores it never learns how a child ended */
    if (pipe2(ends, O_CLOEXEC) < 0)
        become(&s);
    s.report = ends[1];
    pid_t pid = start(&s);
    if (pid < 0) {
        s.report = -1;
        become(&s);
    }
    (void)close(ends[1]);
    while (read(ends[0], &error, sizeof error) < 0 && errno == EINTR)
        ; /* it closes when the job runs */
    (void)close(ends[0]);
    if (error) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        out->code = error == ENOENT ? JOB_NOT_FOUND : JOB_NOT_RUN;
        return diag_set(why, -error, 0, "can't run %s: %s", argv[0], err_text(-error));
    }
    out->pid = pid;
    let_go_of_files();
    return 0;
}

/* Has it ended, or was it stopped? Then we stop, too, until somebody lets us go on. */
static void note(struct job *j, int status)
{
    if (WIFSTOPPED(status)) {
        (void)raise(SIGSTOP);
        return;
    }
    j->has_ended = true;
    j->ended_ns = clock_mono_ns();
    j->is_signal = WIFSIGNALED(status);
    j->code = j->is_signal ? WTERMSIG(status) : WEXITSTATUS(status);
}

/* The first process of a pid namespace gets everybody's orphans. */
static void look(struct job *j)
{
    int status;
    pid_t pid;
    while (!j->has_ended && (pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (pid == j->pid) {
            note(j, status);
        } else if (pid == j->beside && !WIFSTOPPED(status)) {
            j->beside_has_ended = true;
            j->beside_status = status;
        }
    }
}

/* What the kernel sends to the whole process group, or to a process for what it did itself. */
static bool is_not_for_one(int signal_number)
{
    static const int these[] = {SIGINT,  SIGQUIT,  SIGTSTP, SIGTTIN, SIGTTOU,
                                SIGCONT, SIGWINCH, SIGPIPE, SIGXCPU, SIGXFSZ};
    for (size_t i = 0; i < sizeof these / sizeof *these; i++)
        if (signal_number == these[i])
            return true;
    return false;
}

static void pass_on(const struct job *j, const siginfo_t *s)
{
    if (s->si_code == SI_KERNEL && is_not_for_one(s->si_signo))
        return;
    if (s->si_code == SI_QUEUE)
        (void)sigqueue(j->pid, s->si_signo, s->si_value); /* it may have just ended, here and below */
    else
        (void)kill(j->pid, s->si_signo);
}

void job_wait(struct job *j)
{
    sigset_t mask;
    siginfo_t s;
    make_mask(&mask);
    look(j);
    while (!j->has_ended) {
        int signal_number = sigwaitinfo(&mask, &s);
        if (signal_number == SIGCHLD)
            look(j);
        else if (signal_number > 0)
            pass_on(j, &s);
    }
}

void job_exit(const struct job *j)
{
    const struct rlimit none = {0};
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t one;
    if (j->is_signal) {
        (void)setrlimit(RLIMIT_CORE, &none); /* the job has left its core, if it should */
        (void)prctl(PR_SET_DUMPABLE, 0);
        (void)sigaction(j->code, &plain, NULL);
        (void)kill(getpid(), j->code);
        (void)sigemptyset(&one);
        (void)sigaddset(&one, j->code);
        (void)sigprocmask(SIG_UNBLOCK, &one, NULL); /* here it comes */
    }
    _exit(j->is_signal ? 128 + j->code : j->code);
}
