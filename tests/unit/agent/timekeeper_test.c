/* SPDX-License-Identifier: Apache-2.0 */
/* With the real clocks of this machine and a gateway whose time is what the case says. What is told is read back from a
 * binary output: the events, and the clock in the heads of their blocks. */
#include "unit/test.h"

#include "agent/timekeeper.h"
#include "event/block.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static char folder[64], output[128], page[128];

struct side {
    struct flow *flow;
    struct outputs *outputs;
    struct timekeeper *timekeeper;
};

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/gridline-timekeeper-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(output, sizeof output, "%s/out.glb", folder);
    (void)snprintf(page, sizeof page, "%s/clock", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(output);
    return rmdir(folder); /* fails if the page was left */
}

static void begin(struct side *s, bool keeps_utc)
{
    struct diag why = {0};
    const struct output_config c = {.name = "o", .path = output, .encoding = "binary"};
    assert_int_equal(outputs_create(&c, 1, &s->outputs, &why), 0);
    s->flow = flow_create("host");
    assert_non_null(s->flow);
    flow_set_sinks(s->flow, &(struct flow_sinks){.outputs = s->outputs});
    s->timekeeper = timekeeper_create(s->flow, page, keeps_utc);
    assert_non_null(s->timekeeper);
    flow_set_clock(s->flow, s->timekeeper);
}

static void end(struct side *s)
{
    timekeeper_destroy(s->timekeeper);
    outputs_destroy(s->outputs);
    flow_destroy(s->flow);
}

/* The gateway's clock is ahead of ours by that much. */
static void exchange(struct side *s, int64_t ahead_ns)
{
    struct timesync_exchange x = {.t0_ns = clock_boot_ns()};
    x.t1_ns = x.t2_ns = clock_utc_ns() + ahead_ns;
    x.t3_ns = clock_boot_ns();
    timekeeper_exchange(s->timekeeper, &x);
}

static bool look(struct side *s)
{
    bool has_told = timekeeper_look(s->timekeeper);
    flow_end(s->flow);
    return has_told;
}

