/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "sensor/chrony.h"
#include "sensor/scan.h"
#include "unit/sensor/tree.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <sys/wait.h>

static void daemon_of_a_tree(void **state)
{
    (void)state;
    tree_assert_text("clocksync", FIXTURES "server", NULL, "clocksync daemon=\"chronyd\"\n");
    tree_assert_no_data("clocksync", NULL);
    struct tree t;
    tree_make(&t, NULL);
    tree_put(&t, "/run/systemd/timesync/synchronized", "");
    tree_assert_text("clocksync", t.root, NULL, "clocksync daemon=\"systemd-timesyncd\"\n");
    tree_put(&t, "/proc/77/comm", "ntpd\n"); /* without a pid file */
    tree_assert_text("clocksync", t.root, NULL, "clocksync daemon=\"ntpd\"\n");
    tree_remove(&t);
}

/* A pid file whose process has another name, is gone, or that holds no number. */
static void pid_files_that_lie(void **state)
{
    (void)state;
    static const char *const pids[] = {"812\n", "813\n", "x\n", "", "18446744073709551616\n"};
    for (size_t i = 0; i < sizeof pids / sizeof *pids; i++) {
        struct tree t;
        struct sense s;
        tree_make(&t, NULL);
        tree_put(&t, "/run/chrony/chronyd.pid", pids[i]);
        tree_put(&t, "/proc/812/comm", "bash\n");
        tree_put(&t, "/proc/meminfo", "chronyd\n");
        assert_int_equal(sense_open(&s, "clocksync", t.root, NULL), 0);
        assert_int_equal(sense_run(&s), E_NODATA);
        sense_close(&s);
        tree_remove(&t);
    }
}

/* It starts, ends, and another one takes over while the sensor runs. */
static void daemons_come_and_go(void **state)
{
    (void)state;
    struct tree t;
    struct sense s;
    tree_make(&t, NULL);
    assert_int_equal(sense_open(&s, "clocksync", t.root, NULL), 0);
    assert_int_equal(sense_run(&s), E_NODATA);
    tree_put(&t, "/run/chrony/chronyd.pid", "5\n");
    tree_put(&t, "/proc/5/comm", "chronyd\n");
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "clocksync daemon=\"chronyd\"\n");
    tree_put(&t, "/proc/5/comm", "sleep\n");
    assert_int_equal(sense_run(&s), E_NODATA);
    tree_put(&t, "/run/ntpd.pid", "6");
    tree_put(&t, "/proc/6/comm", "ntpd\n");
    assert_int_equal(sense_run(&s), 0);
    assert_string_equal(s.text.p, "clocksync daemon=\"ntpd\"\n");
    sense_close(&s);
    tree_remove(&t);
}

static void this_kernel(void **state)
{
    (void)state;
    struct timex t = {.modes = 0};
    struct sense s;
    char expected[64];
    int before = adjtimex(&t);
    if (before < 0)
        skip(); /* a sandbox forbids it */
    assert_int_equal(sense_open(&s, "clocksync", "", (const char *[]){"chrony_port", "0", NULL}), 0);
    assert_int_equal(sense_run(&s), 0);
    assert_non_null(strstr(s.text.p, before == TIME_ERROR ? "synchronised=false" : "synchronised=true"));
    (void)snprintf(expected, sizeof expected, " status=%d", t.status);
    assert_non_null(strstr(s.text.p, expected));
    assert_int_equal(instance_wait_fd(s.instance), -1);
    sense_close(&s);
}

static void put32(unsigned char *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(v >> (24 - 8 * i));
}

/* An answer as chronyd sends it. */
static void make_answer(unsigned char *p, uint32_t sequence)
{
    static const struct {
        int exponent, coefficient;
    } floats[] = {{4, 1 << 23},   {0, 0},   {-8, -(1 << 23)}, {1, 1 << 23},        {0, 1},
                  {63, 0xffffff}, {-64, 1}, {0, -1},          {-64, -(1 << 24)}};
    memset(p, 0, CHRONY_PACKET);
    p[0] = 6;
    p[1] = 2;
    p[5] = 33;
    p[7] = 5;
    put32(p + 16, sequence);
    put32(p + 28, 0xc0000201);
    put32(p + 32, 0xc0000201);
    p[49] = 1; /* IPv4 */
    p[53] = 3;
    for (size_t i = 0; i < 9; i++)
        put32(p + 68 + 4 * i, (uint32_t)floats[i].exponent << 25 | (floats[i].coefficient & 0x1ffffff));
}

