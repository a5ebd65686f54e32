/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/client/blocks.h"

#include "base/mem.h"
#include "client/handle.h"

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

static void test_null_handle(void **state)
{
    (void)state;
    struct gridline_stats s = {.taken = 1};
    errno = 4711;
    gridline_close(NULL);
    assert_int_equal(gridline_add(NULL, "mem:1M"), 0);
    assert_int_equal(gridline_backup(NULL, "/tmp", 0), 0);
    assert_int_equal(gridline_set_const(NULL, "a", "text", "b"), 0);
    assert_int_equal(gridline_set_host(NULL, "h"), 0);
    assert_int_equal(gridline_flush(NULL, 1000), 0);
    assert_int_equal(gridline_dump(NULL, "/dev/null"), 0);
    gridline_stats(NULL, &s, sizeof s);
    assert_int_equal(s.taken, 0);
    assert_int_equal(gridline_stats_at(NULL, 3, &s, sizeof s), 0);
    gridline_set_level(NULL, 1);
    assert_int_equal(gridline_set_event_level(NULL, "*", 1), 0);
    assert_int_equal(gridline_watch(NULL, "/x"), 0);
    gridline_poll(NULL);
    assert_int_equal(gridline_write(NULL, GRIDLINE_INFO, "e", "n=%d", 1), 0);
    assert_int_equal(gridline_write_at(NULL, 1, GRIDLINE_INFO, "e", "n=%d", 1), 0);
    assert_int_equal(gridline_write_values(NULL, 0, GRIDLINE_INFO, "e", NULL, 0), 0);
    GRIDLINE_EVENT((gridline *)NULL, GRIDLINE_INFO, "e", (u64, "n", 1));
    GRIDLINE_POINT((gridline *)NULL, GRIDLINE_INFO, "e");
    assert_int_equal(errno, 4711);
    assert_string_equal(gridline_version(), "0.1.0");
}

static void test_bad_arguments(void **state)
{
    (void)state;
    char longer[300];
    memset(longer, 'x', sizeof longer);
    longer[299] = 0;
    static const char *const bad_url[] = {"what:ever", "mem:", "syslog:x", "file:", "mem:1M what:ever"};
    static const char *const bad_prog[] = {NULL, "", "a\nb", "\xff"};
    for (size_t i = 0; i < sizeof bad_url / sizeof *bad_url; i++) {
        assert_null(gridline_open("prog", bad_url[i], 0));
        assert_int_equal(errno, EINVAL);
    }
    for (size_t i = 0; i < sizeof bad_prog / sizeof *bad_prog; i++) {
        assert_null(gridline_open(bad_prog[i], "mem:1M", 0));
        assert_int_equal(errno, EINVAL);
    }
    assert_null(gridline_open(longer, "mem:1M", 0));
    assert_null(gridline_open("prog", "mem:1M", 8));
    gridline *g = gridline_open("prog", "mem:1M", 0);
    assert_int_equal(gridline_set_host(g, longer), -EINVAL);
    assert_int_equal(gridline_set_host(g, NULL), -EINVAL);
    assert_int_equal(gridline_add(g, "what:ever"), -EINVAL);
    assert_int_equal(gridline_add(g, NULL), -EINVAL);
    assert_int_equal(gridline_backup(g, "/tmp/x", 0), -ENOTSUP);
    struct gridline_stats s;
    assert_int_equal(gridline_stats_at(g, 0, &s, sizeof s), 0);
    assert_int_equal(gridline_stats_at(g, 1, &s, sizeof s), -ENOENT);
    gridline_close(g);
}

struct expected {
    const char *host;
    size_t n;
};

static void check_consts(void *arg, const struct batch_origin *o, uint64_t seq, const struct event *e)
{
    struct expected *x = arg;
    (void)o;
    (void)seq;
    x->n++;
    assert_slice(e->host, x->host);
    assert_true(value_eq(value_of(e, "job"), value_text(SLICE_LIT("1234.5"))));
    assert_true(value_eq(value_of(e, "node"), value_uint(17)));
    assert_true(value_eq(value_of(e, "offset"), value_int(-1)));
    assert_true(value_eq(value_of(e, "scale"), value_float(0.5)));
    if (is_named(e, "own"))
        assert_true(value_eq(value_of(e, "batch"), value_uint(1))); /* the event's own wins */
    else
        assert_true(value_eq(value_of(e, "batch"), value_bool(true)));
    if (is_named(e, "odd"))
        assert_int_equal(value_of(e, "t").type, VALUE_BYTES);
}

