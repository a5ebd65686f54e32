/* SPDX-License-Identifier: Apache-2.0 */
/* Fork, exit, and more handles than there may be. */
#include "unit/client/blocks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
enum { CHILD_MAY_START_THREADS = 0 }; /* TSan can't, in the child of a program with threads */
#else
enum { CHILD_MAY_START_THREADS = 1 };
#endif

static struct folder folder;

static int setup(void **state)
{
    (void)state;
    folder_make(&folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    folder_end(&folder, (const char *const[]){"log.glb", NULL});
    return 0;
}

static void wait_for(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Who wrote what: sequence numbers are contiguous for each producer, and nobody writes another's events. */
enum { PRODUCERS = 64 };
struct ledger {
    size_t n;
    uint8_t producer[PRODUCERS][16];
    uint64_t seq[PRODUCERS], events[PRODUCERS], pid[PRODUCERS];
};

static void book(void *arg, const struct batch_origin *o, uint64_t seq, const struct event *e)
{
    struct ledger *l = arg;
    size_t i = 0;
    while (i < l->n && memcmp(l->producer[i], o->producer, 16) != 0)
        i++;
    if (i == l->n) {
        assert_true(l->n < PRODUCERS);
        memcpy(l->producer[l->n++], o->producer, 16);
    }
    assert_int_equal(o->epoch, 1);
    assert_int_equal(seq, ++l->seq[i]);
    if (is_named(e, "gridline.dropped"))
        return;
    uint64_t pid = value_of(e, "pid").u;
    if (l->events[i]++ == 0)
        l->pid[i] = pid;
    assert_int_equal(pid, l->pid[i]);
}

static _Atomic bool stop;
static _Atomic uint64_t busy_wrote;

static void *keep_busy(void *arg)
{
    while (!atomic_load(&stop)) {
        GRIDLINE_EVENT(arg, GRIDLINE_INFO, "busy", (u64, "pid", getpid()),
                       (text, "text", "in the parent's thread"));
        atomic_fetch_add(&busy_wrote, 1);
    }
    return NULL;
}

static void child(gridline *g, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "child", (u64, "pid", getpid()), (u64, "i", i));
    struct gridline_stats s;
    gridline_stats(g, &s, sizeof s);
    if (s.taken != n || s.dropped) /* not what the parent had */
        _exit(2);
    if (gridline_flush(g, 5000) != 0)
        _exit(3);
    gridline_stats(g, &s, sizeof s);
    if (s.passed != n)
        _exit(4);
    gridline_close(g);
    _exit(0);
}

static void skip_if_impossible(unsigned flags)
{
    if (CHILD_MAY_START_THREADS || !(flags & GRIDLINE_THREAD))
        return;
    gridline_close(
        gridline_open("none", folder_file(&folder, "log.glb"), 0)); /* teardown looks for the file */
    skip();
}

static void fork_while_writing(unsigned flags)
{
    skip_if_impossible(flags);
    enum { BUSY = 3, FORKS = 20, IN_CHILD = 500 };
    struct ledger l = {0};
    uint64_t in_parent = 0, in_children = 0;
    pthread_t threads[BUSY];
    atomic_store(&stop, false);
    atomic_store(&busy_wrote, 0);
    gridline *g = gridline_open("fork", folder_file(&folder, "log.glb"), flags);
    for (int i = 0; i < BUSY; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_busy, g), 0);
    for (int i = 0; i < FORKS; i++) {
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "parent", (u64, "pid", getpid()), (u64, "i", i));
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            child(g, IN_CHILD);
        wait_for(pid);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < BUSY; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(gridline_flush(g, 5000), 0);
    struct gridline_stats s = stats_of(g);
    gridline_close(g);
    (void)each_in(folder.path, book, &l);
    assert_int_equal(l.n, FORKS + 1);
    for (size_t i = 0; i < l.n; i++) {
        if (l.pid[i] == (uint64_t)getpid())
            in_parent += l.events[i];
        else
            in_children += l.events[i];
    }
    assert_int_equal(in_children, FORKS * IN_CHILD);
    assert_int_equal(in_parent + s.dropped, FORKS + atomic_load(&busy_wrote));
}

static void test_fork(void **state)
{
    (void)state;
    fork_while_writing(0);
}

static void test_fork_with_writer(void **state)
{
    (void)state;
    fork_while_writing(GRIDLINE_THREAD);
}

/* The child that exits without closing writes out its events, and only its own. */
static void exit_in_child(unsigned flags)
{
    skip_if_impossible(flags);
    struct ledger l = {0};
    gridline *g = gridline_open("exit", folder_file(&folder, "log.glb"), flags);
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "parent", (u64, "pid", getpid()));
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 10; i++)
            GRIDLINE_EVENT(g, GRIDLINE_INFO, "child", (u64, "pid", getpid()));
        exit(0);
    }
    wait_for(pid);
    gridline_close(g);
    assert_int_equal(each_in(folder.path, book, &l), 11);
    assert_int_equal(l.n, 2);
}

static void test_exit(void **state)
{
    (void)state;
    exit_in_child(GRIDLINE_MANUAL);
}

static void test_exit_with_writer(void **state)
{
    (void)state;
    exit_in_child(GRIDLINE_THREAD);
}

static void test_many_handles(void **state)
{
    (void)state;
    gridline *g[40];
    size_t n = 0;
    const char *path = folder_file(&folder, "log.glb");
    while (n < 40 && (g[n] = gridline_open("many", path, 0)))
        n++;
    assert_int_equal(n, 31);
    assert_int_equal(errno, EMFILE);
    for (size_t i = 0; i < n; i++)
        GRIDLINE_EVENT(g[i], GRIDLINE_INFO, "many", (u64, "pid", i));
    gridline_close(g[7]);
    g[7] = gridline_open("many", path, 0);
    assert_non_null(g[7]);
    for (size_t i = 0; i < n; i++)
        gridline_close(g[i]);
    struct ledger l = {0};
    assert_int_equal(each_in(path, book, &l), 31);
    assert_int_equal(l.n, 31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fork, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fork_with_writer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exit_with_writer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_handles, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
