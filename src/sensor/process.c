/* SPDX-License-Identifier: Apache-2.0 */
/* Processes chosen by name, command line, pid file or pid: what each uses, and when one starts and ends.
 *
 * A process is (pid, start time), so a pid that comes again is another process. The table holds those that
 * are chosen; what happens to it comes from one of two:
 *
 * Connector. The kernel tells each fork, exec, new name and exit (proc_connector.h), with the status a
 * process ended with. /proc is scanned only at the beginning and after a loss. A fork costs a look-up in the
 * table: the child of a process that is not chosen is not chosen either, as it has its name and command line.
 * The child of a chosen one is `young`: it is decided when it runs another program, or after YOUNG_NS. (So a
 * watched shell does not tell the start of each of its commands.) An exec costs three system calls to see
 * what it is now. A process that ends before that look is not seen.
 *
 * On a host where very much is started the sensor would wake the agent all the time: over WAKES_MAX wake-ups
 * a second it reads only at its period, if the kernel's buffer holds what comes in one. If it does not,
 * changes are lost: /proc is scanned, ends of that time are `unknown`, and `losses` counts it.
 *
 * Polling. Without the right to the connector /proc is scanned each period (process_scan.h). An end is seen
 * when the process is gone: how it ended is `unknown`, unless it is still a zombie then and its status can be
 * read.
 *
 * A process that ends between the reading of the connector and that of its stat is given until the next
 * period for its event to come. */
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/text.h"
#include "sensor/proc_connector.h"
#include "sensor/proc_pid.h"
#include "sensor/process_limit.h"
#include "sensor/process_scan.h"
#include "sensor/scan.h"
#include "sensor/sensor.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

enum {
    KEPT_OPEN = 64,       /* stat files that stay open; those of further processes are opened each time */
    TABLE_MAX = 65536,    /* processes of one instance that are told apart */
    COMM_MAX = 15,        /* the kernel cuts names there */
    EVENT_COMMAND = 1024, /* bytes of a command line in an event */
    WAKES_MAX = 100,      /* a second, before reading only at the period */
    CALM_MESSAGES = 300   /* a second, below which it reads at once again */
};
#define YOUNG_NS (INT64_C(100) * 1000 * 1000)

enum { PROCESS, PROCESS_GROUP, PROCESS_START, PROCESS_END, PROCESS_LIMIT };

static const struct field process_fields[] = {
    KEY("process", "the instance's name"),
    KEY("pid", "the process's number"),
    FIELD("alive", BOOL, STATE, "", "false once, when it has ended or is no longer chosen"),
    FIELD("state", TEXT, STATE, "",
          "R runs, S sleeps, D waits for a disk, T stopped, Z ended but not its threads"),
    FIELD("user", UINT, COUNTER, "1/100 s", "CPU time in the program"),
    FIELD("system", UINT, COUNTER, "1/100 s", "CPU time in the kernel"),
    FIELD("rss", UINT, GAUGE, "bytes", "memory in use"),
    FIELD("vsize", UINT, GAUGE, "bytes", "address space"),
    FIELD("threads", UINT, GAUGE, "", "threads"),
    FIELD("files", UINT, GAUGE, "", "open descriptors, where they may be counted"),
    FIELD("start_time", FLOAT, STATE, "s", "when it began, since 1970 UTC"),
};

static const struct field group_fields[] = {
    KEY("process", "the instance's name"),
    FIELD("count", UINT, GAUGE, "", "processes that are chosen"),
    FIELD("unwatched", UINT, GAUGE, "", "those over `max`, which only count"),
    FIELD("user", UINT, COUNTER, "1/100 s",
          "CPU time in programs, of all that were watched, since the sensor began"),
    FIELD("system", UINT, COUNTER, "1/100 s", "CPU time in the kernel, the same"),
    FIELD("rss", UINT, GAUGE, "bytes", "memory in use, shared parts counted in each"),
    FIELD("threads", UINT, GAUGE, "", "threads"),
    FIELD("losses", UINT, COUNTER, "", "times that starts and ends may have been missed"),
    FIELD("watch", TEXT, STATE, "", "how starts and ends are seen: connector or poll"),
};

