/* SPDX-License-Identifier: Apache-2.0 */
/* On a captured tree, on trees that change, and with children of this program: by polling, and by the
 * connector where it is allowed (where not, the program says so and exits with 77 after the rest has passed).
 */
#include "unit/test.h"

#include "unit/sensor/sense.h"

#include "base/clock.h"
#include "event/level.h"
#include "sensor/proc_connector.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TREE         FIXTURES "processes"
#define OPTIONS(...) ((const char *[]){__VA_ARGS__, NULL})

extern char **environ;
static const char *self; /* this program's file */

static void check(const char *root, const char *const *options, const char *expected)
{
    struct sense s;
    assert_int_equal(sense_open(&s, "process", root, options), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, expected);
    sense_close(&s);
}

/* The captured tree. */

static void by_name(void **state)
{
    (void)state;
    check(TREE, OPTIONS("name", "sshd"),
          "process process=\"process\" pid=\"812\" alive=true state=\"S\" user=20 system=30 rss=8192000 "
          "vsize=10485760 "
          "threads=1 files=5 start_time=1700000012.0\n"
          "process process=\"process\" pid=\"901\" alive=true state=\"S\" user=1 system=2 rss=10240000 "
          "vsize=10485760 "
          "threads=1 files=4 start_time=1700000900.0\n"
          "process.group process=\"process\" count=2 unwatched=0 user=0 system=0 rss=18432000 threads=2 "
          "losses=0 "
          "watch=\"poll\"\n");
}

static void by_pattern(void **state)
{
    (void)state;
    check(TREE, OPTIONS("pattern", "*java *-Dapp=broker*"),
          "process process=\"process\" pid=\"977\" alive=true state=\"S\" user=123456 system=6543 "
          "rss=2048000000 "
          "vsize=8589934592 threads=87 files=9 start_time=1700000040.0\n"
          "process.group process=\"process\" count=1 unwatched=0 user=0 system=0 rss=2048000000 threads=87 "
          "losses=0 "
          "watch=\"poll\"\n");
}

#define NONE                                                                                          \
    "process.group process=\"process\" count=0 unwatched=0 user=0 system=0 rss=0 threads=0 losses=0 " \
    "watch=\"poll\"\n"

static void by_pidfile(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "process", TREE, OPTIONS("pidfile", "/run/broker.pid")), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_non_null(strstr(s.text.p, "pid=\"977\" alive=true"));
    sense_close(&s);
    check(TREE, OPTIONS("pidfile", "/run/stale.pid"), NONE);
    check(TREE, OPTIONS("pidfile", "/run/junk.pid"), NONE);
    check(TREE, OPTIONS("pidfile", "/run/none.pid"), NONE);
    /* A pid that has come again is told by the name. */
    check(TREE, OPTIONS("pidfile", "/run/broker.pid", "name", "nginx"), NONE);
}

static void by_pid(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "process", TREE, OPTIONS("pid", "1", "files", "no")), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_non_null(strstr(s.text.p, "pid=\"1\" alive=true state=\"S\" user=700"));
    assert_null(strstr(s.text.p, "files="));
    assert_int_equal(s.rows, 2);
    sense_close(&s);
    check(TREE, OPTIONS("pid", "4000"), NONE); /* its stat is cut */
    check(TREE, OPTIONS("pid", "4001"), NONE); /* has none */
    check(TREE, OPTIONS("pid", "3001"), NONE); /* a zombie */
}

static void names_with_tricks(void **state)
{
    (void)state;
    static const struct {
        const char *name, *pid;
    } cases[] = {{") R 1 1 (x) S (", "2040"},
                 {"two\nlines", "2041"},
                 {"gridline-a-very-long-name", "1500"},
                 {"lat\xff"
                  "1",
                  "2042"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sense s;
        char expected[64];
        assert_int_equal(sense_open(&s, "process", TREE, OPTIONS("name", cases[i].name)), 0);
        assert_int_equal(sense_run(&s), 0);
        assert_int_equal(s.rows, 2);
        (void)snprintf(expected, sizeof expected, "pid=\"%s\" alive=true state=\"S\"", cases[i].pid);
        assert_non_null(strstr(s.text.p, expected));
        sense_close(&s);
    }
}

/* A process whose first thread has ended lives on in the others. */
static void first_thread_gone(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "process", TREE, OPTIONS("name", "pthreads")), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_non_null(strstr(s.text.p, "pid=\"3003\" alive=true state=\"Z\""));
    assert_non_null(strstr(s.text.p, "threads=3"));
    sense_close(&s);
}

