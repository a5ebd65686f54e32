/* SPDX-License-Identifier: Apache-2.0 */
/* A world of hosts over a simulated clock: each host is well, has lost its agent, is cut off, sends no
 * heartbeats, or has left. Pings and leases are answered by that truth, after a while, or never. */
#include "unit/test.h"

#include "base/clock.h"
#include "base/mem.h"
#include "guard/health.h"

#include <errno.h>
#include <stdio.h>

enum { HOSTS_MAX = 20000, NAME = 16 };
#define EVERY   (10 * NS_PER_S)
#define TIMEOUT (12 * NS_PER_S)
#define START   (INT64_C(1794838187) * NS_PER_S)

struct asked {
    bool is_out;
    int64_t answer_at; /* INT64_MAX = never */
    int answer;        /* a code of a ping, or a lease_state; where the world has no truths */
    unsigned count;
};

enum truth { WELL, AGENT_DEAD, CUT, SILENT, LEFT, TRUTHS };

struct node {
    char name[NAME];
    struct asked ping, lease;
    int64_t beat_at; /* INT64_MAX = sends none */
    char pinged_at[64];
};

struct world {
    struct health *h;
    int64_t now;
    struct node *nodes;
    size_t n;
    /* What those that are asked say, and after how long (INT64_MAX = never). */
    int ping, lease;
    int64_t ping_after, lease_after;
    int ping_call, lease_call; /* what asking itself returns */
    unsigned out, out_max;     /* of pings; over it asking returns E_LIMIT; 0 = no limit */
    bool has_address;
    const enum truth *truths; /* NULL = answers are as above */
};

static struct node *find(struct world *w, struct slice host)
{
    unsigned i;
    char name[NAME] = "";
    assert_true(host.n < NAME);
    memcpy(name, host.p, host.n);
    assert_int_equal(sscanf(name, "c%u", &i), 1);
    assert_true(i < w->n);
    return &w->nodes[i];
}

static int64_t later(const struct world *w, int64_t after)
{
    return after == INT64_MAX ? INT64_MAX : w->now + after;
}

static int on_ping(void *arg, struct slice host, struct slice address)
{
    struct world *w = arg;
    struct node *x = find(w, host);
    assert_false(x->ping.is_out); /* at most one at a time */
    assert_true(address.n < sizeof x->pinged_at);
    memcpy(x->pinged_at, address.p, address.n);
    x->pinged_at[address.n] = '\0';
    if (w->ping_call < 0)
        return w->ping_call;
    if (w->out_max && w->out >= w->out_max)
        return E_LIMIT;
    w->out++;
    x->ping = (struct asked){true, later(w, w->ping_after), w->ping, x->ping.count + 1};
    return 0;
}

static int on_lease(void *arg, struct slice host)
{
    struct world *w = arg;
    struct node *x = find(w, host);
    assert_false(x->lease.is_out);
    if (w->lease_call < 0)
        return w->lease_call;
    x->lease = (struct asked){true, later(w, w->lease_after), w->lease, x->lease.count + 1};
    return 0;
}

static void make(struct world *w, size_t n)
{
    const struct health_options o = {.every_ns = EVERY,
                                     .timeout_ns = TIMEOUT,
                                     .is_pinging = true,
                                     .ping = on_ping,
                                     .lease = on_lease,
                                     .arg = w};
    *w = (struct world){.now = START, .n = n, .lease = LEASE_LIVE, .has_address = true};
    w->nodes = mem_alloc(n * sizeof *w->nodes);
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(w->nodes[i].name, NAME, "c%zu", i);
        w->nodes[i].beat_at = INT64_MAX;
    }
    assert_int_equal(health_create(&o, &w->h), 0);
}

static void end(struct world *w)
{
    health_destroy(w->h);
    mem_free(w->nodes);
}

static void beat(struct world *w, size_t i)
{
    health_heard(w->h, slice_str(w->nodes[i].name), true, 0, w->now);
}

static int ping_answer(const struct world *w, const struct node *x)
{
    if (!w->truths)
        return x->ping.answer;
    return w->truths[x - w->nodes] == CUT ? -ETIMEDOUT : 0;
}

static enum lease_state lease_answer(const struct world *w, const struct node *x)
{
    static const enum lease_state by_truth[TRUTHS] = {LEASE_LIVE, LEASE_LATE, LEASE_LATE, LEASE_LIVE,
                                                      LEASE_DEREGISTERED};
    return w->truths ? by_truth[w->truths[x - w->nodes]] : (enum lease_state)x->lease.answer;
}