static const struct field start_fields[] = {
    KEY("process", "the instance's name"),
    KEY("pid", "the process's number"),
    FIELD("ppid", UINT, GAUGE, "", "its parent's number"),
    FIELD("uid", UINT, GAUGE, "", "its effective user"),
    FIELD("command", TEXT, TEXT, "", "its command line, or its name in brackets when it has none"),
};

static const struct field end_fields[] = {
    KEY("process", "the instance's name"),
    KEY("pid", "the process's number"),
    FIELD("how", TEXT, STATE, "",
          "normal (exit code 0), exit (another code), signal, left (runs on, but is no longer chosen) or "
          "unknown"),
    FIELD("code", UINT, GAUGE, "", "the exit code"),
    FIELD("signal", UINT, GAUGE, "", "the signal that ended it"),
    FIELD("core", BOOL, STATE, "", "it was to leave a core file"),
};

static const struct field limit_fields[] = {
    KEY("process", "the instance's name"),
    KEY("pid", "the process's number"),
    KEY("what", "cpu, rss, vsize, threads or files"),
    FIELD("value", FLOAT, GAUGE, "",
          "the average over the window: percent of a processor, bytes, or a number"),
    FIELD("limit", FLOAT, GAUGE, "", "the limit"),
    FIELD("window", FLOAT, GAUGE, "s", "the window"),
    FIELD("state", TEXT, STATE, "", "over, or back (below nine tenths of the limit)"),
};

static const struct sensor_schema process_schemas[] = {
    [PROCESS] = SCHEMA("process", process_fields),
    [PROCESS_GROUP] = SCHEMA("process.group", group_fields),
    [PROCESS_START] = SCHEMA_EVENT("process.start", start_fields, LEVEL_INFO),
    [PROCESS_END] = SCHEMA_EVENT("process.end", end_fields, LEVEL_INFO),
    [PROCESS_LIMIT] = SCHEMA_EVENT("process.limit", limit_fields, LEVEL_WARNING),
    {0},
};

/* A process of the table. */
struct proc {
    struct proc *next, *prev;
    uint32_t pid; /* the table's key */
    uint32_t ppid;
    uint64_t start; /* as proc_stat's; 0 while it is young */
    int fd;         /* its stat, -1 = not kept open */
    bool is_young;
    bool is_watched;
    bool is_leaving; /* its first thread has ended with this status, others had not */
    bool is_missing; /* it was gone at the last period, without an event */
    int status;
    int64_t born_ns;            /* young: when it was forked */
    uint64_t round;             /* in which it was sampled last */
    uint64_t user, system;      /* as last read */
    struct limit_curve *limits; /* one a rule; NULL without rules */
};

struct process {
    /* Options. */
    const char *name, *pattern, *pidfile, *watch;
    int64_t pid, max;
    struct parameter_list limits;
    bool files, arguments;

    struct sensor_env *env;
    struct slice instance; /* its name */
    struct limit_rule rules[LIMIT_RULES_MAX];
    size_t n_rules;
    double boot_time; /* s since 1970; 0 = not known */
    uint64_t page_bytes;
    struct proc_connector *connector; /* NULL: polling */
    struct process_scan scan;
    uint32_t target; /* the pid to look at; 0 = none now. Unless has_target every process is looked at. */
    bool has_target;

    struct map by_pid;
    struct proc *first, *last;
    size_t n_chosen, n_watched, n_open; /* young ones are not chosen yet */
    bool is_first;                      /* nothing was scanned yet: what is found was there before */
    bool needs_scan;                    /* of everything */
    uint64_t user, system, losses;

    /* Of wake-ups. */
    int64_t second_ns, due_ns; /* when the current second and the current period began */
    int64_t period_ns;         /* how long the last one was */
    unsigned wakes, messages;  /* in this second; in this period */
    uint64_t losses_before;    /* this period */
    bool is_busy;

