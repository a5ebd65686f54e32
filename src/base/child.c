/* SPDX-License-Identifier: Apache-2.0 */
/* A child goes through these phases, in this order, and may leave some out:
 *
 *     RUNS ──limit, stop──► ASKED ──grace is over──► KILLED ──has ended──► SWEPT ──nothing is left──► GONE
 *      └──────────────────── has ended ───────────────────────────────────┘
 *
 * ASKED: SIGTERM has been sent to the group. KILLED: SIGKILL. SWEPT: the program has ended, its group is
 * killed, and strays are looked for every few ms (they need a moment to die) until there are none or
 * CHILD_GIVE_UP is over. The program is reaped last: as long as it is a zombie, the numbers of its process,
 * group and session can't be others'.
 *
 * One epoll descriptor holds the pipes, the process descriptor and a timer for the next limit, so that the
 * owner waits for one thing. */
#include "base/child.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/spawn.h"
#include "base/strays.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_MAX = 64 << 10, SAID_MAX = 160 };
#define SWEEP_EVERY (INT64_C(5) * 1000 * 1000) /* ns */

enum phase { RUNS, ASKED, KILLED, SWEPT, GONE };

/* A line of errors as it comes, and the last one that was whole. */
struct said {
    char line[SAID_MAX], last[SAID_MAX];
    size_t n;
};

struct child {
    struct run run; /* its leader is the program */
    struct child *next_abandoned;
    enum phase phase;
    char *name; /* of the program, without its folder */
    int pidfd, epoll, timer;
    int in, out, err;    /* our ends; -1 = closed */
    bool out_is_watched; /* it is not while the buffer is full */
    bool in_is_watched;
    bool in_ends;  /* it is closed when all is written */
    bool is_clean; /* SWEPT: no strays are left */
    bool is_reaped;
    struct child_options limits; /* argv and env are not kept */
    int64_t started_ns, second_ns;
    int64_t next_ns;    /* when the phase ends by itself; INT64_MAX = never */
    int64_t give_up_ns; /* SWEPT */
    int64_t timer_ns;   /* what the timer is set to */
    uint64_t bytes, lines, bytes_s, lines_s;
    size_t rest; /* SWEPT: bytes of output that were in the pipe when it ended */
    struct strbuf output, input;
    struct said said;
    struct child_end end;
};

static struct child *abandoned; /* destroyed while they ran; see strays.h on why this is the process's */

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* pipes, timers and epolls have nothing to lose */
    *fd = -1;
}

static int watch(struct child *c, int fd, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.fd = fd};
    return epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

/* A descriptor that is closed leaves the epoll by itself; this is for those that stay open. */
static void unwatch(struct child *c, int fd)
{
    (void)epoll_ctl(c->epoll, EPOLL_CTL_DEL, fd, NULL); /* it is there */
}

static int set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

/* The program's end must not be one of 0, 1, 2, which it is moved to (a daemon may have closed its own). */
static int above_2(int *fd)
{
    if (*fd > 2)
        return 0;
    int higher = fcntl(*fd, F_DUPFD_CLOEXEC, 3);
    if (higher < 0)
        return -errno;
    (void)close(*fd);
    *fd = higher;
    return 0;
}

static int open_pipe(int *ours, int *theirs)
{
    int fd[2];
    if (pipe2(fd, O_CLOEXEC) < 0)
        return -errno;
    *ours = fd[0];
    *theirs = fd[1];
    int r = set_nonblocking(fd[0]);
    return r < 0 ? r : above_2(theirs);
}

