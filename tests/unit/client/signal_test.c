/* SPDX-License-Identifier: Apache-2.0 */
/* Each test that ends a process by a signal does so in a child; the handle is opened in that child. */
#include "unit/client/written.h"

#include "base/mem.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static volatile sig_atomic_t calls, last_signo;
static void *volatile last_info;

static void count_plain(int signo)
{
    calls++;
    last_signo = signo;
}

static void count_info(int signo, siginfo_t *info, void *context)
{
    count_plain(signo);
    last_info = context ? info : NULL;
}

static void set_handler(int signo, void (*handler)(int), int flags)
{
    struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
    assert_int_equal(sigaction(signo, &a, NULL), 0);
    calls = 0;
}

static void check_event(const struct event *e, int signo, const char *name)
{
    assert_int_equal(written_int(e, "signo"), signo);
    assert_slice(value_slice(written_value(e, "name", VALUE_TEXT)), name);
    assert_int_equal(written_int(e, "sender.pid"), getpid());
    assert_int_equal(written_int(e, "sender.uid"), getuid());
}

static void test_calls_the_programs_handler(void **state)
{
    (void)state;
    struct written w;
    struct sigaction info = {.sa_sigaction = count_info, .sa_flags = SA_SIGINFO}, now;
    set_handler(SIGUSR1, count_plain, 0);
    assert_int_equal(sigaction(SIGUSR2, &info, NULL), 0);
    gridline *g = written_open(&w, 0);
    assert_int_equal(gridline_on_signal(g, SIGUSR1), 0);
    assert_int_equal(gridline_on_signal(g, SIGUSR1), 0); /* twice is once */
    assert_int_equal(gridline_on_signal(g, SIGUSR2), 0);
    assert_int_equal(gridline_on_signal(g, SIGRTMIN + 2), 0);
    errno = 77;
    (void)raise(SIGUSR1);
    assert_int_equal(errno, 77);
    assert_int_equal(calls, 1);
    assert_int_equal(last_signo, SIGUSR1);
    (void)raise(SIGUSR2);
    assert_int_equal(calls, 2);
    assert_non_null(last_info);
    gridline_close(g);
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0); /* everything is back */
    assert_ptr_equal(now.sa_handler, count_plain);
    assert_int_equal(sigaction(SIGRTMIN + 2, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, SIG_DFL);
    (void)raise(SIGUSR1);
    assert_int_equal(calls, 3);
    written_read(&w);
    assert_int_equal(written_count(&w, "process.signal"), 2);
    check_event(written_event(&w, "process.signal", 0), SIGUSR1, "SIGUSR1");
    check_event(written_event(&w, "process.signal", 1), SIGUSR2, "SIGUSR2");
    written_end(&w);
    set_handler(SIGUSR1, SIG_DFL, 0);
    set_handler(SIGUSR2, SIG_DFL, 0);
}

/* Ignored stays ignored, by the program's wish or by default. */
static void test_ignored(void **state)
{
    (void)state;
    struct written w;
    set_handler(SIGTERM, SIG_IGN, 0);
    gridline *g = written_open(&w, 0);
    assert_int_equal(gridline_on_signal(g, SIGTERM), 0);
    assert_int_equal(gridline_on_signal(g, SIGWINCH), 0);
    assert_int_equal(gridline_on_signal(g, SIGRTMIN + 3), 0);
    (void)raise(SIGTERM);
    (void)raise(SIGWINCH);
    gridline_close(g);
    written_read(&w);
    assert_int_equal(written_count(&w, "process.signal"), 2);
    check_event(written_event(&w, "process.signal", 1), SIGWINCH, "SIGWINCH");
    written_end(&w);
    set_handler(SIGTERM, SIG_DFL, 0);
}

static void test_two_handles(void **state)
{
    (void)state;
    struct written a, b;
    set_handler(SIGUSR1, count_plain, 0);
    gridline *ga = written_open(&a, 0), *gb = written_open(&b, 0);
    assert_int_equal(gridline_on_signal(ga, SIGUSR1), 0);
    assert_int_equal(gridline_on_signal(gb, SIGUSR1), 0);
    (void)raise(SIGUSR1);
    gridline_close(ga);
    (void)raise(SIGUSR1);
    gridline_close(gb);
    assert_int_equal(calls, 2); /* once a signal, not once a handle */
    written_read(&a);
    written_read(&b);
    assert_int_equal(written_count(&a, "process.signal"), 1);
    assert_int_equal(written_count(&b, "process.signal"), 2);
    written_end(&a);
    written_end(&b);
    set_handler(SIGUSR1, SIG_DFL, 0);
}

