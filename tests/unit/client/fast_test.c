/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/client/blocks.h"

#include "base/clock.h"
#include "event/limits.h"

#include <math.h>
#include <sys/mman.h>

static struct folder folder;

static int setup(void **state)
{
    (void)state;
    folder_make(&folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    folder_end(&folder, (const char *const[]){"log.glb", NULL});
    return 0;
}

static gridline *open_log(unsigned flags)
{
    gridline *g = gridline_open("fast", folder_file(&folder, "log.glb"), flags);
    assert_non_null(g);
    return g;
}

static void check_types(void *arg, const struct batch_origin *origin, uint64_t seq, const struct event *e)
{
    (void)origin;
    size_t *n = arg;
    assert_int_equal(seq, ++*n);
    assert_slice(e->prog, "fast");
    assert_true(e->host.n > 0);
    if (is_named(e, "point")) {
        assert_int_equal(e->schema->n_fields, 0);
        assert_int_equal(e->level, GRIDLINE_ERROR);
        return;
    }
    assert_true(is_named(e, "types"));
    assert_int_equal(e->level, GRIDLINE_INFO);
    assert_true(value_eq(value_of(e, "i"), value_int(INT64_MIN)));
    assert_true(value_eq(value_of(e, "u"), value_uint(UINT64_MAX)));
    assert_true(value_eq(value_of(e, "f"), value_float(NAN)));
    assert_true(value_eq(value_of(e, "b"), value_bool(true)));
    assert_true(value_eq(value_of(e, "t"), value_text(SLICE_LIT("grün"))));
    assert_true(value_eq(value_of(e, "n"), value_text(SLICE_LIT("a\0b"))));
    assert_true(value_eq(value_of(e, "empty"), value_text(SLICE_LIT(""))));
    assert_int_equal(value_of(e, "missing").type, VALUE_NONE);
    assert_true(value_eq(value_of(e, "odd"), value_bytes(SLICE_LIT("\xff\xfe"))));
}

static void test_types(void **state)
{
    (void)state;
    gridline *g = open_log(0);
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "types", (i64, "i", INT64_MIN), (u64, "u", UINT64_MAX), (f64, "f", -NAN),
                   (b, "b", 17), (text, "t", "grün"), (textn, "n", "a\0bc", 3), (text, "empty", ""),
                   (text, "missing", NULL), (text, "odd", "\xff\xfe"));
    GRIDLINE_POINT(g, GRIDLINE_ERROR, "point");
    gridline_close(g);
    size_t n = 0;
    assert_int_equal(each_in(folder.path, check_types, &n), 2);
}

static int evaluated;
static uint64_t evaluate(void)
{
    return (uint64_t)++evaluated;
}

static void write_levels(gridline *g)
{
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "on", (u64, "n", evaluate()));
    GRIDLINE_EVENT(g, GRIDLINE_DEBUG, "off", (u64, "n", evaluate()));
}

static void test_evaluated_once_and_only_if_on(void **state)
{
    (void)state;
    gridline *g = open_log(0);
    evaluated = 0;
    for (int i = 0; i < 3; i++)
        write_levels(g);
    /* the first pass finds out whether the site is on: that one may cost an evaluation */
    assert_in_range(evaluated, 3, 4);
    gridline_close(g);
    assert_int_equal(each_in(folder.path, NULL, NULL), 3);
    evaluated = 0;
    write_levels(NULL);
    assert_int_equal(evaluated, 0); /* no handle is open, so no site is on */
}

static void test_errno_is_kept(void **state)
{
    (void)state;
    gridline *g = open_log(0);
    for (int i = 0; i < 50000; i++) { /* enough to make it write out a few times */
        errno = 4711;
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "errno", (u64, "i", i));
        assert_int_equal(errno, 4711);
    }
    errno = 4711;
    gridline_poll(g);
    assert_int_equal(gridline_flush(g, 1000), 0);
    assert_int_equal(gridline_write(g, GRIDLINE_INFO, "e", "n=%d", 1), 0);
    gridline_close(g);
    assert_int_equal(errno, 4711);
    assert_int_equal(each_in(folder.path, NULL, NULL), 50001);
}

