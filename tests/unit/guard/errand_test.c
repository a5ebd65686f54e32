/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "guard/errand.h"

#include <event2/event.h>
#include <stdatomic.h>
#include <unistd.h>

enum { N = 200 };

struct task {
    struct errand errand; /* first: the callbacks get it */
    struct event_base *base;
    int *back, *dropped;
    int ran;            /* by a thread, before it is back */
    _Atomic bool *gate; /* NULL = does not wait */
};

static void run(struct errand *e)
{
    struct task *t = (struct task *)e;
    while (t->gate && !*t->gate)
        (void)usleep(1000);
    t->ran++;
}

static void done(struct errand *e)
{
    struct task *t = (struct task *)e;
    assert_int_equal(t->ran, e->is_dropped ? 0 : 1);
    ++*t->back;
    *t->dropped += e->is_dropped;
    if (*t->back == N)
        (void)event_base_loopbreak(t->base);
}

static void test_all_come_back(void **state)
{
    static struct task tasks[N];
    struct event_base *base = event_base_new();
    struct errands *es;
    int back = 0, dropped = 0;
    (void)state;
    assert_int_equal(errands_create(base, 3, &es), 0);
    for (int i = 0; i < N; i++) {
        tasks[i] = (struct task){
            .errand = {.run = run, .done = done}, .base = base, .back = &back, .dropped = &dropped};
        assert_int_equal(errands_send(es, &tasks[i].errand), 0);
    }
    (void)event_base_dispatch(base);
    assert_int_equal(back, N);
    assert_int_equal(dropped, 0);
    errands_destroy(es);
    event_base_free(base);
}

static void test_full_and_dropped(void **state)
{
    static struct task tasks[ERRANDS_MAX + 2];
    struct event_base *base = event_base_new();
    struct errands *es;
    int back = 0, dropped = 0, taken = 0;
    _Atomic bool gate = false;
    (void)state;
    assert_int_equal(errands_create(base, 1, &es), 0);
    for (int i = 0; i < ERRANDS_MAX + 2; i++) {
        tasks[i] = (struct task){.errand = {.run = run, .done = done},
                                 .base = base,
                                 .back = &back,
                                 .dropped = &dropped,
                                 .gate = &gate};
        int r = errands_send(es, &tasks[i].errand);
        assert_true(r == 0 || r == E_LIMIT);
        taken += r == 0;
    }
    assert_true(taken == ERRANDS_MAX || taken == ERRANDS_MAX + 1); /* one may run already */
    gate = true;
    errands_destroy(es);
    assert_int_equal(back, taken);
    event_base_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_come_back),
        cmocka_unit_test(test_full_and_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
