/* SPDX-License-Identifier: Apache-2.0 */
#include "actuator/target.h"

#include "base/clock.h"
#include "base/num.h"
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOOK_MS = 100, PID_TEXT_MAX = 64 };
#define FILE_SLACK (INT64_C(2) * NS_PER_S) /* a file may be written just before its process begins */

int target_open(pid_t pid, struct target *out)
{
    struct strbuf buffer = {0};
    struct process_stat stat;
    if (pid <= 1 || pid == getpid() || pid == getppid())
        return -EPERM;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return errno == ESRCH || errno == EINVAL ? -ENOENT : -errno;
    /* What is read now is the one that fd holds: its number can't come again while it is not reaped, and if
     * it was reaped, its start would not be what the caller knows. */
    bool lives = process_stat(pid, &buffer, &stat) && !process_is_dead(&stat);
    if (lives) {
        *out = (struct target){.pid = pid, .fd = fd, .start = stat.start};
        size_t n = stat.name.n < sizeof out->name ? stat.name.n : sizeof out->name - 1;
        memcpy(out->name, stat.name.p, n);
    } else {
        (void)close(fd); /* nothing to lose */
    }
    strbuf_fini(&buffer);
    return lives ? 0 : -ENOENT;
}

void target_close(struct target *t)
{
    if (t->fd >= 0)
        (void)close(t->fd); /* nothing to lose */
    t->fd = -1;
}

int64_t target_began_ns(const struct target *t)
{
    int64_t hz = sysconf(_SC_CLK_TCK);
    int64_t after_boot =
        (int64_t)(t->start / (uint64_t)hz) * NS_PER_S + (int64_t)(t->start % (uint64_t)hz) * NS_PER_S / hz;
    return clock_utc_ns() - clock_boot_ns() + after_boot;
}

/* The number in a file, and who wrote it when. */
static int read_pid_file(const char *path, pid_t *pid, struct stat *st, struct diag *why)
{
    char text[PID_TEXT_MAX];
    uint64_t number;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return diag_set(why, -errno, 0, "%s: %s", path, err_text(-errno));
    ssize_t n = fstat(fd, st) == 0 && S_ISREG(st->st_mode) ? read(fd, text, sizeof text) : -1;
    (void)close(fd); /* opened for reading */
    while (n > 0 && (unsigned char)text[n - 1] <= ' ')
        n--;
    if (n <= 0 || num_parse_uint(slice_of(text, (size_t)n), &number) < 0 || number > INT32_MAX)
        return diag_set(why, -EINVAL, 0, "%s does not hold the number of a process", path);
    *pid = (pid_t)number;
    return 0;
}

/* Root and we may name any process; others only one of theirs. */
static bool is_believed(const struct stat *file, pid_t pid)
{
    char path[32];
    struct stat process;
    (void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
    return file->st_uid == 0 || file->st_uid == geteuid() ||
           (stat(path, &process) == 0 && process.st_uid == file->st_uid);
}

int target_of_file(const char *path, struct target *out, struct diag *why)
{
    struct stat st;
    struct target t;
    pid_t pid;
    int r = read_pid_file(path, &pid, &st, why);
    if (r < 0)
        return r;
    r = target_open(pid, &t);
    if (r == -ENOENT)
        return diag_set(why, r, 0, "%s names process %d, which is not there", path, (int)pid);
    if (r < 0)
        return diag_set(why, r, 0, "%s names process %d: %s", path, (int)pid, err_text(r));
    int64_t written = (int64_t)st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec;
    if (!is_believed(&st, pid))
        r = diag_set(why, -EPERM, 0, "%s belongs to a user who may not name process %d", path, (int)pid);
    else if (target_began_ns(&t) > written + FILE_SLACK)
        r = diag_set(why, -ENOENT, 0, "%s is older than process %d: it names another, which is gone", path,
                     (int)pid);
    if (r < 0) {
        target_close(&t);
        return r;
    }
    *out = t;
    return 0;
}

static int send_signal(const struct target *t, int signal)
{
    return syscall(SYS_pidfd_send_signal, t->fd, signal, NULL, 0) < 0 && errno != ESRCH ? -errno : 0;
}

/* A pidfd is readable when its process has ended. */
static bool has_ended(const struct target *t)
{
    struct pollfd p = {.fd = t->fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

static size_t count_living(const struct target *t, size_t n, const struct target **one)
{
    size_t living = 0;
    for (size_t i = 0; i < n; i++)
        if (!has_ended(&t[i])) {
            *one = &t[i];
            living++;
        }
    return living;
}

/* 0: all have ended. */
static int wait_until(const struct target *t, size_t n, int64_t until_ns, const struct actuator_env *env)
{
    const struct target *one;
    while (count_living(t, n, &one)) {
        int64_t left = until_ns - clock_mono_ns();
        if (left <= 0)
            return -ETIMEDOUT;
        if (env->is_cancelled && env->is_cancelled(env->arg))
            return -ECANCELED;
        struct pollfd p = {.fd = one->fd, .events = POLLIN};
        int ms = left < LOOK_MS * INT64_C(1000000) ? (int)(left / 1000000) + 1 : LOOK_MS;
        (void)poll(&p, 1, ms); /* interrupted or not: we look again */
    }
    return 0;
}

int targets_end(struct target *t, size_t n, int signal, int64_t grace_ns, const struct actuator_env *env)
{
    int r = 0;
    for (size_t i = 0; i < n; i++) {
        int sent = send_signal(&t[i], signal);
        r = r < 0 ? r : sent;
    }
    if (r < 0 || grace_ns <= 0)
        return r;
    int64_t until = clock_mono_ns() + grace_ns;
    r = wait_until(t, n, until < env->deadline_ns ? until : env->deadline_ns, env);
    if (r != -ETIMEDOUT)
        return r;
    for (size_t i = 0; i < n; i++)
        (void)send_signal(&t[i], SIGKILL); /* who took the first signal takes this one */
    /* SIGKILL works at once where it works; the deadline may be now. */
    until = clock_mono_ns() + NS_PER_S;
    return wait_until(t, n, until > env->deadline_ns ? until : env->deadline_ns, env);
}
