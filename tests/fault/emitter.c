/* SPDX-License-Identifier: Apache-2.0 */
/* A program under instrumentation, for stream_faults.py: writes events by libgridline's public interface and
 * says what became of them.
 *
 *     emitter URL N [--rate R] [--backup DIR] [--backup-max BYTES] [--flush-ms MS] [--run ID] [--fork]
 * [--inline]
 *
 * N events "emitter.event" with n = 0 .. N-1, about R a second (0 = as fast as they go). With --fork a child
 * does the same with run = ID + 1, from the middle on. --inline: no writer thread. A line of JSON every 50 ms
 * and one at the end ("done": true), before the log is closed. */
#include "gridline/gridline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REPORT_MS = 50, NAP_US = 1000 };

struct job {
    const char *url, *backup;
    uint64_t n, rate, run, backup_max;
    int flush_ms;
    bool do_fork, do_inline;
    uint64_t worst_ns; /* the longest single call */
};

static uint64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t v = strtoull(text, &end, 10);
    if (*end || end == text) {
        (void)fprintf(stderr, "emitter: %s is not a number\n", text);
        exit(2);
    }
    return v;
}

static void parse(struct job *j, int argc, char **argv)
{
    if (argc < 3) {
        (void)fprintf(stderr, "usage: emitter URL N [options]\n");
        exit(2);
    }
    *j = (struct job){.url = argv[1], .n = number(argv[2]), .flush_ms = 1000};
    for (int i = 3; i < argc; i++) {
        const char *o = argv[i], *v = i + 1 < argc ? argv[i + 1] : "";
        i++;
        if (strcmp(o, "--rate") == 0)
            j->rate = number(v);
        else if (strcmp(o, "--backup") == 0)
            j->backup = v;
        else if (strcmp(o, "--backup-max") == 0)
            j->backup_max = number(v);
        else if (strcmp(o, "--flush-ms") == 0)
            j->flush_ms = (int)number(v);
        else if (strcmp(o, "--run") == 0)
            j->run = number(v);
        else if (i--, strcmp(o, "--fork") == 0)
            j->do_fork = true;
        else if (strcmp(o, "--inline") == 0)
            j->do_inline = true;
        else
            exit(2);
    }
}

static void report(gridline *log, const struct job *j, uint64_t written, bool is_done)
{
    struct gridline_stats s;
    gridline_stats(log, &s, sizeof s);
    (void)printf("{\"run\":%" PRIu64 ",\"written\":%" PRIu64 ",\"taken\":%" PRIu64 ",\"passed\":%" PRIu64
                 ",\"queued\":%" PRIu64 ",\"dropped\":%" PRIu64 ",\"ring_full\":%" PRIu64
                 ",\"unwritable\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"worst_ns\":%" PRIu64
                 ",\"done\":%s}\n",
                 j->run, written, s.taken, s.passed, s.queued, s.dropped, s.dropped_ring_full,
                 s.dropped_unwritable, s.dropped_refused, j->worst_ns, is_done ? "true" : "false");
    (void)fflush(stdout);
}

static void write_event(gridline *log, struct job *j, uint64_t n)
{
    char pad[48]; /* text that does not pack well, so that disks fill */
    (void)snprintf(pad, sizeof pad, "%016" PRIx64 "%016" PRIx64, n * 0x9e3779b97f4a7c15u,
                   (n ^ j->run) * 0xbf58476d1ce4e5b9u);
    uint64_t before = now_ns();
    GRIDLINE_EVENT(log, GRIDLINE_INFO, "emitter.event", (u64, "run", j->run), (u64, "n", n),
                   (text, "pad", pad));
    uint64_t took = now_ns() - before;
    if (took > j->worst_ns)
        j->worst_ns = took;
}

/* Writes from..to of the job, at its rate. */
static void write_events(gridline *log, struct job *j, uint64_t from, uint64_t to)
{
    uint64_t start = now_ns(), reported = start;
    for (uint64_t n = from; n < to; n++) {
        write_event(log, j, n);
        while (j->rate && (n - from) * 1000000000u / j->rate > now_ns() - start) {
            (void)usleep(NAP_US); /* the pace of the program, not a wait for something */
            if (now_ns() - reported >= REPORT_MS * UINT64_C(1000000)) {
                report(log, j, n + 1, false);
                reported = now_ns();
            }
        }
    }
}

int main(int argc, char **argv)
{
    struct job j;
    parse(&j, argc, argv);
    gridline *log = gridline_open("emitter", j.url, j.do_inline ? 0 : GRIDLINE_THREAD);
    if (!log) {
        perror("emitter: gridline_open");
        return 1;
    }
    int r = j.backup ? gridline_backup(log, j.backup, j.backup_max) : 0;
    if (r < 0) {
        (void)fprintf(stderr, "emitter: gridline_backup: %s\n", strerror(-r));
        return 1;
    }
    uint64_t half = j.do_fork ? j.n / 2 : 0;
    write_events(log, &j, 0, half);
    pid_t child = j.do_fork ? fork() : -1;
    if (child == 0) {
        j.run++;
        j.worst_ns = 0;
    }
    write_events(log, &j, child == 0 ? 0 : half, j.n);
    (void)gridline_flush(log, j.flush_ms); /* what is not taken by then shows in the counts */
    report(log, &j, j.n, true);
    gridline_close(log);
    int status = 0;
    if (child > 0 && (waitpid(child, &status, 0) != child || status != 0))
        return 1;
    return 0;
}