static void more_than_max(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "process", TREE, OPTIONS("pattern", "*", "max", "3")), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sense_run(&s), 0);
        assert_int_equal(s.rows, 4);
        assert_non_null(strstr(s.text.p, "count=10 unwatched=7"));
    }
    sense_close(&s);
}

static void bad_options(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"max", "0"},    {"max", "100000"},     {"pid", "-1"},
                                         {"watch", "it"}, {"limits", "cpu 80%"}, {"pid", "99999999999"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sense s;
        assert_int_equal(sense_open(&s, "process", TREE, OPTIONS(bad[i][0], bad[i][1])), 0);
        assert_int_equal(sense_run(&s), -EINVAL);
        assert_true(instance_stats(s.instance)->last_why[0] != '\0');
        sense_close(&s);
    }
}

static void no_tree(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "process", FIXTURES "missing", OPTIONS("name", "sshd")), 0);
    assert_int_equal(sense_run(&s), E_NODATA);
    assert_int_equal(s.rows, 0);
    sense_close(&s);
}

/* Trees that change. */

struct tree {
    char root[32];
};

static void put(const struct tree *t, unsigned pid, const char *name, const char *text, size_t n)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/proc/%u", t->root, pid);
    assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
    (void)snprintf(path, sizeof path, "%s/proc/%u/%s", t->root, pid, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

struct fake {
    const char *comm;
    char state;
    unsigned user, threads, start, rss, code;
};

static void put_process(const struct tree *t, unsigned pid, struct fake p)
{
    char text[512];
    int n = snprintf(text, sizeof text,
                     "%u (%s) %c 1 1 1 0 -1 0 0 0 0 0 %u 0 0 0 20 0 %u 0 %u 4096 %u 0 0 0 0 0 0 0 0 0 0 0 0 "
                     "0 17 0 0 0 0 0 0 "
                     "0 0 0 0 0 0 0 %u\n",
                     pid, p.comm, p.state, p.user, p.threads, p.start, p.rss, p.code);
    put(t, pid, "stat", text, (size_t)n);
    n = snprintf(text, sizeof text, "/bin/%s%c-x", p.comm, '\0');
    put(t, pid, "cmdline", text, (size_t)n + 1);
    put(t, pid, "status", "Uid:\t5\t6\t5\t5\n", 13);
}

static void drop_process(const struct tree *t, unsigned pid)
{
    static const char *const names[] = {"stat", "cmdline", "status"};
    char path[96];
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/proc/%u/%s", t->root, pid, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    (void)snprintf(path, sizeof path, "%s/proc/%u", t->root, pid);
    assert_int_equal(rmdir(path), 0);
}

static void make_tree(struct tree *t)
{
    char path[64];
    *t = (struct tree){"/tmp/gridline-process.XXXXXX"};
    assert_non_null(mkdtemp(t->root));
    (void)snprintf(path, sizeof path, "%s/proc", t->root);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void drop_tree(struct tree *t)
{
    char path[64];
    (void)snprintf(path, sizeof path, "%s/proc", t->root);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.')
            drop_process(t, (unsigned)strtoul(e->d_name, NULL, 10));
    assert_int_equal(closedir(d), 0);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(t->root), 0);
}

static void start_and_end(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    make_tree(&t);
    put_process(&t, 10, (struct fake){"job", 'S', 5, 1, 100, 1, 0});
    assert_int_equal(sense_open(&s, "process", t.root, OPTIONS("name", "job")), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_null(strstr(s.text.p, "process.start")); /* it was there before */
    put_process(&t, 11, (struct fake){"job", 'S', 7, 1, 200, 1, 0});
    assert_int_equal(sense_run(&s), 0);
    assert_non_null(strstr(
        s.text.p, "process.start process=\"process\" pid=\"11\" ppid=1 uid=6 command=\"/bin/job -x\"\n"));
    assert_non_null(
        strstr(s.text.p, "count=2 unwatched=0 user=7")); /* of the new one all of its time counts */
    drop_process(&t, 10);
    assert_int_equal(sense_run(&s), 0);
    assert_non_null(strstr(s.text.p, "process.end process=\"process\" pid=\"10\" how=\"unknown\"\n"
                                     "process process=\"process\" pid=\"10\" alive=false\n"));
    assert_non_null(strstr(s.text.p, "count=1"));
    assert_int_equal(sense_run(&s), 0);
    assert_null(strstr(s.text.p, "process.end")); /* once */
    sense_close(&s);
    drop_tree(&t);
}

static void pid_comes_again(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    make_tree(&t);
    put_process(&t, 10, (struct fake){"job", 'S', 500, 1, 100, 1, 0});
    assert_int_equal(sense_open(&s, "process", t.root, OPTIONS("name", "job")), 0);
    assert_int_equal(sense_run(&s), 0);
    put_process(&t, 10, (struct fake){"job", 'S', 3, 1, 900, 1, 0});
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(
        s.text.p,
        "process.end process=\"process\" pid=\"10\" how=\"unknown\"\n"
        "process process=\"process\" pid=\"10\" alive=false\n"
        "process.start process=\"process\" pid=\"10\" ppid=1 uid=6 command=\"/bin/job -x\"\n"
        "process process=\"process\" pid=\"10\" alive=true state=\"S\" user=3 system=0 rss=4096 vsize=4096 "
        "threads=1\n"
        "process.group process=\"process\" count=1 unwatched=0 user=3 system=0 rss=4096 threads=1 losses=0 "
        "watch=\"poll\"\n");
    put_process(&t, 10, (struct fake){"other", 'S', 3, 1, 1900, 1, 0}); /* and is another's now */
    assert_int_equal(sense_run(&s), 0);
    assert_non_null(strstr(s.text.p, "how=\"unknown\""));
    assert_non_null(strstr(s.text.p, "count=0"));
    sense_close(&s);
    drop_tree(&t);
}

static void zombie_tells_its_status(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    make_tree(&t);
    static const struct {
        unsigned code;
        const char *how;
    } cases[] = {{3 << 8, "how=\"exit\" code=3\n"},
                 {11, "how=\"signal\" signal=11 core=false\n"},
                 {0x86, "how=\"signal\" signal=6 core=true\n"},
                 {0, "how=\"unknown\"\n"}};
    assert_int_equal(sense_open(&s, "process", t.root, OPTIONS("name", "job")), 0);
    assert_int_equal(sense_run(&s), 0);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_process(&t, 20 + i, (struct fake){"job", 'S', 1, 1, 100, 1, 0});
        assert_int_equal(sense_run(&s), 0);
        assert_non_null(strstr(s.text.p, "process.start"));
        put_process(&t, 20 + i, (struct fake){"job", 'Z', 1, 1, 100, 1, cases[i].code});
        assert_int_equal(sense_run(&s), 0);
        assert_non_null(strstr(s.text.p, cases[i].how));
        assert_int_equal(sense_run(&s), 0);
        assert_int_equal(s.rows, 1); /* the zombie is not found again */
    }
    sense_close(&s);
    drop_tree(&t);
}

static void another_name(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    make_tree(&t);
    put_process(&t, 10, (struct fake){"job", 'S', 5, 1, 100, 1, 0});
    assert_int_equal(sense_open(&s, "process", t.root, OPTIONS("name", "job")), 0);
    assert_int_equal(sense_run(&s), 0);
    put_process(&t, 10, (struct fake){"other", 'S', 5, 1, 100, 1, 0});
    assert_int_equal(sense_run(&s), 0);
    assert_non_null(strstr(s.text.p, "pid=\"10\" how=\"left\"\n"));
    put_process(&t, 10, (struct fake){"job", 'S', 5, 1, 100, 1, 0});
    int runs = 0;
    do /* found again when it is its turn */
        assert_int_equal(sense_run(&s), 0);
    while (!strstr(s.text.p, "process.start") && ++runs < 16);
    assert_true(runs < 16);
    sense_close(&s);
    drop_tree(&t);
}

/* A stat that can't be read now (cut) is no data, not an end. */
static void cut_for_a_while(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    make_tree(&t);
    put_process(&t, 10, (struct fake){"job", 'S', 5, 1, 100, 1, 0});
    assert_int_equal(sense_open(&s, "process", t.root, OPTIONS("name", "job")), 0);
    assert_int_equal(sense_run(&s), 0);
    put(&t, 10, "stat", "10 (job) S 1 1", 14);
    assert_int_equal(sense_run(&s), 0);
    assert_int_equal(s.rows, 1);
    assert_non_null(strstr(s.text.p, "count=1"));
    put_process(&t, 10, (struct fake){"job", 'S', 9, 1, 100, 1, 0});
    assert_int_equal(sense_run(&s), 0);
    assert_non_null(strstr(s.text.p, "alive=true state=\"S\" user=9"));
    assert_null(strstr(s.text.p, "process.start"));
    sense_close(&s);
    drop_tree(&t);
}

static int64_t fake_now;
static int64_t fake_clock(void)
{
    return fake_now;
}

/* 30 s at 50 %, then at 100 %: over when the average passes 80, back below 72. */
static void cpu_limit(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    unsigned ticks = 1000;
    int over_at = -1, back_at = -1;
    make_tree(&t);
    put_process(&t, 10, (struct fake){"job", 'R', ticks, 1, 100, 1, 0});
    assert_int_equal(sense_open(&s, "process", t.root, OPTIONS("name", "job", "limits", "cpu 80% 30s")), 0);
    s.env.mono_ns = fake_clock;
    for (int second = 0; second < 200; second++) {
        fake_now = (1000 + second) * NS_PER_S;
        assert_int_equal(sense_run(&s), 0);
        if (strstr(s.text.p, "process.limit")) {
            bool is_over = strstr(s.text.p, "state=\"over\"") != NULL;
            assert_non_null(
                strstr(s.text.p, "process.limit process=\"process\" pid=\"10\" what=\"cpu\" value="));
            assert_non_null(strstr(s.text.p, "limit=80.0 window=30.0 state="));
            assert_true(is_over ? over_at < 0 : over_at >= 0 && back_at < 0);
            *(is_over ? &over_at : &back_at) = second;
        }
        ticks += second >= 60 && second < 100 ? 100 : 50;
        put_process(&t, 10, (struct fake){"job", 'R', ticks, 1, 100, 1, 0});
    }
    assert_int_equal(over_at, 79);  /* 50 + 50 k/30 > 80: k > 18 */
    assert_int_equal(back_at, 117); /* 100 - 50 k/30 < 72: k > 16.8 */
    sense_close(&s);
    drop_tree(&t);
}

static void rss_limit(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    make_tree(&t);
    put_process(&t, 10, (struct fake){"job", 'S', 0, 1, 100, 1000, 0});
    assert_int_equal(sense_open(&s, "process", t.root, OPTIONS("name", "job", "limits", "rss 1MiB 10s")), 0);
    s.env.mono_ns = fake_clock;
    for (int second = 0; second <= 10; second += 2) {
        fake_now = (1000 + second) * NS_PER_S;
        assert_int_equal(sense_run(&s), 0);
        assert_true((strstr(s.text.p, "process.limit") != NULL) == (second == 10));
    }
    assert_non_null(
        strstr(s.text.p, "what=\"rss\" value=4096000.0 limit=1048576.0 window=10.0 state=\"over\"\n"));
    sense_close(&s);
    drop_tree(&t);
}

/* Live: children of this program. */

struct child {
    pid_t pid;
    int hold;      /* what it is to do is written here */
    char mark[32]; /* an argument of its own */
};

static void *forever(void *arg)
{
    while (pause() < 0)
        continue;
    return arg;
}

/* What a child does: reads one byte, and ends as it says. */
static int child_main(void)
{
    char c = 0;
    pthread_t t;
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    (void)signal(SIGSEGV, SIG_DFL); /* a sanitizer's runtime has it else */
    if (read(0, &c, 1) != 1)
        return 99;
    switch (c) {
    case '3':
        return 3;
    case 's':
        (void)raise(SIGSEGV);
        return 98;
    case 'f': /* a child of its own, which does not run another program */
        if (fork() == 0)
            _exit(read(0, &c, 1) == 1 ? 5 : 97);
        return wait(NULL) > 0 ? 0 : 96;
    case 't': /* other threads are there when it ends */
        for (int i = 0; i < 4; i++)
            if (pthread_create(&t, NULL, forever, NULL) != 0)
                return 95;
        exit(4);
    default:
        return 0;
    }
}

static struct child spawn(void)
{
    static unsigned count;
    struct child c = {0};
    int ends[2];
    posix_spawn_file_actions_t actions;
    (void)snprintf(c.mark, sizeof c.mark, "--child-%d-%u", getpid(), count++);
    char *argv[] = {(char *)(uintptr_t)self, c.mark, NULL};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, ends[0], 0), 0);
    assert_int_equal(posix_spawn(&c.pid, self, &actions, NULL, argv, environ), 0);
    assert_int_equal(posix_spawn_file_actions_destroy(&actions), 0);
    assert_int_equal(close(ends[0]), 0);
    c.hold = ends[1];
    return c;
}

