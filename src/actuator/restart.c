/* SPDX-License-Identifier: Apache-2.0 */
/* restart: a server, by its command or its systemd unit.
 *
 * By command: the process that the pid file names is ended, if there is one. Then the command is started in a
 * session of its own, with no terminal, nothing open but /dev/null and its log, and no variable of the data:
 * it outlives this process and the guard. It is up when it lives and, if there is an address, takes
 * connections there. The pid file is written before it runs (base/spawn.h), so that whoever does this again
 * finds it, unless the command goes into the background (`forks`): then it ends with code 0, and the server
 * writes the file.
 *
 * What is started here has no mark (base/strays.h), so that nobody takes it for something left over. */
#include "actuator/program.h"
#include "actuator/quote.h"
#include "actuator/target.h"
#include "base/clock.h"
#include "base/spawn.h"
#include "base/strays.h"
#include "net/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_MS = 20, ADDRESS_MS = 1000 };
#define ALIVE_NS (INT64_C(200) * 1000 * 1000) /* one that dies within that time was not up */

struct restart {
    struct parameter_list command;
    const char *unit, *pid_file, *log, *address;
    int64_t grace_ns, wait_ns;
    bool forks;
};

/* The server that is being started. */
struct server {
    pid_t pid; /* of the command */
    int fd;    /* its pidfd; -1: it has ended with code 0 (forks) */
};

static const struct parameter restart_options[] = {
    {SETTING_LIST, "command", NULL, offsetof(struct restart, command), "the server's program and arguments",
     true, false},
    {SETTING_STRING, "unit", NULL, offsetof(struct restart, unit),
     "in place of `command`: a unit for `systemctl restart`", true, false},
    {SETTING_STRING, "pid_file", NULL, offsetof(struct restart, pid_file),
     "names the server's process; needed with `command`", true, false},
    {SETTING_FLAG, "forks", "false", offsetof(struct restart, forks),
     "the command goes into the background by itself, and writes `pid_file`", true, false},
    {SETTING_STRING, "log", "/dev/null", offsetof(struct restart, log),
     "the file that its output is appended to", true, false},
    {SETTING_STRING, "address", NULL, offsetof(struct restart, address),
     "it is up when it takes connections there: `HOST:PORT` or `unix:PATH`", true, false},
    {SETTING_DURATION, "grace", "10s", offsetof(struct restart, grace_ns),
     "for the old one, from SIGTERM to SIGKILL", true, false},
    {SETTING_DURATION, "wait", "15s", offsetof(struct restart, wait_ns),
     "how long it may take until it is up", true, false},
    {0},
};

static int check(const struct restart *s, struct diag *why)
{
    if ((s->command.n == 0) == (s->unit == NULL))
        return diag_set(why, -EINVAL, 0, "restart: give `command` or `unit`, %s",
                        s->unit ? "not both" : "one of them");
    if (s->command.n && (!s->command.v[0][0] || !s->pid_file))
        return diag_set(why, -EINVAL, 0, "restart: `command` needs a program, and `pid_file`");
    if (s->grace_ns <= 0 || s->wait_ns <= 0)
        return diag_set(why, -EINVAL, 0, "restart: `grace` and `wait` are more than 0");
    return s->address ? dial_check(s->address, why) : 0;
}

/* What stands behind -- is never an option. */
static int unit_argv(const struct restart *s, struct arena *arena, const char *const **out)
{
    const char *words[] = {"systemctl", "restart", "--", s->unit};
    *out = program_argv(&(struct parameter_list){words, 4}, &(struct parameter_list){NULL, 0}, arena);
    return *out ? 0 : -ENOMEM;
}

static int restart_plan(void *state, const struct actuator_env *env, struct strbuf *out, struct diag *why)
{
    const struct restart *s = state;
    struct arena arena = {0};
    struct program p = {0};
    const struct parameter_list none = {NULL, 0};
    int r = check(s, why);
    if (r == 0 && s->unit) {
        r = unit_argv(s, &arena, &p.argv);
        if (r == 0)
            r = program_plan(&p, &(struct actuator_env){.deadline_ns = env->deadline_ns}, out);
    } else if (r == 0) {
        p.argv = program_argv(&s->command, &none, &arena);
        r = p.argv ? 0 : -ENOMEM;
        strbuf_printf(out, "end the process that %s names, if it lives\nstart ", s->pid_file);
        if (r == 0)
            quote_argv(out, p.argv);
        strbuf_printf(out, "\nwait until it lives%s%s\n", s->address ? " and takes connections at " : "",
                      s->address ? s->address : "");
    }
    arena_fini(&arena);
    return r;
}

static int end_old(const struct restart *s, const struct actuator_env *env, struct diag *why)
{
    struct target t;
    int r = target_of_file(s->pid_file, &t, why);
    if (r == -ENOENT || r == -EINVAL)
        return 0; /* it is not there any more, or the file was left half-written */
    if (r < 0)
        return r;
    r = targets_end(&t, 1, SIGTERM, s->grace_ns, env);
    if (r < 0)
        (void)diag_set(why, r, 0, "process %d (%.15s) did not end: %s", (int)t.pid, t.name, err_text(r));
    target_close(&t);
    return r;
}