static void deliver(struct world *w, struct node *x)
{
    struct slice host = slice_str(x->name);
    if (x->beat_at <= w->now) {
        health_heard(w->h, host, true, 0, w->now);
        x->beat_at += EVERY;
    }
    if (x->lease.is_out && x->lease.answer_at <= w->now) {
        x->lease.is_out = false;
        health_leased(w->h, host, lease_answer(w, x),
                      w->has_address ? SLICE_LIT("10.0.0.7:4711") : SLICE_LIT(""), w->now);
    }
    if (x->ping.is_out && x->ping.answer_at <= w->now) {
        x->ping.is_out = false;
        w->out--;
        health_pinged(w->h, host, ping_answer(w, x), 250000, w->now);
    }
}

/* What is to be told next, if it is before `until`. */
static int64_t next_delivery(const struct world *w, int64_t until)
{
    for (size_t i = 0; i < w->n; i++) {
        const struct node *x = &w->nodes[i];
        until = x->beat_at < until ? x->beat_at : until;
        until = x->lease.is_out && x->lease.answer_at < until ? x->lease.answer_at : until;
        until = x->ping.is_out && x->ping.answer_at < until ? x->ping.answer_at : until;
    }
    return until;
}

static void check_counts(const struct world *w)
{
    size_t sum = 0;
    for (enum health_state s = 0; s < HEALTH_STATES; s++)
        sum += health_count(w->h, s);
    assert_true(sum <= w->n);
}

/* Time passes as for a guard that turns when it is asked to. */
static void pass(struct world *w, int64_t ns)
{
    int64_t until = w->now + ns;
    for (;;) {
        int64_t next;
        do { /* what this turn asks for may be answered at once */
            for (size_t i = 0; i < w->n; i++)
                deliver(w, &w->nodes[i]);
            next = health_turn(w->h, w->now);
            assert_true(next > w->now);
        } while (next_delivery(w, INT64_MAX) <= w->now);
        check_counts(w);
        if (w->now == until)
            break;
        next = next < until ? next : until;
        w->now = next_delivery(w, next);
    }
}

struct row {
    struct slice host; /* wanted */
    bool is_there;
    char state[16], lease[16], address[64];
    double age_s, ping_ms; /* -1 = NULL */
    int64_t since, heard;
};

static void copy(char *to, size_t room, struct value v)
{
    (void)snprintf(to, room, "%.*s", v.type == VALUE_TEXT ? (int)v.n : 0, v.type == VALUE_TEXT ? v.p : "");
}

static int put(void *to, const struct value *v)
{
    struct row *row = to;
    if (!slice_eq(value_slice(v[0]), row->host))
        return 0;
    row->is_there = true;
    copy(row->state, sizeof row->state, v[1]);
    row->since = v[2].i;
    row->heard = v[3].type == VALUE_INT ? v[3].i : 0;
    row->age_s = v[4].type == VALUE_FLOAT ? v[4].f : -1;
    row->ping_ms = v[5].type == VALUE_FLOAT ? v[5].f : -1;
    copy(row->lease, sizeof row->lease, v[6]);
    copy(row->address, sizeof row->address, v[7]);
    return 0;
}

static struct row row_of(struct world *w, size_t i)
{
    struct judge_table t;
    struct row row = {.host = slice_str(w->nodes[i].name)};
    health_table(w->h, &t);
    assert_string_equal(t.name, "host_health");
    assert_string_equal(t.columns[7], "address");
    assert_null(t.columns[8]);
    assert_int_equal(t.fill(t.arg, put, &row), 0);
    assert_int_equal(row.is_there, health_knows(w->h, row.host));
    return row;
}

static void expect_state(struct world *w, size_t i, const char *state)
{
    assert_string_equal(row_of(w, i).state, state);
}

/* ---------------------------------------------------------------- when */

static void test_late_at_its_time(void **state)
{
    struct world w;
    (void)state;
    make(&w, 1);
    beat(&w, 0);
    pass(&w, TIMEOUT - 1);
    expect_state(&w, 0, "live");
    w.lease_after = INT64_MAX;
    pass(&w, 1);
    expect_state(&w, 0, "late"); /* before any answer */
    struct row row = row_of(&w, 0);
    assert_true(row.since == w.now && row.heard == START);
    assert_float_equal(row.age_s, 12, 1e-9);
    beat(&w, 0);
    expect_state(&w, 0, "live");
    end(&w);
}

