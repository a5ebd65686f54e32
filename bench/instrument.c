/* SPDX-License-Identifier: Apache-2.0 */
/* instrument - what one event with three fields (u64, u64, a 12-character string whose last character varies)
 * costs the program that makes it, by one method a run. bench/instrument runs the methods in turn and
 * compares.
 *
 *     instrument METHOD THREADS EVENTS [DIR]
 *
 * prints METHOD THREADS CPU_NS_PER_EVENT [TOTAL_CPU_NS_PER_EVENT BYTES_PER_EVENT]. Threads are pinned, CPU
 * time is each thread's own (CLOCK_THREAD_CPUTIME_ID) over the loop, which includes making the string.
 *
 * What is kept, and who pays:
 *   empty      the loop and the string
 *   control    rdtsc and a copy of 48 bytes into a 1 MiB ring of the thread that overwrites itself: the least
 *              that an event in memory can cost
 *   gridline   GRIDLINE_EVENT with GRIDLINE_MANUAL and a mem: destination, in rounds of ROUND events, which
 * fit in the thread's ring; between rounds, outside the timed part, the rings are emptied. So every event is
 * kept, and what is timed is all that the program's thread does for it. LTTng's snapshot session does less
 * for its events: it overwrites them. The run fails if an event was dropped. off        the same call, its
 * level switched off lttng      whatever the session that now runs makes it cost (snapshot, stopped);
 * lttng-none: no session fprintf    the same event as a ULM line: gettimeofday, strftime, fprintf to a file
 *   disk       gridline with GRIDLINE_THREAD to a .glb file: TOTAL is the CPU time of the whole process,
 * writer thread and close included. After each ROUND the program sleeps a while (PAUSE_US, an environment
 *              variable), so that the writer keeps up: the run fails (exit 3) if an event was dropped. The
 * ids are consecutive, which columns of differences store in a byte or less: fields of random bits would take
 * up to 8 bytes each. lttng-paced  LTTng to disk with the same pauses, so that small buffers do */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "instrument_tp.h"

#include <gridline/gridline.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { RING_BYTES = 1 << 20, ROUND = 4096, THREADS_MAX = 64 };

struct worker {
    pthread_t thread;
    unsigned index;
    double cpu_ns; /* of the timed loops, all events */
};

static uint64_t events; /* a thread */
static unsigned threads;
static const char *dir = "/tmp";
static long pause_us = 400;
static gridline *log_handle;
static pthread_barrier_t barrier;

static double clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double process_cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* The string of event i. The compiler must not see through it. */
static inline void make_name(char *name, uint64_t i)
{
    name[11] = (char)('a' + (i & 15));
    __asm__ volatile("" : : "r"(name) : "memory");
}

/* ---- the methods: each does events from..to-1 of a thread */

static void do_empty(uint64_t from, uint64_t to)
{
    char name[13] = "transfer.end";
    for (uint64_t i = from; i < to; i++)
        make_name(name, i);
}

static __thread char *control_ring;
static __thread size_t control_at;

static void do_control(uint64_t from, uint64_t to)
{
    struct record {
        uint64_t tsc, id, size;
        char name[16], unused[8];
    } r = {0};
    char name[13] = "transfer.end", *ring = control_ring;
    size_t at = control_at;
    for (uint64_t i = from; i < to; i++) {
        make_name(name, i);
        r.tsc = __rdtsc();
        r.id = i;
        r.size = i * 7;
        memcpy(r.name, name, sizeof name);
        memcpy(ring + at, &r, sizeof r);
        __asm__ volatile("" : : : "memory");
        at += sizeof r;
        if (at > RING_BYTES - sizeof r)
            at = 0;
    }
    control_at = at;
}

static void do_gridline(uint64_t from, uint64_t to)
{
    char name[13] = "transfer.end";
    gridline *g = log_handle;
    for (uint64_t i = from; i < to; i++) {
        make_name(name, i);
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "bench.transfer", (u64, "id", i), (u64, "size", i * 7),
                       (text, "name", name));
    }
}

