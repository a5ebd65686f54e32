/* SPDX-License-Identifier: Apache-2.0 */
/* Real sockets on loopback and real workers; the samplers are made up here. */
#include "unit/test.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "gateway/udp.h"
#include "net/seal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WORKERS = 4, PACKET = 40, LIMIT_S = 60 };

struct sampler {
    uint64_t packets;
    int answer;
    struct strbuf *bytes; /* NULL = not kept */
};

int sampler_packet(struct sampler *s, struct slice packet, struct diag *why)
{
    assert_non_null(why);
    assert_true(packet.n > 0);
    if (s->answer < 0)
        return s->answer;
    s->packets++;
    if (s->bytes)
        strbuf_add_slice(s->bytes, packet);
    return 0;
}

struct fixture {
    struct event_base *base;
    struct workers *workers;
    struct worker *of[WORKERS]; /* ids 1 to WORKERS: levels none, authentic, private, none */
    struct sampler samplers[WORKERS];
    struct udp *udp;
    struct seal *seal;
    struct udp_counts counts;
    unsigned rounds;
    int sender; /* connected to udp */
};

static void on_round(void *arg)
{
    ((struct fixture *)arg)->rounds++;
}

static int connect_to(const struct udp *u)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(udp_port(u)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void add_worker(struct fixture *f, unsigned i)
{
    const struct frame_origin samples = {.epoch = 1};
    char host[8];
    (void)snprintf(host, sizeof host, "host%u", i);
    const struct frame_register r = {.host = slice_str(host)};
    assert_int_equal(workers_register(f->workers, &r, f, (uint8_t)(i % 3), 1, 1, &f->of[i]), 0);
    assert_int_equal(f->of[i]->id, i + 1);
    worker_set_samples(f->workers, f->of[i], &samples, &f->samplers[i]);
}

static int set_up(void **state)
{
    const struct workers_options options = {.level = SEAL_PRIVATE};
    struct fixture *f = calloc(1, sizeof *f);
    struct diag why;
    f->base = event_base_new();
    f->seal = seal_create();
    f->workers = workers_create(&options);
    for (unsigned i = 0; i < WORKERS; i++)
        add_worker(f, i);
    f->of[1]->state = WORKER_LATE; /* as good as live */
    assert_int_equal(udp_create(f->base, SLICE_LIT("127.0.0.1:0"), f->workers, &f->udp, &why), 0);
    udp_on_round(f->udp, on_round, f);
    f->sender = connect_to(f->udp);
    *state = f;
    return 0;
}

/* Whatever a test did: every datagram has one fate. */
static int tear_down(void **state)
{
    struct fixture *f = *state;
    struct udp_counts c;
    udp_counts(f->udp, &c);
    assert_int_equal(c.received, c.passed + c.malformed + c.unknown + c.level + c.forged + c.replayed);
    (void)close(f->sender);
    udp_destroy(f->udp);
    seal_destroy(f->seal);
    workers_destroy(f->workers);
    event_base_free(f->base);
    free(f);
    return 0;
}

/* A datagram of that worker, sealed as it should be. n: bytes of its packet, which are the number's low byte.
 */
static size_t make(const struct fixture *f, uint32_t id, uint64_t number, size_t n, unsigned char *p)
{
    const struct worker *w = f->of[id - 1];
    const struct datagram_head h = {
        .level = w->level, .key = (uint8_t)w->key_id, .worker = id, .number = number};
    datagram_put_head(p, &h);
    memset(p + DATAGRAM_HEAD, (int)(number & 0xff), n);
    return (size_t)seal_close(f->seal, w->key, w->key_id, p, DATAGRAM_HEAD + n);
}

static void give(struct fixture *f, uint32_t id, uint64_t number, size_t n)
{
    unsigned char p[DATAGRAM_MAX];
    udp_take(f->udp, p, make(f, id, number, n, p));
}

/* How much the counts grew since the last call: passed malformed unknown level forged replayed. */
static void assert_grew(struct fixture *f, const char *want)
{
    struct udp_counts c;
    const struct udp_counts *b = &f->counts;
    char text[128];
    udp_counts(f->udp, &c);
    assert_int_equal(c.received - b->received, c.passed + c.malformed + c.unknown + c.level + c.forged +
                                                   c.replayed - b->passed - b->malformed - b->unknown -
                                                   b->level - b->forged - b->replayed);
    (void)snprintf(text, sizeof text, "%u %u %u %u %u %u", (unsigned)(c.passed - b->passed),
                   (unsigned)(c.malformed - b->malformed), (unsigned)(c.unknown - b->unknown),
                   (unsigned)(c.level - b->level), (unsigned)(c.forged - b->forged),
                   (unsigned)(c.replayed - b->replayed));
    assert_string_equal(text, want);
    f->counts = c;
}

/* Runs the loop until that many were received in all. */
static void receive(struct fixture *f, uint64_t received)
{
    struct udp_counts c;
    const int64_t deadline_ns = clock_mono_ns() + LIMIT_S * NS_PER_S;
    for (udp_counts(f->udp, &c); c.received < received; udp_counts(f->udp, &c)) {
        assert_true(clock_mono_ns() < deadline_ns);
        assert_true(event_base_loop(f->base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
    }
    assert_int_equal(c.received, received);
}

static void test_passed(void **state)
{
    struct fixture *f = *state;
    for (uint32_t id = 1; id <= WORKERS; id++) {
        struct strbuf bytes = {0};
        unsigned char want[2 * PACKET];
        memset(want, 7, PACKET);
        memset(want + PACKET, 8, PACKET);
        f->samplers[id - 1].bytes = &bytes;
        give(f, id, 7, PACKET);
        give(f, id, 8, PACKET);
        assert_grew(f, "2 0 0 0 0 0");
        assert_int_equal(f->samplers[id - 1].packets, 2);
        assert_int_equal(bytes.n, sizeof want);
        assert_memory_equal(bytes.p, want, sizeof want);
        f->samplers[id - 1].bytes = NULL;
        strbuf_fini(&bytes);
        assert_int_equal(f->of[id - 1]->window.received, 2);
    }
}

/* Probes count in the window and go no further. */
static void test_probes(void **state)
{
    struct fixture *f = *state;
    for (uint32_t id = 1; id <= WORKERS; id++) {
        give(f, id, 1, 0);
        assert_grew(f, "1 0 0 0 0 0");
        assert_int_equal(f->samplers[id - 1].packets, 0);
        assert_int_equal(f->of[id - 1]->window.received, 1);
    }
}

/* Without the loop: everything that was sent before. */
static void test_drain(void **state)
{
    enum { N = 300 };
    struct fixture *f = *state;
    unsigned char p[DATAGRAM_MAX];
    udp_drain(f->udp);
    assert_int_equal(f->rounds, 0);
    for (uint64_t number = 1; number <= N; number++) {
        size_t n = make(f, 1, number, PACKET, p);
        assert_int_equal(send(f->sender, p, n, 0), (ssize_t)n);
    }
    udp_drain(f->udp);
    assert_grew(f, "300 0 0 0 0 0");
    assert_int_equal(f->of[0]->window.received, N);
    assert_int_equal(f->rounds, 1);
    udp_drain(f->udp);
    assert_int_equal(f->rounds, 1);
}

static bool is_set(void *arg)
{
    return *(const bool *)arg;
}

/* While it is crowded the kernel keeps what comes, and nothing spins; only a goodbye's drain takes it. */
static void test_held(void **state)
{
    struct fixture *f = *state;
    unsigned char p[DATAGRAM_MAX];
    bool is_crowded = true;
    udp_hold_while(f->udp, is_set, &is_crowded);
    for (uint64_t number = 1; number <= 3; number++) {
        size_t n = make(f, 1, number, PACKET, p);
        assert_int_equal(send(f->sender, p, n, 0), (ssize_t)n);
    }
    assert_true(event_base_loop(f->base, EVLOOP_ONCE) >= 0);
    assert_grew(f, "0 0 0 0 0 0");
    assert_int_equal(event_base_loop(f->base, EVLOOP_NONBLOCK), 1); /* it waits for nothing */
    udp_go_on(f->udp);                                              /* asks again, and is held again */
    assert_true(event_base_loop(f->base, EVLOOP_ONCE) >= 0);
    assert_grew(f, "0 0 0 0 0 0");
    udp_drain(f->udp);
    assert_grew(f, "3 0 0 0 0 0");
    size_t n = make(f, 1, 4, PACKET, p);
    assert_int_equal(send(f->sender, p, n, 0), (ssize_t)n);
    is_crowded = false;
    udp_go_on(f->udp);
    receive(f, 4);
    assert_grew(f, "1 0 0 0 0 0");
}

static void test_malformed(void **state)
{
    struct fixture *f = *state;
    unsigned char p[DATAGRAM_MAX + 1] = {0};
    udp_take(f->udp, p, 0);
    udp_take(f->udp, p, DATAGRAM_HEAD); /* version 0 */
    assert_grew(f, "0 2 0 0 0 0");
    udp_take(f->udp, p, make(f, 1, 1, 0, p) - 1);                    /* half a head */
    udp_take(f->udp, p, make(f, 3, 1, 0, p) - 1);                    /* half a tag */
    udp_take(f->udp, p, make(f, 1, 0, PACKET, p));                   /* number 0 */
    udp_take(f->udp, p, make(f, 1, 1, sizeof p - DATAGRAM_HEAD, p)); /* too long */
    assert_grew(f, "0 4 0 0 0 0");
    f->samplers[0].answer = E_PROTO;
    give(f, 1, 1, PACKET); /* the sampler can't read it; it has come nevertheless */
    assert_grew(f, "0 1 0 0 0 0");
    assert_int_equal(f->of[0]->window.received, 1);
}

static void test_unknown(void **state)
{
    struct fixture *f = *state;
    unsigned char p[DATAGRAM_MAX];
    size_t n = make(f, 1, 1, PACKET, p);
    p[2] = 0;
    udp_take(f->udp, p, n);
    p[2] = WORKERS + 1;
    udp_take(f->udp, p, n);
    memset(p + 2, 0xff, 4);
    udp_take(f->udp, p, n);
    assert_grew(f, "0 0 3 0 0 0");
    f->of[0]->sampler = NULL;
    give(f, 1, 1, PACKET);
    f->of[1]->state = WORKER_EXPIRED;
    give(f, 2, 1, PACKET);
    worker_leave(f->workers, f->of[2], 2);
    give(f, 3, 1, PACKET);
    assert_grew(f, "0 0 3 0 0 0");
    n = make(f, 4, 1, PACKET, p);
    p[1]++; /* another key's */
    udp_take(f->udp, p, n);
    assert_grew(f, "0 0 1 0 0 0");
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(f->of[i]->window.received, 0);
}

static void test_level(void **state)
{
    struct fixture *f = *state;
    for (uint32_t id = 1; id <= WORKERS; id++) {
        struct worker *w = f->of[id - 1];
        const uint8_t right = w->level;
        for (uint8_t level = SEAL_NONE; level <= SEAL_PRIVATE; level++) {
            unsigned char p[DATAGRAM_MAX];
            w->level = level;
            size_t n = make(f, id, 1, PACKET, p); /* right for that level */
            w->level = right;
            udp_take(f->udp, p, n);
            assert_grew(f, level == right ? "1 0 0 0 0 0" : "0 0 0 1 0 0");
        }
    }
}

static void test_forged(void **state)
{
    struct fixture *f = *state;
    for (uint32_t id = 2; id <= 3; id++) {
        unsigned char p[DATAGRAM_MAX];
        size_t n = make(f, id, 1, PACKET, p);
        for (size_t i = 6; i < n; i++) { /* number, packet, tag */
            n = make(f, id, 2, PACKET, p);
            p[i] ^= 0x40;
            udp_take(f->udp, p, n);
            assert_grew(f, "0 0 0 0 1 0");
        }
        assert_int_equal(f->of[id - 1]->window.highest, 0); /* a forged number moves nothing */
        give(f, id, 1, PACKET);
        assert_grew(f, "1 0 0 0 0 0");
    }
}

static void test_replayed(void **state)
{
    struct fixture *f = *state;
    for (uint32_t id = 1; id <= 3; id++) {
        const struct datagram_window *w = &f->of[id - 1]->window;
        give(f, id, 2000, PACKET);
        give(f, id, 1999, PACKET);
        assert_grew(f, "2 0 0 0 0 0");
        give(f, id, 2000, PACKET);
        give(f, id, 1999, PACKET);
        give(f, id, 2000 - DATAGRAM_WINDOW - 1, PACKET);
        assert_grew(f, "0 0 0 0 0 3");
        assert_int_equal(w->received, 2);
        assert_int_equal(w->reordered, 1);
        assert_int_equal(w->duplicate, 2);
        assert_int_equal(w->too_old, 1);
        assert_int_equal(f->samplers[id - 1].packets, 2);
    }
}

/* Lone datagrams of several senders through the socket, good and bad mixed. */
static void test_socket(void **state)
{
    struct fixture *f = *state;
    enum { N = 500 };
    const int other = connect_to(f->udp);
    for (uint64_t i = 1; i <= N; i++) {
        unsigned char p[DATAGRAM_MAX + 100];
        const uint32_t id = (uint32_t)(i % WORKERS + 1);
        size_t n = make(f, id, i, i % 100, p);
        if (i % 10 == 0) /* ids 1 and 3 */
            p[0] = 0;
        if (i % 50 == 0)
            n = 0;
        if (i % 90 == 1)
            n = sizeof p;
        assert_int_equal(send(i % 3 ? f->sender : other, p, n, 0), n);
    }
    receive(f, N);
    assert_grew(f, "444 56 0 0 0 0");
    assert_true(f->rounds > 0);
    (void)close(other);
}

/* One send of many datagrams of the same size, the last one shorter. */
static void send_joined(int fd, const unsigned char *p, size_t n, uint16_t size)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof size)];
    } control = {0};
    struct iovec iov = {(void *)p, n};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = IPPROTO_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof size);
    memcpy(CMSG_DATA(c), &size, sizeof size);
    assert_int_equal(sendmsg(fd, &m, 0), n);
}