    /* For one call of sample. */
    struct sensor_out *out;
    int64_t now_ns;
    uint64_t round, rss, threads;
    char text[PROC_COMMAND_MAX];
};

static const struct parameter process_options[] = {
    {SETTING_STRING, "name", NULL, offsetof(struct process, name),
     "name of the processes (its first 15 bytes); without any choice the instance's name", false, false},
    {SETTING_STRING, "pattern", NULL, offsetof(struct process, pattern),
     "pattern of their command lines, arguments separated by blanks: `*java*-Dapp=foo*`", false, false},
    {SETTING_STRING, "pidfile", NULL, offsetof(struct process, pidfile), "file that holds the pid", false,
     false},
    {SETTING_INT, "pid", "0", offsetof(struct process, pid),
     "the pid itself; of several choices all must hold", false, false},
    {SETTING_STRING, "watch", "auto", offsetof(struct process, watch),
     "how starts and ends are seen: `connector` (the kernel tells), `poll`, or `auto`: the first that is "
     "allowed",
     false, false},
    {SETTING_INT, "max", "256", offsetof(struct process, max), "processes that are watched; more are counted",
     false, false},
    {SETTING_LIST, "limits", NULL, offsetof(struct process, limits),
     "limits on averages: `cpu 80% 30s`, `rss 2GiB 60s`, `threads 500 30s`", false, false},
    {SETTING_FLAG, "files", "true", offsetof(struct process, files), "count open descriptors", false, false},
    {SETTING_FLAG, "arguments", "true", offsetof(struct process, arguments),
     "`process.start` has the arguments, too, not only the program", false, false},
    {0},
};

/* Opening. */

static int parse_limits(struct process *p, struct diag *why)
{
    if (p->limits.n > LIMIT_RULES_MAX)
        return diag_set(why, -EINVAL, 0, "limits: at most %d", LIMIT_RULES_MAX);
    for (; p->n_rules < p->limits.n; p->n_rules++) {
        int r = limit_parse(slice_str(p->limits.v[p->n_rules]), &p->rules[p->n_rules], why);
        if (r < 0)
            return r;
    }
    return 0;
}

static int check_options(struct process *p, struct diag *why)
{
    if (p->max < 1 || p->max > TABLE_MAX)
        return diag_set(why, -EINVAL, 0, "max: 1 to %d", TABLE_MAX);
    if (p->pid < 0 || p->pid > INT32_MAX)
        return diag_set(why, -EINVAL, 0, "pid: %" PRId64 " is none", p->pid);
    if (strcmp(p->watch, "auto") != 0 && strcmp(p->watch, "connector") != 0 && strcmp(p->watch, "poll") != 0)
        return diag_set(why, -EINVAL, 0, "watch: auto, connector or poll, not \"%s\"", p->watch);
    return parse_limits(p, why);
}

/* The line "btime SECONDS" of /proc/stat. */
static double read_boot_time(struct sensor_env *env)
{
    struct strbuf text = {0};
    uint64_t at = 0;
    if (env_read_file(env, "/proc/stat", &text) == 0) {
        struct scan s = scan_of(strbuf_slice(&text));
        struct slice line;
        while (at == 0 && scan_line(&s, &line)) {
            struct scan l = scan_of(line);
            if (slice_eq_str(scan_word(&l), "btime"))
                (void)scan_uint(&l, &at); /* 0 = not known */
        }
    }
    strbuf_fini(&text);
    return (double)at;
}

static int process_open(void *state, struct sensor_env *env, struct diag *why)
{
    struct process *p = state;
    p->env = env;
    p->instance = slice_str(env->name);
    if (!p->name && !p->pattern && !p->pidfile && p->pid == 0)
        p->name = env->name;
    p->has_target = p->pidfile || p->pid;
    p->is_first = p->needs_scan = true;
    p->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    int r = check_options(p, why);
    if (r < 0)
        return r;
    p->boot_time = read_boot_time(env);
    if (env_is_live(env) && strcmp(p->watch, "poll") != 0)
        r = proc_connector_open(&p->connector, why);
    return strcmp(p->watch, "connector") == 0 ? r : 0; /* else polling does it */
}

