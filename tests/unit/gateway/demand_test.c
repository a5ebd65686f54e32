/* SPDX-License-Identifier: Apache-2.0 */
/* What workers are asked for. Real workers; subscriptions, selectors and access are the test's own, behind
 * their headers. */
#include "unit/test.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "gateway/demand.h"

#include <errno.h>
#include <stdio.h>

enum { SUBSCRIPTIONS = 4000, WORKERS = 10000 };

/* ---------------------------------------------------------------- the rest of the gateway */

struct selector {
    const char *hosts; /* patterns */
};

/* Somebody who may see only some hosts and events. */
struct limits {
    const char *hosts, *events; /* patterns; NULL = none, "" = all */
};

struct fake {
    struct subscriber subscriber;
    struct access_identity who;
    struct selector selector;
    struct limits limits;
    char events[64];
    int64_t period_ns;
};

struct subscriptions {
    struct fake v[SUBSCRIPTIONS];
    size_t n;
    size_t asked; /* how often they were walked */
};

static struct subscriptions subscriptions;
static size_t tests; /* of access and of host patterns */

void subscriptions_each(struct subscriptions *all, void (*fn)(void *arg, const struct subscription_info *i),
                        void *arg)
{
    all->asked++;
    for (size_t i = 0; i < all->n; i++) {
        const struct fake *f = &all->v[i];
        const struct subscription_info info = {.subscriber = &f->subscriber,
                                               .selector = &f->selector,
                                               .events = slice_str(f->events),
                                               .hosts = slice_str(f->selector.hosts),
                                               .period_ns = f->period_ns};
        fn(arg, &info);
    }
}

bool selector_wants_host(const struct selector *s, struct slice host)
{
    tests++;
    return text_glob_any(slice_str(s->hosts), host);
}

static const struct limits *limits_of(const struct access_identity *who)
{
    return &((const struct fake *)(const void *)((const char *)who - offsetof(struct fake, who)))->limits;
}

static struct access_view *const some = (struct access_view *)&subscriptions; /* not looked into */

int access_view_create(const struct access_identity *who, enum access_action action, struct access_view **out)
{
    const struct limits *l = limits_of(who);
    assert_int_equal(action, ACCESS_SUBSCRIBE);
    if (!l->hosts)
        return -EACCES;
    *out = *l->hosts || *l->events ? some : NULL;
    return 0;
}

void access_view_destroy(struct access_view *v)
{
    assert_true(!v || v == some);
}

bool access_allows_event(const struct access_identity *who, enum access_action action, struct slice host,
                         struct slice event)
{
    const struct limits *l = limits_of(who);
    assert_int_equal(action, ACCESS_SUBSCRIBE);
    tests++;
    return l->hosts && text_glob_any(slice_str(l->hosts), host) &&
           (event.n == 0 || text_glob_any(slice_str(l->events), event));
}

/* ---------------------------------------------------------------- a world */

static struct event_base *base;
static struct workers *workers;
static struct demand *demand;
static int connection;      /* what a worker's link points to */
static struct strbuf *told; /* by id: the last list, as "PATTERN=PERIOD ..." */
static size_t frames;
static uint32_t last_number;
static int refusal;

static int on_send(void *arg, struct worker *w, const struct frame_demand *d)
{
    struct strbuf wire = {0};
    struct frame f;
    struct frame_demand got;
    struct demand_request r;
    assert_ptr_equal(arg, &connection);
    if (refusal)
        return refusal;
    mem_fail_after(0);             /* what follows is the test's own */
    frame_put_demand(&wire, 0, d); /* as the agent would read it */
    assert_int_equal(frame_read(strbuf_slice(&wire), FRAME_PAYLOAD_MAX, &f), wire.n);
    assert_int_equal(frame_get_demand(f.payload, &got), 0);
    assert_true(got.number > last_number);
    last_number = got.number;
    strbuf_reset(&told[w->id]);
    while (demand_next(&got.list, &r))
        strbuf_printf(&told[w->id], "%s%.*s=%u", told[w->id].n ? " " : "", SLICE_ARG(r.events),
                      (unsigned)r.period_ms);
    strbuf_fini(&wire);
    frames++;
    return 0;
}

