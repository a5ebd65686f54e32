/* SPDX-License-Identifier: Apache-2.0 */
/* With real connections on loopback and a clock of the test's own: times that are given are seconds. In a
 * network namespace where that is allowed, so that nothing else is there. What packets are needed for is
 * skipped, and said, where a packet socket is not allowed. */
#include "unit/test.h"

#include "agent/portmon.h"
#include "base/clock.h"
#include "base/err.h"
#include "unit/sensor/loopback.h"

#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#define S    NS_PER_S
#define HOLD (10 * S)

static struct portmon *monitor(const uint16_t *ports, size_t n)
{
    struct portmon *m = portmon_create();
    assert_non_null(m);
    assert_int_equal(portmon_next_ns(m), 0); /* now */
    assert_int_equal(portmon_set(m, ports, n), 0);
    return m;
}

/* Packets come in their own time, loopback's too. */
static bool wait_for_packet(struct portmon *m)
{
    struct pollfd p = {portmon_wait_fd(m), POLLIN, 0};
    return poll(&p, 1, 5000) == 1;
}

static void transfer(int family)
{
    struct loopback l;
    if (!loopback_open(&l, family))
        skip();
    struct portmon *m = monitor(&l.port, 1);
    for (int t = 100; t < 103; t++) { /* a connection that only stands there */
        portmon_look(m, t * S);
        assert_false(portmon_is_active(m, l.port, t * S, HOLD));
    }
    loopback_send(&l, 5000);
    portmon_look(m, 103 * S);
    assert_true(portmon_is_active(m, l.port, 103 * S, HOLD));
    for (int t = 104; t < 120; t++) { /* over: active as long as it is held */
        portmon_look(m, t * S);
        assert_int_equal(portmon_is_active(m, l.port, t * S, HOLD), t < 113);
    }
    loopback_send(&l, 1);
    portmon_look(m, 120 * S);
    assert_true(portmon_is_active(m, l.port, 120 * S, HOLD));
    assert_false(portmon_is_active(m, l.client_port, 120 * S, HOLD)); /* nobody asked for that one */
    loopback_close(&l);
    portmon_destroy(m);
}

static void tcp_v4(void **state)
{
    (void)state;
    transfer(AF_INET);
}

static void tcp_v6(void **state)
{
    (void)state;
    transfer(AF_INET6);
}

static void remote_port(void **state)
{
    (void)state;
    struct loopback l;
    assert_true(loopback_open(&l, AF_INET));
    struct portmon *m = monitor(&l.client_port, 1);
    portmon_look(m, 1 * S);
    assert_false(portmon_is_active(m, l.client_port, 1 * S, HOLD));
    loopback_send(&l, 10);
    portmon_look(m, 2 * S);
    assert_true(portmon_is_active(m, l.client_port, 2 * S, HOLD));
    loopback_close(&l);
    portmon_destroy(m);
}

/* A connection that came and went between two looks. */
static void short_connection(void **state)
{
    (void)state;
    struct loopback l;
    assert_true(loopback_open(&l, AF_INET));
    uint16_t port = l.port;
    struct portmon *m = monitor(&port, 1);
    loopback_close(&l);
    portmon_look(m, 1 * S);
    portmon_look(m, 20 * S);
    assert_false(portmon_is_active(m, port, 20 * S, HOLD));
    /* The same port again, which TIME_WAIT of the first does not stop as the listener may share it. */
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 5), 0);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&a, sizeof a), 0);
    int server = accept(listener, NULL, NULL);
    assert_int_equal(close(client) | close(server) | close(listener), 0);
    portmon_look(m, 40 * S);
    assert_true(portmon_is_active(m, port, 40 * S, HOLD));
    portmon_look(m, 60 * S); /* what waits is no traffic */
    assert_false(portmon_is_active(m, port, 60 * S, HOLD));
    portmon_destroy(m);
}

