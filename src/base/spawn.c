/* SPDX-License-Identifier: Apache-2.0 */
/* The new process shares our memory until it has become the program (CLONE_VM, CLONE_VFORK), as with
 * posix_spawn: a fork would copy the page tables, which costs more than all the rest. Until then this thread
 * stands still; all signals are blocked, so that no handler of ours runs in the child and changes our memory.
 * The child has a stack of its own, calls nothing but system calls, and leaves its errno in struct launch if
 * one fails. */
#include "base/spawn.h"

#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK = 16 << 10, FAILED = 127 };

struct launch {
    const struct spawn *spawn;
    const char *path;
    pid_t parent;
    char oom[16]; /* text for the kernel; "" = as it is */
    size_t oom_n;
    volatile int error;    /* of the call that failed */
    volatile bool is_file; /* it was about pid_file */
};

/* A sanitizer's checks know our stack, not the child's. */
#define IN_CHILD __attribute__((no_sanitize("address", "undefined")))

/* Handlers become defaults by exec itself; what is ignored stays ignored, so it is put right by hand. */
IN_CHILD static void default_signals(void)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    for (int i = 1; i < NSIG; i++)
        (void)sigaction(i, &plain, NULL);                 /* some can't be changed, and need not */
    (void)sigprocmask(SIG_SETMASK, &plain.sa_mask, NULL); /* an empty set is valid: can't fail */
}

IN_CHILD static void set_oom_score(const struct launch *l)
{
    int fd = l->oom_n ? open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    if (write(fd, l->oom, l->oom_n) < 0) { /* a wish: without the right to it, it runs as we do */
    }
    (void)close(fd);
}

/* "1234\n", without a library. */
IN_CHILD static bool write_number(int fd, pid_t pid)
{
    char text[16];
    size_t at = sizeof text;
    text[--at] = '\n';
    for (; pid > 0; pid /= 10)
        text[--at] = (char)('0' + pid % 10);
    return write(fd, text + at, sizeof text - at) == (ssize_t)(sizeof text - at);
}

IN_CHILD static bool write_pid_file(struct launch *l)
{
    const struct spawn *s = l->spawn;
    if (!s->pid_file)
        return true;
    l->is_file = true;
    int fd = open(s->pid_file_new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return false;
    bool is_written =
        write_number(fd, getpid()) && close(fd) == 0 && rename(s->pid_file_new, s->pid_file) == 0;
    if (!is_written) {
        l->error = errno ? errno : ENOSPC;
        (void)unlink(s->pid_file_new); /* the error that counts is the first */
        return false;
    }
    l->is_file = false;
    return true;
}

IN_CHILD static int child_main(void *arg)
{
    struct launch *l = arg;
    const struct spawn *s = l->spawn;
    if (!s->is_kept &&
        (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != l->parent)) /* we may have died just before */
        goto failed;
    if (setsid() < 0 || dup2(s->in, 0) < 0 || dup2(s->out, 1) < 0 || dup2(s->err, 2) < 0)
        goto failed;
    (void)close_range(3, ~0u, 0); /* all of ours close on exec anyway; a library's may not; Linux 5.9 */
    if (s->nice)
        (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + s->nice); /* a wish, as above */
    set_oom_score(l);
    default_signals();
    if (!write_pid_file(l))
        goto failed;
    (void)execve(l->path, (char *const *)(uintptr_t)s->argv,
                 (char *const *)(uintptr_t)s->env); /* returns on failure */
    l->error = errno;
    if (s->pid_file)
        (void)unlink(s->pid_file); /* nobody runs by that number */
failed:
    l->error = l->error ? l->error : errno ? errno : ECHILD;
    _exit(FAILED);
}

static int run(struct launch *l, pid_t *pid, int *pidfd)
{
    _Alignas(16) char stack[STACK];
    sigset_t all, before;
    siginfo_t info;
    int fd = -1;
    (void)sigfillset(&all);                          /* can't fail */
    (void)pthread_sigmask(SIG_BLOCK, &all, &before); /* can't fail with these arguments */
    pid_t p = clone(child_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, l, &fd);
    int error = p < 0 ? errno : l->error;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (p > 0 && error) {
        /* It is on its last instruction. */
        while (waitid(P_PID, (id_t)p, &info, WEXITED) < 0 && errno == EINTR)
            ;
        (void)close(fd);
    }
    if (error)
        return -error;
    *pid = p;
    *pidfd = fd;
    return 0;
}

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* As a shell would, but a script without #! is not given to one. */
static int find_in_path(const char *name, struct strbuf *out)
{
    const char *path = getenv("PATH");
    struct slice rest = slice_str(path && path[0] ? path : "/usr/local/bin:/usr/bin:/bin");
    while (rest.n) {
        const char *colon = memchr(rest.p, ':', rest.n);
        struct slice folder = slice_of(rest.p, colon ? (size_t)(colon - rest.p) : rest.n);
        strbuf_reset(out);
        strbuf_printf(out, "%.*s/%s", SLICE_ARG(folder), name);
        if (strbuf_failed(out))
            return -ENOMEM;
        if (folder.n && is_program(out->p))
            return 0;
        rest = slice_from(rest, folder.n + 1);
    }
    return -ENOENT;
}

int spawn(const struct spawn *s, pid_t *pid, int *pidfd, struct diag *why)
{
    struct strbuf found = {0};
    const char *name = s->argv[0];
    struct launch l = {.spawn = s, .path = name, .parent = getpid()};
    int r = 0;
    if (!name || !name[0])
        return diag_set(why, -EINVAL, 0, "no program is named");
    if (s->oom_score_adj)
        l.oom_n = (size_t)snprintf(l.oom, sizeof l.oom, "%d", s->oom_score_adj);
    if (!strchr(name, '/')) {
        r = find_in_path(name, &found);
        l.path = found.p;
    }
    if (r < 0)
        r = diag_set(why, r, 0, "%s: not found in PATH", name);
    else if ((r = run(&l, pid, pidfd)) < 0 && l.is_file)
        r = diag_set(why, r, 0, "%.120s can't be written: %s; nothing was started", s->pid_file, err_text(r));
    else if (r < 0)
        r = diag_set(why, r, 0, "%s: can't be started: %s", name, err_text(r));
    strbuf_fini(&found);
    return r;
}
