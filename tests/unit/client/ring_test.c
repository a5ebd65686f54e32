/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, signal handlers and full rings: everything exactly once, in order, or counted. */
#include "unit/client/blocks.h"

#include "base/clock.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

enum { THREADS = 8 };
static struct folder folder;
static unsigned per_thread; /* events */

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

struct writer {
    gridline *g;
    unsigned id;
};

static void *write_many(void *arg)
{
    struct writer *w = arg;
    char text[32];
    for (unsigned i = 0; i < per_thread; i++) {
        (void)snprintf(text, sizeof text, "thread %u", w->id);
        if (i % 10 == 9)
            /* what it says is in the counts, too */
            (void)gridline_write(w->g, GRIDLINE_INFO, "slow", "thread=%u i=%u name=%s", w->id, i, text);
        else
            GRIDLINE_EVENT(w->g, GRIDLINE_INFO, "fast", (u64, "thread", w->id), (u64, "i", i),
                           (text, "name", text));
    }
    return NULL;
}

struct seen {
    uint64_t seq;
    uint64_t next[THREADS];
    uint64_t missed;
    int64_t last[THREADS];
    bool may_miss;
};

static void see(void *arg, const struct batch_origin *origin, uint64_t seq, const struct event *e)
{
    struct seen *s = arg;
    (void)origin;
    assert_int_equal(seq, ++s->seq);
    if (is_named(e, "gridline.dropped"))
        return;
    uint64_t thread = value_of(e, "thread").u, i = value_of(e, "i").u;
    assert_true(thread < THREADS);
    assert_true(i >= s->next[thread]);
    if (!s->may_miss)
        assert_int_equal(i, s->next[thread]);
    s->missed += i - s->next[thread];
    s->next[thread] = i + 1;
    assert_true(e->time_ns >= s->last[thread]);
    s->last[thread] = e->time_ns;
}

static void run_threads(gridline *g)
{
    pthread_t threads[THREADS];
    struct writer w[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        w[i] = (struct writer){g, i};
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, &w[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* Without the writer thread nothing is ever dropped but by a thread that finds another one at it, its ring
 * full. */
static void test_threads(void **state)
{
    (void)state;
    struct seen s = {.may_miss = true};
    per_thread = 100000;
    gridline *g = gridline_open("threads", folder_file(&folder, "log.glb"), 0);
    run_threads(g);
    assert_int_equal(gridline_flush(g, 1000), 0);
    struct gridline_stats st = stats_of(g);
    gridline_close(g);
    size_t n = each_in(folder.path, see, &s);
    for (unsigned i = 0; i < THREADS; i++)
        s.missed += per_thread - s.next[i];
    assert_int_equal(s.missed, st.dropped_ring_full);
    assert_int_equal(st.dropped, st.dropped_ring_full);
    assert_in_range(n, st.passed, st.passed + 1); /* close may have told of the last drops */
    assert_true(n >= THREADS * per_thread - s.missed);
}

/* Rings that hold all: not one may be missing. */
static void test_threads_lossless(void **state)
{
    (void)state;
    struct seen s = {0};
    per_thread = 100000;
    assert_int_equal(setenv("GRIDLINE_RING", "16MiB", 1), 0);
    gridline *g = gridline_open("threads", folder_file(&folder, "log.glb"), GRIDLINE_THREAD);
    assert_int_equal(unsetenv("GRIDLINE_RING"), 0);
    run_threads(g);
    assert_int_equal(gridline_flush(g, 5000), 0);
    struct gridline_stats st = stats_of(g);
    assert_int_equal(st.taken, THREADS * per_thread);
    assert_int_equal(st.passed, THREADS * per_thread);
    gridline_close(g);
    assert_int_equal(each_in(folder.path, see, &s), THREADS * per_thread);
    assert_int_equal(s.missed, 0);
}

/* The destination is a pipe that nobody reads: the writer thread hangs in write(2), the rings fill, calls go
 * on. */
struct drainer {
    int fd;
    struct strbuf bytes;
    _Atomic bool stop;
};

static void *read_pipe(void *arg)
{
    struct drainer *d = arg;
    for (;;) {
        struct pollfd p = {.fd = d->fd, .events = POLLIN};
        bool stop = atomic_load(&d->stop);
        if (poll(&p, 1, 10) == 0) {
            if (stop)
                return NULL;
            continue;
        }
        char *to = strbuf_room(&d->bytes, 65536);
        ssize_t n = read(d->fd, to, 65536);
        if (n <= 0) /* the handle is closed */
            return NULL;
        strbuf_advance(&d->bytes, (size_t)n);
    }
}

static void test_ring_full(void **state)
{
    (void)state;
    struct seen s = {.may_miss = true};
    enum { N = 300000 };
    assert_int_equal(mkfifo(folder_file(&folder, "log.glb"), 0600), 0);
    struct drainer d = {.fd = open(folder.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
    assert_true(d.fd >= 0);
    gridline *g = gridline_open("full", folder.path, GRIDLINE_THREAD);
    uint64_t state_ = 1;
    char noise[64];
    for (unsigned i = 0; i < N; i++) { /* text that does not compress, or the pipe would hold it all */
        for (size_t k = 0; k < sizeof noise; k++)
            noise[k] = (char)('!' + test_random(&state_) % 90);
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "full", (u64, "thread", 0), (u64, "i", i),
                       (textn, "noise", noise, 64));
    }
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, read_pipe, &d), 0);
    while (gridline_flush(g, 1000) != 0)
        ;
    struct gridline_stats st = stats_of(g);
    gridline_close(g);
    atomic_store(&d.stop, true);
    assert_int_equal(pthread_join(reader, NULL), 0);
    (void)close(d.fd);
    size_t n = each_of(strbuf_slice(&d.bytes), see, &s);
    strbuf_fini(&d.bytes);
    assert_true(st.dropped_ring_full > 0);
    assert_int_equal(st.dropped, st.dropped_ring_full);
    assert_int_equal(s.missed + N - s.next[0], st.dropped_ring_full);
    assert_true(n > N - st.dropped_ring_full); /* it told of the drops */
}

/* Nobody ever reads the pipe: flush and close keep to their time, though the writer thread never comes back.
 */
static void test_hanging_destination(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(folder_file(&folder, "log.glb"), 0600), 0);
    int fd = open(folder.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    gridline *g = gridline_open("hang", folder.path, GRIDLINE_THREAD);
    uint64_t seed = 1;
    int64_t worst = 0;
    for (unsigned i = 0; i < 200000; i++) {
        uint64_t a = test_random(&seed), b = test_random(&seed);
        int64_t before = clock_mono_ns();
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "hang", (u64, "a", a), (u64, "b", b));
        int64_t took = clock_mono_ns() - before;
        worst = took > worst ? took : worst;
    }
    assert_true(worst < NS_PER_S / 2); /* preempted, perhaps; never waiting */
    int64_t start = clock_mono_ns();
    assert_int_equal(gridline_flush(g, 100), -EAGAIN);
    assert_true(clock_mono_ns() - start < NS_PER_S);
    gridline_close(g);
    assert_true(clock_mono_ns() - start < 3 * NS_PER_S);
    char bytes[4096]; /* when the thread comes back it frees the handle, and closes the pipe */
    for (ssize_t n = 1; n != 0;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 10000), 1);
        n = read(fd, bytes, sizeof bytes);
        assert_true(n >= 0);
    }
    (void)close(fd);
}