static void test_limits(void **state)
{
    (void)state;
    gridline *g = open_log(0);
    size_t n = EVENT_TEXT_MAX + 1;
    char *text = test_malloc(n * 16);
    memset(text, 'x', n * 16);
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "most", (textn, "t", text, n - 1));
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "long", (textn, "t", text, n));      /* one text */
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "huge", (textn, "t", text, n * 16)); /* the record */
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "sum", (textn, "a", text, n - 1), (textn, "b", text, n - 1),
                   (textn, "c", text, n - 1), (textn, "d", text, n - 1)); /* all together */
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "bad name", (u64, "n", 1));
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "bad.field", (u64, "n n", 1));
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "twice", (u64, "n", 1), (u64, "n", 2));
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "last", (u64, "n", 1));
    test_free(text);
    assert_int_equal(gridline_flush(g, 1000), 0);
    struct gridline_stats s = stats_of(g);
    assert_int_equal(s.dropped, 6);
    assert_int_equal(s.dropped_too_large, 6);
    assert_true(s.passed >= 2); /* and what told of the drops */
    gridline_close(g);
}

static void check_times(void *arg, const struct batch_origin *origin, uint64_t seq, const struct event *e)
{
    (void)origin;
    (void)seq;
    int64_t *last = arg;
    int64_t before = value_of(e, "before").i, after = value_of(e, "after").i;
    assert_true(e->time_ns >= *last);
    *last = e->time_ns;
    /* "after" is of the event before this one; the clocks agree to a microsecond, if nobody sets them */
    assert_true(e->time_ns >= before - 1000);
    assert_true(after == 0 || e->time_ns >= after - 1000);
}

static void test_times(void **state)
{
    (void)state;
    gridline *g = open_log(0);
    int64_t after = 0, last = 0;
    for (int i = 0; i < 30000; i++) {
        int64_t before = clock_utc_ns();
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "time", (i64, "before", before), (i64, "after", after));
        after = clock_utc_ns();
        if (i % 1000 == 999)
            (void)gridline_flush(g, 0);
    }
    gridline_close(g);
    assert_int_equal(each_in(folder.path, check_times, &last), 30000);
    assert_true(last <= after + 1000);
}

static void check_wrap(void *arg, const struct batch_origin *origin, uint64_t seq, const struct event *e)
{
    (void)origin;
    size_t *n = arg;
    assert_int_equal(seq, *n + 1);
    assert_int_equal(value_of(e, "i").u, (*n)++);
    struct value t = value_of(e, "t");
    assert_int_equal(t.n, value_of(e, "i").u % 700);
    for (uint32_t i = 0; i < t.n; i++)
        assert_int_equal(t.p[i], 'a' + (int)(t.n % 26));
}

/* Records of every length, in the smallest ring: each way of meeting its end. */
static void test_wrap(void **state)
{
    (void)state;
    assert_int_equal(setenv("GRIDLINE_RING", "4096", 1), 0);
    gridline *g = open_log(0);
    assert_int_equal(unsetenv("GRIDLINE_RING"), 0);
    char text[700];
    for (unsigned i = 0; i < 20000; i++) {
        memset(text, 'a' + (int)(i % 700 % 26), sizeof text);
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "wrap", (u64, "i", i), (textn, "t", text, i % 700));
    }
    assert_int_equal(stats_of(g).dropped, 0);
    gridline_close(g);
    size_t n = 0;
    assert_int_equal(each_in(folder.path, check_wrap, &n), 20000);
}

static void test_sixteen_fields(void **state)
{
    (void)state;
    gridline *g = open_log(0);
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "wide", (u64, "a", 1), (u64, "b", 2), (u64, "c", 3), (u64, "d", 4),
                   (u64, "e", 5), (u64, "f", 6), (u64, "g", 7), (u64, "h", 8), (u64, "i", 9), (u64, "j", 10),
                   (u64, "k", 11), (u64, "l", 12), (u64, "m", 13), (u64, "n", 14), (u64, "o", 15),
                   (text, "p", "16"));
    gridline_close(g);
    assert_int_equal(each_in(folder.path, NULL, NULL), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_types, setup, teardown),
        cmocka_unit_test_setup_teardown(test_evaluated_once_and_only_if_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errno_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_times, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrap, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sixteen_fields, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
