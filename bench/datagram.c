/* SPDX-License-Identifier: Apache-2.0 */
/* What the gateway's datagram path costs a datagram of 128 bytes, up to the sampler, which is a fake that
 * copies the packet away. Each figure is CPU time of this thread while it receives; sending and sealing are
 * not in it. Beside it the control: the same recvmmsg on the same socket options, the same EVP open, the same
 * copy, nothing else.
 *
 *     build/bench/datagram [ROUNDS [LEVEL]]
 *
 * Not a bench of script/bench: what the issue asks for is measured by bench/ingest. This shows where the time
 * goes. */
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "gateway/udp.h"
#include "net/seal.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    SIZE = 128,
    JOINED = 64,    /* datagrams a GSO send */
    A_ROUND = 4096, /* datagrams sent, then received */
    CONTROL_MESSAGES = 64,
    CONTROL_BUFFER = 64 << 10,
    COPY_MAX = 1 << 20
};

struct sampler {
    uint64_t packets;
    char more[248]; /* a real one is not smaller, so no two are in a cache line */
};

static char copy[COPY_MAX];
static size_t copied;

static void keep(const void *p, size_t n)
{
    if (copied + n > sizeof copy)
        copied = 0;
    memcpy(copy + copied, p, n);
    copied += n;
}

int sampler_packet(struct sampler *s, struct slice packet, struct diag *why)
{
    (void)why;
    s->packets++;
    keep(packet.p, packet.n);
    return 0;
}

static _Noreturn void fail(const char *what)
{
    (void)fprintf(stderr, "datagram: %s: %s\n", what, err_text(-errno));
    exit(1);
}

static double cpu_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* can't fail on Linux */
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

struct bench {
    struct event_base *base;
    struct workers *workers;
    struct worker **of;
    struct sampler *samplers;
    uint32_t n_workers;
    uint8_t level;
    uint64_t sent; /* datagrams; each worker in turn */
    struct seal *seal;
    struct udp *udp;
    int sender, control;
    unsigned char datagrams[A_ROUND][SIZE];
};

/* Whose turn it is: in no order, as workers come, so that with many of them each is cold. 7919 has no factor
 * in common with any number of workers here. */
static struct worker *next_worker(struct bench *b)
{
    return b->of[b->sent++ * 7919 % b->n_workers];
}

static void add_workers(struct bench *b, uint8_t level, uint32_t n)
{
    const struct workers_options options = {.level = SEAL_PRIVATE};
    const struct frame_origin samples = {.epoch = 1};
    b->workers = workers_create(&options);
    b->of = mem_alloc(n * sizeof *b->of);
    b->samplers = mem_alloc(n * sizeof *b->samplers);
    b->n_workers = n;
    b->level = level;
    b->sent = 0;
    for (uint32_t i = 0; b->workers && i < n; i++) {
        char host[16];
        (void)snprintf(host, sizeof host, "host%" PRIu32, i);
        const struct frame_register r = {.host = slice_str(host)};
        if (workers_register(b->workers, &r, b, level, 1, 1, &b->of[i]) < 0)
            fail("registering workers");
        worker_set_samples(b->workers, b->of[i], &samples, &b->samplers[i]);
    }
}

static int open_sender(uint16_t port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), size = 8 << 20;
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof to) < 0)
        fail("connecting");
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size); /* only to be quicker */
    return fd;
}

static int open_control(uint16_t *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), size = UDP_BUFFER, yes = 1;
    if (fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof at) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) < 0 ||
        setsockopt(fd, IPPROTO_UDP, UDP_GRO, &yes, sizeof yes) < 0)
        fail("opening the control's socket");
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size); /* the same as udp.c gets */
    *port = ntohs(at.sin_port);
    return fd;
}

/* A round of datagrams, each of the next worker. */
static void make_round(struct bench *b)
{
    for (size_t i = 0; i < A_ROUND; i++) {
        const uint64_t number = b->sent / b->n_workers + 1;
        const struct worker *w = next_worker(b);
        const struct datagram_head h = {
            .level = w->level, .key = (uint8_t)w->key_id, .worker = w->id, .number = number};
        unsigned char *p = b->datagrams[i];
        datagram_put_head(p, &h);
        if (seal_close(b->seal, w->key, w->key_id, p, SIZE - (w->level == SEAL_NONE ? 0 : DATAGRAM_TAG)) !=
            SIZE)
            fail("sealing");
    }
}

static void send_round(struct bench *b, int fd, bool is_joined)
{
    const int size = is_joined ? SIZE : 0;
    const size_t a_send = is_joined ? JOINED * SIZE : SIZE;
    if (setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size) < 0)
        fail("UDP_SEGMENT");
    for (size_t at = 0; at < sizeof b->datagrams; at += a_send)
        if (send(fd, b->datagrams[0] + at, a_send, 0) != (ssize_t)a_send)
            fail("sending");
}

static double receive_ours(struct bench *b)
{
    struct udp_counts c;
    udp_counts(b->udp, &c);
    const uint64_t want = c.passed + A_ROUND;
    double ns = 0;
    for (int tries = 0; c.passed < want; tries++) {
        double start = cpu_ns();
        (void)event_base_loop(b->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        ns += cpu_ns() - start;
        udp_counts(b->udp, &c);
        if (tries > 1000000 || c.received != c.passed)
            fail("receiving: datagrams were lost or refused");
    }
    return ns;
}

static void control_take(struct bench *b, unsigned char *p, size_t n)
{
    const struct datagram_head h = {.level = b->level};
    struct slice packet = {(const char *)p + DATAGRAM_HEAD, n - DATAGRAM_HEAD};
    const struct worker *w =
        b->level == SEAL_NONE ? NULL : next_worker(b); /* for its key; read no head for it */
    if (w && seal_open(b->seal, w->key, w->key_id, &h, p, n, &packet) < 0)
        fail("opening");
    keep(packet.p, packet.n);
}

static size_t control_split(struct bench *b, struct mmsghdr *m)
{
    size_t size = m->msg_len, n = 0;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&m->msg_hdr);
    if (c && c->cmsg_type == UDP_GRO) {
        int joined;
        memcpy(&joined, CMSG_DATA(c), sizeof joined);
        size = (size_t)joined;
    }
    for (size_t at = 0; at < m->msg_len; at += size, n++)
        control_take(b, (unsigned char *)m->msg_hdr.msg_iov->iov_base + at, size);
    return n;
}

