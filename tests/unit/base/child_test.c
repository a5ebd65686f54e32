/* SPDX-License-Identifier: Apache-2.0 */
/* Real programs, most of them one line of sh. Every one carries a mark in its arguments that no other process
 * has, so that /proc can be asked what is left of it. Waits for conditions, at most LIMIT. */
#include "unit/test.h"

#include "base/strbuf.h"
#include "base/child.h"
#include "base/strays.h"
#include "unit/sensor/processes.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char mark[64];      /* in the arguments of everything that a test starts */
static struct strbuf text; /* what the program printed */

/* Runs sh -c SCRIPT MARK to its end. Options but for argv are the caller's. */
static struct child *begin(struct child_options o, const char *script)
{
    struct child *c;
    struct diag why = {0};
    static unsigned number;
    (void)snprintf(mark, sizeof mark, "gridline-child-test-%d-%u", (int)getpid(), ++number);
    const char *argv[] = {"/bin/sh", "-c", script, mark, NULL};
    o.argv = argv;
    strbuf_reset(&text);
    assert_int_equal(child_start(&o, clock_mono_ns(), &c, &why), 0);
    return c;
}

static bool pump(struct child *c)
{
    int r = child_pump(c, clock_mono_ns());
    strbuf_add_slice(&text, child_output(c));
    child_consume(c, child_output(c).n);
    return r;
}

static const struct child_end *finish(struct child *c)
{
    int64_t until = clock_mono_ns() + LIMIT;
    while (pump(c)) {
        struct pollfd p = {.fd = child_wait_fd(c), .events = POLLIN};
        assert_true(clock_mono_ns() < until);
        assert_int_not_equal(poll(&p, 1, (int)(LIMIT / 1000000)), 0);
    }
    return child_end(c);
}

static const char *explain(struct child *c)
{
    static struct diag why;
    assert_true(child_explain(c, &why) < 0);
    return why.message;
}

static void output_and_code(void **state)
{
    (void)state;
    struct child *c = begin((struct child_options){0}, "echo one; echo two; echo oops >&2; exit 3");
    const struct child_end *end = finish(c);
    assert_string_equal(text.p, "one\ntwo\n");
    assert_int_equal(end->reason, CHILD_BY_ITSELF);
    assert_int_equal(end->code, 3);
    assert_int_equal(end->signal, 0);
    assert_string_equal(explain(c), "sh: ended with code 3; it said: oops");
    child_destroy(c);
    assert_int_equal(child_settle(0), 0);
}

/* Nothing of ours reaches it: descriptors, ignored signals, blocked signals, the session. */
static void a_clean_start(void **state)
{
    (void)state;
    sigset_t set, before;
    int leak = open("/dev/null", O_RDONLY); /* without O_CLOEXEC */
    assert_true(leak >= 0 && sigemptyset(&set) == 0 && sigaddset(&set, SIGUSR1) == 0);
    assert_int_equal(sigprocmask(SIG_BLOCK, &set, &before), 0);
    assert_ptr_not_equal(signal(SIGPIPE, SIG_IGN), SIG_ERR);
    struct child *c =
        begin((struct child_options){0},
              "ls /proc/self/fd | wc -l; grep -E 'SigBlk|SigIgn' /proc/self/status; "
              "cut -d' ' -f5,6 /proc/$$/stat | grep -q \"^$$ $$\\$\" && echo own session; echo $PPID");
    (void)finish(c);
    char expected[300];
    (void)snprintf(expected, sizeof expected,
                   "4\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nown session\n%d\n",
                   (int)getpid());
    assert_string_equal(text.p, expected); /* 0, 1, 2 and the one that ls itself opened */
    child_destroy(c);
    assert_ptr_not_equal(signal(SIGPIPE, SIG_DFL), SIG_ERR);
    assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
    (void)close(leak);
}