/* A socket, so that writing to a program that has gone is an error and no SIGPIPE. */
static int open_input(bool has_input, int *ours, int *theirs)
{
    int fd[2];
    if (!has_input) {
        *theirs = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return *theirs < 0 ? -errno : above_2(theirs);
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
        return -errno;
    *ours = fd[0];
    *theirs = fd[1];
    int r = set_nonblocking(fd[0]);
    return r < 0 ? r : above_2(theirs);
}

static int open_descriptors(struct child *c, struct spawn *s)
{
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (c->epoll < 0 || c->timer < 0)
        return -errno;
    int r = open_input(c->limits.has_input, &c->in, &s->in);
    if (r == 0)
        r = open_pipe(&c->out, &s->out);
    if (r == 0)
        r = open_pipe(&c->err, &s->err);
    if (r == 0)
        r = watch(c, c->timer, EPOLLIN);
    if (r == 0)
        r = watch(c, c->err, EPOLLIN);
    if (r == 0)
        r = watch(c, c->out, EPOLLIN);
    c->out_is_watched = r == 0;
    return r;
}

/* Is it NAME=... for the name of one of these n? */
static bool is_given(const char *variable, const char *const *all, size_t n)
{
    size_t length = strcspn(variable, "=") + 1;
    for (size_t i = 0; i < n; i++)
        if (strncmp(all[i], variable, length) == 0)
            return true;
    return false;
}

/* The mark, what is asked for, and of ours what has other names, if it is to have any. */
static const char **make_environment(const struct child *c, const char *const *more)
{
    char **ours = c->limits.env_is_all ? NULL : environ;
    size_t n = 0, at = 0;
    for (char **e = ours; e && *e; e++)
        n++;
    for (const char *const *e = more; e && *e; e++)
        n++;
    const char **all = mem_alloc((n + 2) * sizeof *all);
    all[at++] = c->run.mark;
    for (const char *const *e = more; e && *e; e++)
        all[at++] = *e;
    size_t given = at;
    for (char **e = ours; e && *e; e++)
        if (!is_given(*e, all, given))
            all[at++] = *e;
    return all;
}

static void keep_name(struct child *c, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash && slash[1] ? slash + 1 : path;
    c->name = mem_alloc(strlen(base) + 1);
    memcpy(c->name, base, strlen(base) + 1);
}

/* Everything but the process, which has been reaped or is nobody's. */
static void release(struct child *c)
{
    close_fd(&c->pidfd);
    close_fd(&c->epoll);
    close_fd(&c->timer);
    close_fd(&c->in);
    close_fd(&c->out);
    close_fd(&c->err);
    strbuf_fini(&c->output);
    strbuf_fini(&c->input);
    mem_free(c->name);
    mem_free(c);
}

static void arm(struct child *c);

/* Opens everything and starts the program. On failure nothing runs. */
static int launch(struct child *c, const struct child_options *options, struct diag *why)
{
    struct spawn s = {.argv = options->argv,
                      .in = -1,
                      .out = -1,
                      .err = -1,
                      .nice = options->nice,
                      .oom_score_adj = options->oom_score_adj};
    int r = open_descriptors(c, &s);
    if (r < 0)
        r = diag_set(why, r, 0, "%s: can't be started: %s", c->name, err_text(r));
    if (r == 0) {
        const char **env = make_environment(c, options->env);
        s.env = env;
        r = spawn(&s, &c->run.leader, &c->pidfd, why);
        mem_free(env);
    }
    close_fd(&s.in);
    close_fd(&s.out);
    close_fd(&s.err);
    return r;
}

int child_start(const struct child_options *options, int64_t now_ns, struct child **out, struct diag *why)
{
    (void)child_settle(0); /* whoever starts many also ends them */
    struct child *c = mem_alloc(sizeof *c);
    c->pidfd = c->epoll = c->timer = c->in = c->out = c->err = -1;
    c->limits = *options;
    c->limits.argv = c->limits.env = NULL;
    if (c->limits.grace_ns == 0)
        c->limits.grace_ns = CHILD_GRACE;
    if (c->limits.buffer_max == 0)
        c->limits.buffer_max = CHILD_BUFFER;
    c->started_ns = c->second_ns = now_ns;
    c->next_ns = options->max_run_ns ? now_ns + options->max_run_ns : INT64_MAX;
    keep_name(c, options->argv[0] ? options->argv[0] : "");
    strays_mark(&c->run);
    int r = launch(c, options, why);
    if (r < 0) {
        release(c);
        return r;
    }
    strays_begin(&c->run);
    r = watch(c, c->pidfd, EPOLLIN);
    if (r < 0) {
        (void)diag_set(why, r, 0, "%s: can't be watched: %s", c->name, err_text(r)); /* r is returned */
        child_destroy(c);
        return r;
    }
    arm(c);
    *out = c;
    return 0;
}

int child_wait_fd(const struct child *c)
{
    return c->epoll;
}

struct slice child_output(const struct child *c)
{
    return strbuf_slice(&c->output);
}

void child_consume(struct child *c, size_t n)
{
    assert(n <= c->output.n);
    strbuf_consume(&c->output, n);
    if (c->out >= 0 && !c->out_is_watched && c->output.n < c->limits.buffer_max)
        c->out_is_watched = watch(c, c->out, EPOLLIN) == 0;
}

const struct child_end *child_end(const struct child *c)
{
    return c->phase == GONE ? &c->end : NULL;
}

/* Sets the timer to the end of the phase, if it is not. */
static void arm(struct child *c)
{
    int64_t at = c->phase == GONE ? INT64_MAX : c->next_ns;
    if (at == c->timer_ns)
        return;
    struct itimerspec t = {.it_value = {at / NS_PER_S, at % NS_PER_S}};
    if (at == INT64_MAX)
        t = (struct itimerspec){.it_value = {0, 0}}; /* off */
    else if (at <= 0)
        t.it_value.tv_nsec = 1;                                   /* 0 would switch it off */
    (void)timerfd_settime(c->timer, TFD_TIMER_ABSTIME, &t, NULL); /* can't fail with these */
    c->timer_ns = at;
}

static void enter(struct child *c, enum phase phase, int64_t until_ns)
{
    c->phase = phase;
    c->next_ns = until_ns;
}

/* Nothing more is read: the program is told to end. */
static void ask(struct child *c, enum child_reason reason, int64_t now_ns)
{
    if (c->phase != RUNS)
        return;
    c->end.reason = reason;
    close_fd(&c->out);
    close_fd(&c->err);
    close_fd(&c->in);
    (void)kill(-c->run.leader, SIGTERM); /* it is a zombie at worst: it has not been reaped */
    (void)kill(-c->run.leader, SIGCONT); /* one that is stopped would not hear it */
    enter(c, ASKED, now_ns + c->limits.grace_ns);
}

void child_stop(struct child *c, int64_t now_ns)
{
    ask(c, CHILD_STOPPED, now_ns);
    arm(c);
}

static uint64_t count_lines(const char *p, size_t n)
{
    uint64_t lines = 0;
    for (const char *end = p + n; (p = memchr(p, '\n', (size_t)(end - p))); p++)
        lines++;
    return lines;
}

/* Counts what was read; false when that was too much, and the program is being ended. */
static bool is_within(struct child *c, const char *p, size_t n, int64_t now_ns)
{
    const struct child_options *l = &c->limits;
    uint64_t lines = count_lines(p, n);
    if (now_ns - c->second_ns >= NS_PER_S) {
        c->second_ns = now_ns;
        c->bytes_s = c->lines_s = 0;
    }
    c->bytes += n;
    c->bytes_s += n;
    c->lines += lines;
    c->lines_s += lines;
    enum child_reason reason = l->max_bytes && c->bytes > l->max_bytes         ? CHILD_BYTES
                               : l->max_lines && c->lines > l->max_lines       ? CHILD_LINES
                               : l->max_bytes_s && c->bytes_s > l->max_bytes_s ? CHILD_BYTES_S
                               : l->max_lines_s && c->lines_s > l->max_lines_s ? CHILD_LINES_S
                                                                               : CHILD_BY_ITSELF;
    if (reason == CHILD_BY_ITSELF)
        return true;
    if (c->phase == SWEPT) /* it had ended before that was seen */
        c->end.reason = reason;
    ask(c, reason, now_ns);
    return false;
}

/* Reads at most max bytes to to: how many; 0 when there are none now; then, at the end or on an error, *fd is
 * closed. */
static size_t take(int *fd, char *to, size_t max)
{
    ssize_t n;
    do
        n = read(*fd, to, max);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        return (size_t)n;
    if (n == 0 || errno != EAGAIN)
        close_fd(fd);
    return 0;
}

static void hear(struct said *s, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] != '\n') {
            if (s->n < SAID_MAX - 1)
                s->line[s->n++] = p[i] >= ' ' && p[i] < 0x7f ? p[i] : '?';
            continue;
        }
        if (s->n) {
            memcpy(s->last, s->line, s->n);
            s->last[s->n] = '\0';
        }
        s->n = 0;
    }
}

