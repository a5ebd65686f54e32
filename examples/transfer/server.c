/* SPDX-License-Identifier: Apache-2.0 */
/* A server: each connection is one stream of a transfer, with a thread of its own, and gets every n-th block
 * of the file. */
#include "transfer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SEND_BUFFER = 128 * 1024, ENDING_S = 3 };

struct stream {
    const struct transfer *t;
    int fd;
    unsigned long transfer;
    unsigned stream, streams;
};

static atomic_uint streams_now;

/* False at the end of the file, or of the connection. */
static bool send_block(const struct stream *s, int file, uint32_t number)
{
    gridline *log = s->t->log;
    char id[BLOCK_ID_BYTES], bytes[BLOCK_BYTES];
    print_block_id(id, s->transfer, s->stream, number);
    GRIDLINE_EVENT(log, GRIDLINE_DEBUG, "block.read", (text, "id", id), (u64, "stream", s->stream),
                   (text, "server", s->t->host));
    ssize_t n = pread(file, bytes, sizeof bytes, (off_t)number * BLOCK_BYTES);
    if (n <= 0)
        return false;
    const struct block_head head = {htonl(number), htonl((uint32_t)n), htonl(checksum(bytes, (size_t)n))};
    GRIDLINE_EVENT(log, GRIDLINE_DEBUG, "block.send", (text, "id", id), (u64, "stream", s->stream),
                   (text, "server", s->t->host), (u64, "bytes", n));
    return send_all(s->fd, &head, sizeof head) && send_all(s->fd, bytes, (size_t)n);
}

static void send_blocks(const struct stream *s, int file)
{
    const struct block_head end = {0};
    uint32_t number = s->stream;
    (void)posix_fadvise(file, 0, 0,
                        POSIX_FADV_DONTNEED); /* from the disk, not from memory, if it can be had */
    while (!is_ending() && send_block(s, file, number))
        number += s->streams;
    (void)send_all(s->fd, &end, sizeof end); /* if that is gone the client knows */
}

/* "SEND TRANSFER STREAM STREAMS FILE". The name is one of a file in the folder and nothing else. */
static int open_asked(struct stream *s)
{
    char line[LINE_MAX_BYTES], name[LINE_MAX_BYTES], path[4096];
    if (!receive_line(s->fd, line) ||
        sscanf(line, "SEND %lu %u %u %200[a-z0-9-]", &s->transfer, &s->stream, &s->streams, name) != 4 ||
        s->stream >= s->streams || s->streams > STREAMS_MAX)
        return -1;
    int n = snprintf(path, sizeof path, "%s/%s", s->t->folder, name);
    int file = n < (int)sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    char id[BLOCK_ID_BYTES];
    (void)snprintf(id, sizeof id, "%lu", s->transfer);
    if (file < 0)
        GRIDLINE_EVENT(s->t->log, GRIDLINE_ERROR, "server.refused", (text, "id", id), (text, "file", name));
    else if (s->stream == 0) /* once a transfer */
        GRIDLINE_EVENT(s->t->log, GRIDLINE_INFO, "server.open", (text, "id", id), (text, "file", name));
    return file;
}

static void *serve(void *arg)
{
    struct stream *s = arg;
    int file = open_asked(s);
    if (file >= 0) {
        send_blocks(s, file);
        (void)close(file);
    }
    (void)close(s->fd);
    free(s);
    streams_now--;
    return NULL;
}

static void take(const struct transfer *t, int fd)
{
    struct stream *s = calloc(1, sizeof *s);
    int size = SEND_BUFFER;
    pthread_t thread;
    set_patience(fd);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);   /* else what the system has */
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size); /* bounds what waits in the kernel */
    if (s)
        *s = (struct stream){.t = t, .fd = fd};
    streams_now++;
    if (s && pthread_create(&thread, NULL, serve, s) == 0) {
        (void)pthread_detach(thread);
        return;
    }
    streams_now--;
    free(s);
    (void)close(fd);
}

int run_server(const struct transfer *t)
{
    int fd = listen_at(t->listen, t->ready);
    if (fd < 0)
        return 1;
    while (!is_ending()) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int peer = wait_readable(&p, 1) > 0 ? accept4(fd, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (peer >= 0)
            take(t, peer);
    }
    (void)close(fd);
    for (int i = 0; streams_now && i < ENDING_S * 100; i++)
        (void)poll(NULL, 0, 10); /* they end when their clients do */
    return streams_now ? 1 : 0;
}
