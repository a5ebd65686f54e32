/* SPDX-License-Identifier: Apache-2.0 */
/* fanout_control CONSUMERS SECONDS: the least that a fan-out could do, as the control of bench/fanout: one
 * thread writes batches of ROUND events of 128 bytes to each of CONSUMERS loopback sockets, one after the
 * other, and nothing else. The socket's buffer holds it back. Its CPU is publisher_s. */
#include "drain.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

struct writer {
    struct publisher publisher;
    int *fds;
    size_t n;
};

static void write_round(struct publisher *p)
{
    static const char batch[ROUND * EVENT_BYTES];
    const struct writer *w = (const struct writer *)p;
    for (size_t i = 0; i < w->n; i++)
        drain_write(w->fds[i], batch, sizeof batch);
}

static int listen_anywhere(uint16_t *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 16) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) < 0)
        drain_fail("listen");
    *port = ntohs(a.sin_port);
    return fd;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return fprintf(stderr, "usage: fanout_control CONSUMERS SECONDS\n"), 2;
    size_t n = strtoul(argv[1], NULL, 10);
    const struct drain_options options = {.seconds = strtod(argv[2], NULL)};
    struct consumer *consumers = calloc(n, sizeof *consumers), **all = calloc(n, sizeof *all);
    struct writer w = {.publisher = {.round = write_round}, .fds = calloc(n, sizeof *w.fds), .n = n};
    if (!consumers || !all || !w.fds)
        drain_fail("memory");
    uint16_t port;
    int listener = listen_anywhere(&port);
    for (size_t i = 0; i < n; i++) {
        consumers[i].fd = drain_dial(port);
        consumers[i].per_round = ROUND;
        consumers[i].event_bytes = EVENT_BYTES;
        consumers[i].take = consumer_take_fixed;
        all[i] = &consumers[i];
        w.fds[i] = accept(listener, NULL, NULL);
        if (w.fds[i] < 0)
            drain_fail("accept");
    }
    drain_run(&w.publisher, all, n, &options);
    exit(0); /* the thread that drains ends with it */
}
