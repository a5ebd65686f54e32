/* SPDX-License-Identifier: Apache-2.0 */
/* Against this host by ICMP (where it is allowed) and TCP; then in a network namespace of its own, whose only
 * neighbour is a tunnel that nobody reads: there nothing answers. Where a namespace is not allowed the
 * program says so and exits with 77 after the rest has passed. */
#include "unit/test.h"

#include "unit/sensor/sense.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPTIONS(...) ((const char *[]){__VA_ARGS__, NULL})

static bool may_use_icmp;

/* Runs the sensor, due at first, until its rows have the text. */
static void run_until(struct sense *s, const char *text)
{
    assert_int_equal(sense_run(s), 0);
    for (int64_t until = clock_mono_ns() + 60 * NS_PER_S;
         clock_mono_ns() < until && !(s->text.n && strstr(s->text.p, text));) {
        struct pollfd fd = {instance_wait_fd(s->instance), POLLIN, 0};
        if (fd.fd < 0)
            break;
        (void)poll(&fd, 1, 1000);
        assert_int_equal(instance_sample(s->instance, &s->out, false, NS_PER_S), 0);
    }
    if (!s->text.n || !strstr(s->text.p, text)) {
        print_error("%s is not in:\n%s%s\n", text, s->text.n ? s->text.p : "",
                    instance_stats(s->instance)->last_why);
        fail();
    }
}

static void check(const char *const *options, const char *expected)
{
    struct sense s;
    assert_int_equal(sense_open(&s, "ping", "", options), 0);
    run_until(&s, expected);
    sense_close(&s);
}

/* The round trip in the text, ms. */
static double rtt_in(const char *text)
{
    const char *at = strstr(text, "rtt=");
    assert_non_null(at);
    return strtod(at + 4, NULL);
}

static void icmp(void **state)
{
    (void)state;
    struct sense s;
    if (!may_use_icmp)
        skip();
    static const char *const targets[] = {"127.0.0.1", "::1"};
    for (size_t i = 0; i < 2; i++) {
        char expected[96];
        assert_int_equal(sense_open(&s, "ping", "", OPTIONS("targets", targets[i], "method", "icmp")), 0);
        for (unsigned k = 1; k <= 3; k++) {
            (void)snprintf(
                expected, sizeof expected,
                "ping target=\"%s\" ping=\"ping\" method=\"icmp\" reachable=true rtt=", targets[i]);
            run_until(&s, expected);
            assert_true(rtt_in(s.text.p) > 0 && rtt_in(s.text.p) < 2000);
            (void)snprintf(expected, sizeof expected, "sent=%u received=%u\n", k, k);
            assert_non_null(strstr(s.text.p, expected));
            assert_int_equal(s.rows, 1);
            assert_int_equal(instance_wait_fd(s.instance), -1); /* nothing is under way */
        }
        sense_close(&s);
    }
}