static void do_lttng(uint64_t from, uint64_t to)
{
    char name[13] = "transfer.end";
    for (uint64_t i = from; i < to; i++) {
        make_name(name, i);
        lttng_ust_tracepoint(gridline_bench, transfer, i, i * 7, name);
    }
}

static __thread FILE *line_file;

static void do_fprintf(uint64_t from, uint64_t to)
{
    char name[13] = "transfer.end", date[32];
    for (uint64_t i = from; i < to; i++) {
        struct timeval now;
        struct tm tm;
        make_name(name, i);
        gettimeofday(&now, NULL);
        gmtime_r(&now.tv_sec, &tm);
        strftime(date, sizeof date, "%Y%m%d%H%M%S", &tm);
        fprintf(line_file,
                "DATE=%s.%06ld HOST=node17.cluster PROG=bench LVL=Info NL.EVNT=bench.transfer id=%lu "
                "size=%lu name=%s\n",
                date, (long)now.tv_usec, (unsigned long)i, (unsigned long)(i * 7), name);
    }
}

/* ---- what is around them */

static int path_in_dir(char *to, size_t n, const char *file, unsigned index)
{
    return snprintf(to, n, "%s/%s.%u", dir, file, index) < (int)n ? 0 : -ENAMETOOLONG;
}

static int start_control(unsigned index)
{
    (void)index;
    control_ring = aligned_alloc(64, RING_BYTES);
    if (!control_ring)
        return -ENOMEM;
    memset(control_ring, 0,
           RING_BYTES); /* no page faults in the timed part, as in the warm rings of the others */
    return 0;
}

static void stop_control(void)
{
    free(control_ring);
}

static int start_fprintf(unsigned index)
{
    char path[4096];
    int r = path_in_dir(path, sizeof path, "lines.ulm", index);
    if (r < 0)
        return r;
    line_file = fopen(path, "w");
    return line_file ? 0 : -errno;
}

static void stop_fprintf(void)
{
    fclose(line_file);
}

/* Between rounds, by thread 0 alone while the others wait. */
static void empty_rings(void)
{
    while (gridline_flush(log_handle, 1000) == -EAGAIN)
        ;
}

/* After each round, by every thread. */
static void pause_for_writer(void)
{
    nanosleep(&(struct timespec){0, pause_us * 1000}, NULL);
}

static int open_memory(void)
{
    log_handle = gridline_open("bench", "mem:16777216", GRIDLINE_MANUAL);
    return log_handle ? 0 : -errno;
}

static int open_off(void)
{
    int r = open_memory();
    gridline_set_level(log_handle, GRIDLINE_ERROR);
    return r;
}

static char disk_path[4096];

static int open_disk(void)
{
    if (snprintf(disk_path, sizeof disk_path, "%s/events.glb", dir) >= (int)sizeof disk_path)
        return -ENAMETOOLONG;
    (void)unlink(disk_path); /* the one of the run before */
    log_handle = gridline_open("bench", disk_path, GRIDLINE_THREAD);
    return log_handle ? 0 : -errno;
}

static int wait_for_session(void)
{
    usleep(1500000); /* lttng-ust registers with the session daemon in a thread of its own and tells nobody
                        when */
    return 0;
}

static const struct method {
    const char *name;
    void (*run)(uint64_t from, uint64_t to);
    int (*open)(void);            /* once */
    int (*start)(unsigned index); /* in each thread */
    void (*stop)(void);           /* in each thread, timed: what was buffered must be out */
    void (*between)(void);        /* untimed, by thread 0 while all stand still */
    void (*after_round)(void);    /* timed, by each thread */
    int keeps_all;                /* events dropped or overwritten: the run fails */
    int is_disk;
} methods[] = {
    {.name = "empty", .run = do_empty},
    {.name = "control", .run = do_control, .start = start_control, .stop = stop_control},
    {.name = "gridline", .run = do_gridline, .open = open_memory, .between = empty_rings, .keeps_all = 1},
    {.name = "off", .run = do_gridline, .open = open_off},
    {.name = "lttng", .run = do_lttng, .open = wait_for_session},
    {.name = "lttng-none", .run = do_lttng},
    {.name = "lttng-paced", .run = do_lttng, .open = wait_for_session, .after_round = pause_for_writer},
    {.name = "fprintf", .run = do_fprintf, .start = start_fprintf, .stop = stop_fprintf},
    {.name = "disk",
     .run = do_gridline,
     .open = open_disk,
     .after_round = pause_for_writer,
     .keeps_all = 1,
     .is_disk = 1},
};

