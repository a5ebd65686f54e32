/* SPDX-License-Identifier: Apache-2.0 */
/* A program with an agent's page on its host: what is in the heads of its blocks, and the times in them. */
#include "unit/test.h"

#include "client/global.h"
#include "event/block.h"

#include <gridline/gridline.h>

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static char folder[64], output[128], page_path[128];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/gridline-global-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(output, sizeof output, "%s/out.glb", folder);
    (void)snprintf(page_path, sizeof page_path, "%s/clock", folder);
    return setenv("GRIDLINE_CLOCK", page_path, 1);
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(output);
    return rmdir(folder);
}

/* As an agent would write it: global time is ahead of local UTC by that much. */
static void tell(struct clockpage *p, int64_t ahead_ns, uint64_t bound_ns, uint32_t generation, bool is_utc)
{
    struct clock_moment now;
    clock_read_moment(&now);
    int64_t utc_base = now.utc_ns - now.boot_ns;
    const struct timesync_line line = {.at_ns = now.boot_ns,
                                       .base_ns = utc_base + ahead_ns,
                                       .goal_ns = utc_base + ahead_ns,
                                       .utc_base_ns = utc_base,
                                       .utc_error_ns = now.error_ns,
                                       .slew_ns = now.mono_ns - now.raw_ns,
                                       .slept_ns = now.boot_ns - now.mono_ns,
                                       .bound_ns = bound_ns,
                                       .drift_ppm = 250,
                                       .generation = generation,
                                       .is_utc = is_utc};
    clockpage_write(p, &line, now.boot_ns + 3600 * NS_PER_S);
}

struct seen {
    struct batch_clock clock;
    int64_t time_ns;
    uint64_t n;
};