static struct worker *add_worker(const char *host)
{
    const struct frame_register r = {.host = slice_str(host), .origin = {.epoch = 1}};
    struct worker *w;
    assert_int_equal(workers_register(workers, &r, &connection, SEAL_NONE, NS_PER_S, NS_PER_S, &w), 0);
    demand_registered(demand, w);
    return w;
}

/* The same id again replaces it; hosts and events of limits "": everything. */
static void subscribe(size_t id, const char *events, const char *hosts, int64_t period_ms,
                      struct limits limits)
{
    struct fake *f = &subscriptions.v[id];
    *f = (struct fake){.selector = {hosts}, .limits = limits, .period_ns = period_ms * 1000000};
    f->subscriber.who = &f->who;
    (void)snprintf(f->events, sizeof f->events, "%s", events);
    subscriptions.n = id >= subscriptions.n ? id + 1 : subscriptions.n;
    demand_changed(demand);
}

static const struct limits everything = {"", ""};

/* Until nothing is to be done: the timer is the only event. How many frames that was. */
static size_t settle(void)
{
    size_t before = frames;
    assert_true(event_base_dispatch(base) >= 0);
    return frames - before;
}

static void start(const char *standing)
{
    const struct demand_options o = {.base = base,
                                     .workers = workers,
                                     .subscriptions = &subscriptions,
                                     .standing = standing,
                                     .send = on_send,
                                     .arg = &connection};
    demand = demand_create(&o);
    assert_non_null(demand);
}