static bool has_gso(void)
{
    const int size = 100;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool has = setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size) == 0;
    (void)close(fd);
    return has;
}

enum { JOINED = 37 };

/* JOINED datagrams of the workers in turn, numbers from first on; the last one with a shorter packet. */
static size_t make_joined(const struct fixture *f, const uint32_t ids[2], uint64_t first, unsigned char *p)
{
    size_t n = 0;
    for (uint64_t i = 0; i < JOINED; i++)
        n += make(f, ids[i % 2], first + i, i + 1 < JOINED ? PACKET : PACKET - 9, p + n);
    return n;
}

static void test_joined(void **state)
{
    if (!has_gso())
        skip(); /* a kernel before 4.18 */
    struct fixture *f = *state;
    static unsigned char p[JOINED * DATAGRAM_MAX];
    enum { SENDS = 50, PLAIN = DATAGRAM_HEAD + PACKET, SEALED = PLAIN + DATAGRAM_TAG };
    struct strbuf bytes = {0};
    f->samplers[1].bytes = &bytes;
    for (uint64_t i = 0; i < SENDS; i++) {
        const uint64_t first = i * JOINED + 1;
        size_t n = make_joined(f, (const uint32_t[]){1, 4}, first, p);
        send_joined(f->sender, p, n, PLAIN);
        n = make_joined(f, (const uint32_t[]){2, 3}, first, p);
        send_joined(f->sender, p, n, SEALED);
    }
    receive(f, 2 * SENDS * JOINED);
    assert_grew(f, "3700 0 0 0 0 0");
    for (uint32_t i = 0; i < WORKERS; i++) {
        const struct datagram_window *w = &f->of[i]->window;
        assert_int_equal(w->received, SENDS * (i < 2 ? JOINED / 2 + 1 : JOINED / 2));
        assert_int_equal(w->reordered, 0);
    }
    size_t at = 0;
    for (uint64_t i = 0; i < SENDS * JOINED; i++) { /* worker 2's, in order and whole */
        const size_t n = i % JOINED + 1 < JOINED ? PACKET : PACKET - 9;
        if (i % JOINED % 2)
            continue;
        for (size_t j = 0; j < n; j++, at++)
            assert_int_equal((unsigned char)bytes.p[at], (unsigned char)(i + 1));
    }
    assert_int_equal(at, bytes.n);
    strbuf_fini(&bytes);
}