static void tell(const struct child *c, const char *what)
{
    assert_int_equal(write(c->hold, what, strlen(what)), strlen(what));
}

static void reap(struct child *c)
{
    assert_int_equal(waitpid(c->pid, NULL, 0), c->pid);
    assert_int_equal(close(c->hold), 0);
}

static void open_live(struct sense *s, const char *watch, const char *pattern)
{
    assert_int_equal(sense_open(s, "process", "", OPTIONS("pattern", pattern, "watch", watch)), 0);
    assert_int_equal(sense_run(s), 0);
    strbuf_reset(&s->text);
}

/* Runs the sensor until its rows have the text: when the kernel tells, or again and again where it polls. */
static void wait_for(struct sense *s, const char *text)
{
    for (int64_t until = clock_mono_ns() + 60 * NS_PER_S; clock_mono_ns() < until;) {
        if (s->text.n && strstr(s->text.p, text))
            return;
        struct pollfd fd = {instance_wait_fd(s->instance), POLLIN, 0};
        bool is_ready = poll(&fd, fd.fd >= 0, 20) > 0;
        env_next_round(&s->env);
        assert_int_equal(instance_sample(s->instance, &s->out, !is_ready, NS_PER_S), 0);
    }
    print_error("%s is not in:\n%s", text, s->text.n ? s->text.p : "");
    fail();
}