static void test_its_own_period(void **state)
{
    struct world w;
    (void)state;
    make(&w, 2);
    beat(&w, 0);
    health_heard(w.h, SLICE_LIT("c1"), true, 60 * NS_PER_S, w.now);
    pass(&w, 71 * NS_PER_S);
    expect_state(&w, 0, "late");
    expect_state(&w, 1, "live");
    pass(&w, NS_PER_S);
    expect_state(&w, 1, "late");
    end(&w);
}

/* Other events are no heartbeats. */
static void test_other_events(void **state)
{
    struct world w;
    (void)state;
    make(&w, 1);
    health_heard(w.h, SLICE_LIT("c0"), false, 0, w.now);
    assert_false(health_knows(w.h, SLICE_LIT("c0"))); /* it has never sent one: nothing is missing */
    beat(&w, 0);
    for (int i = 0; i < 12; i++) {
        pass(&w, NS_PER_S);
        health_heard(w.h, SLICE_LIT("c0"), false, 0, w.now);
    }
    expect_state(&w, 0, "late");
    end(&w);
}

/* ---------------------------------------------------------------- what it is */

static const struct {
    const char *before;
    int ping; /* 1 = can't be asked */
    int lease;
    const char *after;
} judgements[] = {
    {"late", 0, LEASE_LIVE, "late"},
    {"late", 0, LEASE_LATE, "agent_dead"},
    {"late", 0, LEASE_EXPIRED, "agent_dead"},
    {"late", 0, LEASE_NONE, "agent_dead"},
    {"late", 0, LEASE_DEREGISTERED, "gone"},
    {"late", 0, LEASE_UNKNOWN, "late"},
    {"late", -ETIMEDOUT, LEASE_LIVE, "late"},
    {"late", -ETIMEDOUT, LEASE_LATE, "unreachable"},
    {"late", -EHOSTUNREACH, LEASE_EXPIRED, "unreachable"},
    {"late", -ENETUNREACH, LEASE_NONE, "unreachable"},
    {"late", -ETIMEDOUT, LEASE_DEREGISTERED, "gone"},
    {"late", -ETIMEDOUT, LEASE_UNKNOWN, "unreachable"},
    {"late", -EACCES, LEASE_LIVE, "late"},
    {"late", -EACCES, LEASE_LATE, "agent_dead"},
    {"late", -ENOENT, LEASE_EXPIRED, "agent_dead"},
    {"late", -EACCES, LEASE_DEREGISTERED, "gone"},
    {"late", -EACCES, LEASE_UNKNOWN, "late"},
    {"agent_dead", 0, LEASE_LIVE, "late"},
    {"agent_dead", 0, LEASE_EXPIRED, "agent_dead"},
    {"agent_dead", 0, LEASE_UNKNOWN, "agent_dead"},
    {"agent_dead", -ETIMEDOUT, LEASE_EXPIRED, "unreachable"},
    {"agent_dead", -ETIMEDOUT, LEASE_UNKNOWN, "unreachable"},
    {"agent_dead", -EACCES, LEASE_UNKNOWN, "agent_dead"},
    {"agent_dead", -EACCES, LEASE_LIVE, "late"},
    {"agent_dead", 0, LEASE_DEREGISTERED, "gone"},
    {"unreachable", 0, LEASE_LIVE, "late"},
    {"unreachable", 0, LEASE_EXPIRED, "agent_dead"},
    {"unreachable", 0, LEASE_UNKNOWN, "late"},
    {"unreachable", -ETIMEDOUT, LEASE_LIVE, "late"},
    {"unreachable", -ETIMEDOUT, LEASE_NONE, "unreachable"},
    {"unreachable", -EACCES, LEASE_LATE, "unreachable"},
    {"unreachable", -EACCES, LEASE_UNKNOWN, "unreachable"},
    {"unreachable", -EACCES, LEASE_LIVE, "late"},
    {"unreachable", -EACCES, LEASE_DEREGISTERED, "gone"},
};

static void bring_to(struct world *w, const char *state)
{
    w->lease = strcmp(state, "late") == 0 ? LEASE_LIVE : LEASE_LATE;
    w->ping = strcmp(state, "unreachable") == 0 ? -ETIMEDOUT : 0;
    beat(w, 0);
    pass(w, TIMEOUT);
    expect_state(w, 0, state);
}

