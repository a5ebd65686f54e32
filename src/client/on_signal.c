/* SPDX-License-Identifier: Apache-2.0 */
/* An event process.signal {signo int, name text, sender.pid int, sender.uid int} when the process gets a
 * signal; level Notice. The sender is missing where the kernel is it (a fault, an alarm).
 *
 * The handler does what a handler may: a GRIDLINE_EVENT, then what would have happened without it. It calls
 * the program's own handler as the program had asked for it (siginfo, mask, SA_RESETHAND, alternate stack),
 * ignores what was ignored, stops where the default is to stop, and where the default is to end the process,
 * sets the default again and lets the signal do its work, so that the exit status is the true one.
 *
 * What is promised when the signal ends the process: GRIDLINE_EVENT leaves the event in a ring, and the ring
 * dies with the process. So before, the handler tries for at most DYING_MS to write out the handle's rings
 * itself (dying.h), without malloc, and only if it can get the handle's lock, which it never waits for when
 * its own thread holds it. The event is therefore at a file, or handed to the kernel for a socket, unless the
 * signal hit the thread that was just writing out, a destination is stuck, or the alternate stack is too
 * small to encode on (STACK_MIN). An acknowledgement is not waited for.
 *
 * Each handle that asked is a point of its handle, which is how close and fork are heard of. */
#include "client/point.h"

#include "base/mem.h"
#include "base/num.h"
#include "client/dying.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

enum { LOGS_MAX = 4, DYING_MS = 300, STACK_MIN = 128 * 1024 };

/* One signal. A handler may run in any thread at any time: it reads previous, which is written before it is
 * installed, and logs, which are atomic. */
struct caught {
    _Atomic(gridline *) logs[LOGS_MAX];
    struct sigaction previous;
    _Atomic bool is_reset; /* previous had SA_RESETHAND and was called: it is the default now */
    bool is_installed;     /* guarded by lock */
    char name[16];
};

static struct caught table[_NSIG];
static atomic_flag lock = ATOMIC_FLAG_INIT; /* of installing and removing */
static _Atomic unsigned inside;             /* handlers that may use a handle just now */

static void take_lock(void)
{
    while (atomic_flag_test_and_set(&lock))
        (void)sched_yield(); /* always succeeds on Linux */
}

static void release_lock(void)
{
    atomic_flag_clear(&lock);
}

static bool has_sender(int signo, const siginfo_t *info)
{
    return info->si_code == SI_USER || info->si_code == SI_QUEUE || info->si_code == SI_TKILL ||
           signo == SIGCHLD;
}

static void write_event(gridline *g, const struct caught *c, int signo, const siginfo_t *info)
{
    if (has_sender(signo, info))
        GRIDLINE_EVENT(g, GRIDLINE_NOTICE, "process.signal", (i64, "signo", signo), (text, "name", c->name),
                       (i64, "sender.pid", info->si_pid), (i64, "sender.uid", info->si_uid));
    else
        GRIDLINE_EVENT(g, GRIDLINE_NOTICE, "process.signal", (i64, "signo", signo), (text, "name", c->name));
}

enum fate { FATE_IGNORE, FATE_STOP, FATE_DIE, FATE_CALL };

/* What would happen if we were not there. */
static enum fate fate_of(const struct caught *c, int signo)
{
    if (c->previous.sa_handler == SIG_IGN)
        return FATE_IGNORE;
    if (c->previous.sa_handler != SIG_DFL && !atomic_load(&c->is_reset))
        return FATE_CALL;
    switch (signo) {
    case SIGCHLD:
    case SIGURG:
    case SIGWINCH:
    case SIGCONT:
        return FATE_IGNORE;
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
        return FATE_STOP;
    default:
        return FATE_DIE;
    }
}

static void call_previous(struct caught *c, int signo, siginfo_t *info, void *context)
{
    const struct sigaction *a = &c->previous;
    if (a->sa_flags & (int)SA_RESETHAND)
        atomic_store(&c->is_reset, true);
    if (a->sa_flags & SA_SIGINFO)
        a->sa_sigaction(signo, info, context);
    else
        a->sa_handler(signo);
}

/* Sets the default, lets the signal through and, if the process lives on (it was stopped), sets everything
 * back. */
static void act_by_default(int signo)
{
    struct sigaction fallback = {.sa_handler = SIG_DFL}, ours;
    sigset_t only, before;
    sigemptyset(&only);
    sigaddset(&only, signo);
    (void)sigaction(signo, &fallback, &ours); /* can't fail: it worked before with this signo */
    (void)raise(signo);                       /* pending until the next line */
    (void)pthread_sigmask(SIG_UNBLOCK, &only, &before);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)sigaction(signo, &ours, NULL);
}

static bool stack_is_large(void)
{
    stack_t s;
    return sigaltstack(NULL, &s) != 0 || !(s.ss_flags & SS_ONSTACK) || s.ss_size >= STACK_MIN;
}