/* ---------------------------------------------------------------- signal handlers */

static gridline *storm_log;
static _Atomic uint64_t storm_events, storm_signals;

static void on_alarm(int signo)
{
    (void)signo;
    uint64_t n = atomic_fetch_add(&storm_signals, 1);
    GRIDLINE_EVENT(storm_log, GRIDLINE_INFO, "handler", (u64, "thread", 1), (u64, "i", n),
                   (text, "name", "in a signal"));
    atomic_fetch_add(&storm_events, 1);
}

static void see_storm(void *arg, const struct batch_origin *origin, uint64_t seq, const struct event *e)
{
    struct seen *s = arg;
    (void)origin;
    assert_int_equal(seq, ++s->seq);
    if (is_named(e, "gridline.dropped"))
        return;
    unsigned which = is_named(e, "handler") ? 1 : 0;
    struct value text = value_of(e, "name");
    assert_slice(value_slice(text), which ? "in a signal" : "in the program");
    s->next[which]++;
}

static void storm(unsigned flags, uint64_t signals)
{
    struct seen s = {0};
    struct sigaction on = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}, before;
    struct itimerval every = {{0, 20}, {0, 20}}, never = {0};
    uint64_t wrote = 0;
    atomic_store(&storm_signals, 0);
    atomic_store(&storm_events, 0);
    storm_log = gridline_open("storm", folder_file(&folder, "log.glb"), flags);
    assert_int_equal(sigaction(SIGALRM, &on, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
    while (atomic_load(&storm_signals) < signals) {
        GRIDLINE_EVENT(storm_log, GRIDLINE_INFO, "program", (u64, "thread", 0), (u64, "i", wrote),
                       (text, "name", "in the program"));
        wrote++;
        void *p = test_malloc(100); /* handlers come in malloc, too */
        test_free(p);
    }
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    assert_int_equal(gridline_flush(storm_log, 5000), 0);
    struct gridline_stats st = stats_of(storm_log);
    gridline_close(storm_log);
    size_t n = each_in(folder.path, see_storm, &s);
    assert_in_range(n, st.passed, st.passed + 1);
    assert_int_equal(s.next[0] + s.next[1] + st.dropped, wrote + atomic_load(&storm_events));
    assert_int_equal(st.dropped, st.dropped_ring_full + st.dropped_nested);
    assert_true(s.next[1] > 0);
}

static void test_signal_storm(void **state)
{
    (void)state;
    storm(0, 2000);
}

static void test_signal_storm_with_thread(void **state)
{
    (void)state;
    storm(GRIDLINE_THREAD, 2000);
}

/* Handles that come one after the other in the same slot: a handler may make the new ring between any two
 * instructions of a thread that has just looked at the old one. */
static void test_signal_storm_reopened(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 300 * test_scale(); i++) {
        (void)unlink(folder_file(&folder, "log.glb"));
        storm(i % 2 ? GRIDLINE_THREAD : 0, 40);
    }
}

