/* SPDX-License-Identifier: Apache-2.0 */
/* Why it failed comes back by a pipe whose other end closes when the daemon executes its program: there is nothing
 * of it after that. Between fork and exec only system calls are made. */
#include "launch/starter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { IMAGE_FD = 3, REPORT_FD = 4 };

static const char *const environment[] = {"PATH=/usr/bin:/bin", NULL};

/* What went wrong; step is the number of a text below. */
struct report {
    int step, error;
};
enum { STEP_FORK, STEP_SESSION, STEP_CGROUP, STEP_FILES, STEP_EXEC };
static const char *const steps[] = {"fork", "a session of its own", "its cgroup", "its descriptors", "the program"};

__attribute__((noreturn)) static void fail(int report, int step)
{
    const struct report r = {step, errno};
    (void)!write(report, &r, sizeof r); /* nobody is left to tell */
    _exit(1);
}

static void default_signals(void)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    for (int i = 1; i < NSIG; i++)
        (void)sigaction(i, &plain, NULL);                 /* some can't be changed, and need not */
    (void)sigprocmask(SIG_SETMASK, &plain.sa_mask, NULL); /* an empty set is valid: can't fail */
}

/* A job's soft limits are the job's; the hard ones can't be raised. */
static void lift_limits(void)
{
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit r;
        if (getrlimit((__rlimit_resource_t)i, &r) == 0 && r.rlim_cur != r.rlim_max && i != RLIMIT_CORE &&
            i != RLIMIT_STACK) {
            r.rlim_cur = r.rlim_max;
            (void)setrlimit((__rlimit_resource_t)i, &r); /* then it has to do with the soft one */
        }
    }
}

/* The job's processors, and whether it goes first when memory is short. All of these are wishes. */
static void leave_bindings(void)
{
    unsigned char all[1024]; /* 8192 of them; the kernel takes those that there are, and that its cpuset allows */
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = 0xff;
    (void)syscall(SYS_sched_setaffinity, 0, sizeof all, all);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)!write(fd, "0", 1); /* closed with the rest */
}

static bool enter_cgroup(const char *folder)
{
    int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int file = dir < 0 ? -1 : openat(dir, "cgroup.procs", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    return file >= 0 && write(file, "0", 1) == 1; /* both are closed with the rest */
}

/* The descriptors below 3 lead nowhere, all others close. */
static bool leave_files(int image, int report)
{
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        return false;
    /* Both out of the way first: either may have the other's number. */
    int high_image = fcntl(image, F_DUPFD_CLOEXEC, 16), high_report = fcntl(report, F_DUPFD_CLOEXEC, 16);
    if (high_image < 0 || high_report < 0 || dup3(high_image, IMAGE_FD, O_CLOEXEC) < 0 ||
        dup3(high_report, REPORT_FD, O_CLOEXEC) < 0)
        return false;
    return syscall(SYS_close_range, REPORT_FD + 1, ~0u, 0) == 0;
}

/* Linux before 5.9 has no close_range. */
static bool leave_files_by_number(int image, int report)
{
    struct rlimit r;
    if (leave_files(image, report))
        return true;
    if (errno != ENOSYS || getrlimit(RLIMIT_NOFILE, &r) < 0)
        return false;
    for (int i = REPORT_FD + 1; i < (int)(r.rlim_cur < 65536 ? r.rlim_cur : 65536); i++)
        (void)close(i); /* most are none */
    return true;
}

__attribute__((noreturn)) static void be_daemon(const struct starter *s, int report)
{
    default_signals();
    (void)prctl(PR_SET_PDEATHSIG, 0); /* can't fail */
    (void)umask(077);
    lift_limits(); /* first: few descriptors are too few for what is below */
    leave_bindings();
    if (s->cgroup && !enter_cgroup(s->cgroup))
        fail(report, STEP_CGROUP);
    if (chdir("/") < 0 || !leave_files_by_number(s->image, report))
        fail(report, STEP_FILES);
    (void)syscall(SYS_execveat, IMAGE_FD, "", (char *const *)(uintptr_t)s->argv,
                  (char *const *)(uintptr_t)environment, AT_EMPTY_PATH); /* returns on failure */
    fail(REPORT_FD, STEP_EXEC);
}

__attribute__((noreturn)) static void be_starter(const struct starter *s, int report)
{
    if (setsid() < 0)
        fail(report, STEP_SESSION);
    pid_t pid = fork(); /* so that the daemon leads no session, and never gets a terminal */
    if (pid < 0)
        fail(report, STEP_FORK);
    if (pid == 0)
        be_daemon(s, report);
    _exit(0);
}

int starter_run(const struct starter *s, int timeout_ms, struct diag *why)
{
    int ends[2], status;
    struct report told = {0};
    if (pipe2(ends, O_CLOEXEC) < 0)
        return diag_set(why, -errno, 0, "no pipe: %s", err_text(-errno));
    pid_t pid = fork();
    int error = errno;
    if (pid == 0)
        be_starter(s, ends[1]);
    (void)close(ends[1]);
    struct pollfd p = {.fd = ends[0], .events = POLLIN};
    bool is_in_time = pid < 0 || poll(&p, 1, timeout_ms) == 1;
    ssize_t n = pid > 0 && is_in_time ? read(ends[0], &told, sizeof told) : 0;
    (void)close(ends[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ; /* it ends at once */
    if (pid < 0)
        return diag_set(why, -error, 0, "fork: %s", err_text(-error));
    if (!is_in_time)
        return diag_set(why, -ETIMEDOUT, 0, "the agent's program is not loaded after %d ms", timeout_ms);
    if (n == (ssize_t)sizeof told)
        return diag_set(why, -told.error, 0, "%s: %s", steps[told.step], err_text(-told.error));
    return 0;
}
