/* SPDX-License-Identifier: Apache-2.0 */
/* Where a daemon may listen, and what it knows of who calls. */
#include "unit/test.h"

#include "base/clock.h"
#include "net/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct called {
    unsigned n;
    struct listen_peer peer;
    char name[128];
};

static void on_accept(void *arg, evutil_socket_t fd, const struct listen_peer *peer)
{
    struct called *c = arg;
    c->n++;
    c->peer = *peer;
    (void)snprintf(c->name, sizeof c->name, "%s", peer->name);
    (void)close(fd);
}

static int try_listen(struct event_base *base, const char *address, unsigned flags, struct called *c,
                      struct listener **out, struct diag *why)
{
    *out = NULL;
    return listener_create(base, slice_str(address), flags, on_accept, c, out, why);
}

/* Calls it on this address, at the listener's port. */
static void call(struct event_base *base, const struct listener *l, const char *ip, struct called *c)
{
    struct sockaddr_in sa = {.sin_family = AF_INET};
    sa.sin_port = htons((uint16_t)strtoul(strrchr(listener_address(l), ':') + 1, NULL, 10));
    assert_int_equal(inet_pton(AF_INET, ip, &sa.sin_addr), 1);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    int64_t until = clock_mono_ns() + 10 * NS_PER_S;
    for (c->n = 0; c->n == 0 && clock_mono_ns() < until;)
        (void)event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    assert_int_equal(c->n, 1);
    (void)close(fd);
}

static void other_hosts_need_tls_or_the_word_insecure(void **state)
{
    (void)state;
    struct event_base *base = event_base_new();
    struct listener *l;
    struct called c = {0};
    struct diag why = {0};
    static const char *const open_to_all[] = {"tcp://0.0.0.0:0", "0.0.0.0:0", "tcp://[::]:0", "*:0", "tcp://*:0"};
    for (size_t i = 0; i < sizeof open_to_all / sizeof *open_to_all; i++) {
        assert_int_equal(try_listen(base, open_to_all[i], 0, &c, &l, &why), -EACCES);
        assert_non_null(strstr(why.message, "other hosts need TLS"));
        int r = try_listen(base, open_to_all[i], LISTEN_INSECURE, &c, &l, &why);
        assert_true(r == 0 || r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL); /* a kernel without IPv6 */
        listener_destroy(l);
    }
    assert_int_equal(try_listen(base, "tls://0.0.0.0:0", 0, &c, &l, &why), 0);
    assert_true(listener_is_tls(l));
    assert_true(strncmp(listener_address(l), "tls://0.0.0.0:", 14) == 0);
    call(base, l, "127.0.0.1", &c);
    assert_true(c.peer.is_tls && c.peer.is_local && !c.peer.is_unix);
    listener_destroy(l);
    event_base_free(base);
}

static void a_wildcard_takes_both_kinds_of_address(void **state)
{
    (void)state;
    struct event_base *base = event_base_new();
    struct listener *l;
    struct called c = {0};
    struct diag why = {0};
    assert_int_equal(try_listen(base, "tls://*:0", 0, &c, &l, &why), 0);
    call(base, l, "127.0.0.1", &c);
    assert_true(c.peer.is_local && c.peer.is_tls); /* also as ::ffff:127.0.0.1 */
    listener_destroy(l);
    event_base_free(base);
}

static void loopback_and_unix_are_local(void **state)
{
    (void)state;
    struct event_base *base = event_base_new();
    struct listener *l;
    struct called c = {0};
    struct diag why = {0};
    char path[64] = "/tmp/gridline-listen-XXXXXX", address[96];
    assert_int_equal(try_listen(base, "127.0.0.1:0", 0, &c, &l, &why), 0);
    call(base, l, "127.0.0.1", &c);
    assert_true(c.peer.is_local && !c.peer.is_tls && !c.peer.is_unix);
    assert_true(strncmp(c.name, "127.0.0.1:", 10) == 0);
    listener_destroy(l);

    assert_non_null(mkdtemp(path));
    (void)snprintf(address, sizeof address, "unix:%s/sock", path);
    assert_int_equal(try_listen(base, address, 0, &c, &l, &why), 0);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s/sock", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof un), 0);
    int64_t until = clock_mono_ns() + 10 * NS_PER_S;
    for (c.n = 0; c.n == 0 && clock_mono_ns() < until;)
        (void)event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    assert_true(c.n == 1 && c.peer.is_unix && c.peer.is_local && !c.peer.is_tls);
    (void)close(fd);
    listener_destroy(l);
    assert_int_equal(rmdir(path), 0); /* the socket's file is gone */
    event_base_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_hosts_need_tls_or_the_word_insecure),
        cmocka_unit_test(a_wildcard_takes_both_kinds_of_address),
        cmocka_unit_test(loopback_and_unix_are_local),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
