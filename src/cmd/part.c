/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/part.h"

#include "base/clock.h"
#include "cmd/program.h"
#include "cmd/say.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DELAY_FIRST_NS (NS_PER_S / 5)
#define DELAY_MAX_NS   (30 * NS_PER_S)
#define STEADY_NS      (10 * NS_PER_S) /* who ran that long begins anew with the first delay */
#define SAME_SIGNAL_NS NS_PER_S /* programs like timeout send one to a process and again to its group */

enum { NOT_FOUND = 127 }; /* as shells have it */

void part_add(struct part *p, const char *format, ...)
{
    va_list ap;
    char *word;
    assert(p->n_words < PART_WORDS);
    va_start(ap, format);
    if (vasprintf(&word, format, ap) < 0)
        abort(); /* as mem_alloc does without memory */
    va_end(ap);
    p->words[++p->n_words] = word;
}

void part_drop(struct part *p)
{
    free(p->words[p->n_words]); /* vasprintf's own */
    p->words[p->n_words--] = NULL;
}

void part_fini(struct part *p)
{
    while (p->n_words)
        part_drop(p);
    if (p->ready.n)
        (void)unlink(p->ready.p); /* it may not be there */
    strbuf_fini(&p->ready);
}

/* In the new process. What it inherits is as a shell would have given it. */
static void become(struct part *p, pid_t owner)
{
    sigset_t none;
    int null = open("/dev/null", O_RDONLY);
    (void)sigemptyset(&none);
    (void)signal(SIGALRM, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL); /* can't fail with these arguments, as that above */
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || getppid() != owner)
        _exit(1); /* the last: it was killed before the line above */
    if (null > STDERR_FILENO)
        (void)close(null);
    int r = program_become(p->program, p->words);
    say("can't run %s: %s", p->program, strerror(-r));
    _exit(NOT_FOUND);
}

int part_start(struct part *p)
{
    pid_t owner = getpid();
    if (p->ready.n)
        (void)unlink(p->ready.p); /* of an earlier run, if there was one */
    p->again_ns = 0;
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        become(p, owner);
    p->pid = pid;
    p->started_ns = clock_mono_ns();
    return 0;
}

bool part_is_ready(const struct part *p)
{
    struct stat s;
    return p->pid && stat(p->ready.p, &s) == 0 && s.st_size > 0;
}

static sigset_t awaited(void)
{
    static const int all[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        (void)sigaddset(&set, all[i]);
    return set;
}

void part_block_signals(void)
{
    sigset_t set = awaited();
    (void)sigprocmask(SIG_BLOCK, &set, NULL); /* can't fail with these arguments */
}

int part_wait(int64_t timeout_ns)
{
    const struct timespec limit = {timeout_ns / NS_PER_S, timeout_ns % NS_PER_S};
    sigset_t set = awaited();
    int signo = sigtimedwait(&set, NULL, &limit);
    return signo < 0 ? 0 : signo;
}

static bool reap(struct part *p)
{
    if (!p->pid || waitpid(p->pid, &p->status, WNOHANG) != p->pid)
        return false;
    p->pid = 0;
    return true;
}

bool part_look(struct part *p)
{
    int64_t now = clock_mono_ns();
    if (!reap(p))
        return false;
    bool was_steady = now - p->started_ns >= STEADY_NS;
    p->delay_ns = was_steady || !p->delay_ns ? DELAY_FIRST_NS : p->delay_ns * 2;
    if (p->delay_ns > DELAY_MAX_NS)
        p->delay_ns = DELAY_MAX_NS;
    p->again_ns = now + p->delay_ns;
    return true;
}

void part_print_end(const struct part *p, struct strbuf *out)
{
    if (WIFSIGNALED(p->status))
        strbuf_printf(out, "was killed by signal %d", WTERMSIG(p->status));
    else
        strbuf_printf(out, "ended with exit code %d", WEXITSTATUS(p->status));
}

bool part_stop(struct part *p)
{
    int64_t began = clock_mono_ns(), until = began + PART_GRACE_S * NS_PER_S;
    if (!p->pid)
        return true;
    (void)kill(p->pid, SIGTERM); /* it is our child and not reaped: it is there */
    while (!reap(p)) {
        int64_t now = clock_mono_ns();
        int signo = now < until ? part_wait(until - now) : SIGKILL;
        bool is_same = clock_mono_ns() - began < SAME_SIGNAL_NS;
        if (signo == 0 || signo == SIGCHLD || is_same)
            continue;
        (void)kill(p->pid, SIGKILL);
        (void)waitpid(p->pid, &p->status, 0); /* the same */
        p->pid = 0;
        return false;
    }
    return true;
}
