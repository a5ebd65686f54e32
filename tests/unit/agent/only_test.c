/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "agent/only.h"
#include "net/agent_name.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

/* A gateway that no other test has: the name is the host's. */
static const char *gateway(void)
{
    static char name[64];
    (void)snprintf(name, sizeof name, "unix:/nowhere/%d", (int)getpid());
    return name;
}

struct holder {
    struct event_base *base;
    struct only *only;
    bool was_replaced;
    unsigned jobs;
    struct launch_request last;
};

static bool on_job(void *arg, const struct launch_request *r)
{
    struct holder *h = arg;
    h->last = *r;
    return ++h->jobs <= 2;
}

static void on_replaced(void *arg)
{
    struct holder *h = arg;
    h->was_replaced = true;
    only_release(h->only);
    h->only = NULL;
    (void)event_base_loopbreak(h->base);
}

static const struct only_ops ops = {.on_replaced = on_replaced, .on_job = on_job};

static void *serve(void *arg)
{
    struct holder *h = arg;
    (void)event_base_dispatch(h->base); /* ends by loopbreak or when nothing is left to wait for */
    return NULL;
}

static void hold(struct holder *h, bool is_guest)
{
    struct only_other other;
    struct diag why = {0};
    *h = (struct holder){.base = event_base_new()};
    assert_int_equal(only_take(h->base, gateway(), is_guest, &ops, h, &h->only, &other, &why), 0);
}

static int try(bool is_guest, struct only_other *other)
{
    struct only *o = NULL;
    struct diag why = {0};
    int r = only_take(NULL, gateway(), is_guest, &ops, NULL, &o, other, &why);
    only_release(o);
    return r;
}

static void second_leaves(void **state)
{
    (void)state;
    struct holder h;
    struct only_other other = {0};
    pthread_t thread;
    hold(&h, false);
    assert_int_equal(pthread_create(&thread, NULL, serve, &h), 0);
    assert_int_equal(try(false, &other), -EEXIST);
    assert_int_equal(other.pid, getpid());
    assert_int_equal(other.uid, getuid());
    assert_false(other.is_guest);
    assert_int_equal(try(true, &other), -EEXIST);
    (void)event_base_loopbreak(h.base);
    (void)try(true, &other); /* wakes the loop, so that it sees the end */
    assert_int_equal(pthread_join(thread, NULL), 0);
    only_release(h.only);
    event_base_free(h.base);
    assert_int_equal(try(false, &other), 0); /* the name is free again */
}

static void resident_replaces_guest(void **state)
{
    (void)state;
    struct holder h;
    struct only_other other = {0};
    pthread_t thread;
    hold(&h, true);
    assert_int_equal(pthread_create(&thread, NULL, serve, &h), 0);
    assert_int_equal(try(true, &other), -EEXIST); /* another guest leaves */
    assert_true(other.is_guest);
    assert_int_equal(try(false, &other), 0); /* a resident waits until the guest has gone */
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(h.was_replaced);
    event_base_free(h.base);
}

static void other_gateways_do_not_matter(void **state)
{
    (void)state;
    struct holder h;
    struct only *o = NULL;
    struct only_other other = {0};
    struct diag why = {0};
    hold(&h, false);
    assert_int_equal(only_take(NULL, "unix:/elsewhere", false, &ops, NULL, &o, &other, &why), 0);
    only_release(o);
    only_release(h.only);
    event_base_free(h.base);
}

/* A launcher's message is taken, stamped, limited by the agent; whatever else is sent is answered, and nothing more. */
static void jobs_are_told(void **state)
{
    (void)state;
    struct holder h;
    struct launch_request r = {.kind = LAUNCH_BEGAN, .uid = LAUNCH_NO_UID};
    pthread_t thread;
    launch_set_id(&r, "4711");
    assert_int_equal(agent_name_tell(gateway(), &r, 1000), -ECONNREFUSED);
    hold(&h, true);
    assert_int_equal(pthread_create(&thread, NULL, serve, &h), 0);
    assert_int_equal(agent_name_ask(gateway(), 60000), 0);
    assert_int_equal(agent_name_tell(gateway(), &r, 60000), 0);
    assert_string_equal(h.last.id, "4711");
    assert_int_equal(h.last.uid, getuid());
    r.uid = 1234; /* a broker knows */
    assert_int_equal(agent_name_tell(gateway(), &r, 60000), 0);
    assert_int_equal(h.last.uid, 1234);
    assert_int_equal(agent_name_tell(gateway(), &r, 60000), -EACCES);
    static const char *const nonsense[] = {"j", "jGLP", "x", "gg", "jjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj"};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        struct ucred who;
        int fd;
        assert_int_equal(agent_name_send(gateway(), slice_str(nonsense[i]), 0, &who, &fd), 0);
        assert_int_equal(agent_name_answer(fd, 60000), nonsense[i][0] == 'j' ? 'n' : 'g');
        (void)close(fd);
    }
    assert_int_equal(h.jobs, 3);
    (void)event_base_loopbreak(h.base);
    (void)agent_name_ask(gateway(), 100); /* wakes the loop, so that it sees the end */
    assert_int_equal(pthread_join(thread, NULL), 0);
    only_release(h.only);
    event_base_free(h.base);
}

/* Who says nothing gets no answer, and keeps nobody else's message from being taken, however many they are. */
static void silent_callers(void **state)
{
    (void)state;
    enum { MANY = 40 };
    struct holder h;
    struct launch_request r = {.kind = LAUNCH_BEGAN, .uid = LAUNCH_NO_UID};
    struct ucred who;
    pthread_t thread;
    int silent[MANY];
    launch_set_id(&r, "behind");
    hold(&h, true);
    assert_int_equal(pthread_create(&thread, NULL, serve, &h), 0);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(agent_name_send(gateway(), slice_of("", 0), 60000, &who, &silent[i]), 0);
    assert_int_equal(agent_name_tell(gateway(), &r, 60000), 0);
    assert_int_equal(h.jobs, 1);
    assert_string_equal(h.last.id, "behind");
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(agent_name_answer(silent[i], 60000), 0);
        (void)close(silent[i]);
    }
    (void)event_base_loopbreak(h.base);
    (void)agent_name_ask(gateway(), 100); /* wakes the loop, so that it sees the end */
    assert_int_equal(pthread_join(thread, NULL), 0);
    only_release(h.only);
    event_base_free(h.base);
}

/* Whoever has the name and hangs up without a word has just gone: the next one does not leave to it. */
static void *go(void *arg)
{
    int listener = *(int *)arg, caller = accept(listener, NULL, NULL);
    (void)close(listener);
    (void)close(caller);
    return NULL;
}

static void gone_while_asked(void **state)
{
    (void)state;
    struct sockaddr_un name;
    struct only_other other = {0};
    pthread_t thread;
    socklen_t n = agent_name(gateway(), &name);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&name, n), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(pthread_create(&thread, NULL, go, &listener), 0);
    assert_int_equal(try(true, &other), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_leaves),
        cmocka_unit_test(resident_replaces_guest),
        cmocka_unit_test(other_gateways_do_not_matter),
        cmocka_unit_test(jobs_are_told),
        cmocka_unit_test(silent_callers),
        cmocka_unit_test(gone_while_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