/* The table. */

static struct proc *find(const struct process *p, uint32_t pid)
{
    return map_get(&p->by_pid, slice_of((const char *)&pid, sizeof pid));
}

/* NULL: no memory, or too many. */
static struct proc *add(struct process *p, uint32_t pid)
{
    struct proc *q = p->by_pid.n < TABLE_MAX ? mem_try_alloc(sizeof *q) : NULL;
    if (!q) {
        p->losses++;
        return NULL;
    }
    *q = (struct proc){.pid = pid, .fd = -1, .prev = p->last};
    if (map_put(&p->by_pid, slice_of((const char *)&q->pid, sizeof q->pid), q) < 0) {
        p->losses++;
        mem_free(q);
        return NULL;
    }
    *(p->last ? &p->last->next : &p->first) = q;
    p->last = q;
    return q;
}

static void forget(struct process *p, struct proc *q)
{
    (void)map_remove(&p->by_pid, slice_of((const char *)&q->pid, sizeof q->pid)); /* it is q */
    *(q->prev ? &q->prev->next : &p->first) = q->next;
    *(q->next ? &q->next->prev : &p->last) = q->prev;
    p->n_chosen -= !q->is_young;
    p->n_watched -= q->is_watched;
    if (q->fd >= 0) {
        p->n_open--;
        (void)close(q->fd); /* opened for reading */
    }
    mem_free(q->limits);
    mem_free(q);
}

/* From now on it is sampled, if there is room. */
static void watch(struct process *p, struct proc *q)
{
    if (p->n_watched >= (size_t)p->max)
        return;
    if (p->n_rules && !(q->limits = mem_try_alloc(p->n_rules * sizeof *q->limits)))
        return;
    q->is_watched = true;
    p->n_watched++;
    if (env_is_live(p->env) && p->n_open < KEPT_OPEN) {
        q->fd = proc_open(p->env, q->pid, "stat");
        p->n_open += q->fd >= 0;
    }
}

/* Rows. */

static struct value key_of_pid(char *text, uint32_t pid)
{
    return value_text(slice_of(text, num_print_uint(text, pid)));
}

/* A time of the connector in that of the rows. */
static int64_t event_time(const struct process *p, int64_t mono_ns)
{
    return p->out->time_ns - (p->now_ns - mono_ns);
}

/* The command line in p->text; "[name]" when there is none. */
static struct slice command_of(struct process *p, uint32_t pid, const struct proc_stat *stat)
{
    char name[COMM_MAX + 2];
    size_t n_name = stat->comm.n < COMM_MAX ? stat->comm.n : COMM_MAX; /* stat borrows p->text */
    name[0] = '[';
    memcpy(name + 1, stat->comm.p, n_name);
    name[n_name + 1] = ']';
    int64_t got = proc_read(p->env, pid, "cmdline", p->text, EVENT_COMMAND);
    size_t n = got > 0 ? (size_t)got : 0;
    if (!p->arguments)
        n = strnlen(p->text, n);
    n = proc_command_text(p->text, n);
    if (n == 0) {
        memcpy(p->text, name, n_name + 2);
        n = proc_command_text(p->text, n_name + 2);
    }
    return slice_of(p->text, n);
}

/* stat NULL: it is gone already. */
static void tell_start(struct process *p, const struct proc *q, const struct proc_stat *stat, int64_t time_ns)
{
    char number[NUM_TEXT_MAX], status[PROC_STATUS_MAX];
    struct value row[] = {value_text(p->instance), key_of_pid(number, q->pid), value_uint(q->ppid),
                          value_none(), value_none()};
    uint64_t uid;
    int64_t n = stat ? proc_read(p->env, q->pid, "status", status, sizeof status) : 0;
    if (n > 0 && proc_status_uid(slice_of(status, (size_t)n), &uid) == 0)
        row[3] = value_uint(uid);
    if (stat)
        row[4] = value_text(command_of(p, q->pid, stat));
    sensor_row_at(p->out, PROCESS_START, time_ns, LEVEL_COUNT, row);
}