/* A flood is taken in rounds, so that others get their turn. */
static void test_rounds(void **state)
{
    struct fixture *f = *state;
    enum {
        N = 3 * UDP_ROUND,
        OVER = 16 * 128
    }; /* OVER: what the last batch of a round may bring beyond it */
    struct udp_counts c;
    unsigned char p[DATAGRAM_MAX];
    for (uint64_t i = 1; i <= N; i++) {
        size_t n = make(f, 1, i, PACKET, p);
        assert_int_equal(send(f->sender, p, n, 0), n);
    }
    assert_true(event_base_loop(f->base, EVLOOP_ONCE) >= 0);
    assert_int_equal(f->rounds, 1);
    udp_counts(f->udp, &c);
    assert_in_range(c.received, 1, UDP_ROUND + OVER);
    receive(f, N);
    assert_true(f->rounds >= 2);
    assert_grew(f, "12288 0 0 0 0 0");
    f->rounds = 0;
    assert_int_equal(send(f->sender, "junk", 4, 0), 4);
    receive(f, N + 1);
    assert_int_equal(f->rounds, 0); /* nothing passed */
}

/* What the kernel drops is known to the datagram, also when nothing comes behind it. */
static void test_overflow(void **state)
{
    struct fixture *f = *state;
    struct udp_counts c = {0};
    unsigned char p[DATAGRAM_MAX];
    uint64_t sent = 0;
    while (c.overflow < 10 && sent < 2000000) {
        for (int i = 0; i < 1000; i++) {
            size_t n = make(f, 1, ++sent, 800, p);
            assert_int_equal(send(f->sender, p, n, 0), n);
        }
        udp_counts(f->udp, &c);
    }
    assert_true(c.overflow >= 10);
    assert_int_equal(c.received, 0);
    receive(f, sent - c.overflow);
    udp_counts(f->udp, &c);
    assert_int_equal(c.received + c.overflow, sent);
    assert_int_equal(f->of[0]->window.received, c.received);
}