static int listener(uint16_t *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

static void tcp(void **state)
{
    (void)state;
    uint16_t port;
    char text[8];
    int fd = listener(&port);
    (void)snprintf(text, sizeof text, "%u", port);
    check(OPTIONS("targets", "127.0.0.1", "method", "tcp", "tcp_port", text),
          "ping target=\"127.0.0.1\" ping=\"ping\" method=\"tcp\" reachable=true rtt=");
    assert_int_equal(close(fd), 0);
    /* Nobody listens: it says so, so it is there. */
    check(OPTIONS("targets", "127.0.0.1", "method", "tcp", "tcp_port", text), "reachable=true rtt=");
}

static void name(void **state)
{
    (void)state;
    struct sense s;
    uint16_t port;
    char text[8];
    int fd = listener(&port);
    (void)snprintf(text, sizeof text, "%u", port);
    assert_int_equal(
        sense_open(&s, "ping", "", OPTIONS("targets", "localhost", "method", "tcp", "tcp_port", text)), 0);
    for (unsigned k = 1; k <= 2; k++) { /* resolved, then known */
        run_until(&s, "reachable=true");
        assert_true(strstr(s.text.p, "address=\"127.0.0.1\"") || strstr(s.text.p, "address=\"::1\""));
    }
    sense_close(&s);
    assert_int_equal(close(fd), 0);
}

static void bad_options(void **state)
{
    (void)state;
    static const char *const bad[][4] = {
        {"targets", "a b", "method", "auto"},    {"targets", "-h", "method", "auto"},
        {"targets", "::1", "method", "udp"},     {"targets", "::1", "method", "tcp"},
        {"targets", "::1", "tcp_port", "65536"}, {"targets", "::1", "timeout", "0s"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sense s;
        assert_int_equal(sense_open(&s, "ping", "", OPTIONS(bad[i][0], bad[i][1], bad[i][2], bad[i][3])), 0);
        assert_int_equal(sense_run(&s), -EINVAL);
        assert_true(instance_stats(s.instance)->last_why[0] != '\0');
        sense_close(&s);
    }
    struct sense s;
    assert_int_equal(sense_open(&s, "ping", "", NULL), -EINVAL); /* no target */
    sense_close(&s);
}

static void captured_tree(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "ping", FIXTURES "small", OPTIONS("targets", "127.0.0.1")), 0);
    assert_int_equal(sense_run(&s), E_NODATA);
    sense_close(&s);
}

/* In the namespace: lo, and tun0 with 192.0.2.1/24 and nobody behind it. */

static void set_up(const char *device, const char *address)
{
    struct ifreq r = {0};
    struct sockaddr_in a = {.sin_family = AF_INET},
                       mask = {.sin_family = AF_INET, .sin_addr = {htonl(0xffffff00)}};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    (void)snprintf(r.ifr_name, sizeof r.ifr_name, "%s", device);
    if (address) {
        assert_int_equal(inet_pton(AF_INET, address, &a.sin_addr), 1);
        memcpy(&r.ifr_addr, &a, sizeof a);
        assert_int_equal(ioctl(fd, SIOCSIFADDR, &r), 0);
        memcpy(&r.ifr_netmask, &mask, sizeof mask);
        assert_int_equal(ioctl(fd, SIOCSIFNETMASK, &r), 0);
    }
    assert_int_equal(ioctl(fd, SIOCGIFFLAGS, &r), 0);
    r.ifr_flags = (short)(r.ifr_flags | IFF_UP);
    assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &r), 0);
    assert_int_equal(close(fd), 0);
}

static int make_silence(void)
{
    struct ifreq r = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -1;
    (void)snprintf(r.ifr_name, sizeof r.ifr_name, "tun0");
    assert_int_equal(ioctl(fd, TUNSETIFF, &r), 0);
    set_up("tun0", "192.0.2.1");
    return fd;
}

static void silent_target(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(
        sense_open(&s, "ping", "", OPTIONS("targets", "192.0.2.2", "method", "icmp", "timeout", "300ms")), 0);
    int64_t began = clock_mono_ns();
    run_until(&s, "ping target=\"192.0.2.2\" ping=\"ping\" method=\"icmp\" reachable=false sent=1 received=0 "
                  "why=\"no answer in time\"\n");
    assert_true(clock_mono_ns() - began >= 300 * (NS_PER_S / 1000));
    assert_int_equal(s.rows, 1);
    /* Due again before it is decided: that is said, and no second probe is sent. */
    assert_int_equal(sense_run(&s), 0);
    assert_int_equal(s.rows, 0);
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "ping target=\"192.0.2.2\" ping=\"ping\" method=\"icmp\" sent=2 received=0 "
                                  "why=\"waits for an answer\"\n");
    sense_close(&s);
    check(OPTIONS("targets", "192.0.2.3", "method", "tcp", "tcp_port", "9", "timeout", "300ms"),
          "method=\"tcp\" reachable=false sent=1 received=0 why=\"no answer in time\"\n");
}