static int set_up(void **state)
{
    (void)state;
    base = event_base_new();
    workers = workers_create(&(const struct workers_options){0});
    told = mem_alloc((WORKERS + 2) * sizeof *told);
    memset(&subscriptions, 0, sizeof subscriptions);
    frames = tests = 0;
    last_number = 0;
    refusal = 0;
    start(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    demand_destroy(demand);
    workers_destroy(workers);
    event_base_free(base);
    for (size_t i = 0; i < WORKERS + 2; i++)
        strbuf_fini(&told[i]);
    mem_free(told);
    return 0;
}

static const char *told_to(const struct worker *w)
{
    return told[w->id].n ? told[w->id].p : "";
}

/* ---------------------------------------------------------------- tests */

static void workers_are_told_what_changes(void **state)
{
    (void)state;
    struct worker *a = add_worker("a"), *b = add_worker("b");
    assert_int_equal(settle(), 0); /* nothing is asked for, nothing is said */
    subscribe(0, "cpu", "", 0, everything);
    assert_int_equal(settle(), 2);
    assert_string_equal(told_to(a), "cpu=0");
    assert_string_equal(told_to(b), "cpu=0");
    subscribe(1, "cpu", "", 0, everything); /* the same again: nobody is told */
    assert_int_equal(settle(), 0);
    subscribe(1, "", "", 100, everything); /* without patterns it is no request */
    assert_int_equal(settle(), 0);
    subscribe(1, "disk*,,cpu", "", 250, everything);
    assert_int_equal(settle(), 2);
    assert_string_equal(told_to(a), "cpu=0 cpu=250 disk*=250");
    subscriptions.n = 0;
    demand_changed(demand);
    assert_int_equal(settle(), 2);
    assert_string_equal(told_to(b), "");
    demand_changed(demand);
    assert_int_equal(settle(), 0);
}

static void the_smallest_period_counts(void **state)
{
    (void)state;
    struct worker *a = add_worker("a");
    subscribe(0, "cpu", "", 5000, everything);
    subscribe(1, "cpu", "", 100, everything);
    subscribe(2, "cpu", "", 2000, everything);
    assert_int_equal(settle(), 1); /* a burst is one frame */
    assert_string_equal(told_to(a), "cpu=100");
    subscribe(1, "disk", "", 0, everything);
    assert_int_equal(settle(), 1);
    assert_string_equal(told_to(a), "cpu=2000 disk=0");
    subscribe(0, "cpu", "", 0, everything);
    subscribe(2, "cpu", "", INT64_C(50) * 24 * 3600 * 1000, everything); /* more than fits */
    assert_int_equal(settle(), 1);
    assert_string_equal(told_to(a), "cpu=0 cpu=4294967295 disk=0");
    subscriptions.v[2].period_ns = 1; /* less than a ms is not 0 */
    demand_changed(demand);
    assert_int_equal(settle(), 1);
    assert_string_equal(told_to(a), "cpu=0 cpu=1 disk=0");
}

static void hosts_are_chosen(void **state)
{
    (void)state;
    struct worker *a = add_worker("node1"), *b = add_worker("node2"), *c = add_worker("disk1");
    subscribe(0, "cpu", "node*", 0, everything);
    subscribe(1, "disk", "node2,disk1", 500, everything);
    assert_int_equal(settle(), 3);
    assert_string_equal(told_to(a), "cpu=0");
    assert_string_equal(told_to(b), "cpu=0 disk=500");
    assert_string_equal(told_to(c), "disk=500");
    subscribe(0, "cpu", "node1", 0, everything);
    assert_int_equal(settle(), 1);
    assert_string_equal(told_to(b), "disk=500");
}

static void a_registration_knows_nothing(void **state)
{
    (void)state;
    subscribe(0, "cpu", "", 0, everything);
    assert_int_equal(settle(), 0);
    struct worker *a = add_worker("a");
    assert_int_equal(settle(), 1);
    (void)add_worker("a"); /* live all the while, on another connection or the same */
    assert_int_equal(settle(), 1);
    assert_string_equal(told_to(a), "cpu=0");
    subscriptions.n = 0;
    demand_changed(demand);
    (void)add_worker("a");
    assert_int_equal(settle(), 0); /* it begins without any */
}

static void without_a_connection_nobody_is_told(void **state)
{
    (void)state;
    struct worker *a = add_worker("a");
    worker_disconnected(workers, a, NS_PER_S, NS_PER_S);
    a->link = NULL;
    subscribe(0, "cpu", "", 0, everything);
    assert_int_equal(settle(), 0);
    (void)add_worker("a");
    refusal = -ENOTCONN; /* it is being closed */
    assert_int_equal(settle(), 0);
    refusal = 0;
    demand_changed(demand); /* it was not told */
    assert_int_equal(settle(), 1);
}

static void access_is_asked(void **state)
{
    (void)state;
    struct worker *a = add_worker("a"), *b = add_worker("b");
    subscribe(0, "cpu", "", 0, (struct limits){NULL, NULL});
    assert_int_equal(settle(), 0); /* who may see nothing starts nothing */
    subscribe(1, "cpu,disk", "", 0, (struct limits){"b", "cpu"});
    assert_int_equal(settle(), 1);
    assert_string_equal(told_to(a), "");
    assert_string_equal(told_to(b), "cpu=0");
    subscribe(1, "d*", "", 0, (struct limits){"b", "cpu"}); /* a pattern: which events can't be told */
    assert_int_equal(settle(), 1);
    assert_string_equal(told_to(b), "d*=0");
    subscribe(1, "cpu", "a", 0, (struct limits){"b", "cpu"});
    assert_int_equal(settle(), 1);
    assert_string_equal(told_to(b), "");
}

static void the_configuration_asks(void **state)
{
    (void)state;
    demand_destroy(demand);
    start("cpu 10s\ndisk*");
    struct worker *a = add_worker("a");
    assert_int_equal(settle(), 1);
    assert_string_equal(told_to(a), "cpu=10000 disk*=0");
    subscribe(0, "cpu", "", 1000, everything);
    assert_int_equal(settle(), 1);
    assert_string_equal(told_to(a), "cpu=1000 disk*=0");
    subscriptions.n = 0;
    demand_changed(demand);
    assert_int_equal(settle(), 1);
    assert_string_equal(told_to(a), "cpu=10000 disk*=0");
}

static void too_much_is_everything(void **state)
{
    (void)state;
    struct worker *a = add_worker("a");
    struct demand_counts counts;
    for (size_t i = 0; i < DEMAND_MAX; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "e%zu", i);
        subscribe(i, name, "", (int64_t)(1000 + i), everything);
    }
    assert_int_equal(settle(), 1);
    assert_true(slice_starts(slice_str(told_to(a)), SLICE_LIT("e0=1000 e1=1001 e10=1010 ")));
    subscribe(DEMAND_MAX, "one.more", "", 300, everything);
    assert_int_equal(settle(), 1);
    assert_string_equal(told_to(a), "*=300");
    subscribe(DEMAND_MAX, "one.more", "", 0, everything);
    assert_int_equal(settle(), 1);
    assert_string_equal(told_to(a), "*=0 *=1000");
    demand_counts(demand, &counts);
    assert_int_equal(counts.sent, 3);
    assert_int_equal(counts.coarse, 2);
}