static void test_judgements(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof judgements / sizeof *judgements; i++) {
        struct world w;
        make(&w, 1);
        bring_to(&w, judgements[i].before);
        w.ping = judgements[i].ping;
        w.lease = judgements[i].lease;
        pass(&w, EVERY); /* the next round */
        if (strcmp(row_of(&w, 0).state, judgements[i].after) != 0)
            fail_msg("%s, ping %d, lease %d: %s", judgements[i].before, judgements[i].ping,
                     judgements[i].lease, row_of(&w, 0).state);
        /* It stays so while the answers do. */
        pass(&w, 5 * EVERY);
        expect_state(&w, 0, judgements[i].after);
        /* Whatever it was: heard, it is live; once. */
        beat(&w, 0);
        expect_state(&w, 0, "live");
        assert_int_equal(row_of(&w, 0).since, w.now);
        end(&w);
    }
}

static void test_row(void **state)
{
    struct world w;
    (void)state;
    make(&w, 1);
    bring_to(&w, "agent_dead");
    struct row row = row_of(&w, 0);
    assert_string_equal(row.lease, "late");
    assert_string_equal(row.address, "10.0.0.7:4711");
    assert_float_equal(row.ping_ms, 0.25, 1e-9);
    bring_to(&w, "unreachable");
    row = row_of(&w, 0);
    assert_true(row.ping_ms < 0);
    /* While the next round is under way the answers of the last are shown. */
    w.lease_after = w.ping_after = NS_PER_S;
    pass(&w, EVERY);
    assert_true(w.nodes[0].lease.is_out);
    assert_string_equal(row_of(&w, 0).lease, "late");
    beat(&w, 0);
    assert_string_equal(row_of(&w, 0).lease, "");
    end(&w);
}

static void test_without_pings(void **state)
{
    struct world w;
    (void)state;
    make(&w, 1);
    w.h = (health_destroy(w.h), NULL);
    const struct health_options o = {.every_ns = EVERY, .timeout_ns = TIMEOUT, .lease = on_lease, .arg = &w};
    assert_int_equal(health_create(&o, &w.h), 0);
    beat(&w, 0);
    w.lease = LEASE_EXPIRED;
    pass(&w, TIMEOUT);
    expect_state(&w, 0, "agent_dead");
    assert_int_equal(w.nodes[0].ping.count, 0);
    end(&w);
}

/* An event of the host while its ping is under way: it is up, whatever became of the ping. */
static void test_an_event_answers(void **state)
{
    struct world w;
    (void)state;
    make(&w, 1);
    w.lease = LEASE_EXPIRED;
    w.ping = -ETIMEDOUT;
    w.ping_after = 3 * NS_PER_S;
    beat(&w, 0);
    pass(&w, TIMEOUT + NS_PER_S);
    health_heard(w.h, SLICE_LIT("c0"), false, 0, w.now);
    pass(&w, 2 * NS_PER_S);
    expect_state(&w, 0, "agent_dead");
    pass(&w, EVERY);
    expect_state(&w, 0, "unreachable");
    end(&w);
}

/* ---------------------------------------------------------------- questions */

static void test_address_first(void **state)
{
    struct world w;
    (void)state;
    make(&w, 1);
    w.lease_after = 2 * NS_PER_S;
    beat(&w, 0);
    pass(&w, TIMEOUT + NS_PER_S);
    assert_int_equal(w.nodes[0].ping.count, 0); /* where to is not known yet */
    pass(&w, NS_PER_S);
    assert_int_equal(w.nodes[0].ping.count, 1);
    assert_string_equal(w.nodes[0].pinged_at, "10.0.0.7:4711");
    /* The next time both at once. */
    pass(&w, EVERY - 2 * NS_PER_S);
    assert_int_equal(w.nodes[0].ping.count, 2);
    assert_true(w.nodes[0].lease.is_out);
    end(&w);
}

static void test_by_name(void **state)
{
    struct world w;
    (void)state;
    make(&w, 1);
    w.lease_call = -ENOTCONN;
    w.ping = -ETIMEDOUT;
    beat(&w, 0);
    pass(&w, TIMEOUT);
    assert_int_equal(w.nodes[0].ping.count, 1);
    assert_string_equal(w.nodes[0].pinged_at, "");
    expect_state(&w, 0, "unreachable");
    w.ping_call = -EACCES; /* and now nothing can be asked: as it was */
    pass(&w, 3 * EVERY);
    expect_state(&w, 0, "unreachable");
    end(&w);
}