/* What was written to stderr while fn ran; freed by the caller. */
static char *said_by(void (*fn)(struct fixture *f), struct fixture *f)
{
    FILE *file = tmpfile();
    char *text = calloc(1, 4096);
    const int keep = dup(STDERR_FILENO);
    assert_true(file && text && keep >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    fn(f);
    assert_true(dup2(keep, STDERR_FILENO) >= 0);
    (void)close(keep);
    rewind(file);
    (void)!fread(text, 1, 4095, file);
    (void)fclose(file);
    return text;
}

static void flood(struct fixture *f)
{
    for (uint64_t i = 1; i <= 300; i++) {
        unsigned char p[DATAGRAM_MAX];
        size_t n = make(f, 3, 1, PACKET, p);
        p[n - 1]++;
        assert_int_equal(send(f->sender, p, n, 0), n);
        receive(f, 2 * i - 1);
        assert_int_equal(send(f->sender, "junk", 4, 0), 4);
        receive(f, 2 * i);
    }
}

static void end(struct fixture *f)
{
    udp_destroy(f->udp);
    f->udp = NULL;
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; (text = strchr(text, '\n')); text++)
        n++;
    return n;
}

/* When it begins, a line for the first and one for the second, whose sender is known; the rest when a minute
 * is over or at the end. */
