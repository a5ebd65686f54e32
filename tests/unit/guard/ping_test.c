/* SPDX-License-Identifier: Apache-2.0 */
/* In a network namespace of its own: nothing leaves the machine, and whether the loopback answers is ours to
 * set. */
#include "unit/test.h"

#include "base/clock.h"
#include "base/mem.h"
#include "guard/ping.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ASKED_MAX = 3000 };

struct world {
    struct event_base *base;
    struct errands *errands;
    struct pings *pings;
    int codes[ASKED_MAX]; /* by number of the host; 1 = not answered yet */
    int64_t rtt_ns[ASKED_MAX];
    size_t asked, answered;
};

static void on_answer(void *arg, struct slice host, int code, int64_t rtt_ns)
{
    struct world *w = arg;
    char name[32] = "";
    unsigned i;
    assert_true(host.n < sizeof name);
    memcpy(name, host.p, host.n);
    assert_int_equal(sscanf(name, "h%u", &i), 1);
    assert_true(i < w->asked);
    assert_int_equal(w->codes[i], 1); /* once each */
    w->codes[i] = code;
    w->rtt_ns[i] = rtt_ns;
    if (++w->answered == w->asked)
        (void)event_base_loopbreak(w->base);
}

static void make(struct world *w)
{
    *w = (struct world){.base = event_base_new()};
    assert_int_equal(errands_create(w->base, 2, &w->errands), 0);
    assert_int_equal(pings_create(w->base, w->errands, on_answer, w, &w->pings), 0);
}

static void end(struct world *w)
{
    errands_destroy(w->errands);
    pings_destroy(w->pings);
    event_base_free(w->base);
}

static void ask(struct world *w, const char *address)
{
    char name[32];
    (void)snprintf(name, sizeof name, "h%zu", w->asked);
    assert_true(w->asked < ASKED_MAX);
    w->codes[w->asked++] = 1;
    assert_int_equal(pings_ask(w->pings, slice_str(name), slice_str(address)), 0);
}

static void set(const char *file, const char *value)
{
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, value, strlen(value)), strlen(value));
    assert_int_equal(close(fd), 0);
}

#define IGNORE "/proc/sys/net/ipv4/icmp_echo_ignore_all"

static bool has_space;
static int enter_space(void **state)
{
    (void)state;
    struct ifreq lo = {.ifr_name = "lo"};
    int fd = -1;
    has_space = unshare(CLONE_NEWNET) == 0 && (fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) >= 0 &&
                ioctl(fd, SIOCGIFFLAGS, &lo) == 0;
    lo.ifr_flags = (short)(lo.ifr_flags | IFF_UP);
    has_space = has_space && ioctl(fd, SIOCSIFFLAGS, &lo) == 0 && access(IGNORE, W_OK) == 0;
    if (fd >= 0)
        (void)close(fd);
    if (!has_space)
        print_message("skipped: no network namespace of its own, or no right to pings in it\n");
    return 0;
}

static void test_answers(void **state)
{
    struct world w;
    (void)state;
    if (!has_space)
        skip();
    make(&w);
    ask(&w, "127.0.0.1:4711");
    ask(&w, "127.0.0.9");
    ask(&w, "[::1]:4711");
    ask(&w, "localhost");
    ask(&w, "10.1.2.3:80"); /* there is no way to it here */
    ask(&w, "no-such-host.invalid");
    (void)event_base_dispatch(w.base);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(w.codes[i], 0);
        assert_true(w.rtt_ns[i] > 0 && w.rtt_ns[i] < 10 * NS_PER_S);
    }
    assert_int_equal(w.codes[4], -ENETUNREACH);
    assert_int_equal(w.codes[5], -ENOENT);
    end(&w);
}