static void test_asked_every_period(void **state)
{
    struct world w;
    (void)state;
    make(&w, 1);
    beat(&w, 0);
    pass(&w, TIMEOUT);
    assert_int_equal(w.nodes[0].lease.count, 1);
    pass(&w, 10 * EVERY);
    assert_int_equal(w.nodes[0].lease.count, 11);
    assert_int_equal(w.nodes[0].ping.count, 11);
    end(&w);
}

/* An answer to what was asked before the host was heard again says nothing. */
static void test_stale_answers(void **state)
{
    struct world w;
    (void)state;
    make(&w, 1);
    w.lease = LEASE_DEREGISTERED;
    w.ping = -ETIMEDOUT;
    w.lease_after = w.ping_after = 20 * NS_PER_S;
    beat(&w, 0);
    pass(&w, TIMEOUT + NS_PER_S);
    assert_true(w.nodes[0].lease.is_out);
    w.lease = LEASE_LIVE;
    w.lease_after = w.ping_after = 0;
    beat(&w, 0);
    pass(&w, TIMEOUT + NS_PER_S); /* late again; the old question is still out: not asked yet */
    expect_state(&w, 0, "late");
    assert_int_equal(w.nodes[0].lease.count, 1);
    pass(&w, 6 * NS_PER_S); /* its answer has come, was not looked at, and the new one was asked */
    assert_int_equal(w.nodes[0].lease.count, 2);
    expect_state(&w, 0, "late");
    end(&w);
}

static void test_no_answer_at_all(void **state)
{
    struct world w;
    (void)state;
    make(&w, 1);
    w.lease_after = w.ping_after = INT64_MAX;
    beat(&w, 0);
    pass(&w, 10 * 60 * NS_PER_S);
    expect_state(&w, 0, "late");
    assert_int_equal(w.nodes[0].lease.count, 1);
    /* Ten minutes later it is taken for lost: then it may be asked again. */
    w.nodes[0].lease.is_out = w.nodes[0].ping.is_out = false;
    w.out = 0;
    w.lease_after = w.ping_after = 0;
    w.lease = LEASE_LATE;
    pass(&w, 3 * 60 * NS_PER_S);
    expect_state(&w, 0, "agent_dead");
    end(&w);
}

static void test_half_an_answer(void **state)
{
    struct world w;
    (void)state;
    make(&w, 1);
    w.lease = LEASE_EXPIRED;
    w.ping_after = INT64_MAX;
    beat(&w, 0);
    pass(&w, TIMEOUT + 59 * NS_PER_S);
    expect_state(&w, 0, "late");
    pass(&w, 2 * NS_PER_S); /* the round is over: the lease alone */
    expect_state(&w, 0, "agent_dead");
    end(&w);
}

static void test_nobody_asked(void **state)
{
    struct world w;
    (void)state;
    make(&w, 1);
    health_pinged(w.h, SLICE_LIT("c0"), 0, 1, w.now); /* not known at all */
    health_leased(w.h, SLICE_LIT("c0"), LEASE_EXPIRED, SLICE_LIT(""), w.now);
    beat(&w, 0);
    health_pinged(w.h, SLICE_LIT("c0"), -ETIMEDOUT, 0, w.now);
    health_leased(w.h, SLICE_LIT("c0"), LEASE_EXPIRED, SLICE_LIT(""), w.now);
    expect_state(&w, 0, "live");
    health_leased(w.h, SLICE_LIT("c0"), LEASE_DEREGISTERED, SLICE_LIT(""), w.now);
    expect_state(&w, 0, "gone");
    assert_int_equal(w.nodes[0].ping.count, 0);
    end(&w);
}

/* ---------------------------------------------------------------- gone, expected, room */

static void test_gone_is_forgotten(void **state)
{
    struct world w;
    (void)state;
    make(&w, 1);
    w.lease = LEASE_DEREGISTERED;
    beat(&w, 0);
    pass(&w, TIMEOUT + 3599 * NS_PER_S);
    expect_state(&w, 0, "gone");
    assert_int_equal(w.nodes[0].lease.count, 1); /* nobody asks after it */
    pass(&w, NS_PER_S);
    assert_false(health_knows(w.h, SLICE_LIT("c0")));
    assert_true(health_turn(w.h, w.now) > w.now); /* also without anybody to look at */
    beat(&w, 0);
    expect_state(&w, 0, "live");
    end(&w);
}