const char *child_said(const struct child *c)
{
    return c->said.last;
}

static void pump_errors(struct child *c, int64_t now_ns)
{
    char buffer[4096];
    size_t n, sum = 0;
    while (c->err >= 0 && sum < READ_MAX && (n = take(&c->err, buffer, sizeof buffer)) > 0) {
        sum += n;
        hear(&c->said, buffer, n);
        if (!is_within(c, buffer, n, now_ns))
            return;
    }
}

/* How much may be read now: a program that has ended has no more than was in the pipe. */
static size_t room_for_output(const struct child *c)
{
    size_t room = c->output.n < c->limits.buffer_max ? c->limits.buffer_max - c->output.n : 0;
    if (c->phase == SWEPT && c->rest < room)
        room = c->rest;
    return room < READ_MAX ? room : READ_MAX;
}

/* One read: what more there is makes the descriptor readable again. */
static void pump_output(struct child *c, int64_t now_ns)
{
    size_t room = room_for_output(c);
    if (c->out >= 0 && room > 0) {
        char *to = strbuf_room(&c->output, room);
        size_t n = to ? take(&c->out, to, room) : 0;
        if (n > 0) {
            strbuf_advance(&c->output, n);
            c->rest -= c->phase == SWEPT ? n : 0;
            if (!is_within(c, to, n, now_ns))
                c->rest = 0;
        } else if (c->phase == SWEPT) {
            c->rest = 0;
        }
    }
    if (c->out >= 0 && c->phase == SWEPT && c->rest == 0)
        close_fd(&c->out);
    if (c->out >= 0 && c->out_is_watched && c->output.n >= c->limits.buffer_max) {
        unwatch(c, c->out); /* until child_consume */
        c->out_is_watched = false;
    }
}