enum { STATUS_UNKNOWN = -1, STATUS_LEFT = -2 };

/* Tells the end and forgets it. status as for wait(2), or one of the above. */
static void end(struct process *p, struct proc *q, int status, int64_t time_ns)
{
    char number[NUM_TEXT_MAX];
    struct value key = key_of_pid(number, q->pid);
    struct value row[] = {
        value_text(p->instance), key, value_none(), value_none(), value_none(), value_none()};
    struct value last[sizeof process_fields / sizeof *process_fields] = {value_text(p->instance), key,
                                                                         value_bool(false)};
    uint8_t level = LEVEL_INFO;
    if (status < 0) {
        row[2] = value_text(status == STATUS_LEFT ? SLICE_LIT("left") : SLICE_LIT("unknown"));
    } else if ((status & 0x7f) == 0) {
        unsigned code = (unsigned)status >> 8 & 0xff;
        row[2] = value_text(code == 0 ? SLICE_LIT("normal") : SLICE_LIT("exit"));
        row[3] = value_uint(code);
        level = code == 0 ? LEVEL_INFO : LEVEL_ERROR;
    } else {
        row[2] = value_text(SLICE_LIT("signal"));
        row[4] = value_uint((unsigned)status & 0x7f);
        row[5] = value_bool(status & 0x80);
        level = LEVEL_ERROR;
    }
    sensor_row_at(p->out, PROCESS_END, time_ns, level, row);
    if (q->is_watched)
        sensor_row_at(p->out, PROCESS, time_ns, LEVEL_COUNT, last);
    forget(p, q);
}

/* Choosing. */

/* stat borrows p->text. */
static int read_stat(struct process *p, uint32_t pid, int fd, struct proc_stat *stat)
{
    int64_t n = fd >= 0 ? proc_pread(p->env, fd, pid, "stat", p->text, PROC_STAT_MAX)
                        : proc_read(p->env, pid, "stat", p->text, PROC_STAT_MAX);
    return n < 0 ? (int)n : proc_stat_parse(slice_of(p->text, (size_t)n), stat);
}

static bool has_name(const struct process *p, const struct proc_stat *stat)
{
    if (!p->name)
        return true;
    struct slice name = slice_str(p->name);
    return slice_eq(stat->comm, name) || (stat->comm.n == COMM_MAX && slice_starts(name, stat->comm));
}

static bool has_command(struct process *p, uint32_t pid)
{
    char line[PROC_COMMAND_MAX];
    if (!p->pattern)
        return true;
    int64_t n = proc_read(p->env, pid, "cmdline", line, sizeof line);
    if (n <= 0)
        return false;
    return text_glob(slice_str(p->pattern), slice_of(line, proc_command_text(line, (size_t)n)));
}

/* It is one of ours from now on. */
static void choose(struct process *p, struct proc *q, const struct proc_stat *stat, int64_t time_ns)
{
    q->is_young = false;
    q->start = stat->start;
    q->ppid = (uint32_t)stat->ppid;
    p->n_chosen++;
    watch(p, q);
    if (p->is_first) { /* what it used before is not ours to count */
        q->user = stat->utime;
        q->system = stat->stime;
    } else {
        tell_start(p, q, stat, time_ns);
    }
}

/* Looks at a process and decides: it is in the table, or is not, afterwards. One that is gone stays for its
 * end. */