/* Every event written so far, with the clock of its block. */
static size_t read_back(struct seen *out, size_t max)
{
    static char bytes[1 << 20];
    size_t n = 0;
    int fd = open(output, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t size = read(fd, bytes, sizeof bytes);
    (void)close(fd);
    struct registry *r = registry_create();
    struct batch_builder *builder = batch_builder_create(r, 0);
    for (struct slice left = slice_of(bytes, (size_t)size); left.n;) {
        int64_t block = block_check(left);
        assert_true(block > 0);
        assert_int_equal(block_decode(slice_of(left.p, (size_t)block), builder, NULL), 0);
        left = slice_from(left, (size_t)block);
        struct batch *b = batch_builder_finish(builder, NULL);
        for (size_t i = 0; i < b->n; i++) {
            assert_true(n < max);
            out[n++] = (struct seen){b->origin.clock, b->events[i].time_ns, b->events[i].values[0].u};
        }
        batch_unref(b);
    }
    batch_builder_destroy(builder);
    registry_destroy(r);
    return n;
}

/* Written and drained, so that it gets the clock of now; handed over with what is in the block only if it must. */
static int64_t write_one(gridline *log, uint64_t n)
{
    int64_t before = clock_utc_ns();
    GRIDLINE_EVENT(log, GRIDLINE_INFO, "e", (u64, "n", n));
    return before;
}

static void expect(const struct seen *s, uint64_t n, int64_t written_ns, int64_t ahead_ns, uint32_t generation, bool is_known)
{
    assert_int_equal(s->n, n);
    assert_true(llabs(s->clock.offset_ns - ahead_ns) < 100000);
    assert_int_equal(s->clock.generation, generation);
    assert_int_equal(s->clock.bound_ns != CLOCK_BOUND_UNKNOWN, is_known);
    int64_t raw = s->time_ns - s->clock.offset_ns;
    assert_true(raw >= written_ns - 1000000 && raw <= clock_utc_ns() + 1000000);
}

static void test_follows_the_page(void **state)
{
    (void)state;
    struct clockpage *p;
    uint32_t generation;
    struct seen s[10];
    int64_t at[6];
    assert_int_equal(clockpage_create(page_path, &p, &generation), 0);
    tell(p, 5 * NS_PER_S, 100000, 3, false);
    gridline *log = gridline_open("prog", output, GRIDLINE_MANUAL);
    assert_non_null(log);
    at[0] = write_one(log, 0);
    gridline_flush(log, 0);
    at[1] = write_one(log, 1);
    tell(p, -7 * NS_PER_S, 200000, 4, false); /* it jumps: whatever is drained from here on is in that time */
    gridline_flush(log, 0);
    at[2] = write_one(log, 2);
    gridline_flush(log, 0);
    tell(p, 0, TIMESYNC_UNKNOWN, 5, true);
    at[3] = write_one(log, 3);
    gridline_flush(log, 0);
    clockpage_destroy(p); /* the agent ends */
    at[4] = write_one(log, 4);
    assert_int_equal(gridline_write_at(log, at[4] - 9 * NS_PER_S, GRIDLINE_INFO, "e", "n=%u", 5u), 0);
    gridline_close(log);
    assert_int_equal(read_back(s, 10), 6);
    expect(&s[0], 0, at[0], 5 * NS_PER_S, 3, true);
    assert_true(s[0].clock.bound_ns >= 100000 && s[0].clock.bound_ns < 200000000);
    expect(&s[1], 1, at[1], -7 * NS_PER_S, 4, true);
    expect(&s[2], 2, at[2], -7 * NS_PER_S, 4, true);
    expect(&s[3], 3, at[3], 0, 5, false);
    expect(&s[4], 4, at[4], 0, 0, false);
    assert_int_equal(s[5].time_ns, at[4] - 9 * NS_PER_S);
}

/* Times that the program gives are of this host's clock, too. */
static void test_given_times(void **state)
{
    (void)state;
    struct clockpage *p;
    uint32_t generation;
    struct seen s[3];
    assert_int_equal(clockpage_create(page_path, &p, &generation), 0);
    tell(p, 5 * NS_PER_S, 100000, 3, false);
    gridline *log = gridline_open("prog", output, GRIDLINE_MANUAL);
    assert_int_equal(gridline_write_at(log, 1000, GRIDLINE_INFO, "e", "n=%u", 0u), 0);
    assert_int_equal(gridline_write_at(log, INT64_MAX, GRIDLINE_INFO, "e", "n=%u", 1u), 0);
    gridline_close(log);
    assert_int_equal(read_back(s, 3), 2);
    assert_int_equal(s[0].time_ns - s[0].clock.offset_ns, 1000);
    assert_int_equal(s[1].time_ns, INT64_MAX);
    clockpage_destroy(p);
}

/* A block has one offset; slewing on meanwhile is in its bound. */
static void test_one_offset_a_block(void **state)
{
    (void)state;
    struct global g;
    struct tick_map m;
    struct batch_clock now;
    struct clockpage *p;
    uint32_t generation;
    assert_int_equal(clockpage_create(page_path, &p, &generation), 0);
    tell(p, 300 * INT64_C(1000000), 1000, 0, false);
    global_init(&g);
    tick_map_init(&m);
    assert_true(global_look(&g, &m, &now));
    global_begin(&g, &now, false);
    int64_t offset = g.clock.offset_ns;
    uint64_t bound = g.clock.bound_ns;
    tell(p, 300 * INT64_C(1000000) - 400000, 1000, 0, false);
    assert_false(global_look(&g, &m, &now));
    global_begin(&g, &now, true);
    assert_int_equal(g.clock.offset_ns, offset);
    assert_true(g.clock.bound_ns >= bound + 300000 && g.clock.bound_ns < bound + 100000000);
    global_begin(&g, &now, false);
    assert_true(g.clock.offset_ns < offset - 300000);
    tell(p, 298 * INT64_C(1000000), 1000, 0, false);
    assert_true(global_look(&g, &m, &now)); /* that was more than slewing does between two looks */
    global_fini(&g);
    clockpage_destroy(p);
}

static void test_switched_off(void **state)
{
    (void)state;
    struct clockpage *p;
    uint32_t generation;
    struct seen s[2];
    assert_int_equal(clockpage_create(page_path, &p, &generation), 0);
    tell(p, 5 * NS_PER_S, 100000, 3, false);
    assert_int_equal(setenv("GRIDLINE_CLOCK", "", 1), 0);
    gridline *log = gridline_open("prog", output, GRIDLINE_MANUAL);
    int64_t at = write_one(log, 0);
    gridline_close(log);
    assert_int_equal(read_back(s, 2), 1);
    expect(&s[0], 0, at, 0, 0, false);
    clockpage_destroy(p);
}

/* Of two agents after one another the second one's page is found, also when the first was killed. */
static void test_another_agent(void **state)
{
    (void)state;
    struct clockpage *killed, *p;
    uint32_t generation;
    assert_int_equal(clockpage_create(page_path, &killed, &generation), 0);
    tell(killed, 5 * NS_PER_S, 100000, 3, false);
    gridline *log = gridline_open("prog", output, GRIDLINE_MANUAL);
    int64_t at = write_one(log, 0);
    gridline_flush(log, 0);
    assert_int_equal(clockpage_create(page_path, &p, &generation), 0);
    tell(p, 2 * NS_PER_S, 100000, generation, false);
    int64_t until = clock_mono_ns() + 20 * NS_PER_S; /* it looks once a second */
    size_t n = 1;
    struct seen last = {0};
    do {
        at = write_one(log, n++);
        gridline_flush(log, 0);
        static struct seen all[100000];
        last = all[read_back(all, 100000) - 1];
        (void)usleep(10000);
    } while (last.clock.generation != 4 && clock_mono_ns() < until);
    gridline_close(log);
    expect(&last, n - 1, at, 2 * NS_PER_S, 4, true);
    clockpage_destroy(p);
    clockpage_destroy(killed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_follows_the_page, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_given_times, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_offset_a_block, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_switched_off, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_another_agent, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
