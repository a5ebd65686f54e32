/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline - a small distributed job system, instrumented with libgridline. What `script/run` shows.
 *
 *     pipeline [-n JOBS] [DESTINATION]        DESTINATION as in gridline.h; default: $GRIDLINE_DEST
 *
 * Four processes: a client sends jobs, a scheduler queues them and gives each to a server that is free, two
 * servers compute (the checksum of a generated buffer), and the result goes back the same way:
 *
 *     client ──send──► scheduler ──dispatch──► server-1
 *        ◄───recv────            ◄──result───  server-2
 *
 * Each hop is one line of instrumentation that carries the job's id: an event with the same id in several
 * programs is a lifeline, from which `hops` tells where the time went. Besides, each server summarises its
 * computing time and all processes report what they used themselves. */
#include <gridline/gridline.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SERVERS = 2, WINDOW = 6, JOB_MIN = 32 * 1024, JOB_STEP = 64 * 1024, JOB_STEPS = 16 };

/* What goes over the sockets, one message a packet. */
struct job {
    uint64_t id;
    uint64_t bytes;
    uint64_t checksum; /* of a result */
};

static const char *destination; /* NULL = by environment */

static gridline *open_log(const char *prog)
{
    return gridline_open(prog, destination, GRIDLINE_THREAD | (destination ? 0 : GRIDLINE_ENV));
}

static void close_log(gridline *log)
{
    gridline_self(log);
    gridline_close(log);
}