static void look(struct process *p, uint32_t pid, int64_t time_ns)
{
    struct proc *q = find(p, pid);
    struct proc_stat stat;
    if (!q && p->has_target && pid != p->target)
        return;
    if (read_stat(p, pid, -1, &stat) < 0 || proc_stat_is_dead(&stat))
        return;
    if (q && !q->is_young && q->start != stat.start) { /* the pid came again, the end was lost */
        end(p, q, STATUS_UNKNOWN, time_ns);
        q = NULL;
    }
    bool is_chosen = (!p->has_target || pid == p->target) && has_name(p, &stat) && has_command(p, pid);
    if (q && !q->is_young) {
        if (!is_chosen)
            end(p, q, STATUS_LEFT, time_ns);
        return;
    }
    if (is_chosen && (q || (q = add(p, pid))))
        choose(p, q, &stat, time_ns);
    else if (q)
        forget(p, q);
}

static void look_now(void *arg, uint32_t pid)
{
    struct process *p = arg;
    look(p, pid, p->out->time_ns);
}

/* The pid in the file: digits, perhaps with blanks and further lines; 0 = none. */
static uint32_t read_pidfile(struct process *p)
{
    struct strbuf text = {0};
    uint64_t pid = 0;
    if (env_read_file(p->env, p->pidfile, &text) == 0) {
        struct scan s = scan_of(strbuf_slice(&text));
        if (!scan_uint(&s, &pid) || pid > INT32_MAX)
            pid = 0;
    }
    strbuf_fini(&text);
    return (uint32_t)pid;
}

static uint32_t current_target(struct process *p)
{
    uint32_t pid = (uint32_t)p->pid;
    if (!p->pidfile)
        return pid;
    uint32_t from_file = read_pidfile(p);
    return pid && pid != from_file ? 0 : from_file;
}

/* Who has come: all of it where nobody tells, else only what can't be told. */
static int look_around(struct process *p)
{
    if (p->has_target) {
        uint32_t was = p->target;
        p->target = current_target(p);
        if (was && was != p->target && find(p, was))
            look_now(p, was); /* another is meant now */
        if (p->target && !find(p, p->target))
            look_now(p, p->target);
        return 0;
    }
    if (p->connector && !p->needs_scan)
        return 0;
    return process_scan_run(&p->scan, p->env, p->needs_scan, look_now, p);
}

/* What the kernel tells. */

static void on_fork(struct process *p, const struct proc_change *c)
{
    if (p->has_target || !find(p, c->parent))
        return;
    struct proc *q = find(p, c->pid);
    if (q)
        end(p, q, STATUS_UNKNOWN, event_time(p, c->mono_ns)); /* its end was lost */
    if (!(q = add(p, c->pid)))
        return;
    q->is_young = true;
    q->ppid = c->parent;
    q->born_ns = c->mono_ns;
}

static void on_exit_of(struct process *p, struct proc *q, const struct proc_change *c)
{
    struct proc_stat stat;
    int64_t time_ns = event_time(p, c->mono_ns);
    if (q->is_young) {
        q->is_young = false;
        p->n_chosen++;
        tell_start(p, q, NULL, event_time(p, q->born_ns));
    } else if (read_stat(p, q->pid, q->fd, &stat) == 0 && stat.start == q->start &&
               !proc_stat_is_dead(&stat)) {
        q->is_leaving =
            true; /* other threads run still, perhaps for a moment only, or one of them has called exec */
        q->status = c->status;
        return;
    }
    end(p, q, c->status, time_ns);
}

static void on_change(void *arg, const struct proc_change *c)
{
    struct process *p = arg;
    struct proc *q;
    switch (c->what) {
    case PROC_FORKED:
        on_fork(p, c);
        break;
    case PROC_EXECED:
    case PROC_NAMED:
        look(p, c->pid, event_time(p, c->mono_ns));
        break;
    case PROC_EXITED:
        q = find(p, c->pid);
        if (q)
            on_exit_of(p, q, c);
        break;
    }
}

static int read_connector(struct process *p)
{
    if (!p->connector)
        return 0;
    int n = proc_connector_read(p->connector, on_change, p);
    env_note(p->env, "recvmmsg", "proc connector", 0);
    if (n == -ENOBUFS) {
        p->losses++;
        p->needs_scan = true;
        return 0;
    }
    if (n < 0)
        return diag_set(p->out->why, n, 0, "proc connector: %s", err_text(n));
    p->messages += (unsigned)n;
    return 0;
}