/* With a list that all share, a worker costs no test at all; with host patterns, one of each. */
static void many_workers_share_a_list(void **state)
{
    (void)state;
    char host[32];
    for (size_t i = 0; i < WORKERS; i++) {
        (void)snprintf(host, sizeof host, "node%05zu", i);
        (void)add_worker(host);
    }
    assert_int_equal(settle(), 0);
    subscriptions.asked = 0;
    int64_t began = clock_mono_ns();
    subscribe(0, "cpu,disk*", "", 1000, everything);
    assert_int_equal(settle(), WORKERS);
    int64_t told_ns = clock_mono_ns() - began;
    assert_int_equal(tests, 0);
    printf("%d workers told in %.1f ms, in %zu steps\n", WORKERS, (double)told_ns / 1e6, subscriptions.asked);
    subscriptions.asked = 0;
    began = clock_mono_ns();
    subscribe(1, "cpu", "node0000*", 100, everything);
    assert_int_equal(settle(), 10);
    printf("ten of them by a pattern in %.1f ms, in %zu steps\n", (double)(clock_mono_ns() - began) / 1e6,
           subscriptions.asked);
    assert_int_equal(tests, WORKERS);
    assert_string_equal(told[3].p, "cpu=100 disk*=1000");
}

/* More than a step takes: everybody is reached, also when it changes in the middle. */
static void changes_meanwhile_reach_everybody(void **state)
{
    (void)state;
    char host[32];
    for (size_t i = 0; i < WORKERS; i++) {
        (void)snprintf(host, sizeof host, "node%05zu", i);
        (void)add_worker(host);
    }
    (void)settle();
    subscribe(0, "cpu", "", 1000, everything);
    while (frames == 0)
        assert_true(event_base_loop(base, EVLOOP_ONCE) >= 0);
    assert_true(frames < WORKERS); /* a step is not all */
    subscribe(1, "disk", "", 1000, everything);
    (void)settle();
    for (size_t id = 1; id <= WORKERS; id++)
        assert_string_equal(told[id].p, "cpu=1000 disk=1000");
}

static void no_memory_is_tried_again(void **state)
{
    (void)state;
    struct worker *a = add_worker("a");
    (void)settle();
    for (unsigned n = 1; n < 12; n++) {
        subscribe(0, n % 2 ? "cpu" : "disk", "", 0, everything);
        subscribe(1, "load", "a", 0, everything);
        mem_fail_after(n);
        (void)settle();
        mem_fail_after(0);
        assert_string_equal(told_to(a), n % 2 ? "cpu=0 load=0" : "disk=0 load=0");
    }
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test_setup_teardown(workers_are_told_what_changes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_smallest_period_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hosts_are_chosen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_registration_knows_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_connection_nobody_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(access_is_asked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_configuration_asks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_much_is_everything, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_workers_share_a_list, set_up, tear_down),
        cmocka_unit_test_setup_teardown(changes_meanwhile_reach_everybody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_memory_is_tried_again, set_up, tear_down),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