/* One that was reset leaves nothing behind but its first packet. */
static void reset_connection(void **state)
{
    (void)state;
    struct loopback l;
    assert_true(loopback_open(&l, AF_INET));
    struct portmon *m = monitor(&l.port, 1);
    if (portmon_wait_fd(m) < 0) {
        portmon_destroy(m);
        loopback_close(&l);
        skip();
    }
    portmon_look(m, 1 * S);
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(l.port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&a, sizeof a), 0);
    int server = accept(l.listener, NULL, NULL);
    struct linger now = {1, 0};
    assert_int_equal(setsockopt(client, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    assert_int_equal(close(client) | close(server), 0);
    assert_true(wait_for_packet(m));
    portmon_look(m, 2 * S);
    assert_true(portmon_is_active(m, l.port, 2 * S, HOLD));
    portmon_destroy(m);
    loopback_close(&l);
}

static void send_datagram(int family, uint16_t port)
{
    union loopback_address a = {0};
    a.any.sa_family = (sa_family_t)family;
    *(family == AF_INET ? &a.v4.sin_port : &a.v6.sin6_port) = htons(port);
    if (family == AF_INET)
        a.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        a.v6.sin6_addr = in6addr_loopback;
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(sendto(fd, "x", 1, 0, &a.any, family == AF_INET ? sizeof a.v4 : sizeof a.v6), 1);
    assert_int_equal(close(fd), 0);
}

/* A port that nobody has now. */
static uint16_t free_udp_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    uint16_t port = loopback_port(fd);
    assert_int_equal(close(fd), 0);
    return port;
}

static void udp(void **state)
{
    (void)state;
    uint16_t port = free_udp_port();
    struct portmon *m = monitor(&port, 1);
    if (portmon_wait_fd(m) < 0) {
        portmon_destroy(m);
        skip();
    }
    static const int families[] = {AF_INET, AF_INET6};
    for (int i = 0; i < 2; i++) {
        int64_t t = (100 + 100 * i) * S;
        portmon_look(m, t);
        assert_false(portmon_is_active(m, port, t, HOLD));
        send_datagram(families[i], port);
        assert_true(wait_for_packet(m));
        portmon_read(m, t + S);
        assert_true(portmon_is_active(m, port, t + S, HOLD));
        portmon_look(m, t + 10 * S);
        assert_true(portmon_is_active(m, port, t + 10 * S, HOLD));
        portmon_look(m, t + 11 * S);
        assert_false(portmon_is_active(m, port, t + 11 * S, HOLD));
    }
    portmon_destroy(m);
}

/* A port that was seen is left out for a while, so that it costs nothing and others are heard. */
static void busy_port_is_muted(void **state)
{
    (void)state;
    uint16_t ports[2];
    do {
        ports[0] = free_udp_port();
        ports[1] = free_udp_port();
    } while (ports[0] == ports[1]);
    struct portmon *m = monitor(ports, 2);
    if (portmon_wait_fd(m) < 0) {
        portmon_destroy(m);
        skip();
    }
    portmon_look(m, 100 * S);
    for (int i = 0; i < 1000; i++) /* more than the buffer takes */
        send_datagram(AF_INET, ports[0]);
    assert_true(wait_for_packet(m));
    portmon_look(m, 101 * S);
    assert_true(portmon_is_active(m, ports[0], 101 * S, HOLD));
    assert_false(portmon_is_active(m, ports[1], 101 * S, HOLD));
    uint64_t packets = portmon_cost(m).packets;
    for (int i = 0; i < 1000; i++)
        send_datagram(AF_INET, ports[0]);
    send_datagram(AF_INET, ports[1]);
    assert_true(wait_for_packet(m));
    portmon_look(m, 101 * S + PORTMON_EVERY);
    assert_true(portmon_is_active(m, ports[1], 101 * S + PORTMON_EVERY, HOLD));
    assert_true(portmon_cost(m).packets - packets <= 2); /* loopback shows a packet going out and coming in */
    portmon_look(m, 103 * S);
    send_datagram(AF_INET, ports[0]);
    assert_true(wait_for_packet(m)); /* it is heard again */
    portmon_look(m, 104 * S);
    assert_true(portmon_is_active(m, ports[0], 113 * S, HOLD));
    portmon_destroy(m);
}

