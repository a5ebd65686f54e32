/* SPDX-License-Identifier: Apache-2.0 */
/* kill: ends processes, or sends them another signal. Which ones:
 *
 *     pid + start    that process; the start time tells it from one that has got its number meanwhile
 *     name           all that the kernel knows by that name (at most 15 bytes of it), if they are at most
 * `max`: of more, none is hit. A longer name has to be that of the program (argv[0]), too pid_file       the
 * one that the file names (target.h)
 *
 * Never pid 1, this process, its parent, or threads of the kernel. */
#include "actuator/actuator.h"
#include "actuator/quote.h"
#include "actuator/target.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/process.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>

enum { TARGETS_MAX = 256, NAME_BYTES = 15 };
#define START_SLACK 2.0 /* s: /proc/stat's btime, which start times are made with, is of whole seconds */

struct kill {
    int64_t pid, max, grace_ns;
    double start;
    const char *name, *pid_file, *signal;
};

struct targets {
    struct target v[TARGETS_MAX];
    size_t n;     /* that are held */
    size_t found; /* that there are */
};

static const struct parameter kill_options[] = {
    {SETTING_INT, "pid", "0", offsetof(struct kill, pid), "the process; needs `start`", false, false},
    {SETTING_FLOAT, "start", "0", offsetof(struct kill, start),
     "when it began, in seconds since 1970, as `start_time` of the sensor `process` says", false, false},
    {SETTING_STRING, "name", NULL, offsetof(struct kill, name),
     "in place of `pid`: all processes of that name", false, false},
    {SETTING_STRING, "pid_file", NULL, offsetof(struct kill, pid_file),
     "in place of `pid`: the process whose number is in that file", true, false},
    {SETTING_STRING, "signal", "TERM", offsetof(struct kill, signal), "by its name or number", true, false},
    {SETTING_DURATION, "grace", "10s", offsetof(struct kill, grace_ns),
     "from the signal to SIGKILL; 0: only the signal. Not for HUP, USR1, USR2, STOP, CONT", true, false},
    {SETTING_INT, "max", "1", offsetof(struct kill, max), "if more processes have the name, none is hit",
     true, false},
    {0},
};

static const struct {
    const char *name;
    int number;
    bool ends; /* its process is expected to end */
} signals[] = {
    {"TERM", SIGTERM, true},  {"KILL", SIGKILL, true},  {"INT", SIGINT, true},    {"QUIT", SIGQUIT, true},
    {"ABRT", SIGABRT, true},  {"HUP", SIGHUP, false},   {"USR1", SIGUSR1, false}, {"USR2", SIGUSR2, false},
    {"STOP", SIGSTOP, false}, {"CONT", SIGCONT, false},
};

/* Its place in the table, or -1. */
static int find_signal(const char *text)
{
    struct slice name = slice_str(text);
    int64_t number = 0;
    if (slice_starts(name, SLICE_LIT("SIG")))
        name = slice_from(name, 3);
    (void)num_parse_int(name, &number); /* it may be a name */
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (slice_eq_str(name, signals[i].name) || number == signals[i].number)
            return (int)i;
    return -1;
}

static int check(const struct kill *k, struct diag *why)
{
    if ((k->pid != 0) + (k->name != NULL) + (k->pid_file != NULL) != 1)
        return diag_set(why, -EINVAL, 0, "kill: give one of `pid`, `name` and `pid_file`");
    if (k->pid != 0 && !(k->start > 0))
        return diag_set(why, -EINVAL, 0,
                        "kill: `pid` needs `start`, when the process began: numbers of processes come again");
    if (k->name && !k->name[0])
        return diag_set(why, -EINVAL, 0, "kill: `name` is empty");
    if (k->max < 1 || k->max > TARGETS_MAX)
        return diag_set(why, -EINVAL, 0, "kill: `max` is from 1 to %d", TARGETS_MAX);
    if (find_signal(k->signal) < 0)
        return diag_set(why, -EINVAL, 0,
                        "kill: there is no signal \"%s\"; there are TERM, KILL, INT, HUP, USR1, ...",
                        k->signal);
    return 0;
}

static bool has_name(pid_t pid, struct slice name, struct strbuf *buffer)
{
    struct process_stat stat;
    if (!process_stat(pid, buffer, &stat) || process_is_dead(&stat))
        return false;
    bool is_it =
        name.n <= NAME_BYTES ? slice_eq(stat.name, name) : slice_eq(stat.name, slice_of(name.p, NAME_BYTES));
    /* Threads of the kernel have no command line. */
    if (!is_it || !process_read(pid, "cmdline", buffer) || buffer->n == 0)
        return false;
    struct slice program = slice_of(buffer->p, strnlen(buffer->p, buffer->n));
    const char *slash = memrchr(program.p, '/', program.n);
    struct slice base = slash ? slice_from(program, (size_t)(slash - program.p) + 1) : program;
    return name.n <= NAME_BYTES || slice_eq(base, name);
}