/* What was expected and never came is judged after its time-out, and has no row before. */
static void test_expected(void **state)
{
    struct world w;
    (void)state;
    make(&w, 3);
    for (size_t i = 0; i < 3; i++)
        health_expect(w.h, slice_str(w.nodes[i].name), SLICE_LIT("10.0.0.9:1"), w.now);
    w.lease = LEASE_EXPIRED;
    w.ping = -ETIMEDOUT;
    w.ping_after = 3 * NS_PER_S;
    pass(&w, NS_PER_S);
    beat(&w, 0);
    health_expect(w.h, SLICE_LIT("c0"), SLICE_LIT("10.0.0.8:1"), w.now); /* nothing changes */
    expect_state(&w, 0, "live");
    pass(&w, TIMEOUT + NS_PER_S);
    assert_string_equal(w.nodes[1].pinged_at, "10.0.0.9:1");
    assert_false(health_knows(w.h, SLICE_LIT("c1")));
    assert_int_equal(health_count(w.h, HEALTH_EXPECTED), 2);
    w.nodes[2].ping.answer = 0;
    pass(&w, 3 * NS_PER_S);
    expect_state(&w, 1, "unreachable");
    expect_state(&w, 2, "agent_dead");
    assert_true(row_of(&w, 1).age_s < 0); /* never heard */
    end(&w);
}

static void test_room(void **state)
{
    struct world w;
    (void)state;
    make(&w, 3);
    w.h = (health_destroy(w.h), NULL);
    const struct health_options o = {
        .every_ns = EVERY, .timeout_ns = TIMEOUT, .hosts_max = 2, .lease = on_lease, .arg = &w};
    assert_int_equal(health_create(&o, &w.h), 0);
    for (size_t i = 0; i < 3; i++)
        beat(&w, i);
    assert_int_equal(health_left_out(w.h), 1);
    assert_int_equal(health_count(w.h, HEALTH_LIVE), 2);
    health_leased(w.h, SLICE_LIT("c0"), LEASE_DEREGISTERED, SLICE_LIT(""), w.now);
    w.nodes[1].beat_at = w.now;
    pass(&w, 3601 * NS_PER_S);
    beat(&w, 2);
    expect_state(&w, 2, "live");
    assert_int_equal(health_left_out(w.h), 1);
    end(&w);
}

static void test_no_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 8; n++) {
        struct world w;
        make(&w, 1);
        mem_fail_after(n);
        beat(&w, 0);
        mem_fail_after(0);
        assert_int_equal(health_left_out(w.h) + health_count(w.h, HEALTH_LIVE), 1);
        beat(&w, 0);
        expect_state(&w, 0, "live");
        end(&w);
    }
    const struct health_options bad = {.every_ns = EVERY, .timeout_ns = EVERY - 1};
    struct health *h = NULL;
    assert_int_equal(health_create(&bad, &h), -EINVAL);
    assert_null(h);
    health_destroy(NULL);
}

/* ---------------------------------------------------------------- our own troubles */

static void test_blind(void **state)
{
    struct world w;
    (void)state;
    make(&w, 2);
    beat(&w, 0);
    beat(&w, 1);
    pass(&w, 5 * NS_PER_S);
    health_blind(w.h, true, w.now);
    pass(&w, 3600 * NS_PER_S);
    expect_state(&w, 0, "live");
    health_blind(w.h, false, w.now);
    pass(&w, 6 * NS_PER_S);
    beat(&w, 0);
    pass(&w, 5 * NS_PER_S);
    expect_state(&w, 1, "live"); /* it has its whole time-out from when we could hear it */
    pass(&w, NS_PER_S);
    expect_state(&w, 0, "live");
    expect_state(&w, 1, "late");
    end(&w);
}

/* Stopped for a minute, suspended for a night, or the clock set forward: nobody is late for it. */
static void test_pause(void **state)
{
    static const int64_t pauses[] = {6 * NS_PER_S, 60 * NS_PER_S, 36000 * NS_PER_S,
                                     INT64_C(4000000000) * NS_PER_S};
    (void)state;
    for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
        struct world w;
        make(&w, 2);
        beat(&w, 0);
        beat(&w, 1);
        pass(&w, 11 * NS_PER_S);
        w.now += pauses[i];
        pass(&w, TIMEOUT - 1);
        expect_state(&w, 0, "live");
        expect_state(&w, 1, "live");
        beat(&w, 0);
        pass(&w, 1); /* it had died meanwhile: that is found */
        expect_state(&w, 0, "live");
        expect_state(&w, 1, "late");
        end(&w);
    }
}