static void no_route(void **state)
{
    (void)state;
    check(OPTIONS("targets", "203.0.113.1", "method", "icmp"),
          "method=\"icmp\" reachable=false sent=1 received=0 why=\"Network is unreachable\"\n");
    check(OPTIONS("targets", "203.0.113.1", "method", "tcp", "tcp_port", "9"),
          "method=\"tcp\" reachable=false sent=1 received=0 why=\"Network is unreachable\"\n");
}

/* The namespace has no way to a name server. */
static void name_without_address(void **state)
{
    (void)state;
    struct sense s;
    assert_int_equal(sense_open(&s, "ping", "", OPTIONS("targets", "no-such-host.invalid", "tcp_port", "9")),
                     0);
    run_until(&s, "ping target=\"no-such-host.invalid\" ping=\"ping\" reachable=false sent=0 received=0 "
                  "why=\"the name has no address\"\n");
    assert_int_equal(sense_run(&s), 0); /* not asked for again at once */
    assert_non_null(strstr(s.text.p, "why=\"the name has no address\"\n"));
    assert_int_equal(instance_wait_fd(s.instance), -1);
    sense_close(&s);
}

/* The kernel's ping socket, which needs no privilege but the group. */
static void unprivileged_socket(void **state)
{
    (void)state;
    int fd = open("/proc/sys/net/ipv4/ping_group_range", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0 0\n", 4) != 4)
        skip();
    assert_int_equal(close(fd), 0);
    pid_t pid = fork();
    if (pid == 0) { /* a user with that group and nothing else: a raw socket is refused */
        if (setgid(0) != 0 || setuid(65534) != 0)
            _exit(2);
        int raw = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
        if (raw >= 0)
            _exit(3);
        check(OPTIONS("targets", "127.0.0.1", "method", "icmp"), "method=\"icmp\" reachable=true rtt=");
        check(OPTIONS("targets", "::1", "method", "icmp"), "method=\"icmp\" reachable=true rtt=");
        check(OPTIONS("targets", "192.0.2.2", "method", "icmp", "timeout", "100ms"), "reachable=false");
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* With neither kind of socket it says what is missing, or uses TCP. */
static void not_allowed(void **state)
{
    (void)state;
    int fd = open("/proc/sys/net/ipv4/ping_group_range", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "1 0\n", 4) != 4)
        skip();
    assert_int_equal(close(fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct sense s;
        if (setuid(65534) != 0)
            _exit(2);
        assert_int_equal(sense_open(&s, "ping", "", OPTIONS("targets", "127.0.0.1")), 0);
        assert_int_equal(sense_run(&s), -EPERM);
        assert_non_null(strstr(instance_stats(s.instance)->last_why, "CAP_NET_RAW"));
        sense_close(&s);
        check(OPTIONS("targets", "127.0.0.1", "tcp_port", "9"), "method=\"tcp\" reachable=true rtt=");
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    int raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
    int dgram = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMP);
    may_use_icmp = raw >= 0 || dgram >= 0;
    if (raw >= 0)
        (void)close(raw);
    if (dgram >= 0)
        (void)close(dgram);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(icmp),        cmocka_unit_test(tcp),           cmocka_unit_test(name),
        cmocka_unit_test(bad_options), cmocka_unit_test(captured_tree),
    };
    const struct CMUnitTest apart[] = {
        cmocka_unit_test(silent_target),        cmocka_unit_test(no_route),
        cmocka_unit_test(name_without_address), cmocka_unit_test(unprivileged_socket),
        cmocka_unit_test(not_allowed),
    };
    int r = cmocka_run_group_tests_name("ping", tests, NULL, NULL);
    if (r != 0)
        return r;
    if (!may_use_icmp || unshare(CLONE_NEWNET) < 0) {
        (void)fprintf(stderr, "what needs ICMP and a network namespace is skipped: not allowed here\n");
        return 77;
    }
    set_up("lo", NULL);
    int silence = make_silence();
    if (silence < 0) {
        (void)fprintf(stderr, "what needs a tunnel device is skipped: there is no /dev/net/tun\n");
        return 77;
    }
    r = cmocka_run_group_tests_name("apart", apart, NULL, NULL);
    (void)close(silence);
    return r;
}