static void handle(int signo, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    struct caught *c = &table[signo];
    enum fate fate = fate_of(c, signo);
    atomic_fetch_add(&inside, 1);
    for (unsigned i = 0; i < LOGS_MAX; i++) {
        gridline *g = atomic_load(&c->logs[i]);
        if (!g)
            continue;
        write_event(g, c, signo, info);
        if (fate == FATE_DIE)
            dying_flush(g, stack_is_large(), DYING_MS);
    }
    atomic_fetch_sub(&inside, 1);
    errno = saved_errno;
    if (fate == FATE_CALL)
        call_previous(c, signo, info, context);
    else if (fate == FATE_STOP || fate == FATE_DIE)
        act_by_default(signo);
    errno = saved_errno;
}

static bool is_ours(const struct sigaction *a)
{
    return (a->sa_flags & SA_SIGINFO) && a->sa_sigaction == handle;
}

static void make_name(struct caught *c, int signo)
{
    const char *abbreviation = sigabbrev_np(signo);
    memcpy(c->name, "SIG", 3);
    if (abbreviation) {
        size_t n = strnlen(abbreviation, sizeof c->name - 4);
        memcpy(c->name + 3, abbreviation, n);
        c->name[3 + n] = '\0';
        return;
    }
    memcpy(c->name + 3, "RTMIN+", 6);
    c->name[9 + num_print_int(c->name + 9, signo - SIGRTMIN)] = '\0';
}

/* The flags of the handler that is replaced go on to hold; calls of a program that had none are restarted. */
static int install(struct caught *c, int signo)
{
    struct sigaction now;
    if (sigaction(signo, NULL, &now) != 0)
        return -errno;
    if (is_ours(&now))
        return 0;
    bool had_none = now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN;
    if (c->is_installed && !had_none)
        return -EBUSY; /* replaced since by someone who may call us in turn: going on top would be a loop */
    struct sigaction ours = {.sa_sigaction = handle, .sa_mask = now.sa_mask};
    int keep = SA_RESTART | SA_NODEFER | SA_NOCLDSTOP | SA_NOCLDWAIT;
    ours.sa_flags = (now.sa_flags & keep) | SA_SIGINFO | SA_ONSTACK | (had_none ? SA_RESTART : 0);
    if (signo == SIGCHLD && now.sa_handler == SIG_IGN)
        ours.sa_flags |= SA_NOCLDWAIT; /* children went away by themselves, and go on to */
    c->previous = now;
    atomic_store(&c->is_reset, false);
    make_name(c, signo);
    if (sigaction(signo, &ours, NULL) != 0)
        return -errno;
    c->is_installed = true;
    return 0;
}

/* Puts the handler's predecessor back when nobody asks any more and nobody has come on top. */
static void uninstall_unused(struct caught *c, int signo)
{
    struct sigaction now;
    for (unsigned i = 0; i < LOGS_MAX; i++)
        if (atomic_load(&c->logs[i]))
            return;
    if (!c->is_installed || sigaction(signo, NULL, &now) != 0 || !is_ours(&now))
        return;
    struct sigaction back = c->previous;
    if (atomic_load(&c->is_reset))
        back = (struct sigaction){.sa_handler = SIG_DFL};
    c->is_installed = sigaction(signo, &back, NULL) != 0;
}

static void forget(struct point *p)
{
    take_lock();
    for (int signo = 1; signo < _NSIG; signo++) {
        struct caught *c = &table[signo];
        bool had = false;
        for (unsigned i = 0; i < LOGS_MAX; i++) {
            gridline *expected = p->g;
            had |= atomic_compare_exchange_strong(&c->logs[i], &expected, NULL);
        }
        if (had)
            uninstall_unused(c, signo);
    }
    release_lock();
    while (atomic_load(&inside) > 0) /* a handler in another thread that saw the handle */
        (void)sched_yield();
}

static void destroy(struct point *p)
{
    point_fini(p);
    mem_free(p);
}

static void after_fork(struct point *p)
{
    (void)p;
    release_lock(); /* whoever held it is in the parent */
    atomic_store(&inside, 0);
}

static const struct point_ops signal_ops = {.report_on_close = forget,
                                            .report_if_due = point_never_due,
                                            .destroy = destroy,
                                            .after_fork = after_fork};

static struct point *create(const void *args)
{
    (void)args;
    return mem_try_alloc(sizeof(struct point));
}

/* 0 also when it is there already. */
static int add_log(struct caught *c, gridline *g)
{
    int free_slot = -1;
    for (int i = LOGS_MAX - 1; i >= 0; i--) {
        gridline *there = atomic_load(&c->logs[i]);
        if (there == g)
            return 0;
        if (!there)
            free_slot = i;
    }
    if (free_slot < 0)
        return -ENOSPC;
    atomic_store(&c->logs[free_slot], g);
    return 0;
}

int gridline_on_signal(gridline *g, int signo)
{
    if (!g)
        return 0;
    if (signo < 1 || signo >= _NSIG)
        return -EINVAL;
    if (!point_get(g, &signal_ops, "process.signal", create, NULL))
        return -ENOMEM;
    int saved_errno = errno;
    take_lock();
    int r = install(&table[signo], signo);
    if (r == 0)
        r = add_log(&table[signo], g);
    release_lock();
    errno = saved_errno;
    return r;
}