static void what_can_not_be_started(void **state)
{
    (void)state;
    struct child *c = NULL;
    struct diag why = {0};
    const struct {
        const char *program;
        int code;
        const char *message;
    } cases[] = {
        {"/no/such/program", -ENOENT, "/no/such/program: can't be started: No such file or directory"},
        {"no-such-program-in-path", -ENOENT, "no-such-program-in-path: not found in PATH"},
        {"/etc", -EACCES, "/etc: can't be started: Permission denied"},
        {"", -EINVAL, "no program is named"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *argv[] = {cases[i].program, NULL};
        struct child_options o = {.argv = argv};
        assert_int_equal(child_start(&o, clock_mono_ns(), &c, &why), cases[i].code);
        assert_string_equal(why.message, cases[i].message);
    }
    assert_null(c);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie either */
    assert_int_equal(errno, ECHILD);
}

/* Found in PATH, and a script without #! is not given to a shell. */
static void a_path_and_no_shell(void **state)
{
    (void)state;
    struct child *c;
    struct diag why = {0};
    const char *argv[] = {"echo", "$HOME", NULL};
    struct child_options o = {.argv = argv};
    strbuf_reset(&text);
    assert_int_equal(child_start(&o, clock_mono_ns(), &c, &why), 0);
    (void)finish(c);
    assert_string_equal(text.p, "$HOME\n");
    child_destroy(c);

    char script[] = "/tmp/gridline-child.XXXXXX";
    int fd = mkostemp(script, O_CLOEXEC);
    assert_true(fd >= 0 && write(fd, "echo hello\n", 11) == 11 && fchmod(fd, 0700) == 0 && close(fd) == 0);
    argv[0] = script;
    assert_int_equal(child_start(&o, clock_mono_ns(), &c, &why), -ENOEXEC);
    assert_int_equal(unlink(script), 0);
}

/* More than the socket holds, and cat ends when it has it all. */
static void an_end_of_input(void **state)
{
    (void)state;
    static char big[1 << 20];
    memset(big, 'x', sizeof big);
    struct child *c = begin((struct child_options){.has_input = true}, "cat | wc -c; cat; echo end");
    assert_int_equal(child_write(c, slice_of(big, sizeof big)), 0);
    child_end_input(c);
    assert_int_equal(finish(c)->code, 0);
    assert_string_equal(text.p, "1048576\nend\n");
    child_destroy(c);
    c = begin((struct child_options){.has_input = true}, "cat; echo nothing came");
    child_end_input(c);
    (void)finish(c);
    assert_string_equal(text.p, "nothing came\n");
    assert_int_equal(child_write(c, SLICE_LIT("x")), -EPIPE);
    child_destroy(c);
}

static void an_environment_of_its_own(void **state)
{
    (void)state;
    assert_int_equal(setenv("GRIDLINE_TEST_OURS", "1", 1), 0);
    struct child *c =
        begin((struct child_options){.env_is_all = true,
                                     .env = (const char *[]){"A=1", "PATH=/bin:/usr/bin", NULL}},
              "tr '\\0' '\\n' </proc/$$/environ | sed 's/^GRIDLINE_CHILD=.*/MARK/'");
    (void)finish(c);
    assert_string_equal(text.p, "MARK\nA=1\nPATH=/bin:/usr/bin\n");
    child_destroy(c);
    assert_int_equal(unsetenv("GRIDLINE_TEST_OURS"), 0);
}

static void input_and_environment(void **state)
{
    (void)state;
    static char large[300 << 10]; /* more than any socket takes at once */
    assert_int_equal(setenv("NAME", "another value", 1), 0);
    struct child *c =
        begin((struct child_options){.has_input = true, .env = (const char *[]){"NAME=value", NULL}},
              "echo $NAME; env | grep -c ^NAME=; head -c 307200 | wc -c");
    memset(large, 'x', sizeof large);
    assert_int_equal(child_write(c, slice_of(large, sizeof large)), 0);
    assert_int_equal(finish(c)->code, 0);
    assert_string_equal(text.p, "value\n1\n307200\n");
    assert_int_equal(child_write(c, SLICE_LIT("more")), -EPIPE);
    child_destroy(c);
}

static void one_that_does_not_read(void **state)
{
    (void)state;
    static char large[1 << 20];
    struct child *c = begin((struct child_options){.has_input = true}, "exec <&-; echo closed; sleep 1000");
    while (text.n == 0) {
        struct pollfd p = {.fd = child_wait_fd(c), .events = POLLIN};
        (void)poll(&p, 1, 1000);
        assert_true(pump(c));
    }
    assert_int_equal(child_write(c, slice_of(large, sizeof large)), -EPIPE); /* and no SIGPIPE */
    child_stop(c, clock_mono_ns());
    (void)finish(c);
    child_destroy(c);
}

static void a_hang(void **state)
{
    (void)state;
    struct child *c = begin((struct child_options){.max_run_ns = NS_PER_S / 10}, "echo before; sleep 1000");
    const struct child_end *end = finish(c);
    assert_int_equal(end->reason, CHILD_TIME);
    assert_int_equal(end->signal, SIGTERM);
    assert_true(end->ran_ns >= NS_PER_S / 10);
    assert_string_equal(text.p, "before\n");
    assert_string_equal(explain(c), "sh: killed after 0.1s: no end");
    assert_int_equal(processes_alive(mark), 0);
    child_destroy(c);
}

static void one_that_ignores_sigterm(void **state)
{
    (void)state;
    struct child *c = begin((struct child_options){.max_run_ns = NS_PER_S / 5, .grace_ns = NS_PER_S / 10},
                            "trap '' TERM; while :; do sleep 1000; done");
    const struct child_end *end = finish(c);
    assert_int_equal(end->reason, CHILD_TIME);
    assert_int_equal(end->signal, SIGKILL);
    assert_int_equal(processes_alive(mark), 0);
    child_destroy(c);
}

static void a_flood(void **state)
{
    (void)state;
    const struct {
        struct child_options o;
        enum child_reason reason;
        const char *script, *message;
    } cases[] = {
        {{.max_bytes = 10000}, CHILD_BYTES, "yes", "sh: killed: it printed more than 10000 bytes"},
        {{.max_bytes = 10000},
         CHILD_BYTES,
         "yes >&2",
         "sh: killed: it printed more than 10000 bytes; it said: y"},
        {{.max_lines = 100}, CHILD_LINES, "yes", "sh: killed: it printed more than 100 lines"},
        {{.max_bytes_s = 5000},
         CHILD_BYTES_S,
         "yes",
         "sh: killed: it printed more than 5000 bytes in a second"},
        {{.max_lines_s = 50}, CHILD_LINES_S, "yes", "sh: killed: it printed more than 50 lines in a second"},
        /* all of it was in the pipe when it ended */
        {{.max_lines = 3},
         CHILD_LINES,
         "printf '1\\n2\\n3\\n4\\n'",
         "sh: killed: it printed more than 3 lines"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct child *c = begin(cases[i].o, cases[i].script);
        assert_int_equal(finish(c)->reason, cases[i].reason);
        assert_string_equal(explain(c), cases[i].message);
        assert_int_equal(processes_alive(mark), 0);
        child_destroy(c);
    }
}

/* A full buffer makes the program wait, and loses nothing. */
static void back_pressure(void **state)
{
    (void)state;
    struct child *c = begin((struct child_options){.buffer_max = 1000}, "seq 100000");
    int64_t until = clock_mono_ns() + LIMIT;
    size_t sum = 0, at_most = 0;
    while (child_pump(c, clock_mono_ns())) {
        struct pollfd p = {.fd = child_wait_fd(c), .events = POLLIN};
        size_t n = child_output(c).n;
        at_most = n > at_most ? n : at_most;
        sum += n;
        child_consume(c, n);
        assert_true(clock_mono_ns() < until);
        assert_int_not_equal(poll(&p, 1, (int)(LIMIT / 1000000)), 0);
    }
    sum += child_output(c).n;
    assert_int_equal(sum, 588895); /* seq 100000 | wc -c */
    assert_true(at_most <= 1000);
    child_destroy(c);
}

static void dies_by_a_signal(void **state)
{
    (void)state;
    struct child *c = begin((struct child_options){0}, "kill -SEGV $$");
    const struct child_end *end = finish(c);
    assert_int_equal(end->signal, SIGSEGV);
    assert_int_equal(end->code, -1);
    assert_string_equal(explain(c), "sh: ended by signal 11 (Segmentation fault)");
    child_destroy(c);
}

/* What a program may leave behind when it ends. $0 is the mark; sleep can't carry it, sh can. */
#define SLEEPER(name) "sh -c 'while :; do sleep 1000; done' " name
static const char *const leavers[] = {
    SLEEPER("$0") " & echo in the group",
    "trap '' TERM; " SLEEPER("$0") " & echo deaf to SIGTERM",
    "setsid " SLEEPER("$0") " & echo a session of its own",
    "(setsid " SLEEPER("$0") " &) ; echo forked twice",
    "(setsid sh -c 'trap \"\" TERM HUP; (setsid sh -c \"while :; do sleep 1000; done\" $0 &); sleep 1000' $0 "
    "&); "
    "echo a tree of sessions",
    "(setsid env -i PATH=/usr/bin:/bin " SLEEPER("$0") " &) ; echo without its environment",
};

static void leaves_nothing(size_t n_cases)
{
    for (size_t i = 0; i < n_cases; i++) {
        struct child *c = begin((struct child_options){0}, leavers[i]);
        const struct child_end *end = finish(c);
        assert_int_equal(end->code, 0);
        assert_false(end->has_left);
        assert_non_null(strstr(leavers[i], "echo"));
        assert_true(text.n > 0);
        assert_int_equal(processes_alive(mark), 0);
        child_destroy(c);
    }
}

/* Two runs at once: the end of one leaves the orphans of the other alone. */
static void each_its_own(void)
{
    char first[sizeof mark];
    struct child *a = begin((struct child_options){0}, "(setsid " SLEEPER("$0") " &) ; sleep 1000");
    processes_wait(mark, 2); /* the first sh and the sleeper */
    memcpy(first, mark, sizeof first);
    struct child *b = begin((struct child_options){0}, "(setsid " SLEEPER("$0") " &) ; echo done");
    (void)finish(b);
    assert_int_equal(processes_alive(mark), 0);
    child_destroy(b);
    memcpy(mark, first, sizeof first);
    processes_wait(mark, 2);
    child_stop(a, clock_mono_ns());
    assert_int_equal(finish(a)->reason, CHILD_STOPPED);
    assert_int_equal(processes_alive(mark), 0);
    child_destroy(a);
}

/* In a program that is not ours to change: by session and mark, in all of /proc. */
static void strays_by_search(void **state)
{
    (void)state;
    leaves_nothing(sizeof leavers / sizeof *leavers - 1);
    each_its_own();
}

static void strays_by_adoption(void **state)
{
    (void)state;
    assert_int_equal(strays_adopt(), 0);
    leaves_nothing(sizeof leavers / sizeof *leavers);
    each_its_own();
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nor a zombie */
    assert_int_equal(errno, ECHILD);
}

/* Orphans that end by themselves during a long run do not stay as zombies. */
static void orphans_are_reaped(void **state)
{
    (void)state;
    struct child *c =
        begin((struct child_options){0}, "for i in 1 2 3 4 5; do (true &); done; echo done; sleep 1000");
    int64_t until = clock_mono_ns() + LIMIT;
    while (text.n == 0) {
        assert_true(clock_mono_ns() < until && pump(c));
        (void)poll(NULL, 0, 1);
    }
    char path[64], list[4096];
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (;;) {
        assert_true(pump(c) && clock_mono_ns() < until);
        int fd = open(path, O_RDONLY);
        ssize_t n = read(fd, list, sizeof list);
        (void)close(fd);
        assert_true(n > 0);
        if (memchr(list, ' ', (size_t)n) == list + n - 1) /* one number: the program */
            break;
    }
    child_stop(c, clock_mono_ns());
    (void)finish(c);
    child_destroy(c);
}

/* Destroyed in the middle: nobody pumps it any more but child_settle. */
static void destroyed_while_it_runs(void **state)
{
    (void)state;
    struct child *c = begin((struct child_options){.grace_ns = NS_PER_S / 10},
                            "trap '' TERM; (setsid " SLEEPER("$0") " &); while :; do sleep 1000; done");
    processes_wait(mark, 2);
    child_destroy(c);
    assert_int_equal(child_settle(0), 1); /* does not wait */
    assert_int_equal(child_settle(LIMIT), 0);
    assert_int_equal(processes_alive(mark), 0);

    c = begin((struct child_options){.grace_ns = LIMIT}, "trap '' TERM; while :; do sleep 1000; done");
    processes_wait(mark, 1);
    child_destroy(c);
    assert_int_equal(child_settle(NS_PER_S / 10), 0); /* no time for its grace: killed at once */
    assert_int_equal(processes_alive(mark), 0);
}

/* kill -9 of the process that started it: the program dies with it, and the next start finds what it left. */
static void when_we_are_killed(void **state)
{
    (void)state;
    int ready[2];
    char byte;
    (void)snprintf(mark, sizeof mark, "gridline-child-test-%d-killed", (int)getpid());
    assert_int_equal(pipe(ready), 0);
    pid_t agent = fork();
    assert_true(agent >= 0);
    if (agent == 0) {
        const char *argv[] = {"/bin/sh", "-c", "(setsid " SLEEPER("$0") " &); echo go; sleep 1000", mark,
                              NULL};
        struct child_options o = {.argv = argv};
        struct child *c;
        if (child_start(&o, clock_mono_ns(), &c, NULL) < 0)
            _exit(1);
        while (child_output(c).n == 0) {
            (void)child_pump(c, clock_mono_ns());
            (void)poll(NULL, 0, 1);
        }
        if (write(ready[1], "x", 1) == 1)
            for (;;)
                (void)pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    processes_wait(mark, 2);    /* sh and its sleeper, which has left it */
    (void)strays_of_the_dead(); /* others' at most: this one lives */
    processes_wait(mark, 2);
    assert_int_equal(kill(agent, SIGKILL), 0);
    assert_int_equal(waitpid(agent, NULL, 0), agent);
    processes_wait(mark, 1);                /* the kernel has killed sh */
    assert_true(strays_of_the_dead() >= 2); /* the sleeper and its sleep */
    processes_wait(mark, 0);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_and_code),
        cmocka_unit_test(a_clean_start),
        cmocka_unit_test(what_can_not_be_started),
        cmocka_unit_test(a_path_and_no_shell),
        cmocka_unit_test(input_and_environment),
        cmocka_unit_test(an_end_of_input),
        cmocka_unit_test(an_environment_of_its_own),
        cmocka_unit_test(one_that_does_not_read),
        cmocka_unit_test(a_hang),
        cmocka_unit_test(one_that_ignores_sigterm),
        cmocka_unit_test(a_flood),
        cmocka_unit_test(back_pressure),
        cmocka_unit_test(dies_by_a_signal),
        cmocka_unit_test(when_we_are_killed),
        cmocka_unit_test(strays_by_search),
        cmocka_unit_test(strays_by_adoption), /* from here on orphans are adopted */
        cmocka_unit_test(orphans_are_reaped),
        cmocka_unit_test(destroyed_while_it_runs),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    strbuf_fini(&text);
    return failed;
}