/* Called for each wake-up that is not due: does this become too much? */
static void count_wake(struct process *p)
{
    if (p->now_ns - p->second_ns >= NS_PER_S) {
        p->second_ns = p->now_ns;
        p->wakes = 0;
    }
    if (++p->wakes < WAKES_MAX || p->period_ns <= 0)
        return;
    double since = (double)(p->now_ns - p->due_ns + 1);
    p->is_busy = (double)p->messages / since * (double)p->period_ns < 0.8 * proc_connector_room(p->connector);
}

static void begin_period(struct process *p)
{
    p->period_ns = p->due_ns ? p->now_ns - p->due_ns : 0;
    if (p->is_busy)
        p->is_busy = (double)p->messages * NS_PER_S > (double)CALM_MESSAGES * (double)p->period_ns &&
                     p->losses == p->losses_before;
    p->losses_before = p->losses;
    p->due_ns = p->now_ns;
    p->messages = 0;
}

/* Sampling. */

static struct value count_files(struct process *p, uint32_t pid)
{
    int64_t n = p->files ? proc_count_files(p->env, pid) : E_NODATA;
    return n < 0 ? value_none() : value_uint((uint64_t)n);
}

static void tell_limit(struct process *p, const struct proc *q, const struct limit_rule *rule, double average,
                       enum limit_change change)
{
    char number[NUM_TEXT_MAX];
    struct value row[] = {value_text(p->instance),
                          key_of_pid(number, q->pid),
                          value_text(slice_str(limit_what_name(rule->what))),
                          value_float(average),
                          value_float(rule->limit),
                          value_float((double)rule->window_ns / (double)NS_PER_S),
                          value_text(change == LIMIT_OVER ? SLICE_LIT("over") : SLICE_LIT("back"))};
    sensor_row_at(p->out, PROCESS_LIMIT, p->out->time_ns, change == LIMIT_OVER ? LEVEL_WARNING : LEVEL_INFO,
                  row);
}

static void check_limits(struct process *p, struct proc *q, const struct proc_stat *stat, struct value files)
{
    for (size_t i = 0; i < p->n_rules; i++) {
        const struct limit_rule *rule = &p->rules[i];
        double average, value = 0;
        switch (rule->what) {
        case LIMIT_CPU:
            value = (double)(stat->utime + stat->stime) / 100;
            break;
        case LIMIT_RSS:
            value = (double)stat->rss * (double)p->page_bytes;
            break;
        case LIMIT_VSIZE:
            value = (double)stat->vsize;
            break;
        case LIMIT_THREADS:
            value = (double)stat->threads;
            break;
        case LIMIT_FILES:
            if (files.type == VALUE_NONE)
                continue;
            value = (double)files.u;
            break;
        case LIMIT_WHATS:
            continue;
        }
        enum limit_change change = limit_add(rule, &q->limits[i], p->now_ns, value, &average);
        if (change != LIMIT_SAME)
            tell_limit(p, q, rule, average, change);
    }
}

static void tell_process(struct process *p, struct proc *q, const struct proc_stat *stat)
{
    char number[NUM_TEXT_MAX];
    struct value files = count_files(p, q->pid);
    struct value row[] = {
        value_text(p->instance),
        key_of_pid(number, q->pid),
        value_bool(true),
        value_text(slice_of(&stat->state, 1)),
        value_uint(stat->utime),
        value_uint(stat->stime),
        value_uint(stat->rss * p->page_bytes),
        value_uint(stat->vsize),
        value_uint(stat->threads),
        files,
        p->boot_time > 0 ? value_float(p->boot_time + (double)stat->start / 100) : value_none(),
    };
    sensor_row(p->out, PROCESS, row);
    p->user += stat->utime > q->user ? stat->utime - q->user : 0;
    p->system += stat->stime > q->system ? stat->stime - q->system : 0;
    q->user = stat->utime;
    q->system = stat->stime;
    p->rss += stat->rss * p->page_bytes;
    p->threads += stat->threads;
    check_limits(p, q, stat, files);
}