static void wait_for_end(struct sense *s, const struct child *c, const char *how)
{
    char text[128];
    (void)snprintf(text, sizeof text, "process.end process=\"process\" pid=\"%d\" how=%s\n", c->pid, how);
    wait_for(s, text);
}

static void wait_for_start(struct sense *s, const struct child *c)
{
    char text[128];
    (void)snprintf(text, sizeof text,
                   "process.start process=\"process\" pid=\"%d\" ppid=%d uid=%d command=\"%s %s\"\n", c->pid,
                   getpid(), geteuid(), self, c->mark);
    wait_for(s, text);
}

static char *own_pattern(void)
{
    static char pattern[64];
    (void)snprintf(pattern, sizeof pattern, "*--child-%d-*", getpid());
    return pattern;
}

static void polled_life(void **state)
{
    (void)state;
    struct sense s;
    open_live(&s, "poll", own_pattern());
    assert_int_equal(instance_wait_fd(s.instance), -1);
    struct child c = spawn();
    wait_for_start(&s, &c);
    tell(&c, "3");
    reap(&c);
    wait_for_end(&s, &c, "\"unknown\"");
    sense_close(&s);
}

/* The test is its parent and has not asked for it yet: it is a zombie, which says how it ended. */
static void polled_zombie(void **state)
{
    (void)state;
    struct sense s;
    open_live(&s, "poll", own_pattern());
    struct child c = spawn();
    wait_for_start(&s, &c);
    tell(&c, "3");
    wait_for_end(&s, &c, "\"exit\" code=3");
    reap(&c);
    sense_close(&s);
}