static void test_constant_fields(void **state)
{
    (void)state;
    struct expected x = {.host = "node17"};
    gridline *g = gridline_open("const", folder_file(&folder, "log.glb"), 0);
    assert_int_equal(gridline_set_host(g, "node17"), 0);
    assert_int_equal(gridline_set_const(g, "job", "text", "first"), 0);
    assert_int_equal(gridline_set_const(g, "node", "u64", "17"), 0);
    assert_int_equal(gridline_set_const(g, "offset", "i64", "-1"), 0);
    assert_int_equal(gridline_set_const(g, "scale", "f64", "0.5"), 0);
    assert_int_equal(gridline_set_const(g, "batch", "bool", "true"), 0);
    assert_int_equal(gridline_set_const(g, "job", "text", "1234.5"), 0); /* in place of the first */
    assert_int_equal(gridline_set_const(g, "bad name", "text", "x"), -EINVAL);
    assert_int_equal(gridline_set_const(g, "x", "u64", "-1"), -EINVAL);
    assert_int_equal(gridline_set_const(g, "x", "bool", "maybe"), -EINVAL);
    assert_int_equal(gridline_set_const(g, "x", "word", "x"), -EINVAL);
    assert_int_equal(gridline_set_const(g, "x", "text", "\xff"), -EINVAL);
    assert_int_equal(gridline_set_const(g, NULL, "text", "x"), -EINVAL);
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "other", (u64, "n", 1));
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "own", (u64, "batch", 1));
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "odd", (text, "t", "\xff"));
    GRIDLINE_POINT(g, GRIDLINE_INFO, "point");
    assert_int_equal(gridline_write(g, GRIDLINE_INFO, "other", "n=%d", 1), 0);
    assert_int_equal(gridline_write(g, GRIDLINE_INFO, "own", "batch=%u", 1u), 0);
    gridline_close(g);
    assert_int_equal(each_in(folder.path, check_consts, &x), 6);
}

static void test_several_destinations(void **state)
{
    (void)state;
    char urls[200];
    (void)snprintf(urls, sizeof urls, "  mem:1M  file:%s ", folder_file(&folder, "log.glb"));
    gridline *g = gridline_open("two", urls, 0);
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "e", (u64, "n", 1));
    assert_int_equal(gridline_add(g, "mem:2M"), 0);
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "e", (u64, "n", 2));
    assert_int_equal(gridline_flush(g, 1000), 0);
    struct gridline_stats s;
    static const uint64_t passed[] = {2, 2, 1}; /* the third came later */
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(gridline_stats_at(g, i, &s, sizeof s), 0);
        assert_int_equal(s.passed, passed[i]);
        assert_int_equal(s.taken, passed[i]);
    }
    struct {
        struct gridline_stats known;
        uint64_t later;
    } larger = {.later = 7};
    gridline_stats(g, &larger.known, sizeof larger); /* a program built with a later header */
    assert_int_equal(larger.known.passed, 2);
    assert_int_equal(larger.later, 0);
    for (int i = 3; i < DESTS_MAX; i++)
        assert_int_equal(gridline_add(g, "mem:1M"), 0);
    assert_int_equal(gridline_add(g, "mem:1M"), -ENOSPC);
    gridline_close(g);
    assert_int_equal(each_in(folder.path, NULL, NULL), 2);
}

static void test_no_destination_is_off(void **state)
{
    (void)state;
    gridline *g = gridline_open("off", NULL, 0);
    assert_non_null(g);
    GRIDLINE_EVENT(g, GRIDLINE_EMERGENCY, "e", (u64, "n", 1));
    assert_int_equal(gridline_write(g, GRIDLINE_EMERGENCY, "e", "n=%d", 1), 0);
    assert_int_equal(stats_of(g).taken, 0);
    assert_int_equal(gridline_add(g, folder_file(&folder, "log.glb")), 0);
    GRIDLINE_EVENT(g, GRIDLINE_EMERGENCY, "e", (u64, "n", 1));
    assert_int_equal(stats_of(g).taken, 1);
    gridline_close(g);
}