/* As many as there may be: each is heard, others are not. */
static void many_ports(void **state)
{
    (void)state;
    uint16_t ports[PORTMON_PORTS_MAX + 1];
    for (size_t i = 0; i <= PORTMON_PORTS_MAX; i++)
        ports[i] = (uint16_t)(20000 + 2 * (PORTMON_PORTS_MAX - i)); /* even, and not in order */
    struct portmon *m = monitor(ports, 1);
    assert_int_equal(portmon_set(m, ports, PORTMON_PORTS_MAX + 1), E_LIMIT);
    assert_int_equal(portmon_set(m, ports, PORTMON_PORTS_MAX), 0);
    portmon_look(m, 100 * S);
    assert_string_equal(portmon_wait_fd(m) < 0 ? "" : portmon_why(m), "");
    if (portmon_wait_fd(m) < 0) {
        portmon_destroy(m);
        skip();
    }
    static const size_t which[] = {0, 1, 199, 200, 201, 399, 400, 600, 823, 824, 1022, 1023};
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        uint16_t port = ports[which[i]];
        int64_t t = (int64_t)(200 + 10 * i) * S;
        send_datagram(AF_INET, port + 1);
        send_datagram(AF_INET, port);
        assert_true(wait_for_packet(m));
        portmon_look(m, t);
        for (size_t k = 0; k < PORTMON_PORTS_MAX; k++)
            assert_int_equal(portmon_is_active(m, ports[k], t, 5 * S), k == which[i]);
        assert_false(portmon_is_active(m, port + 1, t, HOLD));
    }
    portmon_destroy(m);
}

static void ports_change(void **state)
{
    (void)state;
    struct loopback a, b;
    assert_true(loopback_open(&a, AF_INET) && loopback_open(&b, AF_INET));
    struct portmon *m = monitor(&a.port, 1);
    portmon_look(m, 1 * S);
    loopback_send(&a, 10);
    portmon_look(m, 2 * S);
    assert_true(portmon_is_active(m, a.port, 2 * S, HOLD));
    /* One more, whose connection has been there: it is not active, and the first still is. */
    loopback_send(&b, 10);
    assert_int_equal(portmon_set(m, (uint16_t[]){b.port, a.port, b.port}, 3), 0);
    portmon_look(m, 3 * S);
    assert_true(portmon_is_active(m, a.port, 3 * S, HOLD));
    assert_false(portmon_is_active(m, b.port, 3 * S, HOLD));
    loopback_send(&b, 10);
    portmon_look(m, 4 * S);
    assert_true(portmon_is_active(m, b.port, 4 * S, HOLD));
    /* Without the first; it is forgotten. */
    assert_int_equal(portmon_set(m, &b.port, 1), 0);
    assert_false(portmon_is_active(m, a.port, 4 * S, HOLD));
    assert_true(portmon_is_active(m, b.port, 4 * S, HOLD));
    loopback_send(&a, 10);
    portmon_look(m, 5 * S);
    assert_false(portmon_is_active(m, a.port, 5 * S, HOLD));
    assert_int_equal(portmon_set(m, NULL, 0), 0);
    portmon_look(m, 6 * S);
    assert_false(portmon_is_active(m, b.port, 6 * S, HOLD));
    loopback_close(&a);
    loopback_close(&b);
    portmon_destroy(m);
}

/* Without the right to a packet socket: said, and TCP works. */
static void unprivileged(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && setuid(65534) != 0)
            _exit(2);
        uint16_t none = 1;
        struct portmon *m = monitor(&none, 1);
        if (portmon_wait_fd(m) >= 0 || !strstr(portmon_why(m), "UDP"))
            _exit(3);
        portmon_destroy(m);
        transfer(AF_INET);
        short_connection(NULL);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* The first connection after a long time without any. */
static void after_a_quiet_time(void **state)
{
    (void)state;
    struct loopback l;
    assert_true(loopback_open(&l, AF_INET));
    assert_int_equal(close(l.client) | close(l.server), 0);
    struct portmon *m = monitor(&l.port, 1);
    int64_t t = 100 * S;
    for (int i = 0; i < 25; i++, t += PORTMON_EVERY)
        portmon_look(m, t);
    uint64_t sockets = portmon_cost(m).sockets;
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(l.port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    l.client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(l.client, (struct sockaddr *)&a, sizeof a), 0);
    l.server = accept(l.listener, NULL, NULL);
    assert_true(portmon_wait_fd(m) < 0 || wait_for_packet(m));
    portmon_look(m, t);
    assert_true(portmon_is_active(m, l.port, t, HOLD));
    assert_true(portmon_cost(m).sockets >= sockets + 2);
    /* It stands still, and then moves: its packets have no SYN. */
    for (int i = 0; i < 60; i++, t += PORTMON_EVERY)
        portmon_look(m, t);
    assert_false(portmon_is_active(m, l.port, t, HOLD));
    loopback_send(&l, 10);
    portmon_look(m, t);
    assert_true(portmon_is_active(m, l.port, t, HOLD));
    loopback_close(&l);
    portmon_destroy(m);
}