static int find_by_name(const struct kill *k, struct targets *out)
{
    struct strbuf buffer = {0};
    DIR *proc = opendir("/proc");
    struct dirent *e;
    int64_t pid;
    if (!proc)
        return -errno;
    while ((e = readdir(proc))) {
        struct target t;
        if (num_parse_int(slice_str(e->d_name), &pid) < 0 ||
            !has_name((pid_t)pid, slice_str(k->name), &buffer))
            continue;
        /* It is looked at again, now that it is held. */
        if (target_open((pid_t)pid, &t) < 0)
            continue;
        if (has_name((pid_t)pid, slice_str(k->name), &buffer) && ++out->found && out->n < TARGETS_MAX)
            out->v[out->n++] = t;
        else
            target_close(&t);
    }
    (void)closedir(proc); /* opened for reading */
    strbuf_fini(&buffer);
    return 0;
}

static int find_by_pid(const struct kill *k, struct targets *out, struct diag *why)
{
    struct target t;
    if (k->pid < 0 || k->pid > INT32_MAX)
        return diag_set(why, -ENOENT, 0, "there is no process %lld", (long long)k->pid);
    int r = target_open((pid_t)k->pid, &t);
    if (r == -ENOENT)
        return diag_set(why, r, 0, "there is no process %lld", (long long)k->pid);
    if (r < 0)
        return diag_set(why, r, 0, "process %lld: %s", (long long)k->pid, err_text(r));
    double began = (double)target_began_ns(&t) / (double)NS_PER_S;
    if (fabs(began - k->start) > START_SLACK) {
        target_close(&t);
        return diag_set(why, -ENOENT, 0, "process %lld began at %.0f, not at %.0f: it is another one",
                        (long long)k->pid, began, k->start);
    }
    out->v[out->n++] = t;
    out->found++;
    return 0;
}

static int find(const struct kill *k, struct targets *out, struct diag *why)
{
    int r;
    if (k->pid_file) {
        r = target_of_file(k->pid_file, &out->v[0], why);
        out->n = out->found = r == 0;
        return r;
    }
    if (k->pid)
        return find_by_pid(k, out, why);
    r = find_by_name(k, out);
    if (r < 0)
        return diag_set(why, r, 0, "/proc: %s", err_text(r));
    if (out->found == 0)
        return diag_set(why, -ENOENT, 0, "no process is called \"%.60s\"", k->name);
    if ((int64_t)out->found > k->max)
        return diag_set(why, E_LIMIT, 0,
                        "%zu processes are called \"%.60s\", more than max=%lld: none was hit", out->found,
                        k->name, (long long)k->max);
    return 0;
}

static void close_all(struct targets *t)
{
    while (t->n)
        target_close(&t->v[--t->n]);
}

static void say_targets(const struct targets *t, struct strbuf *out)
{
    for (size_t i = 0; i < t->n; i++) {
        strbuf_printf(out, "%s%d ", i ? ", " : "", (int)t->v[i].pid);
        quote_word(out, slice_str(t->v[i].name));
    }
}

static int64_t grace_of(const struct kill *k)
{
    return signals[find_signal(k->signal)].ends ? k->grace_ns : 0;
}

static int kill_plan(void *state, const struct actuator_env *env, struct strbuf *out, struct diag *why)
{
    const struct kill *k = state;
    struct targets t = {.n = 0};
    struct diag none = {0};
    (void)env; /* it has no part in what is hit */
    int r = check(k, why);
    if (r < 0)
        return r;
    if (find(k, &t, &none) < 0) {
        strbuf_printf(out, "nothing: %s\n", none.message);
    } else {
        strbuf_printf(out, "send SIG%s to ", signals[find_signal(k->signal)].name);
        say_targets(&t, out);
        if (grace_of(k) > 0)
            strbuf_printf(out, ", and after %gs SIGKILL", (double)k->grace_ns / (double)NS_PER_S);
        strbuf_add_str(out, "\n");
    }
    close_all(&t);
    return 0;
}

static int kill_run(void *state, const struct actuator_env *env, struct actuator_report *report)
{
    const struct kill *k = state;
    struct targets t = {.n = 0};
    struct diag why = {0};
    int r = check(k, &why);
    if (r == 0)
        r = find(k, &t, &why);
    if (r < 0) {
        strbuf_add_str(&report->text, why.message);
        close_all(&t);
        return r;
    }
    int64_t grace = grace_of(k);
    r = targets_end(t.v, t.n, signals[find_signal(k->signal)].number, grace, env);
    strbuf_add_str(&report->text, r < 0 ? "did not end " : grace > 0 ? "ended " : "sent the signal to ");
    say_targets(&t, &report->text);
    if (r < 0)
        strbuf_printf(&report->text, ": %s", err_text(r));
    close_all(&t);
    return r;
}

const struct actuator_ops actuator_kill = {
    .name = "kill",
    .summary = "ends processes, or sends them a signal",
    .options = kill_options,
    .is_repeatable = true,
    .state_size = sizeof(struct kill),
    .plan = kill_plan,
    .run = kill_run,
};
