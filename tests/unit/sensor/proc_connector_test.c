/* SPDX-License-Identifier: Apache-2.0 */
/* The live parts need the right to the connector; without it the program says so and exits with 77. */
#include "unit/test.h"

#include "base/clock.h"
#include "sensor/proc_connector.h"

#include <errno.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/netlink.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct message {
    struct nlmsghdr head;
    uint32_t idx, val, seq, ack;
    uint16_t len, flags;
    uint32_t what, cpu, time[2], data[6];
};
_Static_assert(sizeof(struct message) == 76, "no holes");

static struct message message_of(uint32_t what, const uint32_t data[4])
{
    struct message m = {
        .head.nlmsg_len = sizeof m, .idx = CN_IDX_PROC, .val = CN_VAL_PROC, .len = 40, .what = what};
    m.time[0] = 12345;
    memcpy(m.data, data, 4 * sizeof *data);
    return m;
}

static int parse(const struct message *m, size_t n, struct proc_change *out)
{
    return proc_connector_parse(slice_of((const char *)m, n), out);
}

static void messages(void **state)
{
    (void)state;
    struct proc_change c;
    struct message m = message_of(PROC_EVENT_FORK, (uint32_t[]){10, 11, 12, 12});
    assert_int_equal(parse(&m, sizeof m, &c), 1);
    assert_true(c.what == PROC_FORKED && c.pid == 12 && c.parent == 11 && c.mono_ns == 12345);
    m = message_of(PROC_EVENT_FORK, (uint32_t[]){10, 11, 13, 12}); /* a thread */
    assert_int_equal(parse(&m, sizeof m, &c), 0);
    m = message_of(PROC_EVENT_EXEC, (uint32_t[]){5, 5, 0, 0});
    assert_int_equal(parse(&m, sizeof m, &c), 1);
    assert_true(c.what == PROC_EXECED && c.pid == 5);
    m = message_of(PROC_EVENT_EXIT, (uint32_t[]){5, 5, 3 << 8, 17});
    assert_int_equal(parse(&m, sizeof m, &c), 1);
    assert_true(c.what == PROC_EXITED && c.pid == 5 && c.status == 3 << 8);
    m = message_of(PROC_EVENT_UID, (uint32_t[]){5, 5, 0, 0});
    assert_int_equal(parse(&m, sizeof m, &c), 0);
}

static void cut_and_foreign(void **state)
{
    (void)state;
    struct proc_change c;
    struct message m = message_of(PROC_EVENT_EXIT, (uint32_t[]){5, 5, 3 << 8, 17});
    for (size_t n = 0; n < sizeof m; n++)
        assert_int_equal(parse(&m, n, &c), E_PROTO);
    m.len = 16 + 8; /* too short for a status */
    assert_int_equal(parse(&m, sizeof m, &c), E_PROTO);
    m.len = 41; /* longer than the message */
    assert_int_equal(parse(&m, sizeof m, &c), E_PROTO);
    m.len = 40;
    m.idx = 3;
    assert_int_equal(parse(&m, sizeof m, &c), E_PROTO);
}

struct wanted {
    uint32_t pid;
    bool forked, named, execed, exited;
    int status;
    unsigned others; /* forks with this process as parent and another pid: none, threads are left out */
};

static void note(void *arg, const struct proc_change *c)
{
    struct wanted *w = arg;
    assert_true(c->mono_ns > 0 && c->mono_ns <= clock_mono_ns());
    if (c->what == PROC_FORKED && c->parent == w->pid)
        w->others++;
    if (c->pid != w->pid)
        return;
    w->forked |= c->what == PROC_FORKED && c->parent == (uint32_t)getpid();
    w->named |= c->what == PROC_NAMED;
    w->execed |= c->what == PROC_EXECED;
    w->exited |= c->what == PROC_EXITED;
    w->status = c->what == PROC_EXITED ? c->status : w->status;
}

static void *thread(void *arg)
{
    (void)prctl(PR_SET_NAME, "gl-thread");
    return arg;
}

static void a_life(void **state)
{
    struct proc_connector *c = *state;
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t t;
        if (pthread_create(&t, NULL, thread, NULL) != 0 || pthread_join(t, NULL) != 0)
            _exit(1);
        (void)prctl(PR_SET_NAME, "gl-life");
        (void)execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
        _exit(1);
    }
    assert_true(pid > 0);
    struct wanted w = {.pid = (uint32_t)pid};
    for (int64_t until = clock_mono_ns() + 60 * NS_PER_S; clock_mono_ns() < until && !w.exited;) {
        struct pollfd fd = {proc_connector_fd(c), POLLIN, 0};
        (void)poll(&fd, 1, 100);
        assert_true(proc_connector_read(c, note, &w) >= 0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(w.forked && w.named && w.execed && w.exited);
    assert_int_equal(w.status, 3 << 8);
    assert_int_equal(w.others, 0);
}

/* More than the buffer holds: said, and then it goes on. */
static void loss_is_said(void **state)
{
    struct proc_connector *c = *state;
    struct wanted w = {.pid = 0};
    unsigned most = proc_connector_room(c) * 4;
    assert_true(most > 0);
    int r = 0;
    for (unsigned i = 0; i < most && r >= 0; i++) {
        pid_t pid = vfork();
        if (pid == 0)
            _exit(0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        if (i % (proc_connector_room(c) * 2) == proc_connector_room(c) * 2 - 1)
            r = proc_connector_read(c, note, &w);
    }
    assert_int_equal(r, -ENOBUFS);
    while (proc_connector_read(c, note, &w) > 0)
        continue;
    a_life(state);
}

int main(void)
{
    const struct CMUnitTest pure[] = {cmocka_unit_test(messages), cmocka_unit_test(cut_and_foreign)};
    int r = cmocka_run_group_tests_name("messages", pure, NULL, NULL);
    struct proc_connector *c = NULL;
    struct diag why = {0};
    if (r != 0)
        return r;
    if (proc_connector_open(&c, &why) < 0) {
        (void)fprintf(stderr, "skipped: %s\n", why.message);
        return 77;
    }
    const struct CMUnitTest live[] = {cmocka_unit_test_prestate(a_life, c),
                                      cmocka_unit_test_prestate(loss_is_said, c)};
    r = cmocka_run_group_tests_name("live", live, NULL, NULL);
    proc_connector_close(c);
    return r;
}
