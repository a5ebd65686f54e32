/* SPDX-License-Identifier: Apache-2.0 */
/* The client: so many workers at once, each of which asks for one file after the other, and receives it by so
 * many streams, a thread each. Each block is checked and written to its place in the file. */
#include "transfer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS_MAX = 32, SERVER_NAME = 64 };

struct job {
    const struct transfer *t;
    unsigned long transfer;
    char server[SERVER_NAME], address[SERVER_NAME];
    int file;
};

struct stream {
    const struct job *job;
    unsigned stream;
    uint64_t bytes;
    bool is_whole;
};

static atomic_ulong transfers_begun;
static atomic_bool has_failed;

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* 1; 0 at the end; -1: the connection is gone, or what came is not what was sent. */
static int receive_block(struct stream *s, int fd)
{
    gridline *log = s->job->t->log;
    struct block_head head;
    char id[BLOCK_ID_BYTES], bytes[BLOCK_BYTES];
    if (!receive_all(fd, &head, sizeof head))
        return -1;
    uint32_t number = ntohl(head.number), n = ntohl(head.bytes);
    if (n == 0 || n > sizeof bytes)
        return n ? -1 : 0;
    print_block_id(id, s->job->transfer, s->stream, number);
    GRIDLINE_EVENT(log, GRIDLINE_DEBUG, "block.header", (text, "id", id), (u64, "stream", s->stream),
                   (text, "server", s->job->server));
    if (!receive_all(fd, bytes, n))
        return -1;
    GRIDLINE_EVENT(log, GRIDLINE_DEBUG, "block.receive", (text, "id", id), (u64, "stream", s->stream),
                   (text, "server", s->job->server), (u64, "bytes", n));
    if (checksum(bytes, n) != ntohl(head.checksum) ||
        pwrite(s->job->file, bytes, n, (off_t)number * BLOCK_BYTES) != (ssize_t)n) {
        GRIDLINE_EVENT(log, GRIDLINE_ERROR, "block.bad", (text, "id", id), (u64, "stream", s->stream));
        return -1;
    }
    GRIDLINE_EVENT(log, GRIDLINE_DEBUG, "block.write", (text, "id", id), (u64, "stream", s->stream),
                   (text, "server", s->job->server));
    s->bytes += n;
    return 1;
}

static void *receive_stream(void *arg)
{
    struct stream *s = arg;
    const struct transfer *t = s->job->t;
    int fd = dial(s->job->address, t->buffers[s->stream]), r = -1;
    if (fd < 0)
        return NULL;
    if (send_line(fd, "SEND %lu %u %u file-%lu\n", s->job->transfer, s->stream, t->streams,
                  s->job->transfer % t->files))
        do
            r = receive_block(s, fd);
        while (r > 0);
    (void)close(fd);
    s->is_whole = r == 0;
    return NULL;
}

/* The bytes received; negative: not all streams were whole. */
static int64_t receive_file(const struct job *j)
{
    struct stream streams[STREAMS_MAX];
    pthread_t threads[STREAMS_MAX];
    int64_t bytes = 0;
    unsigned n = 0;
    bool is_whole = true;
    for (; n < j->t->streams && is_whole; n++) {
        streams[n] = (struct stream){.job = j, .stream = n};
        is_whole = pthread_create(&threads[n], NULL, receive_stream, &streams[n]) == 0;
    }
    n -= !is_whole; /* the last one did not come about */
    for (unsigned i = 0; i < n; i++) {
        (void)pthread_join(threads[i], NULL);
        bytes += (int64_t)streams[i].bytes;
        is_whole = is_whole && streams[i].is_whole;
    }
    return is_whole ? bytes : -1;
}

/* The life of one transfer. False: the scheduler is gone. */
static bool transfer(struct job *j, int scheduler)
{
    gridline *log = j->t->log;
    char line[LINE_MAX_BYTES], id[24];
    double began = seconds();
    (void)snprintf(id, sizeof id, "%lu", j->transfer);
    GRIDLINE_EVENT(log, GRIDLINE_INFO, "transfer.request", (text, "id", id));
    if (!send_line(scheduler, "GET %s\n", id) || !receive_line(scheduler, line) ||
        sscanf(line, "FROM %63s %63s", j->server, j->address) != 2)
        return false;
    double started = seconds();
    int64_t bytes = receive_file(j);
    double took = seconds() - started;
    if (bytes >= 0)
        GRIDLINE_EVENT(log, GRIDLINE_INFO, "transfer.end", (text, "id", id), (text, "server", j->server),
                       (u64, "streams", j->t->streams), (i64, "bytes", bytes),
                       (f64, "waited", started - began), (f64, "seconds", took),
                       (f64, "mbit_s", (double)bytes * 8 / 1e6 / took));
    else
        GRIDLINE_EVENT(log, GRIDLINE_ERROR, "transfer.failed", (text, "id", id), (text, "server", j->server),
                       (f64, "seconds", took));
    has_failed = has_failed || bytes < 0;
    return send_line(scheduler, "DONE %s\n", id);
}

static bool next_transfer(const struct transfer *t, unsigned long *out)
{
    unsigned long n = transfers_begun++;
    *out = t->first + n;
    return !is_ending() && (t->transfers == 0 || n < t->transfers);
}

static void *work(void *arg)
{
    struct job j = {.t = arg};
    char path[4096];
    int scheduler = dial(j.t->scheduler, 0);
    bool is_there = scheduler >= 0;
    while (is_there && next_transfer(j.t, &j.transfer)) {
        int n = snprintf(path, sizeof path, "%s/received-%lu", j.t->folder, j.transfer);
        j.file = n < (int)sizeof path ? open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600) : -1;
        is_there = j.file >= 0 && transfer(&j, scheduler);
        if (j.file >= 0)
            (void)close(j.file);
        (void)unlink(path); /* what was to be seen has been seen */
    }
    has_failed = has_failed || !is_there;
    if (scheduler >= 0)
        (void)close(scheduler);
    return NULL;
}

int run_client(const struct transfer *t)
{
    pthread_t threads[WORKERS_MAX];
    unsigned n = 0;
    while (n < t->workers && n < WORKERS_MAX &&
           pthread_create(&threads[n], NULL, work, (void *)(uintptr_t)t) == 0)
        n++;
    for (unsigned i = 0; i < n; i++)
        (void)pthread_join(threads[i], NULL);
    return n == t->workers && !has_failed ? 0 : 1;
}
