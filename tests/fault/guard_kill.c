/* SPDX-License-Identifier: Apache-2.0 */
/* kill -9 of whoever runs actions, at any point. A child process gives orders and runs them (action_bench.h:
 * real state, audit, actions, and real processes that append to a file); it is killed
 *
 *   - before and after each call to the disk that it makes, one run for each (every commit point), and
 *   - at random moments, again and again with what the earlier ones have left.
 *
 * Then one runs to the end, and what the processes wrote, the audit, and what the killed ones have said are
 * compared: no order that was committed is lost, none is invented; with `repeat` each ran, and at most
 * `attempts` times; with `forget` at most once, and one that did not run to its known end is told as unknown.
 * The audit verifies, and no process is left.
 *
 *     fault_guard_kill [KILLS]     random ones of each policy; 100 without */
#include "unit/guard/action_bench.h"

#include "base/num.h"
#include "fault/folder.h"
#include "guard/audit_line.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { FAULTS_MAX = 65536, ATTEMPTS = 4, LIMIT_MS = 60000 };

static unsigned kills = 100;

/* What is known of each fault, which is one order. */
struct fate {
    bool is_tried, is_given; /* it was about to be given; it was committed */
    unsigned runs;
    unsigned starts, done, unknown, last; /* in the audit */
};

struct trial {
    struct bench *bench;
    enum after_crash policy;
    int said; /* a file: what the child has done, as it does it */
    struct fate *fates;
    uint64_t next_fault;
    unsigned deaths;
};

/* ---------------------------------------------------------------- the child */

/* It dies before (odd) or after (even) the n-th half call. */
static uint64_t calls, die_at;

static void maybe_die(void)
{
    if (++calls == die_at)
        (void)kill(getpid(), SIGKILL);
}

static ssize_t dying_pwrite(void *ctx, int fd, const void *from, size_t n, uint64_t offset)
{
    maybe_die();
    ssize_t r = journal_io_libc.pwrite(ctx, fd, from, n, offset);
    maybe_die();
    return r;
}

/* In the place of libc's: of the journal and of the audit. */
int fdatasync(int fd)
{
    maybe_die();
    long r = syscall(SYS_fdatasync, fd);
    maybe_die();
    return (int)r;
}

static int dying_rename(void *ctx, int dir, const char *from, const char *to)
{
    maybe_die();
    int r = journal_io_libc.rename(ctx, dir, from, to);
    maybe_die();
    return r;
}

static void say(int fd, char what, uint64_t fault)
{
    char line[32];
    int n = snprintf(line, sizeof line, "%c %llu\n", what, (unsigned long long)fault);
    if (write(fd, line, (size_t)n) != n)
        _exit(9);
}

static void on_end(void *arg, const struct action_end *e)
{
    (void)arg, (void)e; /* what counts is in the audit */
    maybe_die();
}

static void on_time(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    actions_turn(arg, clock_utc_ns());
}

/* Gives n orders from first on, runs, and ends when nothing is left to do. */
static void drive(struct trial *t, uint64_t first, unsigned n)
{
    struct bench *b = t->bench;
    struct action_counts c;
    const struct timeval every = {0, 1000};
    b->on_end = on_end;
    b->base = event_base_new();
    bench_open(b);
    struct event *timer = event_new(b->base, -1, EV_PERSIST, on_time, b->actions);
    (void)event_add(timer, &every);
    for (unsigned i = 0; i < n; i++) {
        b->faults = first + i - 1;
        say(t->said, 'T', first + i);
        (void)bench_give(b); /* the queue is long enough */
        if (i % 3 == 2 || i + 1 == n) {
            if (state_commit(b->state) < 0)
                _exit(8);
            for (uint64_t k = first + i - i % 3; k <= first + i; k++)
                say(t->said, 'G', k);
        }
        actions_turn(b->actions, clock_utc_ns());
    }
    do {
        (void)event_base_loop(b->base, EVLOOP_ONCE);
        actions_count(b->actions, 0, &c);
    } while (c.waiting || c.running);
    maybe_die();
    _exit(0);
}

/* ---------------------------------------------------------------- the parent */

static pid_t start(struct trial *t, unsigned n)
{
    uint64_t first = t->next_fault;
    t->next_fault += n;
    assert_true(t->next_fault < FAULTS_MAX);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        drive(t, first, n);
    return pid;
}