static const struct method *method;

/* All events of a thread. Only methods that do something between rounds are cut into rounds. */
static void run_rounds(struct worker *w)
{
    uint64_t step = method->between || method->after_round ? ROUND : events;
    for (uint64_t from = 0; from < events; from += step) {
        uint64_t to = from + step < events ? from + step : events;
        double start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        method->run(from, to);
        if (method->after_round)
            method->after_round();
        if (method->stop && to == events)
            method->stop();
        w->cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        if (!method->between)
            continue;
        pthread_barrier_wait(&barrier);
        if (w->index == 0)
            method->between();
        pthread_barrier_wait(&barrier);
    }
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(w->index % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &set);
    sched_setaffinity(0, sizeof set, &set);
    int r = method->start ? method->start(w->index) : 0;
    if (r < 0) {
        fprintf(stderr, "instrument: %s: %s\n", method->name, strerror(-r));
        exit(1);
    }
    pthread_barrier_wait(&barrier);
    run_rounds(w);
    return NULL;
}

/* Everything that was written must have been kept. */
static void check_kept(void)
{
    struct gridline_stats s;
    gridline_stats(log_handle, &s, sizeof s);
    uint64_t lost = s.dropped - (method->is_disk ? 0 : s.dropped_memory);
    if (s.taken < events * threads || lost > 0) {
        fprintf(stderr, "instrument: %s: %llu events taken, %llu dropped\n", method->name,
                (unsigned long long)s.taken, (unsigned long long)lost);
        exit(3);
    }
}

static const struct method *find_method(const char *name)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, name) == 0)
            return &methods[i];
    fprintf(stderr, "instrument: no method %s\n", name);
    exit(2);
}

static void run_threads(struct worker *workers)
{
    pthread_barrier_init(&barrier, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        workers[i].index = i;
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0)
            exit(1);
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
}

int main(int argc, char **argv)
{
    static struct worker workers[THREADS_MAX];
    if (argc < 4) {
        fputs("usage: instrument METHOD THREADS EVENTS [DIR]\n", stderr);
        return 2;
    }
    method = find_method(argv[1]);
    threads = (unsigned)strtoul(argv[2], NULL, 10);
    events = strtoull(argv[3], NULL, 10);
    dir = argc > 4 ? argv[4] : dir;
    if (getenv("PAUSE_US"))
        pause_us = strtol(getenv("PAUSE_US"), NULL, 10);
    if (threads < 1 || threads > THREADS_MAX || events == 0)
        return 2;
    double cpu_start = process_cpu_ns(), cpu = 0;
    int r = method->open ? method->open() : 0;
    if (r < 0) {
        fprintf(stderr, "instrument: %s: %s\n", method->name, strerror(-r));
        return 1;
    }
    run_threads(workers);
    if (method->keeps_all)
        check_kept();
    gridline_close(log_handle);
    double total = (double)events * threads;
    for (unsigned i = 0; i < threads; i++)
        cpu += workers[i].cpu_ns;
    printf("%s %u %.3f %.3f", method->name, threads, cpu / total, (process_cpu_ns() - cpu_start) / total);
    struct stat st;
    if (method->is_disk)
        printf(" %.3f", stat(disk_path, &st) == 0 ? (double)st.st_size / total : -1.0);
    putchar('\n');
    return 0;
}