static _Noreturn void give_up(const char *what)
{
    (void)fprintf(stderr, "pipeline: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void send_job(int fd, const struct job *job)
{
    if (send(fd, job, sizeof *job, MSG_NOSIGNAL) != (ssize_t)sizeof *job)
        give_up("send");
}

/* False at the end: the other side has closed. */
static bool receive_job(int fd, struct job *job)
{
    ssize_t r = recv(fd, job, sizeof *job, 0);
    if (r < 0)
        give_up("receive");
    return r == (ssize_t)sizeof *job;
}

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- server */

/* FNV-1a of bytes that depend on the seed: something for the processor to do. */
static uint64_t compute(uint64_t seed, uint64_t bytes)
{
    uint64_t hash = 14695981039346656037u, x = seed * 2 + 1;
    for (uint64_t i = 0; i < bytes; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        hash = (hash ^ (x & 255)) * 1099511628211u;
    }
    return hash;
}

static void run_server(int index, int fd)
{
    char prog[24];
    (void)snprintf(prog, sizeof prog, "server-%d", index + 1);
    gridline *log = open_log(prog);
    gridline_summary *computing = gridline_summary_get(log, "server.compute.s", 0);
    struct job job;
    while (receive_job(fd, &job)) {
        double start = seconds();
        GRIDLINE_EVENT(log, GRIDLINE_INFO, "server.start", (i64, "id", job.id), (i64, "bytes", job.bytes));
        job.checksum = compute(job.id, job.bytes);
        char checksum[17];
        (void)snprintf(checksum, sizeof checksum, "%016" PRIx64, job.checksum);
        GRIDLINE_EVENT(log, GRIDLINE_INFO, "server.end", (i64, "id", job.id), (text, "checksum", checksum));
        gridline_summary_add(computing, seconds() - start);
        send_job(fd, &job);
    }
    close_log(log);
}

/* ---- scheduler */

struct scheduler {
    gridline *log;
    int client, servers[SERVERS];
    bool is_busy[SERVERS];
    bool client_is_gone;
    struct job queue[WINDOW]; /* the client has no more than WINDOW jobs out */
    unsigned queued;
};

static void dispatch(struct scheduler *s)
{
    for (int i = 0; i < SERVERS && s->queued > 0; i++) {
        if (s->is_busy[i])
            continue;
        struct job job = s->queue[0];
        memmove(s->queue, s->queue + 1, --s->queued * sizeof *s->queue);
        GRIDLINE_EVENT(s->log, GRIDLINE_INFO, "sched.dispatch", (i64, "id", job.id), (i64, "server", i + 1));
        send_job(s->servers[i], &job);
        s->is_busy[i] = true;
    }
}

static void take_from_client(struct scheduler *s)
{
    struct job job;
    s->client_is_gone = !receive_job(s->client, &job);
    if (s->client_is_gone)
        return;
    s->queue[s->queued++] = job;
    GRIDLINE_EVENT(s->log, GRIDLINE_INFO, "sched.queue", (i64, "id", job.id), (i64, "waiting", s->queued));
}

static void take_from_server(struct scheduler *s, int i)
{
    struct job job;
    if (!receive_job(s->servers[i], &job)) {
        (void)fprintf(stderr, "pipeline: server %d has gone\n", i + 1);
        exit(1);
    }
    s->is_busy[i] = false;
    send_job(s->client, &job);
}

static void run_scheduler(int client, const int *servers)
{
    struct scheduler s = {.log = open_log("scheduler"), .client = client};
    memcpy(s.servers, servers, sizeof s.servers);
    while (!s.client_is_gone) {
        struct pollfd fds[1 + SERVERS] = {{s.client, POLLIN, 0}};
        for (int i = 0; i < SERVERS; i++)
            fds[1 + i] = (struct pollfd){s.servers[i], POLLIN, 0};
        if (poll(fds, 1 + SERVERS, -1) < 0)
            give_up("poll");
        for (int i = 0; i < SERVERS; i++)
            if (fds[1 + i].revents)
                take_from_server(&s, i);
        if (fds[0].revents)
            take_from_client(&s);
        dispatch(&s);
    }
    close_log(s.log);
}

/* ---- client */

static void run_client(int fd, uint64_t jobs)
{
    gridline *log = open_log("client");
    uint64_t sent = 0, received = 0;
    while (received < jobs) {
        for (; sent < jobs && sent - received < WINDOW; sent++) {
            struct job job = {.id = sent + 1, .bytes = JOB_MIN + (sent * 7 % JOB_STEPS) * JOB_STEP};
            GRIDLINE_EVENT(log, GRIDLINE_INFO, "client.send", (i64, "id", job.id), (i64, "bytes", job.bytes));
            send_job(fd, &job);
        }
        struct job job;
        if (!receive_job(fd, &job)) {
            (void)fprintf(stderr, "pipeline: the scheduler has gone\n");
            exit(1);
        }
        GRIDLINE_EVENT(log, GRIDLINE_INFO, "client.recv", (i64, "id", job.id));
        received++;
    }
    (void)close(fd); /* tells the scheduler to end */
    close_log(log);
}

/* ---- main */

static void make_pair(int pair[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        give_up("socketpair");
}

static pid_t start(void)
{
    pid_t pid = fork();
    if (pid < 0)
        give_up("fork");
    return pid;
}

/* 0 when all children ended well. */
static int wait_all(void)
{
    int failed = 0, status;
    while (wait(&status) > 0)
        failed |= status != 0;
    return failed;
}

int main(int argc, char **argv)
{
    uint64_t jobs = 200;
    for (int option; (option = getopt(argc, argv, "n:")) != -1;) {
        jobs = option == 'n' ? strtoull(optarg, NULL, 10) : 0;
        if (jobs == 0) {
            (void)fputs("usage: pipeline [-n JOBS] [DESTINATION]\n", stderr);
            return 2;
        }
    }
    destination = optind < argc ? argv[optind] : NULL;

    int to_scheduler[2], to_server[SERVERS][2], server_ends[SERVERS];
    make_pair(to_scheduler);
    for (int i = 0; i < SERVERS; i++) {
        make_pair(to_server[i]);
        server_ends[i] = to_server[i][0];
    }
    for (int i = 0; i < SERVERS; i++) {
        if (start() != 0)
            continue;
        for (int j = 0; j < SERVERS; j++)
            (void)close(to_server[j][0]); /* or a server would keep the others' sockets open */
        (void)close(to_scheduler[0]);
        run_server(i, to_server[i][1]);
        return 0;
    }
    for (int i = 0; i < SERVERS; i++)
        (void)close(to_server[i][1]);
    if (start() == 0) {
        (void)close(to_scheduler[0]);
        run_scheduler(to_scheduler[1], server_ends);
        return 0;
    }
    for (int i = 0; i < SERVERS; i++)
        (void)close(to_server[i][0]);
    (void)close(to_scheduler[1]);
    run_client(to_scheduler[0], jobs);
    return wait_all();
}