/* A handler in the middle of an event writes to the second ring; one inside that one drops. */
static struct gridline_site nested_site = {1, GRIDLINE_INFO, 0, 1, 0, "nested", NULL, NULL};

static void test_nesting(void **state)
{
    (void)state;
    gridline *g = gridline_open("nest", folder_file(&folder, "log.glb"), 0);
    struct gridline_slot first = gridline_begin(g, &nested_site, 0),
                         second = gridline_begin(g, &nested_site, 0);
    assert_non_null(first.at);
    assert_non_null(second.at);
    assert_ptr_not_equal(first.ring, second.ring);
    assert_null(gridline_begin(g, &nested_site, 0).at);
    assert_null(gridline_begin(g, &nested_site, 0).at);
    gridline_end(second);
    second = gridline_begin(g, &nested_site, 0);
    assert_non_null(second.at);
    gridline_end(second);
    gridline_end(first);
    assert_int_equal(gridline_flush(g, 1000), 0);
    struct gridline_stats st = stats_of(g);
    assert_int_equal(st.dropped_nested, 2);
    assert_int_equal(st.dropped, 2);
    gridline_close(g);
    assert_in_range(each_in(folder.path, NULL, NULL), st.passed, st.passed + 1);
}

/* ---------------------------------------------------------------- lives of threads and handles */

static void *write_one(void *arg)
{
    GRIDLINE_EVENT(arg, GRIDLINE_INFO, "one", (u64, "i", 1));
    return NULL;
}

static long mapped_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, "VmSize:", 7) == 0)
            kib = strtol(line + 7, NULL, 10);
    (void)fclose(f);
    return kib;
}

/* The ring of a thread that has ended goes when it has been emptied. */
static void test_threads_end(void **state)
{
    (void)state;
    enum { ENDED = 300 };
    gridline *g = gridline_open("end", folder_file(&folder, "log.glb"), 0);
    long before = 0;
    for (int i = 0; i < ENDED; i++) {
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, write_one, g), 0);
        assert_int_equal(pthread_join(t, NULL), 0);
        assert_int_equal(gridline_flush(g, 1000), 0);
        if (i == 10)
            before = mapped_kib();
    }
    assert_true(mapped_kib() < before + 100 * 1024); /* 290 rings are 290 MiB */
    gridline_close(g);
    assert_int_equal(each_in(folder.path, NULL, NULL), ENDED);
}

/* A thread keeps its pointer to the ring of a closed handle, whose slot another handle gets. */
struct rounds {
    pthread_barrier_t bar;
    gridline *g;
    bool stop;
};

static void *write_rounds(void *arg)
{
    struct rounds *r = arg;
    for (;;) {
        (void)pthread_barrier_wait(&r->bar);
        if (r->stop)
            return NULL;
        GRIDLINE_EVENT(r->g, GRIDLINE_INFO, "round", (u64, "i", 1));
        (void)pthread_barrier_wait(&r->bar);
    }
}

static void test_slots_are_reused(void **state)
{
    (void)state;
    struct rounds r = {0};
    pthread_t t;
    enum { ROUNDS = 200 };
    assert_int_equal(pthread_barrier_init(&r.bar, NULL, 2), 0);
    assert_int_equal(pthread_create(&t, NULL, write_rounds, &r), 0);
    for (int i = 0; i < ROUNDS; i++) {
        r.g = gridline_open("round", folder_file(&folder, "log.glb"), i % 3 ? 0 : GRIDLINE_THREAD);
        assert_non_null(r.g);
        (void)pthread_barrier_wait(&r.bar);
        GRIDLINE_EVENT(r.g, GRIDLINE_INFO, "round", (u64, "i", 2));
        (void)pthread_barrier_wait(&r.bar);
        gridline_close(r.g);
    }
    r.stop = true;
    (void)pthread_barrier_wait(&r.bar);
    assert_int_equal(pthread_join(t, NULL), 0);
    (void)pthread_barrier_destroy(&r.bar);
    assert_int_equal(each_in(folder.path, NULL, NULL), 2 * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads_lossless, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ring_full, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hanging_destination, setup, teardown),
        cmocka_unit_test_setup_teardown(test_signal_storm, setup, teardown),
        cmocka_unit_test_setup_teardown(test_signal_storm_with_thread, setup, teardown),
        cmocka_unit_test_setup_teardown(test_signal_storm_reopened, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nesting, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slots_are_reused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