static int launch(const struct restart *s, struct server *out, struct diag *why)
{
    static struct run kept; /* known as a leader, so that no sweep of this process takes it for a stray */
    struct arena arena = {0};
    const struct actuator_env without_data = {.deadline_ns = INT64_MAX};
    const struct parameter_list none = {NULL, 0};
    struct strbuf new_file = {0};
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int log = open(s->log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
    int r = in < 0 || log < 0 ? diag_set(why, -errno, 0, "%s: %s", s->log, err_text(-errno)) : 0;
    strbuf_printf(&new_file, "%s.%d.new", s->pid_file, (int)getpid());
    struct spawn p = {.argv = program_argv(&s->command, &none, &arena),
                      .env = program_environment(&without_data, &arena),
                      .in = in,
                      .out = log,
                      .err = log,
                      .is_kept = true,
                      .pid_file = s->forks ? NULL : s->pid_file,
                      .pid_file_new = strbuf_slice(&new_file).p};
    if (r == 0)
        (void)unlink(p.pid_file_new); /* what a process of our number left half-done */
    if (r == 0)
        r = p.argv && p.env && !strbuf_failed(&new_file) ? spawn(&p, &out->pid, &out->fd, why) : -ENOMEM;
    if (r == 0 && kept.leader == 0) {
        kept.leader = out->pid;
        strays_begin(&kept);
    }
    if (in >= 0)
        (void)close(in); /* nothing to lose */
    if (log >= 0)
        (void)close(log); /* we wrote nothing */
    strbuf_fini(&new_file);
    arena_fini(&arena);
    return r;
}

/* Does it take a connection now? */
static bool is_listening(const char *address)
{
    struct dial *d;
    struct diag why;
    short wants;
    int r = dial_open(address, NULL, &d, &why);
    if (r < 0)
        return false;
    int64_t until = clock_mono_ns() + ADDRESS_MS * INT64_C(1000000);
    while ((r = dial_step(d, &wants, &why)) == -EAGAIN && clock_mono_ns() < until) {
        struct pollfd p = {.fd = dial_fd(d), .events = wants};
        (void)poll(&p, 1, LOOK_MS); /* we look again in any case */
    }
    dial_close(d);
    return r == 0;
}

/* Has the command ended? Then how: 0: as one that went into the background; else it failed. */
static int look_at_command(const struct restart *s, struct server *v, struct diag *why)
{
    siginfo_t info = {.si_pid = 0};
    if (v->fd < 0 || waitid(P_PID, (id_t)v->pid, &info, WEXITED | WNOHANG) < 0 || info.si_pid == 0)
        return 0;
    (void)close(v->fd); /* nothing to lose */
    v->fd = -1;
    bool has_code = info.si_code == CLD_EXITED;
    if (s->forks && has_code && info.si_status == 0)
        return 0;
    return diag_set(why, -ECHILD, 0, "%s ended %s %d; %s may say why", s->command.v[0],
                    has_code ? "with code" : "by signal", info.si_status, s->log);
}

/* Does the server live? *pid is its number. */
static bool lives(const struct restart *s, const struct server *v, pid_t *pid)
{
    struct target t;
    struct diag why;
    *pid = v->pid;
    if (!s->forks)
        return v->fd >= 0;
    if (v->fd >= 0 || target_of_file(s->pid_file, &t, &why) < 0)
        return false;
    *pid = t.pid;
    target_close(&t);
    return true;
}

static int wait_until_up(const struct restart *s, const struct actuator_env *env, struct server *v,
                         pid_t *pid, struct diag *why)
{
    const int64_t began = clock_mono_ns();
    int64_t until = began + s->wait_ns < env->deadline_ns ? began + s->wait_ns : env->deadline_ns;
    for (;;) {
        int r = look_at_command(s, v, why);
        if (r < 0)
            return r;
        bool is_alive = lives(s, v, pid);
        if (is_alive && (s->address ? is_listening(s->address) : clock_mono_ns() - began >= ALIVE_NS))
            return look_at_command(s, v, why);
        if (env->is_cancelled && env->is_cancelled(env->arg))
            return diag_set(why, -ECANCELED, 0, "called off while pid %d was starting; it goes on",
                            (int)*pid);
        if (clock_mono_ns() >= until)
            return diag_set(why, -ETIMEDOUT, 0,
                            is_alive ? "pid %d runs, but takes no connections at %s"
                                     : "pid %d: no server is there by %s",
                            (int)*pid, is_alive ? s->address : s->pid_file);
        struct pollfd p = {.fd = v->fd, .events = POLLIN}; /* -1 is passed over */
        (void)poll(&p, 1, LOOK_MS);                        /* we look again in any case */
    }
}

static int run_command(const struct restart *s, const struct actuator_env *env, pid_t *pid, struct diag *why)
{
    struct server v = {.fd = -1};
    int r = end_old(s, env, why);
    if (r == 0)
        r = launch(s, &v, why);
    if (r < 0)
        return r;
    *pid = v.pid;
    r = wait_until_up(s, env, &v, pid, why);
    if (v.fd >= 0)
        (void)close(v.fd); /* nothing to lose */
    return r;
}

static int run_unit(const struct restart *s, const struct actuator_env *env, struct actuator_report *report)
{
    struct arena arena = {0};
    struct program p = {0};
    struct actuator_env without_data = *env;
    without_data.n_data = 0;
    int r = unit_argv(s, &arena, &p.argv);
    if (r == 0)
        r = program_run(&p, &without_data, report);
    arena_fini(&arena);
    return r;
}

static int restart_run(void *state, const struct actuator_env *env, struct actuator_report *report)
{
    const struct restart *s = state;
    struct diag why = {0};
    pid_t pid = 0;
    int r = check(s, &why);
    if (r == 0 && s->unit)
        return run_unit(s, env, report);
    if (r == 0)
        r = run_command(s, env, &pid, &why);
    if (r == 0)
        strbuf_printf(&report->text, "started %s, pid %d", s->command.v[0], (int)pid);
    else
        strbuf_add_str(&report->text, why.message);
    return r;
}

const struct actuator_ops actuator_restart = {
    .name = "restart",
    .summary = "a server, by its command or its systemd unit",
    .options = restart_options,
    .is_repeatable = true,
    .state_size = sizeof(struct restart),
    .plan = restart_plan,
    .run = restart_run,
};