static void test_arguments(void **state)
{
    (void)state;
    struct written w;
    gridline *g = written_open(&w, 0);
    assert_int_equal(gridline_on_signal(NULL, SIGUSR1), 0);
    assert_int_equal(gridline_on_signal(g, 0), -EINVAL);
    assert_int_equal(gridline_on_signal(g, 65), -EINVAL);
    assert_int_equal(gridline_on_signal(g, SIGKILL), -EINVAL);
    assert_int_equal(gridline_on_signal(g, SIGSTOP), -EINVAL);
    struct written unused;
    gridline *fresh = written_open(&unused, 0);
    mem_fail_after(1);
    assert_int_equal(gridline_on_signal(fresh, SIGUSR1), -ENOMEM);
    mem_fail_after(0);
    gridline_close(fresh);
    written_end(&unused);
    assert_int_equal(gridline_on_signal(g, SIGUSR1), 0);
    set_handler(SIGUSR1, count_plain, 0); /* the program puts its own on top */
    assert_int_equal(gridline_on_signal(g, SIGUSR1), -EBUSY);
    set_handler(SIGUSR1, SIG_IGN, 0); /* which calls nobody */
    assert_int_equal(gridline_on_signal(g, SIGUSR1), 0);
    set_handler(SIGUSR1, count_plain, 0);
    gridline_close(g);
    struct sigaction now;
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, count_plain);
    written_end(&w);
}

/* SA_RESETHAND: once the program's handler, then the default. */
static void test_reset_handler(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        set_handler(SIGTERM, count_plain, (int)SA_RESETHAND);
        gridline *g = gridline_open("test", "mem:65536", 0);
        if (gridline_on_signal(g, SIGTERM) < 0)
            _exit(1);
        (void)raise(SIGTERM);
        if (calls != 1)
            _exit(2);
        (void)raise(SIGTERM);
        _exit(3);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

struct death {
    int signo;
    unsigned flags;
    size_t stack; /* bytes of alternate stack; 0 = none */
};

static _Noreturn void die(const char *path, const struct death *d)
{
    stack_t none = {.ss_flags = SS_DISABLE}; /* a sanitizer has a stack and handlers of its own */
    stack_t own = {.ss_sp = d->stack ? malloc(d->stack) : NULL, .ss_size = d->stack};
    if (sigaltstack(d->stack ? &own : &none, NULL) != 0)
        _exit(10);
    (void)signal(d->signo, SIG_DFL);
    gridline *g = gridline_open("test", path, d->flags);
    if (gridline_on_signal(g, d->signo) != 0)
        _exit(11);
    for (uint64_t i = 0; i < 100; i++)
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "work", (u64, "i", i));
    if (d->signo == SIGSEGV)
        *(volatile char *)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) = 1;
    else
        (void)raise(d->signo);
    _exit(12);
}

/* The signal ends the process as if nobody had looked, and the events are in the file. */
static void test_last_words(void **state)
{
    (void)state;
    static const struct death deaths[] = {
        {SIGTERM, 0, 0}, {SIGTERM, GRIDLINE_THREAD, 0},     {SIGABRT, GRIDLINE_MANUAL, 0},
        {SIGSEGV, 0, 0}, {SIGSEGV, GRIDLINE_THREAD, 16384}, {SIGINT, 0, 1 << 18},
    };
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
        const struct death *d = &deaths[i];
        struct written w;
        gridline_close(written_open(&w, 0)); /* makes the folder */
        pid_t pid = fork();
        if (pid == 0)
            die(w.path, d);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != d->signo)
            fail_msg("case %zu: status %x", i, (unsigned)status);
        written_read(&w);
        if (written_count(&w, "work") != 100 || written_count(&w, "process.signal") != 1)
            fail_msg("case %zu: %zu events, %zu signals", i, written_count(&w, "work"),
                     written_count(&w, "process.signal"));
        const struct event *e = written_event(&w, "process.signal", 0);
        assert_int_equal(written_int(e, "signo"), d->signo);
        assert_int_equal(written_has(e, "sender.pid"), d->signo != SIGSEGV);
        written_end(&w);
    }
}

static gridline *interrupted_log;

/* Signals at random moments of a busy program, also within malloc and within the library: it always ends, by
 * the signal, and soon. */
static void test_dies_at_any_moment(void **state)
{
    (void)state;
    uint64_t seed = 31;
    for (unsigned round = 0; round < 20 * test_scale(); round++) {
        struct written w;
        int ready[2];
        gridline_close(written_open(&w, 0));
        assert_int_equal(pipe(ready), 0);
        pid_t pid = fork();
        if (pid == 0) {
            interrupted_log = gridline_open("test", w.path, round % 2 ? GRIDLINE_THREAD : 0);
            if (gridline_on_signal(interrupted_log, SIGTERM) != 0 || write(ready[1], "", 1) != 1)
                _exit(1);
            for (uint64_t i = 0;; i++) {
                GRIDLINE_EVENT(interrupted_log, GRIDLINE_INFO, "work", (u64, "i", i));
                free(malloc(64 + i % 4096));
                (void)gridline_flush(interrupted_log, 0);
            }
        }
        char byte;
        assert_int_equal(read(ready[0], &byte, 1), 1);
        for (int64_t end = clock_mono_ns() + (int64_t)(test_random(&seed) % 3000000); clock_mono_ns() < end;)
            ;
        int64_t start = clock_mono_ns();
        assert_int_equal(kill(pid, SIGTERM), 0);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
        assert_true(clock_mono_ns() - start < 10 * NS_PER_S);
        (void)close(ready[0]);
        (void)close(ready[1]);
        written_end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_the_programs_handler),
        cmocka_unit_test(test_ignored),
        cmocka_unit_test(test_two_handles),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_reset_handler),
        cmocka_unit_test(test_last_words),
        cmocka_unit_test(test_dies_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