static void by_the_connector(void **state)
{
    (void)state;
    struct sense s;
    open_live(&s, "connector", own_pattern());
    assert_true(instance_wait_fd(s.instance) >= 0);
    static const struct {
        const char *what, *how;
    } cases[] = {{"0", "\"normal\" code=0"},
                 {"3", "\"exit\" code=3"},
                 {"s", "\"signal\" signal=11 core=false"},
                 {"t", "\"exit\" code=4"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        strbuf_reset(&s.text);
        struct child c = spawn();
        wait_for_start(&s, &c);
        tell(&c, cases[i].what);
        reap(&c);
        wait_for_end(&s, &c, cases[i].how);
    }
    sense_close(&s);
}

/* Which level an event has. */
static uint8_t last_end_level;
static void note_level(struct sensor_out *out, unsigned schema, int64_t time_ns, uint8_t level,
                       const struct value *values)
{
    if (strcmp(sensor_find(SLICE_LIT("process"))->schemas[schema].name, "process.end") == 0)
        last_end_level = level;
    int64_t now = clock_utc_ns();
    assert_true(time_ns <= now && time_ns > now - 60 * NS_PER_S);
    sense_row(out, schema, time_ns, level, values);
}

static void levels_and_times(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "process", "", OPTIONS("pattern", own_pattern(), "watch", "connector")),
                     0);
    s.out.row = note_level;
    assert_int_equal(sense_run(&s), 0);
    struct child c = spawn();
    wait_for_start(&s, &c);
    tell(&c, "0");
    reap(&c);
    wait_for_end(&s, &c, "\"normal\" code=0");
    assert_int_equal(last_end_level, LEVEL_INFO);
    c = spawn();
    wait_for_start(&s, &c);
    tell(&c, "s");
    reap(&c);
    wait_for_end(&s, &c, "\"signal\" signal=11 core=false");
    assert_int_equal(last_end_level, LEVEL_ERROR);
    sense_close(&s);
}