static void test_log(void **state)
{
    struct fixture *f = *state;
    struct sockaddr_in self;
    socklen_t len = sizeof self;
    char from[40];
    assert_int_equal(getsockname(f->sender, (struct sockaddr *)&self, &len), 0);
    (void)snprintf(from, sizeof from, "127.0.0.1:%u", ntohs(self.sin_port));
    char *text = said_by(flood, f);
    assert_int_equal(count_lines(text), 3);
    assert_non_null(strstr(text, ": forged datagrams: 1\n"));
    assert_non_null(strstr(text, ": forged datagrams: 1, one from 127.0.0.1:"));
    assert_non_null(strstr(text, ": datagrams that could not be read: 1, one from 127.0.0.1:"));
    assert_non_null(strstr(text, from));
    assert_non_null(strstr(text, udp_address(f->udp)));
    free(text);
    assert_grew(f, "0 300 0 0 300 0");
    text = said_by(end, f);
    assert_int_equal(count_lines(text), 2);
    assert_non_null(strstr(text, ": forged datagrams: 298, one from "));
    assert_non_null(strstr(text, ": datagrams that could not be read: 299, one from "));
    free(text);
    struct diag why;
    assert_int_equal(udp_create(f->base, SLICE_LIT("127.0.0.1:0"), f->workers, &f->udp, &why),
                     0); /* tear_down's */
}

static void test_addresses(void **state)
{
    struct fixture *f = *state;
    struct udp *u = NULL;
    struct diag why;
    char address[64];
    assert_non_null(strstr(udp_address(f->udp), "udp://127.0.0.1:"));
    assert_true(udp_port(f->udp) > 0);
    assert_int_equal(udp_create(f->base, slice_str(udp_address(f->udp)), f->workers, &u, &why), -EADDRINUSE);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", udp_port(f->udp));
    assert_non_null(strstr(why.message, address));
    assert_int_equal(udp_create(f->base, SLICE_LIT(""), f->workers, &u, &why), -EINVAL);
    assert_int_equal(udp_create(f->base, SLICE_LIT("127.0.0.1:http"), f->workers, &u, &why), -EINVAL);
    assert_null(u);
    assert_int_equal(udp_create(f->base, SLICE_LIT("0.0.0.0:0"), f->workers, &u, &why),
                     0); /* the caller's to say */
    udp_destroy(u);
    udp_destroy(NULL);
    if (udp_create(f->base, SLICE_LIT("udp://[::1]:0"), f->workers, &u, &why) < 0)
        return; /* no IPv6 here */
    assert_non_null(strstr(udp_address(u), "udp://[::1]:"));
    udp_destroy(u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_passed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_probes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_malformed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unknown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_level, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_replayed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_socket, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_joined, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_drain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_held, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_overflow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_log, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_addresses, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