static void packets(void **state)
{
    (void)state;
    uint16_t p[2];
    unsigned char v4[64] = {[0] = 0x46, [9] = 17, [24] = 0x13, [25] = 0x89, [26] = 0x0a, [27] = 0xfb};
    unsigned char v6[64] = {[0] = 0x60, [6] = 6, [40] = 0x13, [41] = 0x89, [43] = 80};
    assert_true(portmon_packet_ports(slice_of((char *)v4, 28), p));
    assert_true(p[0] == 5001 && p[1] == 2811);
    assert_true(portmon_packet_ports(slice_of((char *)v6, 44), p));
    assert_true(p[0] == 5001 && p[1] == 80);
    for (size_t n = 0; n < 28; n++)
        assert_false(portmon_packet_ports(slice_of((char *)v4, n), p));
    for (size_t n = 0; n < 44; n++)
        assert_false(portmon_packet_ports(slice_of((char *)v6, n), p));
    v4[7] = 1; /* a later fragment */
    assert_false(portmon_packet_ports(slice_of((char *)v4, 64), p));
    v4[7] = 0;
    v4[9] = 1;
    assert_false(portmon_packet_ports(slice_of((char *)v4, 64), p));
    v4[0] = 0x41;
    v4[9] = 17;
    assert_false(portmon_packet_ports(slice_of((char *)v4, 64), p));
    v4[0] = 0x56;
    assert_false(portmon_packet_ports(slice_of((char *)v4, 64), p));
}

static void report(const char *what, const struct portmon_cost *c)
{
    print_message("%s: %.1f us a look, so %.4f %% of a core at two looks a second\n", what,
                  (double)c->ns / (double)c->looks / 1e3, 2e2 * (double)c->ns / (double)c->looks / 1e9);
}

static void times_and_cost(void **state)
{
    (void)state;
    uint16_t ports[] = {5001, 2811, 20000};
    struct portmon *m = monitor(ports, 3);
    portmon_look(m, 100 * S + 1);
    assert_int_equal(portmon_next_ns(m), 100 * S + PORTMON_EVERY);
    portmon_look(m, 100 * S + PORTMON_EVERY);
    assert_int_equal(portmon_next_ns(m), 101 * S);
    for (int i = 0; i < 200; i++)
        portmon_look(m, 200 * S + i * PORTMON_EVERY);
    struct portmon_cost c = portmon_cost(m);
    assert_int_equal(c.looks, 202);
    assert_true(c.ns > 0);
    report("no connection on 3 ports", &c);
    portmon_destroy(m);
    struct loopback l; /* one that only stands there: it has to be looked at */
    assert_true(loopback_open(&l, AF_INET));
    m = monitor(&l.port, 1);
    for (int i = 0; i < 200; i++)
        portmon_look(m, 200 * S + i * PORTMON_EVERY);
    c = portmon_cost(m);
    assert_int_equal(c.sockets, 400); /* both ends */
    report("an idle connection", &c);
    portmon_destroy(m);
    loopback_close(&l);
}

/* lo of a new namespace is down. */
static void lift_loopback(void)
{
    struct ifreq r = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &r) < 0)
        abort();
    r.ifr_flags = (short)(r.ifr_flags | IFF_UP);
    if (ioctl(fd, SIOCSIFFLAGS, &r) < 0)
        abort();
    (void)close(fd);
}

int main(void)
{
    if (unshare(CLONE_NEWNET) == 0)
        lift_loopback();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tcp_v4),
        cmocka_unit_test(tcp_v6),
        cmocka_unit_test(remote_port),
        cmocka_unit_test(short_connection),
        cmocka_unit_test(udp),
        cmocka_unit_test(reset_connection),
        cmocka_unit_test(many_ports),
        cmocka_unit_test(ports_change),
        cmocka_unit_test(busy_port_is_muted),
        cmocka_unit_test(after_a_quiet_time),
        cmocka_unit_test(unprivileged),
        cmocka_unit_test(packets),
        cmocka_unit_test(times_and_cost),
    };
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    struct portmon *m = portmon_create();
    bool has_packets = portmon_wait_fd(m) >= 0;
    if (r == 0 && !has_packets)
        (void)fprintf(stderr, "skipped what needs packets: %s\n", portmon_why(m));
    portmon_destroy(m);
    return r != 0 || has_packets ? r : 77;
}