/* Writes what it can; the rest waits until the socket is writable. */
static void pump_input(struct child *c)
{
    while (c->in >= 0 && c->input.n) {
        ssize_t n = send(c->in, c->input.p, c->input.n, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            close_fd(&c->in);
        if (n <= 0)
            break;
        strbuf_consume(&c->input, (size_t)n);
    }
    if (c->in_ends && c->input.n == 0)
        close_fd(&c->in);
    if (c->in < 0)
        c->in_is_watched = false;
    else if (c->input.n && !c->in_is_watched)
        c->in_is_watched = watch(c, c->in, EPOLLOUT) == 0;
    else if (c->input.n == 0 && c->in_is_watched) {
        unwatch(c, c->in);
        c->in_is_watched = false;
    }
}

int child_write(struct child *c, struct slice bytes)
{
    if (c->in < 0)
        return -EPIPE;
    if (c->input.n + bytes.n > CHILD_INPUT_MAX)
        return E_LIMIT;
    strbuf_add_slice(&c->input, bytes);
    if (strbuf_failed(&c->input))
        return -ENOMEM;
    pump_input(c);
    return c->in < 0 ? -EPIPE : 0;
}

void child_end_input(struct child *c)
{
    c->in_ends = true;
    pump_input(c);
}

/* Has the program ended? It stays a zombie. */
static bool has_ended(struct child *c, int64_t now_ns)
{
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_PID, (id_t)c->run.leader, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
        c->is_reaped = true; /* by somebody else in this process: how it ended is not known */
    else if (info.si_pid == 0)
        return false;
    bool by_signal = info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
    c->end.code = by_signal || c->is_reaped ? -1 : info.si_status;
    c->end.signal = by_signal ? info.si_status : 0;
    c->end.ran_ns = now_ns - c->started_ns;
    return true;
}

/* The program has ended: so has everything it started. */
static void after_end(struct child *c, int64_t now_ns)
{
    int waiting = 0;
    close_fd(&c->pidfd); /* it would stay readable */
    close_fd(&c->in);
    pump_errors(c, now_ns);
    close_fd(&c->err);
    hear(&c->said, "\n", 1);
    if (!c->is_reaped)
        (void)kill(-c->run.leader, SIGKILL); /* the group has at least its zombie */
    if (c->out >= 0 && ioctl(c->out, FIONREAD, &waiting) == 0)
        c->rest = (size_t)waiting;
    c->give_up_ns = now_ns + CHILD_GIVE_UP;
    enter(c, SWEPT, now_ns);
}

static void reap_leader(struct child *c)
{
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_PID, (id_t)c->run.leader, &info, WEXITED | WNOHANG) < 0 || info.si_pid != 0)
        c->is_reaped = true;
    if (c->is_reaped)
        strays_end(&c->run);
}

