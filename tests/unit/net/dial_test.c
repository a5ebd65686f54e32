/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/net/receiver.h"

#include "base/mem.h"
#include "net/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>

/* To the end of dialling. */
static int dial_all(struct dial *d, struct diag *why)
{
    short wants;
    int r;
    while ((r = dial_step(d, &wants, why)) == -EAGAIN) {
        struct pollfd p = {.fd = dial_fd(d), .events = wants};
        assert_true(poll(&p, 1, 60000) == 1);
    }
    return r;
}

static int dial_to(const char *address, struct dial **d, struct diag *why)
{
    *d = NULL;
    int r = dial_open(address, NULL, d, why);
    return r < 0 ? r : dial_all(*d, why);
}

static void test_addresses(void **state)
{
    (void)state;
    static const char *const good[] = {"unix:/a",           "unix:///a", "tcp://h", "tcp://h:1",
                                       "tls://[::1]:65535", "h",         "h:7"};
    static const char *const bad[] = {"",          "unix:",   "unix://", "tcp://",
                                      "tls://h:0", "h:65536", "h:x",     "tcp://:1"};
    struct diag why;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(dial_check(good[i], &why), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        why.message[0] = '\0';
        assert_int_equal(dial_check(bad[i], &why), -EINVAL);
        assert_string_not_equal(why.message, "");
    }
    char path[200] = "unix:/";
    memset(path + 6, 'x', 150);
    assert_int_equal(dial_check(path, &why), -EINVAL); /* longer than a socket's path */
}

static void test_unix(void **state)
{
    (void)state;
    struct receiver r;
    struct strbuf address = {0}, hello = {0};
    struct dial *d;
    struct diag why = {0};
    short wants;
    char got[4];
    receiver_start(&r);
    strbuf_printf(&address, "unix:%s", r.path);
    assert_int_equal(dial_to(address.p, &d, &why), 0);
    assert_true(receiver_accept(&r));
    assert_int_equal(dial_hello(&hello, "test"), 0);
    assert_true(dial_send(d, strbuf_slice(&hello), &wants) == (ssize_t)hello.n);
    receiver_read(&r);
    assert_int_equal(r.in.n, hello.n);
    assert_int_equal(dial_receive(d, got, sizeof got, &wants), -EAGAIN);
    assert_int_equal(wants, POLLIN);
    assert_int_equal(send(r.fd, "hey", 3, MSG_NOSIGNAL), 3);
    assert_int_equal(dial_receive(d, got, sizeof got, &wants), 3);
    receiver_hang_up(&r);
    assert_int_equal(dial_receive(d, got, sizeof got, &wants), 0);
    dial_close(d);

    receiver_die(&r);
    assert_int_equal(dial_to(address.p, &d, &why), -ECONNREFUSED);
    assert_non_null(strstr(why.message, "no gateway answers"));
    dial_close(d);
    (void)unlink(r.path);
    assert_int_equal(dial_to(address.p, &d, &why), -ENOENT);
    dial_close(d);
    strbuf_fini(&address);
    strbuf_fini(&hello);
    receiver_end(&r);
}

/* A Unix socket whose queue is full says EAGAIN, which no poll ends: an error, not a wait. */
static void test_full_queue(void **state)
{
    (void)state;
    struct receiver r;
    struct strbuf address = {0};
    struct dial *d[64];
    struct diag why = {0};
    int code = 0;
    size_t n = 0;
    receiver_start(&r);
    strbuf_printf(&address, "unix:%s", r.path);
    while (n < 64 && code == 0)
        code = dial_to(address.p, &d[n++], &why);
    assert_int_equal(code, -EBUSY);
    while (n)
        dial_close(d[--n]);
    strbuf_fini(&address);
    receiver_end(&r);
}

static void test_tcp(void **state)
{
    (void)state;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    struct dial *d;
    struct diag why = {0};
    char address[64];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&in, sizeof in) == 0 && listen(fd, 1) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
    (void)snprintf(address, sizeof address, "tcp://127.0.0.1:%u", ntohs(in.sin_port));
    assert_int_equal(dial_to(address, &d, &why), 0);
    dial_close(d);
    (void)close(fd);
    assert_int_equal(dial_to(address, &d, &why), -ECONNREFUSED);
    assert_non_null(strstr(why.message, address));
    dial_close(d);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct dial *d = NULL;
    struct diag why;
    for (uint64_t n = 1;; n++) {
        mem_fail_after(n);
        int r = dial_open("unix:/nowhere", "/identity", &d, &why);
        mem_fail_after(0);
        if (r == 0)
            break;
        assert_int_equal(r, -ENOMEM);
        assert_null(d);
    }
    dial_close(d);
    dial_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses), cmocka_unit_test(test_unix),      cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_tcp),       cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