/* What was told: "state/level offset-in-ms generation;" an event. Heads must agree with what is in them. */
static void expect_told(const char *expected)
{
    static char bytes[1 << 20];
    char told[1000] = "";
    int fd = open(output, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t n = read(fd, bytes, sizeof bytes);
    (void)close(fd);
    assert_int_equal(truncate(output, 0), 0);
    struct registry *r = registry_create();
    struct batch_builder *builder = batch_builder_create(r, 0);
    for (struct slice left = slice_of(bytes, (size_t)n); left.n;) {
        int64_t size = block_check(left);
        assert_true(size > 0);
        assert_int_equal(block_decode(slice_of(left.p, (size_t)size), builder, NULL), 0);
        left = slice_from(left, (size_t)size);
        struct batch *b = batch_builder_finish(builder, NULL);
        for (size_t i = 0; i < b->n; i++) {
            const struct event *e = &b->events[i];
            assert_slice(e->schema->name, "clock");
            const struct value *v = e->values;
            int64_t offset = v[1].i;
            assert_true(llabs(offset - b->origin.clock.offset_ns) < 1000000);
            assert_int_equal(v[2].type == VALUE_NONE, b->origin.clock.bound_ns == CLOCK_BOUND_UNKNOWN);
            assert_int_equal(v[3].u, b->origin.clock.generation);
            assert_true(llabs(e->time_ns - clock_utc_ns() - b->origin.clock.offset_ns) < 10 * NS_PER_S);
            size_t at = strlen(told);
            (void)snprintf(told + at, sizeof told - at, "%.*s/%d %lld %d;", (int)v[0].n, v[0].p, e->level,
                           (long long)(offset + (offset < 0 ? -500000 : 500000)) / 1000000, (int)v[3].u);
        }
        batch_unref(b);
    }
    batch_builder_destroy(builder);
    registry_destroy(r);
    assert_string_equal(told, expected);
}

static struct timesync_state read_page(void)
{
    struct clockpage *p;
    struct clock_moment now;
    struct timesync_state s = {0};
    assert_int_equal(clockpage_open(page, &p), 0);
    clock_read_moment(&now);
    assert_true(clockpage_read(p, &now, &s));
    clockpage_close(p);
    return s;
}

static void test_jump(void **state)
{
    (void)state;
    struct side s;
    begin(&s, false);
    assert_false(look(&s));
    expect_told("");
    assert_true(read_page().bound_ns == TIMESYNC_UNKNOWN);
    assert_true(timekeeper_clock(s.timekeeper).bound_ns == CLOCK_BOUND_UNKNOWN);
    exchange(&s, 3 * NS_PER_S);
    expect_told(""); /* not before the look: this was within the connection's callback */
    assert_true(look(&s));
    expect_told("jumped/8 3000 1;synchronised/11 3000 1;");
    struct timesync_state p = read_page();
    struct batch_clock c = timekeeper_clock(s.timekeeper);
    assert_int_equal(p.offset_ns, c.offset_ns);
    assert_int_equal(p.generation, 1);
    assert_true(p.bound_ns < (uint64_t)NS_PER_S);
    assert_true(llabs(timekeeper_now_ns(s.timekeeper) - clock_utc_ns() - 3 * NS_PER_S) < NS_PER_S);
    assert_false(look(&s));
    exchange(&s, 3 * NS_PER_S);
    assert_true(look(&s));
    expect_told("synchronised/11 3000 1;"); /* nothing new: a sample */
    end(&s);
    assert_int_equal(access(page, F_OK), -1);
}

static void test_slew_and_another_gateway(void **state)
{
    (void)state;
    struct side s;
    begin(&s, false);
    timekeeper_set_gateway(s.timekeeper, "tcp://a:1");
    exchange(&s, -500 * INT64_C(1000000));
    assert_true(look(&s));
    expect_told("slewing/8 0 0;slewing/11 0 0;");
    timekeeper_set_gateway(s.timekeeper, "tcp://a:1");
    assert_false(look(&s));
    timekeeper_set_gateway(s.timekeeper, "tcp://b:1");
    assert_true(look(&s));
    expect_told("unknown/8 0 0;");
    exchange(&s, -2 * NS_PER_S);
    assert_true(look(&s));
    expect_told("jumped/8 -2000 1;synchronised/11 -2000 1;");
    end(&s);
}

static void test_switched_off(void **state)
{
    (void)state;
    struct side s;
    begin(&s, true);
    exchange(&s, 3 * NS_PER_S);
    assert_true(look(&s));
    expect_told("synchronised/8 0 0;synchronised/11 0 0;");
    assert_true(timekeeper_clock(s.timekeeper).bound_ns >= 3 * (uint64_t)NS_PER_S);
    assert_int_equal(read_page().offset_ns, 0);
    end(&s);
}

static void test_nonsense(void **state)
{
    (void)state;
    struct side s;
    begin(&s, false);
    int64_t b = clock_boot_ns();
    timekeeper_exchange(s.timekeeper, &(struct timesync_exchange){b, -1, INT64_MAX, b});
    assert_false(look(&s));
    expect_told("");
    end(&s);
}

/* Rows of one round share a clock, whatever comes between. */
static void test_one_clock_a_round(void **state)
{
    (void)state;
    struct side s;
    begin(&s, false);
    exchange(&s, 3 * NS_PER_S);
    (void)look(&s);
    expect_told("jumped/8 3000 1;synchronised/11 3000 1;");
    flow_agent_state(s.flow, LEVEL_NOTICE, "before", NULL);
    struct batch_clock first = flow_clock(s.flow);
    exchange(&s, 9 * NS_PER_S);
    flow_agent_state(s.flow, LEVEL_NOTICE, "after", NULL);
    assert_int_equal(flow_clock(s.flow).offset_ns, first.offset_ns);
    assert_int_equal(flow_clock(s.flow).generation, first.generation);
    flow_end(s.flow); /* whose clock they have nobody knows now */
    assert_true(flow_clock(s.flow).bound_ns == CLOCK_BOUND_UNKNOWN);
    flow_agent_state(s.flow, LEVEL_NOTICE, "next", NULL);
    assert_int_equal(flow_clock(s.flow).generation, first.generation + 1);
    assert_true(flow_clock(s.flow).bound_ns != CLOCK_BOUND_UNKNOWN);
    flow_end(s.flow);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_jump, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_slew_and_another_gateway, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_switched_off, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nonsense, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_clock_a_round, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