static double receive_control(struct bench *b)
{
    static unsigned char buffers[CONTROL_MESSAGES][CONTROL_BUFFER];
    static _Alignas(struct cmsghdr) char controls[CONTROL_MESSAGES][64];
    static struct mmsghdr messages[CONTROL_MESSAGES];
    static struct iovec iov[CONTROL_MESSAGES];
    double start = cpu_ns();
    const uint64_t sent = b->sent;
    b->sent -= A_ROUND; /* whose turn it was */
    for (size_t got = 0; got < A_ROUND;) {
        for (int i = 0; i < CONTROL_MESSAGES; i++) {
            iov[i] = (struct iovec){buffers[i], CONTROL_BUFFER};
            messages[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i],
                                                  .msg_iovlen = 1,
                                                  .msg_control = controls[i],
                                                  .msg_controllen = sizeof controls[i]};
        }
        int n = recvmmsg(b->control, messages, CONTROL_MESSAGES, MSG_DONTWAIT, NULL);
        for (int i = 0; i < n; i++)
            got += control_split(b, &messages[i]);
    }
    b->sent = sent;
    return cpu_ns() - start;
}

static double take_ours(struct bench *b)
{
    double start = cpu_ns();
    for (size_t i = 0; i < A_ROUND; i++)
        udp_take(b->udp, b->datagrams[i], SIZE);
    return cpu_ns() - start;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return v[n / 2] / A_ROUND;
}

static void run(struct bench *b, uint8_t level, uint32_t n_workers, size_t rounds)
{
    static const char *const names[] = {"none", "authentic", "private"};
    struct diag why;
    uint16_t port;
    double *ns[5];
    for (int i = 0; i < 5; i++)
        ns[i] = mem_alloc(rounds * sizeof(double));
    add_workers(b, level, n_workers);
    if (udp_create(b->base, SLICE_LIT("127.0.0.1:0"), b->workers, &b->udp, &why) < 0)
        fail(why.message);
    b->control = open_control(&port);
    const int to_control = open_sender(port), to_ours = open_sender(udp_port(b->udp));
    for (size_t i = 0; i < rounds; i++) {
        make_round(b);
        ns[0][i] = take_ours(b);
        for (int joined = 0; joined < 2; joined++) {
            make_round(b);
            send_round(b, to_ours, joined);
            ns[1 + joined][i] = receive_ours(b);
            make_round(b); /* its numbers are lost to ours */
            send_round(b, to_control, joined);
            ns[3 + joined][i] = receive_control(b);
        }
    }
    const double take = median(ns[0], rounds), lone = median(ns[1], rounds), joined = median(ns[2], rounds);
    const double control_lone = median(ns[3], rounds), control_joined = median(ns[4], rounds);
    printf("%-10s %7" PRIu32 " %8.0f %8.0f %8.0f %6.2f %8.0f %8.0f %6.2f\n", names[level], n_workers, take,
           lone, control_lone, lone / control_lone, joined, control_joined, joined / control_joined);
    udp_destroy(b->udp);
    workers_destroy(b->workers);
    (void)close(to_control);
    (void)close(to_ours);
    (void)close(b->control);
    mem_free(b->of);
    mem_free(b->samplers);
    for (int i = 0; i < 5; i++)
        mem_free(ns[i]);
}

static void run_level(struct bench *b, uint8_t level, size_t rounds)
{
    static const uint32_t n_workers[] = {64, 12000, 100000};
    for (size_t i = 0; i < sizeof n_workers / sizeof *n_workers; i++)
        run(b, level, n_workers[i], rounds);
}

int main(int argc, char **argv)
{
    static struct bench b;
    uint64_t rounds = 50, level = SEAL_NONE;
    if ((argc > 1 && (num_parse_uint(slice_str(argv[1]), &rounds) < 0 || rounds == 0 || rounds > 100000)) ||
        (argc > 2 && (num_parse_uint(slice_str(argv[2]), &level) < 0 || level > SEAL_PRIVATE))) {
        (void)fprintf(stderr, "usage: datagram [ROUNDS [LEVEL]]\n");
        return 2;
    }
    b.base = event_base_new();
    b.seal = seal_create();
    if (!b.base || !b.seal)
        fail("starting");
    printf("ns of CPU a datagram of %d bytes, medians of %" PRIu64 " rounds of %d\n", SIZE, rounds, A_ROUND);
    printf("%-10s %7s %8s %26s %26s\n", "", "", "in", "lone", "GSO 64 + GRO");
    printf("%-10s %7s %8s %8s %8s %6s %8s %8s %6s\n", "level", "workers", "memory", "ours", "control",
           "ratio", "ours", "control", "ratio");
    for (; level <= SEAL_PRIVATE; level = argc > 2 ? SEAL_PRIVATE + 1 : level + 1)
        run_level(&b, (uint8_t)level, rounds);
    seal_destroy(b.seal);
    event_base_free(b.base);
    return 0;
}