/* No answer in three probes; and one that begins to answer between them is there. */
static void test_silence(void **state)
{
    struct world w;
    (void)state;
    if (!has_space)
        skip();
    set(IGNORE, "1");
    make(&w);
    int64_t before = clock_mono_ns();
    for (int i = 0; i < 50; i++)
        ask(&w, "127.0.0.1");
    (void)event_base_dispatch(w.base);
    for (int i = 0; i < 50; i++)
        assert_int_equal(w.codes[i], -ETIMEDOUT);
    assert_true(clock_mono_ns() - before >= 3 * NS_PER_S); /* it waited for each probe; together */

    ask(&w, "127.0.0.1");
    const struct timeval soon = {.tv_sec = 0, .tv_usec = 500000};
    (void)event_base_loopexit(w.base, &soon);
    (void)event_base_dispatch(w.base);
    assert_int_equal(w.codes[50], 1); /* the first probe is lost */
    set(IGNORE, "0");
    (void)event_base_dispatch(w.base);
    assert_int_equal(w.codes[50], 0);
    end(&w);
}

static void test_many(void **state)
{
    struct world w;
    (void)state;
    if (!has_space)
        skip();
    make(&w);
    for (int i = 0; i < ASKED_MAX; i++) {
        char address[32];
        (void)snprintf(address, sizeof address, "127.0.%d.%d", 1 + i / 250, 1 + i % 250);
        ask(&w, address);
    }
    (void)event_base_dispatch(w.base);
    for (int i = 0; i < ASKED_MAX; i++)
        assert_int_equal(w.codes[i], 0);
    end(&w);
}

static void test_no_right(void **state)
{
    struct world w;
    (void)state;
    if (!has_space || seteuid(65534) < 0)
        skip();
    make(&w); /* its threads have no rights either */
    ask(&w, "127.0.0.1");
    ask(&w, "127.0.0.2");
    (void)event_base_dispatch(w.base);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(w.codes[0], -EACCES);
    assert_int_equal(w.codes[1], -EACCES);
    end(&w);
    /* The kernel's ping sockets need no capability. */
    set("/proc/sys/net/ipv4/ping_group_range", "0 65535");
    assert_int_equal(seteuid(65534), 0);
    make(&w);
    ask(&w, "127.0.0.1");
    (void)event_base_dispatch(w.base);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(w.codes[0], 0);
    end(&w);
}

static void test_limits(void **state)
{
    struct world w;
    (void)state;
    make(&w);
    assert_int_equal(pings_ask(w.pings, SLICE_LIT(""), SLICE_LIT("127.0.0.1")), -EINVAL);
    assert_int_equal(pings_ask(w.pings, SLICE_LIT("a b:c:d"), SLICE_LIT("")), -EINVAL);
    for (int i = 0; i < PINGS_MAX; i++)
        assert_int_equal(pings_ask(w.pings, SLICE_LIT("h0"), SLICE_LIT("127.0.0.1")), 0);
    assert_int_equal(pings_ask(w.pings, SLICE_LIT("h0"), SLICE_LIT("127.0.0.1")), E_LIMIT);
    end(&w); /* nothing was sent yet; nothing is left */
}

/* Ended while a batch is out: it comes back to nobody. */
static void test_ended_meanwhile(void **state)
{
    (void)state;
    if (!has_space)
        skip();
    for (int order = 0; order < 2; order++) {
        struct world w;
        const struct timeval soon = {.tv_usec = 300000};
        set(IGNORE, "1");
        make(&w);
        ask(&w, "127.0.0.1");
        (void)event_base_loopexit(w.base, &soon);
        (void)event_base_dispatch(w.base);
        if (order) {
            pings_destroy(w.pings);
            w.pings = NULL;
        }
        end(&w);
        assert_int_equal(w.codes[0], order ? 1 : -ECANCELED);
        set(IGNORE, "0");
    }
    pings_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers), cmocka_unit_test(test_silence),
        cmocka_unit_test(test_many),    cmocka_unit_test(test_no_right),
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_ended_meanwhile),
    };
    return cmocka_run_group_tests(tests, enter_space, NULL);
}