static void sample_one(struct process *p, struct proc *q);

/* It is not there any more. */
static void on_gone(struct process *p, struct proc *q, int status)
{
    uint32_t pid = q->pid;
    if (q->is_leaving)
        status = q->status;
    else if (p->connector && !q->is_missing) {
        q->is_missing = true;
        return;
    }
    end(p, q, status, p->out->time_ns);
    look_now(p, pid); /* another may have the pid already */
    q = find(p, pid);
    if (q)
        sample_one(p, q);
}

static void sample_one(struct process *p, struct proc *q)
{
    struct proc_stat stat;
    if (q->round == p->round)
        return;
    q->round = p->round;
    if (q->is_young) {
        look_now(p, q->pid);
        return;
    }
    if (!q->is_watched)
        watch(p, q);
    if (!q->is_watched && p->connector)
        return;
    int r = read_stat(p, q->pid, q->fd, &stat);
    if (r == E_NODATA || (r == 0 && stat.start != q->start)) {
        on_gone(p, q, STATUS_UNKNOWN);
        return;
    }
    if (r < 0)
        return; /* not to be read now: no data */
    if (proc_stat_is_dead(&stat)) {
        on_gone(p, q, stat.exit_code ? (int)(stat.exit_code & 0xffff) : STATUS_UNKNOWN);
        return;
    }
    q->is_leaving = q->is_missing = false;
    if (!has_name(p, &stat))
        end(p, q, STATUS_LEFT, p->out->time_ns);
    else if (q->is_watched)
        tell_process(p, q, &stat);
}

static void tell_group(struct process *p)
{
    struct value row[] = {
        value_text(p->instance),
        value_uint(p->n_chosen),
        value_uint(p->n_chosen - p->n_watched),
        value_uint(p->user),
        value_uint(p->system),
        value_uint(p->rss),
        value_uint(p->threads),
        value_uint(p->losses),
        value_text(p->connector ? SLICE_LIT("connector") : SLICE_LIT("poll")),
    };
    sensor_row(p->out, PROCESS_GROUP, row);
}

static int process_sample(void *state, struct sensor_env *env, struct sensor_out *out)
{
    struct process *p = state;
    p->out = out;
    p->now_ns = env->mono_ns();
    int r = read_connector(p);
    if (r < 0)
        return r;
    if (!out->is_due) {
        count_wake(p);
        return 0;
    }
    begin_period(p);
    r = look_around(p);
    if (r < 0)
        return diag_set(out->why, r, 0, "/proc: %s", err_text(r));
    p->needs_scan = p->is_first = false;
    p->rss = p->threads = 0;
    p->round++;
    for (struct proc *q = p->first, *next; q; q = next) {
        next = q->next;
        if (!q->is_young || p->now_ns - q->born_ns >= YOUNG_NS)
            sample_one(p, q);
    }
    tell_group(p);
    return 0;
}

static void process_close(void *state)
{
    struct process *p = state;
    while (p->first)
        forget(p, p->first);
    map_fini(&p->by_pid);
    process_scan_fini(&p->scan);
    proc_connector_close(p->connector);
}

static int process_wait_fd(void *state)
{
    struct process *p = state;
    return p->connector && !p->is_busy ? proc_connector_fd(p->connector) : -1;
}

const struct sensor_ops sensor_process = {
    .name = "process",
    .summary = "processes by name, command line, pid file or pid: use, start, end",
    .schemas = process_schemas,
    .options = process_options,
    .every = "5s",
    .refresh = "60s",
    .priority = 4,
    .is_multi = true,
    .state_size = sizeof(struct process),
    .open = process_open,
    .sample = process_sample,
    .close = process_close,
    .wait_fd = process_wait_fd,
};
