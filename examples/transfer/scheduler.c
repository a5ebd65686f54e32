/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler: who asks for a file is told a server that is free, or waits in the order of asking. A server
 * has one transfer at a time.
 *
 *     client: GET TRANSFER          scheduler: FROM SERVER ADDRESS:PORT
 *     client: DONE TRANSFER         (the server is free) */
#include "transfer.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PEERS_MAX = 64, NOBODY = -1 };

struct peer {
    int fd; /* -1: the place is free */
    bool is_waiting;
    unsigned long turn;     /* who waits: the lower the earlier */
    unsigned long transfer; /* asked for */
};

struct scheduler {
    const struct transfer *t;
    struct peer peers[PEERS_MAX];
    int served[SERVERS_MAX]; /* whom each server serves */
    unsigned long turns;
    unsigned next; /* the server to begin the search with: all get their share */
};

static unsigned count_waiting(const struct scheduler *s)
{
    unsigned n = 0;
    for (int i = 0; i < PEERS_MAX; i++)
        n += s->peers[i].fd >= 0 && s->peers[i].is_waiting;
    return n;
}

static int first_waiting(const struct scheduler *s)
{
    int first = NOBODY;
    for (int i = 0; i < PEERS_MAX; i++)
        if (s->peers[i].fd >= 0 && s->peers[i].is_waiting &&
            (first == NOBODY || s->peers[i].turn < s->peers[first].turn))
            first = i;
    return first;
}

static void release(struct scheduler *s, int peer)
{
    for (unsigned i = 0; i < s->t->n_servers; i++)
        if (s->served[i] == peer)
            s->served[i] = NOBODY;
}

static void drop(struct scheduler *s, int peer)
{
    release(s, peer);
    (void)close(s->peers[peer].fd);
    s->peers[peer] = (struct peer){.fd = -1};
}

static void queue(struct scheduler *s, struct peer *p)
{
    char id[24];
    p->is_waiting = true;
    p->turn = s->turns++;
    (void)snprintf(id, sizeof id, "%lu", p->transfer);
    GRIDLINE_EVENT(s->t->log, GRIDLINE_INFO, "sched.queue", (text, "id", id),
                   (u64, "waiting", count_waiting(s)));
}

static void dispatch(struct scheduler *s, unsigned server, int peer)
{
    struct peer *p = &s->peers[peer];
    const char *name = s->t->servers[server], *equals = strchr(name, '=');
    char id[24];
    s->served[server] = peer;
    p->is_waiting = false;
    (void)snprintf(id, sizeof id, "%lu", p->transfer);
    GRIDLINE_EVENT(s->t->log, GRIDLINE_INFO, "sched.dispatch", (text, "id", id),
                   (textn, "server", name, equals - name));
    if (!send_line(p->fd, "FROM %.*s %s\n", (int)(equals - name), name, equals + 1))
        drop(s, peer);
}

static void dispatch_all(struct scheduler *s)
{
    for (unsigned i = 0, from = s->next; i < s->t->n_servers; i++) {
        unsigned server = (from + i) % s->t->n_servers;
        int peer = s->served[server] == NOBODY ? first_waiting(s) : NOBODY;
        if (peer == NOBODY)
            continue;
        dispatch(s, server, peer);
        s->next = server + 1;
    }
}

static void listen_to(struct scheduler *s, int peer)
{
    struct peer *p = &s->peers[peer];
    char line[LINE_MAX_BYTES];
    if (!receive_line(p->fd, line))
        drop(s, peer);
    else if (sscanf(line, "GET %lu", &p->transfer) == 1)
        queue(s, p);
    else if (strncmp(line, "DONE ", 5) == 0)
        release(s, peer);
    else
        drop(s, peer);
}

static void take(struct scheduler *s, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    for (int i = 0; i < PEERS_MAX && fd >= 0; i++) {
        if (s->peers[i].fd >= 0)
            continue;
        set_patience(fd);
        s->peers[i] = (struct peer){.fd = fd};
        return;
    }
    if (fd >= 0)
        (void)close(fd);
}

int run_scheduler(const struct transfer *t)
{
    struct scheduler s = {.t = t};
    int fd = listen_at(t->listen, t->ready);
    if (fd < 0)
        return 1;
    for (int i = 0; i < PEERS_MAX; i++)
        s.peers[i].fd = -1;
    for (int i = 0; i < SERVERS_MAX; i++)
        s.served[i] = NOBODY;
    while (!is_ending()) {
        struct pollfd fds[1 + PEERS_MAX] = {{.fd = fd, .events = POLLIN}};
        for (int i = 0; i < PEERS_MAX; i++)
            fds[1 + i] = (struct pollfd){.fd = s.peers[i].fd, .events = POLLIN}; /* -1 is passed over */
        if (wait_readable(fds, 1 + PEERS_MAX) <= 0)
            continue;
        for (int i = 0; i < PEERS_MAX; i++)
            if (fds[1 + i].revents)
                listen_to(&s, i);
        if (fds[0].revents)
            take(&s, fd);
        dispatch_all(&s);
    }
    for (int i = 0; i < PEERS_MAX; i++)
        if (s.peers[i].fd >= 0)
            drop(&s, i);
    (void)close(fd);
    return 0;
}