static void env_case(const char *var, const char *value, const char *url, uint64_t expected)
{
    assert_int_equal(setenv(var, value, 1), 0);
    gridline *g = gridline_open("env", url, GRIDLINE_ENV);
    assert_int_equal(unsetenv(var), 0);
    assert_non_null(g);
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "env", (u64, "n", 1));
    assert_int_equal(stats_of(g).taken, expected);
    gridline_close(g);
}

static void test_environment(void **state)
{
    (void)state;
    const char *path = folder_file(&folder, "log.glb");
    env_case("GRIDLINE_DEST", path, "what:ever", 1);
    env_case("NETLOGGER_DEST", path, NULL, 1);
    env_case("GRIDLINE_DEST", "", path, 1);
    env_case("GRIDLINE_DEST", "", NULL, 0);
    env_case("NETLOGGER_ON", "false", path, 0);
    env_case("NETLOGGER_ON", "true", path, 1);
    assert_int_equal(each_in(path, NULL, NULL), 4);
}

static void test_manual(void **state)
{
    (void)state;
    gridline *g = gridline_open("manual", folder_file(&folder, "log.glb"), GRIDLINE_MANUAL);
    for (unsigned i = 0; i < 15000; i++) /* over half of the ring */
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "manual", (u64, "i", i), (u64, "k", i));
    assert_int_equal(stats_of(g).passed, 0);
    for (unsigned i = 0; i < 30000; i++) /* more than it holds: then it is emptied, nothing is lost */
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "manual", (u64, "i", i), (u64, "k", i));
    assert_true(stats_of(g).passed > 0);
    assert_int_equal(gridline_flush(g, 1000), 0);
    assert_int_equal(stats_of(g).passed, 45000);
    gridline_close(g);
}

/* The n-th allocation fails, for every n: no crash, no leak, and the ledger is true. */
static bool use_with_failure(uint64_t n)
{
    mem_fail_after(n);
    gridline *g = gridline_open("oom", folder.path, 0);
    if (!g)
        assert_int_equal(errno, ENOMEM);
    bool set = gridline_set_const(g, "job", "text", "1") == 0;
    (void)gridline_add(g, "mem:1M");
    (void)gridline_set_event_level(g, "x", 1);
    uint64_t calls = 0, refused = 0;
    for (int i = 0; i < 100; i++, calls += 3) {
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "oom.fast", (u64, "i", i), (text, "t", "text"));
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "oom.bytes", (u64, "i", i), (text, "t", "\xff"));
        refused += gridline_write(g, GRIDLINE_INFO, "oom.slow", "i=%d f=%g s=%s", i, i / 3.0, "x") < 0;
    }
    int r = gridline_flush(g, 0);
    mem_fail_after(0);
    if (g) {
        assert_int_equal(gridline_flush(g, 1000), 0);
        struct gridline_stats s = stats_of(g);
        assert_true(s.taken >= calls); /* reports of drops come on top */
        assert_int_equal(s.dropped, s.dropped_memory);
        assert_true(s.passed + s.dropped >= calls);
        assert_int_equal(refused, 0);
    }
    gridline_close(g);
    return g && set && r == 0;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    (void)folder_file(&folder, "log.glb");
    uint64_t worked = 0;
    for (uint64_t n = 1; n < 400; n++)
        worked += use_with_failure(n);
    assert_true(worked > 10); /* the loop went past the last allocation */
    (void)each_in(folder.path, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_handle),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test_setup_teardown(test_constant_fields, setup, teardown),
        cmocka_unit_test_setup_teardown(test_several_destinations, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_destination_is_off, setup, teardown),
        cmocka_unit_test_setup_teardown(test_environment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_manual, setup, teardown),
        cmocka_unit_test_setup_teardown(test_out_of_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