/* A fork without an exec has its parent's command line, so it is chosen, too. */
static void forked_child(void **state)
{
    (void)state;
    struct sense s;
    char text[64];
    open_live(&s, "connector", own_pattern());
    struct child c = spawn();
    wait_for_start(&s, &c);
    tell(&c, "f");
    (void)snprintf(text, sizeof text, "ppid=%d uid=%d command=", c.pid, geteuid());
    wait_for(&s, text);
    tell(&c, "x");
    wait_for(&s, "how=\"exit\" code=5\n");
    reap(&c);
    wait_for_end(&s, &c, "\"normal\" code=0");
    sense_close(&s);
}

/* A shell that is watched: its commands are forks of it for a moment, and are not told. */
static void commands_of_a_shell(void **state)
{
    (void)state;
    struct sense s;
    char pattern[64], script[128];
    (void)snprintf(pattern, sizeof pattern, "*shell-%d*", getpid());
    (void)snprintf(script, sizeof script, "/bin/true shell; /bin/true; exit 6 # shell-%d", getpid());
    open_live(&s, "connector", pattern);
    char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", script, NULL};
    pid_t pid;
    assert_int_equal(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    struct child c = {.pid = pid};
    /* The shell itself may be gone before it was looked at; if it was seen, so was its end. */
    for (int i = 0; i < 3; i++) {
        env_next_round(&s.env);
        assert_int_equal(instance_sample(s.instance, &s.out, i > 0, NS_PER_S), 0);
    }
    if (strstr(s.text.p, "process.start"))
        wait_for_end(&s, &c, "\"exit\" code=6");
    size_t starts = 0;
    for (const char *p = s.text.p; (p = strstr(p, "process.start")); p++)
        starts++;
    assert_true(starts <= 1);
    sense_close(&s);
}

/* Where very much is started it reads at the period, and at once again when that is over. */
static void busy_host(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "process", "", OPTIONS("pattern", own_pattern(), "watch", "connector")),
                     0);
    s.env.mono_ns = fake_clock;
    for (int second = 1; second <= 2; second++) {
        fake_now = second * NS_PER_S;
        assert_int_equal(sense_run(&s), 0);
    }
    assert_true(instance_wait_fd(s.instance) >= 0);
    fake_now += NS_PER_S / 2;
    int starts = 0;
    for (; starts < 1000 && instance_wait_fd(s.instance) >= 0; starts++) {
        pid_t pid = vfork();
        if (pid == 0)
            _exit(0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(instance_sample(s.instance, &s.out, false, NS_PER_S), 0);
    }
    assert_true(starts > 50 && starts < 1000);
    fake_now += NS_PER_S / 2;
    assert_int_equal(sense_run(&s), 0);
    int quiet = 0;
    for (; quiet < 100 && instance_wait_fd(s.instance) < 0; quiet++) {
        fake_now += 100 * NS_PER_S; /* whatever else this host does meanwhile is little for so long */
        assert_int_equal(sense_run(&s), 0);
    }
    assert_true(quiet < 100);
    assert_non_null(strstr(s.text.p, "losses=0"));
    sense_close(&s);
}