/* What was asked before the pause is asked again: its answer may be missing only because we slept. */
static void test_pause_between_question_and_answer(void **state)
{
    struct world w;
    (void)state;
    make(&w, 1);
    w.lease = LEASE_LATE;
    w.ping = -ETIMEDOUT;
    w.ping_after = 3 * NS_PER_S;
    beat(&w, 0);
    pass(&w, TIMEOUT);
    assert_true(w.nodes[0].ping.is_out);
    w.now += 60 * NS_PER_S;
    w.ping = 0;
    w.ping_after = 0;
    pass(&w, 2 * NS_PER_S);
    assert_int_equal(w.nodes[0].ping.count, 2);
    expect_state(&w, 0, "agent_dead");
    end(&w);
}

static void test_clock_set_back(void **state)
{
    struct world w;
    (void)state;
    make(&w, 2);
    beat(&w, 0);
    beat(&w, 1);
    pass(&w, 11 * NS_PER_S);
    w.now -= 3600 * NS_PER_S;
    pass(&w, NS_PER_S - 1);
    expect_state(&w, 0, "live");
    pass(&w, 2);
    expect_state(&w, 0, "late"); /* at its time */
    struct row row = row_of(&w, 0);
    assert_true(row.age_s > 11.9 && row.age_s < 12.1 && row.since == w.now - 1);
    end(&w);
}

/* A guard that is always slow still judges. */
static void test_always_slow(void **state)
{
    struct world w;
    (void)state;
    make(&w, 1);
    w.lease = LEASE_EXPIRED;
    beat(&w, 0);
    for (int i = 0; i < 20; i++) {
        w.now += 30 * NS_PER_S;
        deliver(&w, &w.nodes[0]);
        (void)health_turn(w.h, w.now);
    }
    expect_state(&w, 0, "agent_dead");
    end(&w);
}

/* ---------------------------------------------------------------- many */

static void test_flapping(void **state)
{
    struct world w;
    (void)state;
    make(&w, 1);
    beat(&w, 0);
    for (int i = 0; i < 50; i++) { /* every 13 s, with time-outs of 12 s */
        pass(&w, 12 * NS_PER_S);
        expect_state(&w, 0, "late");
        pass(&w, NS_PER_S);
        beat(&w, 0);
        expect_state(&w, 0, "live");
        assert_int_equal(health_count(w.h, HEALTH_LIVE), 1);
        assert_int_equal(health_count(w.h, HEALTH_LATE), 0);
    }
    end(&w);
}

/* All hosts of a large grid at once, while only a few hundred can be asked at a time. */
static void test_all_at_once(void **state)
{
    struct world w;
    (void)state;
    make(&w, HOSTS_MAX);
    w.lease = LEASE_EXPIRED;
    w.ping = -ETIMEDOUT;
    w.ping_after = 100 * 1000 * 1000;
    w.out_max = 1000;
    for (size_t i = 0; i < HOSTS_MAX; i++)
        beat(&w, i);
    pass(&w, TIMEOUT);
    assert_int_equal(health_count(w.h, HEALTH_LATE), HOSTS_MAX);
    assert_int_equal(w.out, 1000);
    pass(&w, 40 * NS_PER_S);
    assert_int_equal(health_count(w.h, HEALTH_UNREACHABLE), HOSTS_MAX);
    for (size_t i = 0; i < HOSTS_MAX; i++) {
        beat(&w, i);
        w.nodes[i].beat_at = w.now + EVERY + (int64_t)(i % 1000) * 1000000;
    }
    assert_int_equal(health_count(w.h, HEALTH_LIVE), HOSTS_MAX);
    end(&w);
}

/* Random truths, answers that take random times: nobody is live for longer than its time-out, and when the
 * truth has been still for a while, every host is found to be what it is. */
static const char *const found_as[TRUTHS] = {"live", "agent_dead", "unreachable", "late", "gone"};
enum { CROWD = 40 };

static int64_t draw(uint64_t *seed, int64_t below)
{
    return (int64_t)(test_random(seed) % (uint64_t)below);
}

static void change(struct world *w, enum truth *truths, uint64_t *seed)
{
    size_t i = (size_t)draw(seed, CROWD);
    /* One that has left can only come back; and then it says so at once. */
    truths[i] = truths[i] == LEFT ? WELL : (enum truth)draw(seed, TRUTHS);
    if (truths[i] == WELL && w->nodes[i].beat_at == INT64_MAX) {
        beat(w, i);
        w->nodes[i].beat_at = w->now + EVERY;
    } else if (truths[i] != WELL) {
        w->nodes[i].beat_at = INT64_MAX;
    }
}