static void answers(void **state)
{
    (void)state;
    unsigned char p[CHRONY_PACKET];
    struct chrony_tracking t;
    make_answer(p, 0x12345678);
    struct slice whole = slice_of((const char *)p, sizeof p);
    assert_int_equal(chrony_parse(whole, 0x12345678, &t), 0);
    assert_int_equal(t.ref_id, 0xc0000201);
    assert_int_equal(t.address_family, AF_INET);
    assert_int_equal(t.stratum, 3);
    assert_int_equal(t.leap, 0);
    assert_true(t.correction == 4 && t.last_offset == 0 && t.rms_offset == -0x1p-10 && t.frequency == 0.5);
    assert_true(t.residual_frequency == 0x1p-25 && t.skew == 0xffffffp38 && t.root_delay == 0x1p-89);
    assert_true(t.root_dispersion == -0x1p-25 && t.update_interval == -0x1p-65);
    assert_int_equal(chrony_parse(whole, 0x12345679, &t), E_PROTO);
    for (size_t n = 0; n < sizeof p; n++)
        assert_int_equal(chrony_parse(slice_of(whole.p, n), 0x12345678, &t), E_PROTO);
    static const size_t checked[] = {0, 1, 4, 5, 6, 7, 8, 9, 16, 17, 18, 19};
    for (size_t i = 0; i < sizeof checked / sizeof *checked; i++) {
        p[checked[i]] ^= 1;
        assert_int_equal(chrony_parse(whole, 0x12345678, &t), E_PROTO);
        p[checked[i]] ^= 1;
    }
}

/* A real chronyd, which may not touch the clock, and what chronyc says of it. */
struct chronyd {
    struct tree tree;
    uint16_t port;
    pid_t pid;
};

static uint16_t free_udp_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    assert_int_equal(close(fd), 0);
    return ntohs(a.sin_port);
}

static bool start_chronyd(struct chronyd *c)
{
    char conf[256], path[128];
    posix_spawn_file_actions_t actions;
    tree_make(&c->tree, NULL);
    c->port = free_udp_port();
    (void)snprintf(conf, sizeof conf,
                   "cmdport %u\nbindcmdaddress 127.0.0.1\nbindcmdaddress /\nport 0\nlocal stratum 5\npidfile %s/pid\n",
                   c->port, c->tree.root);
    tree_put(&c->tree, "/conf", conf);
    (void)snprintf(path, sizeof path, "%s/conf", c->tree.root);
    char *argv[] = {(char[]){"chronyd"}, (char[]){"-x"}, (char[]){"-d"}, (char[]){"-u"}, (char[]){"root"},
                    (char[]){"-f"},      path,           NULL};
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0), 0);
    bool is_started = access("/usr/sbin/chronyd", X_OK) == 0 && geteuid() == 0 &&
                      posix_spawn(&c->pid, "/usr/sbin/chronyd", &actions, NULL, argv, (char *[]){NULL}) == 0;
    assert_int_equal(posix_spawn_file_actions_destroy(&actions), 0);
    if (!is_started)
        tree_remove(&c->tree);
    return is_started;
}

static void stop_chronyd(struct chronyd *c)
{
    assert_int_equal(kill(c->pid, SIGTERM), 0);
    assert_int_equal(waitpid(c->pid, NULL, 0), c->pid);
    tree_remove(&c->tree);
}

static void a_real_chronyd(void **state)
{
    (void)state;
    struct chronyd c;
    struct sense s;
    char port[8];
    bool is_there = false;
    if (!start_chronyd(&c))
        skip(); /* chronyd is not installed, or this is not root */
    (void)snprintf(port, sizeof port, "%u", c.port);
    for (int i = 0; i < 200 && !is_there; i++) {
        assert_int_equal(sense_open(&s, "clocksync", "", (const char *[]){"chrony_port", port, NULL}), 0);
        assert_int_equal(sense_run(&s), 0);
        struct pollfd p = {.fd = instance_wait_fd(s.instance), .events = POLLIN};
        (void)poll(&p, p.fd >= 0, 50);
        strbuf_reset(&s.text);
        assert_int_equal(instance_sample(s.instance, &s.out, false, 1000000000), 0);
        is_there = s.text.n && strstr(s.text.p, "clocksync.chrony ");
        if (!is_there)
            sense_close(&s);
    }
    stop_chronyd(&c);
    assert_true(is_there);
    assert_string_equal(s.text.p, "clocksync.chrony synchronised=true reference=\"7F7F0101\" stratum=5 leap=\"none\" "
                                  "offset=0.0 last_offset=0.0 rms_offset=0.0 frequency=0.0 residual_frequency=0.0 "
                                  "skew=0.0 root_delay=0.0 root_dispersion=0.0 update_interval=0.0\n");
    sense_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(daemon_of_a_tree),    cmocka_unit_test(pid_files_that_lie),
        cmocka_unit_test(daemons_come_and_go), cmocka_unit_test(this_kernel),
        cmocka_unit_test(answers),             cmocka_unit_test(a_real_chronyd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