/* Without any choice it is the instance's name. */
static void named_after_itself(void **state)
{
    (void)state;
    struct sense s = {.out = {.row = sense_row, .event = sense_event, .mark = sense_mark}};
    struct diag why = {0};
    env_init(&s.env, TREE);
    assert_int_equal(
        instance_create(sensor_find(SLICE_LIT("process")), "sshd", NULL, 0, &s.env, &s.instance, &why), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_non_null(strstr(s.text.p, "process process=\"sshd\" pid=\"812\""));
    assert_non_null(strstr(s.text.p, "process.group process=\"sshd\" count=2"));
    sense_close(&s);
}

int main(int argc, char **argv)
{
    static char path[4096];
    if (argc > 1 && strncmp(argv[1], "--child-", 8) == 0)
        return child_main();
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0)
        return 1;
    path[n] = '\0';
    self = path;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_name),           cmocka_unit_test(by_pattern),
        cmocka_unit_test(by_pidfile),        cmocka_unit_test(by_pid),
        cmocka_unit_test(names_with_tricks), cmocka_unit_test(first_thread_gone),
        cmocka_unit_test(more_than_max),     cmocka_unit_test(bad_options),
        cmocka_unit_test(no_tree),           cmocka_unit_test(named_after_itself),
        cmocka_unit_test(start_and_end),     cmocka_unit_test(pid_comes_again),
        cmocka_unit_test(another_name),      cmocka_unit_test(zombie_tells_its_status),
        cmocka_unit_test(cut_for_a_while),   cmocka_unit_test(cpu_limit),
        cmocka_unit_test(rss_limit),         cmocka_unit_test(polled_life),
        cmocka_unit_test(polled_zombie),
    };
    const struct CMUnitTest connector_tests[] = {
        cmocka_unit_test(by_the_connector), cmocka_unit_test(levels_and_times),
        cmocka_unit_test(forked_child),     cmocka_unit_test(commands_of_a_shell),
        cmocka_unit_test(busy_host),
    };
    int r = cmocka_run_group_tests_name("process", tests, NULL, NULL);
    struct proc_connector *c = NULL;
    struct diag why = {0};
    if (r != 0)
        return r;
    if (proc_connector_open(&c, &why) < 0) {
        (void)fprintf(stderr, "the connector's tests are skipped: %s\n", why.message);
        return 77;
    }
    proc_connector_close(c);
    return cmocka_run_group_tests_name("connector", connector_tests, NULL, NULL);
}