static void gone(struct child *c, bool has_left)
{
    c->end.has_left = has_left;
    reap_leader(c);
    enter(c, GONE, INT64_MAX);
}

/* Looks for strays; over when there are none and the output is read. */
static void sweep(struct child *c, int64_t now_ns)
{
    if (!c->is_clean && now_ns >= c->next_ns) {
        c->is_clean = strays_kill(&c->run) == 0;
        c->next_ns = c->is_clean ? INT64_MAX : now_ns + SWEEP_EVERY;
    }
    bool gives_up = !c->is_clean && now_ns >= c->give_up_ns;
    if ((c->is_clean || gives_up) && c->out < 0)
        gone(c, gives_up);
}

static void kill_group(struct child *c, int64_t now_ns)
{
    (void)kill(-c->run.leader, SIGKILL); /* not reaped yet: still its number */
    enter(c, KILLED, now_ns + CHILD_GIVE_UP);
}

/* The phase's own end. */
static void advance(struct child *c, int64_t now_ns)
{
    if (c->phase == SWEPT)
        sweep(c, now_ns);
    else if (now_ns < c->next_ns)
        return;
    else if (c->phase == RUNS)
        ask(c, CHILD_TIME, now_ns);
    else if (c->phase == ASKED)
        kill_group(c, now_ns);
    else if (c->phase == KILLED)
        gone(c, true);
}

int child_pump(struct child *c, int64_t now_ns)
{
    if (c->phase == GONE)
        return 0;
    strays_reap();
    if (c->phase == RUNS) {
        pump_input(c);
        pump_errors(c, now_ns);
        pump_output(c, now_ns);
    }
    if (c->phase < SWEPT && has_ended(c, now_ns))
        after_end(c, now_ns);
    if (c->phase == SWEPT)
        pump_output(c, now_ns);
    advance(c, now_ns);
    arm(c);
    return c->phase != GONE;
}

void child_destroy(struct child *c)
{
    if (!c)
        return;
    if (c->phase == GONE && c->is_reaped) {
        release(c);
        return;
    }
    ask(c, CHILD_STOPPED, clock_mono_ns());
    close_fd(&c->out);
    arm(c);
    c->next_abandoned = abandoned;
    abandoned = c;
}

