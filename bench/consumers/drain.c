/* SPDX-License-Identifier: Apache-2.0 */
#include "drain.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    READ_MAX = 256 << 10,
    READY_MAX = 128,
    WAIT_NS = 50000, /* between two looks at the slowest */
    PATIENCE_S = 10  /* without any progress */
};

struct drain {
    int epoll;
    struct consumer **all;
    size_t n;
};

_Noreturn void drain_fail(const char *what)
{
    (void)fprintf(stderr, "fanout: %s: %s\n", what, strerror(errno));
    exit(1);
}

int drain_dial(uint16_t port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof to) < 0)
        drain_fail("connect");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* it is loopback: it is known */
    return fd;
}

void drain_write(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t k = send(fd, at, n, MSG_NOSIGNAL);
        if (k < 0)
            drain_fail("write");
        at += k;
        n -= (size_t)k;
    }
}

void drain_read(int fd, void *bytes, size_t n)
{
    char *at = bytes;
    while (n > 0) {
        ssize_t k = read(fd, at, n);
        if (k == 0)
            errno = ECONNRESET;
        if (k <= 0)
            drain_fail("read");
        at += k;
        n -= (size_t)k;
    }
}

void consumer_take_fixed(struct consumer *c, const char *bytes, size_t n)
{
    (void)bytes;
    c->bytes += n;
    atomic_store_explicit(&c->events, c->bytes / c->event_bytes, memory_order_relaxed);
}

static void *drain(void *arg)
{
    static char bytes[READ_MAX];
    const struct drain *d = arg;
    struct epoll_event ready[READY_MAX];
    for (;;) {
        int n = epoll_wait(d->epoll, ready, READY_MAX, -1);
        for (int i = 0; i < n; i++) {
            struct consumer *c = ready[i].data.ptr;
            ssize_t k = read(c->fd, bytes, sizeof bytes);
            if (k == 0)
                errno = ECONNRESET;
            if (k <= 0)
                drain_fail("a consumer");
            c->take(c, bytes, (size_t)k);
        }
    }
    return NULL;
}

static void drain_start(struct drain *d, struct consumer **all, size_t n)
{
    pthread_t thread;
    *d = (struct drain){epoll_create1(EPOLL_CLOEXEC), all, n};
    if (d->epoll < 0)
        drain_fail("epoll");
    for (size_t i = 0; i < n; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = all[i]};
        if (epoll_ctl(d->epoll, EPOLL_CTL_ADD, all[i]->fd, &e) < 0)
            drain_fail("epoll");
    }
    if (pthread_create(&thread, NULL, drain, d) != 0)
        drain_fail("thread");
}

static double now_s(clockid_t id)
{
    struct timespec t;
    (void)clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t settled(const struct consumer *c)
{
    return atomic_load_explicit(&c->events, memory_order_relaxed) +
           atomic_load_explicit(&c->gap, memory_order_relaxed);
}

/* Rounds of which everybody has everything. */
static uint64_t slowest(const struct drain *d, uint64_t published)
{
    uint64_t least = published;
    for (size_t i = 0; i < d->n; i++) {
        uint64_t rounds = d->all[i]->per_round ? settled(d->all[i]) / d->all[i]->per_round : published;
        least = rounds < least ? rounds : least;
    }
    return least;
}

static uint64_t total(const struct drain *d)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < d->n; i++)
        sum += settled(d->all[i]);
    return sum;
}

/* Until the slowest has that many rounds. false: nothing has come for PATIENCE_S. */
static bool await(const struct drain *d, struct publisher *p, uint64_t rounds)
{
    const struct timespec pause = {.tv_nsec = WAIT_NS};
    uint64_t before = total(d);
    double since = now_s(CLOCK_MONOTONIC);
    while (slowest(d, rounds) < rounds) {
        if (p->idle)
            p->idle(p);
        (void)nanosleep(&pause, NULL);
        uint64_t now = total(d);
        if (now != before) {
            before = now;
            since = now_s(CLOCK_MONOTONIC);
        } else if (now_s(CLOCK_MONOTONIC) - since > PATIENCE_S) {
            return false;
        }
    }
    return true;
}

static void ready(void)
{
    (void)puts("{\"phase\":\"ready\"}");
    (void)fflush(stdout);
    if (getchar() == EOF)
        exit(1); /* whoever started it is gone */
}

static void report(const struct drain *d, uint64_t rounds, double seconds, double publisher_s)
{
    uint64_t events = 0, gap = 0, expected = 0, bytes = 0, missing = 0;
    for (size_t i = 0; i < d->n; i++) {
        const struct consumer *c = d->all[i];
        uint64_t due = rounds * c->per_round;
        expected += due;
        events += c->events;
        gap += c->gap;
        bytes += c->bytes;
        missing += due > settled(c) ? due - settled(c) : 0;
    }
    (void)printf("{\"phase\":\"load\",\"events\":%" PRIu64 ",\"deliveries\":%" PRIu64 ",\"expected\":%" PRIu64
                 ",\"gap\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"seconds\":%.6f,\"bytes\":%" PRIu64
                 ",\"publisher_s\":%.6f}\n",
                 rounds * ROUND, events, expected, gap, missing, seconds, bytes, publisher_s);
    (void)fflush(stdout);
}

void drain_run(struct publisher *p, struct consumer **all, size_t n, const struct drain_options *o)
{
    static struct drain d; /* the thread keeps it until the program ends */
    uint64_t rounds = 0;
    drain_start(&d, all, n);
    ready();
    double began = now_s(CLOCK_MONOTONIC), cpu = now_s(CLOCK_THREAD_CPUTIME_ID);
    bool is_alive = true;
    while (is_alive && now_s(CLOCK_MONOTONIC) - began < o->seconds) {
        is_alive = !o->window || rounds < o->window || await(&d, p, rounds - o->window + 1);
        if (!is_alive)
            break;
        p->round(p);
        rounds++;
    }
    cpu = now_s(CLOCK_THREAD_CPUTIME_ID) - cpu;
    (void)(is_alive && await(&d, p, rounds)); /* what has not come is reported */
    report(&d, rounds, now_s(CLOCK_MONOTONIC) - began, cpu);
}