/* Waits for it, and for everything that it has left: orphans come to us. True: it was killed. */
static bool reap(pid_t pid)
{
    bool was_killed = false;
    for (unsigned ms = 0;; ms++) {
        int status;
        pid_t got = waitpid(-1, &status, WNOHANG);
        if (got < 0 && errno == ECHILD)
            return was_killed;
        if (got == pid) {
            was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
            if (!was_killed && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
                fail_msg("the child ended with status %x", (unsigned)status);
        }
        if (got == 0) {
            if (ms > LIMIT_MS)
                fail_msg("a process is left");
            (void)usleep(1000);
        }
    }
}

static struct trial begin(enum after_crash policy)
{
    struct trial t = {.policy = policy, .next_fault = 1};
    t.fates = calloc(FAULTS_MAX, sizeof *t.fates);
    struct bench *b = t.bench = calloc(1, sizeof *b);
    assert_true(t.fates && b);
    char path[FOLDER_PATH], said[FOLDER_PATH + 8];
    folder_make(path);
    (void)snprintf(b->dir, sizeof b->dir, "%.60s", path);
    bench_init(b);
    event_base_free(b->base); /* each child has its own */
    b->base = NULL;
    b->action.after_crash = policy;
    b->action.attempts = ATTEMPTS;
    b->action.retry_ns = b->action.retry_max_ns = 1000000;
    b->action.queue = 10000;
    b->action.rate_count = 0;
    b->show_texts[0] = "fault";
    b->settings[2].n = 1;
    b->io.pwrite = dying_pwrite;
    b->io.rename = dying_rename;
    (void)snprintf(said, sizeof said, "%s/said", b->dir);
    t.said = open(said, O_RDWR | O_APPEND | O_CREAT, 0600);
    assert_true(t.said >= 0);
    return t;
}

static struct fate *fate_of(struct trial *t, uint64_t fault)
{
    assert_in_range(fault, 1, FAULTS_MAX - 1);
    return &t->fates[fault];
}

static void read_said(struct trial *t)
{
    char what;
    unsigned long long fault;
    FILE *f = fdopen(dup(t->said), "r");
    assert_non_null(f);
    rewind(f);
    while (fscanf(f, "%c %llu\n", &what, &fault) == 2) {
        fate_of(t, fault)->is_tried |= what == 'T';
        fate_of(t, fault)->is_given |= what == 'G';
    }
    (void)fclose(f);
}

/* Each line of the probe: name, tab, the fault's id in hexadecimal of its 16 characters. */
static void read_runs(struct trial *t)
{
    struct strbuf log = bench_log(t->bench);
    for (const char *p = log.p; p && *p; p = strchr(p, '\n') + 1) {
        const char *hex = strchr(p, '\t');
        char text[17] = {0};
        assert_non_null(hex);
        for (unsigned i = 0; i < 16; i++) {
            unsigned v;
            assert_int_equal(sscanf(hex + 1 + 2 * i, "%2x", &v), 1);
            text[i] = (char)v;
        }
        fate_of(t, strtoull(text, NULL, 16))->runs++;
    }
    strbuf_fini(&log);
}

static int read_line(void *arg, const struct audit_line *l)
{
    struct trial *t = arg;
    struct strbuf value = {0};
    struct slice name;
    struct fate *f = NULL;
    bool is_done = false, is_unknown = false, is_last = false;
    for (size_t at = 0; audit_line_datum(l, &at, &name, &value) > 0;) {
        if (slice_eq_str(name, "fault"))
            f = fate_of(t, strtoull(value.p, NULL, 16));
        is_done |= slice_eq_str(name, "result") && slice_eq_str(strbuf_slice(&value), "done");
        is_unknown |= slice_eq_str(name, "result") && slice_eq_str(strbuf_slice(&value), "unknown");
        is_last |= slice_eq_str(name, "last") && slice_eq_str(strbuf_slice(&value), "yes");
    }
    strbuf_fini(&value);
    if (!f)
        return 0; /* the audit's own */
    f->starts += slice_eq_str(l->what, "action.start");
    f->done += is_done;
    f->unknown += is_unknown;
    f->last += is_last;
    return 0;
}

static const char *what_is_wrong(const struct trial *t, const struct fate *f)
{
    const unsigned most = t->policy == CRASH_REPEAT ? ATTEMPTS : 1;
    if (!f->is_tried && (f->runs || f->starts || f->last))
        return "was invented";
    if (f->runs > most)
        return "ran too often";
    if (f->runs > f->starts)
        return "ran without a start in the audit";
    if (f->done && f->runs == 0)
        return "is done and never ran";
    if (f->is_given && f->last == 0)
        return "was forgotten";
    if (f->is_given && f->done == 0 && f->unknown == 0)
        return "has an end that is not known to be one";
    return NULL;
}

static void check_fate(const struct trial *t, uint64_t fault, const struct fate *f)
{
    const char *wrong = what_is_wrong(t, f);
    if (wrong)
        fail_msg("fault %llu %s: tried %d, given %d, runs %u, starts %u, done %u, unknown %u, last %u",
                 (unsigned long long)fault, wrong, f->is_tried, f->is_given, f->runs, f->starts, f->done,
                 f->unknown, f->last);
}

struct sums {
    unsigned given, runs, repeated, done, unknown, unstarted;
};

/* Runs what is left to its end, and compares. */
static struct sums finish(struct trial *t)
{
    struct sums s = {0};
    struct audit_result result;
    struct diag why = {0};
    die_at = 0;
    assert_false(reap(start(t, 0)));
    if (audit_verify(t->bench->audit_dir, &result, &why) < 0)
        fail_msg("%s", why.message);
    const uint64_t lines = result.lines;
    assert_false(reap(start(t, 0))); /* once more: what is over is over */
    assert_int_equal(audit_verify(t->bench->audit_dir, &result, &why), 0);
    assert_int_equal(result.lines, lines);
    read_said(t);
    read_runs(t);
    assert_int_equal(audit_each(t->bench->audit_dir, read_line, t, NULL), 0);
    for (uint64_t i = 1; i < t->next_fault; i++) {
        const struct fate *f = &t->fates[i];
        check_fate(t, i, f);
        s.given += f->is_given;
        s.runs += f->runs;
        s.repeated += f->runs > 1;
        s.done += f->done > 0;
        s.unknown += f->unknown > 0;
        s.unstarted += f->is_given && f->starts == 0;
    }
    (void)close(t->said);
    folder_remove(t->bench->dir);
    free(t->bench);
    free(t->fates);
    return s;
}

static void print_sums(const char *what, enum after_crash policy, unsigned deaths, const struct sums *s)
{
    print_message(
        "%s, %s: %u kills, %u orders: %u runs, %u ran again, %u done, %u unknown, %u of which never "
        "began\n",
        what, policy == CRASH_REPEAT ? "repeat" : "forget", deaths, s->given, s->runs, s->repeated, s->done,
        s->unknown, s->unstarted);
}

/* Every commit point: a fresh state each time, and one kill, before or after the n-th call. */
static void sweep(enum after_crash policy)
{
    struct sums all = {0};
    unsigned deaths = 0;
    for (bool is_over = false; !is_over;) {
        struct trial t = begin(policy);
        die_at = ++deaths;
        is_over = !reap(start(&t, 3));
        struct sums s = finish(&t);
        if (policy == CRASH_REPEAT) /* one kill: there are attempts left */
            assert_int_equal(s.unknown, 0);
        all.given += s.given;
        all.runs += s.runs;
        all.repeated += s.repeated;
        all.done += s.done;
        all.unknown += s.unknown;
        all.unstarted += s.unstarted;
    }
    print_sums("each point", policy, deaths - 1, &all);
    assert_true(deaths > 20);
    assert_true(policy == CRASH_REPEAT ? all.repeated > 0 : all.unknown > 0);
}

/* Random moments, one after the other over one state, of a time that is as long as a run takes here. */
static void storm(enum after_crash policy)
{
    struct trial t = begin(policy);
    uint64_t seed = (uint64_t)policy + 11;
    die_at = 0;
    const int64_t from_ns = clock_mono_ns();
    assert_false(reap(start(&t, 4)));
    const uint64_t whole_us = (uint64_t)(clock_mono_ns() - from_ns) / 1000 + 1;
    while (t.deaths < kills) {
        const bool is_new = test_random(&seed) % 3 == 0; /* else the same ones are hit again */
        pid_t pid = start(&t, is_new ? (unsigned)(test_random(&seed) % 8) : 0);
        (void)usleep((useconds_t)(test_random(&seed) % (is_new ? 2 * whole_us : whole_us)));
        (void)kill(pid, SIGKILL);
        t.deaths += reap(pid);
    }
    struct sums s = finish(&t);
    print_sums("random", policy, t.deaths, &s);
    assert_true(s.given > 0 && s.done > 0);
    assert_true(policy == CRASH_REPEAT ? s.repeated > 0 : s.unknown > 0);
}

static void test_each_point_repeat(void **state)
{
    (void)state;
    sweep(CRASH_REPEAT);
}

static void test_each_point_forget(void **state)
{
    (void)state;
    sweep(CRASH_FORGET);
}

static void test_random_repeat(void **state)
{
    (void)state;
    storm(CRASH_REPEAT);
}

static void test_random_forget(void **state)
{
    (void)state;
    storm(CRASH_FORGET);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_point_repeat),
        cmocka_unit_test(test_each_point_forget),
        cmocka_unit_test(test_random_repeat),
        cmocka_unit_test(test_random_forget),
    };
    kills *= test_scale();
    if (argc > 1)
        kills = (unsigned)strtoul(argv[1], NULL, 10);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) {
        (void)fprintf(stderr, "orphans can't be adopted here\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
