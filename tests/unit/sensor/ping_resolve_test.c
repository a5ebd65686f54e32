/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/err.h"
#include "sensor/ping_resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/wait.h>

static void numbers(void **state)
{
    (void)state;
    union address a, b;
    assert_int_equal(address_parse("192.0.2.1", &a), 0);
    assert_true(a.any.sa_family == AF_INET && a.v4.sin_addr.s_addr == htonl(0xc0000201) &&
                a.v4.sin_port == 0);
    assert_int_equal(address_parse("192.0.2.2", &b), 0);
    assert_true(address_same(&a, &a) && !address_same(&a, &b));
    assert_int_equal(address_parse("2001:db8::1", &b), 0);
    assert_int_equal(b.any.sa_family, AF_INET6);
    assert_true(address_same(&b, &b) && !address_same(&a, &b));
    static const char *const bad[] = {"", "localhost", "192.0.2.256", "1.2.3.4.5", "::g", "192.0.2.1:80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(address_parse(bad[i], &a), E_PROTO);
}

static void names(void **state)
{
    (void)state;
    assert_true(address_is_name("localhost") && address_is_name("node-7.example.org") &&
                address_is_name("a_b"));
    static const char *const bad[] = {"",     "-x",  "--help",      "a b",  "a;b",
                                      "$(x)", "a/b", "caf\xc3\xa9", "[::1]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(address_is_name(bad[i]));
}

static int resolve(const char *name, union address *out)
{
    struct resolve r;
    int result = 0;
    resolve_init(&r);
    assert_int_equal(resolve_start(&r, name), 0);
    for (int i = 0; i < 1000 && result == 0; i++) {
        struct pollfd p = {r.fd, POLLIN, 0};
        (void)poll(&p, 1, 100);
        result = resolve_read(&r, out);
    }
    assert_true(result != 0);
    assert_true(r.pid == 0 && r.fd == -1);
    return result;
}

static void localhost(void **state)
{
    (void)state;
    union address a, v4, v6;
    assert_int_equal(address_parse("127.0.0.1", &v4) | address_parse("::1", &v6), 0);
    assert_int_equal(resolve("localhost", &a), 1);
    assert_true(address_same(&a, &v4) || address_same(&a, &v6));
}

/* Stopped in the middle: no process is left. */
static void stopped(void **state)
{
    (void)state;
    struct resolve r;
    resolve_init(&r);
    resolve_stop(&r);
    assert_int_equal(resolve_start(&r, "localhost"), 0);
    resolve_stop(&r);
    assert_true(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(names),
        cmocka_unit_test(localhost),
        cmocka_unit_test(stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