/* What happens is not changed by it. */
static void set_clock(struct world *w, int64_t by_ns)
{
    w->now += by_ns;
    for (size_t i = 0; i < w->n; i++) {
        struct node *x = &w->nodes[i];
        int64_t *const times[] = {&x->beat_at, &x->ping.answer_at, &x->lease.answer_at};
        for (size_t k = 0; k < 3; k++)
            *times[k] += *times[k] == INT64_MAX ? 0 : by_ns;
    }
}

static void wander(struct world *w, enum truth *truths, bool has_pauses, uint64_t *seed)
{
    for (int s = 0; s < 300; s++) {
        if (draw(seed, 3) == 0)
            change(w, truths, seed);
        w->ping_after = draw(seed, 4 * NS_PER_S);
        w->lease_after = draw(seed, 4) ? draw(seed, 9 * NS_PER_S) : 0;
        if (has_pauses && draw(seed, 100) == 0)
            w->now += draw(seed, 100 * NS_PER_S); /* stopped: what was to be told waits */
        if (has_pauses && draw(seed, 100) == 0)
            set_clock(w, draw(seed, 7200 * NS_PER_S) - 3600 * NS_PER_S);
        pass(w, draw(seed, 3 * NS_PER_S));
        for (size_t i = 0; i < CROWD && !has_pauses; i++) {
            struct row row = row_of(w, i);
            assert_true(!row.is_there || strcmp(row.state, "live") != 0 || row.age_s < 12.0);
        }
    }
}

static void test_truth_is_found(void **state)
{
    (void)state;
    for (uint64_t round = 1; round <= 30 * test_scale(); round++) {
        struct world w;
        enum truth truths[CROWD] = {WELL};
        uint64_t seed = round;
        make(&w, CROWD);
        w.truths = truths;
        for (size_t i = 0; i < CROWD; i++)
            w.nodes[i].beat_at = w.now + draw(&seed, EVERY);
        pass(&w, EVERY);
        wander(&w, truths, round % 2, &seed);
        w.ping_after = NS_PER_S;
        w.lease_after = NS_PER_S / 2;
        pass(&w, 50 * NS_PER_S); /* still: old answers come in, and then a round or two of new ones */
        for (size_t i = 0; i < CROWD; i++)
            if (strcmp(row_of(&w, i).state, found_as[truths[i]]) != 0)
                fail_msg("seed %d: c%zu is %s, found as %s", (int)round, i, found_as[truths[i]],
                         row_of(&w, i).state);
        end(&w);
    }
}

static void test_words(void **state)
{
    (void)state;
    assert_int_equal(lease_state_parse(SLICE_LIT("live")), LEASE_LIVE);
    assert_int_equal(lease_state_parse(SLICE_LIT("deregistered")), LEASE_DEREGISTERED);
    assert_int_equal(lease_state_parse(SLICE_LIT("none")), LEASE_UNKNOWN); /* no state of a worker */
    assert_int_equal(lease_state_parse(SLICE_LIT("")), LEASE_UNKNOWN);
    assert_string_equal(health_state_name(HEALTH_AGENT_DEAD), "agent_dead");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_at_its_time),
        cmocka_unit_test(test_its_own_period),
        cmocka_unit_test(test_other_events),
        cmocka_unit_test(test_judgements),
        cmocka_unit_test(test_row),
        cmocka_unit_test(test_without_pings),
        cmocka_unit_test(test_an_event_answers),
        cmocka_unit_test(test_address_first),
        cmocka_unit_test(test_by_name),
        cmocka_unit_test(test_asked_every_period),
        cmocka_unit_test(test_stale_answers),
        cmocka_unit_test(test_no_answer_at_all),
        cmocka_unit_test(test_half_an_answer),
        cmocka_unit_test(test_nobody_asked),
        cmocka_unit_test(test_gone_is_forgotten),
        cmocka_unit_test(test_expected),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_blind),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_pause_between_question_and_answer),
        cmocka_unit_test(test_clock_set_back),
        cmocka_unit_test(test_always_slow),
        cmocka_unit_test(test_flapping),
        cmocka_unit_test(test_all_at_once),
        cmocka_unit_test(test_truth_is_found),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