/* One step for each; frees those that have ended. How many have not. */
static size_t pump_abandoned(bool kills)
{
    size_t n = 0;
    int64_t now_ns = clock_mono_ns();
    for (struct child **at = &abandoned, *c; (c = *at);) {
        if (kills && c->phase == ASKED)
            kill_group(c, now_ns);
        if (child_pump(c, now_ns) == 0 && !c->is_reaped)
            reap_leader(c);
        if (c->phase == GONE && c->is_reaped) {
            *at = c->next_abandoned;
            release(c);
            continue;
        }
        at = &c->next_abandoned;
        n++;
    }
    return n;
}

static void wait_for_abandoned(int64_t wait_ns)
{
    enum { WAIT_MAX = 64 };
    struct pollfd fds[WAIT_MAX];
    nfds_t n = 0;
    for (struct child *c = abandoned; c && n < WAIT_MAX; c = c->next_abandoned)
        fds[n++] = (struct pollfd){.fd = c->epoll, .events = POLLIN};
    struct timespec t = {wait_ns / NS_PER_S, wait_ns % NS_PER_S};
    (void)ppoll(fds, n, &t, NULL); /* interrupted or not: we look again */
}

size_t child_settle(int64_t wait_ns)
{
    const int64_t last_ns = NS_PER_S / 2; /* for what was killed to die */
    int64_t until = wait_ns ? clock_mono_ns() + wait_ns : 0, left;
    bool kills = false;
    size_t n;
    while ((n = pump_abandoned(kills)) > 0 && wait_ns) {
        left = until - clock_mono_ns();
        if (left <= 0 && kills)
            break;
        if (left <= 0) {
            kills = true;
            until += last_ns;
            continue;
        }
        wait_for_abandoned(left);
    }
    return n;
}

static void say_limit(const struct child *c, struct strbuf *s)
{
    const struct child_options *l = &c->limits;
    switch (c->end.reason) {
    case CHILD_TIME:
        strbuf_printf(s, "killed after %gs: no end", (double)l->max_run_ns / (double)NS_PER_S);
        break;
    case CHILD_BYTES:
        strbuf_printf(s, "killed: it printed more than %llu bytes", (unsigned long long)l->max_bytes);
        break;
    case CHILD_LINES:
        strbuf_printf(s, "killed: it printed more than %llu lines", (unsigned long long)l->max_lines);
        break;
    case CHILD_BYTES_S:
        strbuf_printf(s, "killed: it printed more than %llu bytes in a second",
                      (unsigned long long)l->max_bytes_s);
        break;
    case CHILD_LINES_S:
        strbuf_printf(s, "killed: it printed more than %llu lines in a second",
                      (unsigned long long)l->max_lines_s);
        break;
    case CHILD_STOPPED:
    case CHILD_BY_ITSELF:
    default:
        strbuf_add_str(s, "stopped");
        break;
    }
}

int child_explain(const struct child *c, struct diag *why)
{
    struct strbuf s = {0};
    int code = c->end.reason == CHILD_BY_ITSELF || c->end.reason == CHILD_STOPPED ? -ECHILD
               : c->end.reason == CHILD_TIME                                      ? -ETIMEDOUT
                                                                                  : E_LIMIT;
    strbuf_printf(&s, "%s: ", c->name);
    if (c->end.reason != CHILD_BY_ITSELF)
        say_limit(c, &s);
    else if (c->end.signal)
        strbuf_printf(&s, "ended by signal %d (%s)", c->end.signal, strsignal(c->end.signal));
    else if (c->end.code < 0)
        strbuf_add_str(&s, "ended; its code is not known, somebody else waited for it");
    else
        strbuf_printf(&s, "ended with code %d", c->end.code);
    if (c->end.has_left)
        strbuf_add_str(&s, "; processes of it can't be killed and go on");
    if (c->said.last[0])
        strbuf_printf(&s, "; it said: %s", c->said.last);
    (void)diag_set(why, code, 0, "%s",
                   strbuf_failed(&s) ? err_text(code) : s.p); /* the code is returned below */
    strbuf_fini(&s);
    return code;
}
