/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/client/blocks.h"

#include "client/activate.h"
#include "client/client.h"
#include "client/handle.h"

#include <pthread.h>
#include <stdatomic.h>

static struct folder folder;
static gridline *g;

static int setup(void **state)
{
    (void)state;
    folder_make(&folder);
    g = gridline_open("act", "mem:1M", 0);
    assert_non_null(g);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    gridline_close(g);
    assert_int_equal(rmdir(folder.dir), 0);
    return 0;
}

static uint64_t taken(void)
{
    return stats_of(g).taken;
}

/* How many of the three get through. */
static uint64_t write_three(void)
{
    uint64_t before = taken();
    GRIDLINE_POINT(g, GRIDLINE_ERROR, "disk.error");
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "disk.read", (u64, "n", 1));
    GRIDLINE_EVENT(g, GRIDLINE_DEBUG, "net.debug", (u64, "n", 1));
    uint64_t fast = taken() - before;
    (void)gridline_write(g, GRIDLINE_ERROR, "disk.error", " ");
    (void)gridline_write(g, GRIDLINE_INFO, "disk.read", "n=%d", 1);
    (void)gridline_write(g, GRIDLINE_DEBUG, "net.debug", "n=%d", 1);
    assert_int_equal(taken() - before, 2 * fast); /* both ways agree */
    return fast;
}

static void test_levels(void **state)
{
    (void)state;
    assert_int_equal(write_three(), 2);
    gridline_set_level(g, GRIDLINE_TRACE);
    assert_int_equal(write_three(), 3);
    gridline_set_level(g, GRIDLINE_WARNING);
    assert_int_equal(write_three(), 1);
    gridline_set_level(g, -1);
    assert_int_equal(write_three(), 0);
    gridline_set_level(g, 99);
    assert_int_equal(write_three(), 3);
}

static void test_patterns(void **state)
{
    (void)state;
    assert_int_equal(gridline_set_event_level(g, "net.*", GRIDLINE_DEBUG), 0);
    assert_int_equal(write_three(), 3);
    assert_int_equal(gridline_set_event_level(g, "disk.*", -1), 0);
    assert_int_equal(write_three(), 1);
    assert_int_equal(gridline_set_event_level(g, "*.error", GRIDLINE_ERROR), 0); /* the later one wins */
    assert_int_equal(write_three(), 2);
    assert_int_equal(gridline_set_event_level(g, "disk.*", -1), 0); /* now it is the later one */
    assert_int_equal(write_three(), 1);
    assert_true(client_is_on(g, GRIDLINE_DEBUG, "net.x"));
    assert_false(client_is_on(g, GRIDLINE_EMERGENCY, "disk.x"));
    assert_int_equal(gridline_set_event_level(g, "", 1), -EINVAL);
    assert_int_equal(gridline_set_event_level(g, "x", 14), -EINVAL);
    assert_int_equal(gridline_set_event_level(g, NULL, 1), -EINVAL);
}

static void test_handles_are_apart(void **state)
{
    (void)state;
    gridline *other = gridline_open("other", "mem:1M", 0);
    gridline_set_level(other, GRIDLINE_DEBUG);
    for (int i = 0; i < 3; i++) {
        GRIDLINE_POINT(g, GRIDLINE_DEBUG, "apart");
        GRIDLINE_POINT(other, GRIDLINE_DEBUG, "apart");
    }
    assert_int_equal(taken(), 0);
    assert_int_equal(stats_of(other).taken, 3);
    gridline_close(other);
}

static void write_control(const char *text)
{
    /* written beside and put in place, as an editor does: another inode each time */
    char path[sizeof folder.path + 8];
    (void)snprintf(path, sizeof path, "%s/new", folder.dir);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(rename(path, folder_file(&folder, "control")), 0);
}

static void look_again(void)
{
    g->watch.next_mono_ns = 0; /* as if a second had passed */
    gridline_poll(g);
}

static void test_control_file(void **state)
{
    (void)state;
    assert_int_equal(gridline_watch(g, folder_file(&folder, "control")), 0); /* not there yet */
    assert_int_equal(write_three(), 2);
    write_control("# a comment\nnet.*  debug # on\n\n  disk.read\toff\r\n");
    gridline_poll(g); /* too soon to look */
    assert_int_equal(write_three(), 2);
    look_again();
    assert_int_equal(write_three(), 2); /* error and debug */
    assert_true(client_is_on(g, GRIDLINE_DEBUG, "net.debug"));
    assert_false(client_is_on(g, GRIDLINE_INFO, "disk.read"));
    write_control("* 13\n");
    look_again();
    assert_int_equal(write_three(), 3);
    write_control("");
    look_again();
    assert_int_equal(write_three(), 2); /* the patterns are gone, the level is not */
    assert_int_equal(unlink(folder.path), 0);
    look_again();
    assert_int_equal(write_three(), 2);
    assert_int_equal(gridline_watch(g, ""), -EINVAL);
}

struct complaints {
    size_t n;
    uint64_t line[8];
};

static void collect(void *arg, const struct batch_origin *o, uint64_t seq, const struct event *e)
{
    struct complaints *c = arg;
    (void)o;
    (void)seq;
    if (!is_named(e, "gridline.control"))
        return;
    assert_int_equal(e->level, GRIDLINE_WARNING);
    assert_true(value_of(e, "reason").n > 0);
    assert_slice(value_slice(value_of(e, "path")), folder.path);
    c->line[c->n++] = value_of(e, "line").u;
}

static void test_bad_control_file(void **state)
{
    (void)state;
    write_control("net.*\nnet.* loud\nnet.* debug and more\nnet.debug debug\n");
    assert_int_equal(gridline_watch(g, folder_file(&folder, "control")), 0);
    assert_true(client_is_on(g, GRIDLINE_DEBUG, "net.debug")); /* the good line counts */
    assert_false(client_is_on(g, GRIDLINE_DEBUG, "net.other"));
    struct complaints c = {0};
    char dump[sizeof folder.path + 8];
    (void)snprintf(dump, sizeof dump, "%s/dump.glb", folder.dir);
    assert_int_equal(gridline_dump(g, dump), 0);
    assert_int_equal(each_in(dump, collect, &c), 3);
    assert_int_equal(c.n, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(c.line[i], i + 1);
    assert_int_equal(unlink(dump), 0);
    assert_int_equal(unlink(folder.path), 0);
}

static void test_activate_frame(void **state)
{
    (void)state;
    static const char list[] = "\5net.*\x0c\1*\xff";
    struct slice whole = {list, sizeof list - 1};
    const size_t one = 7; /* bytes of the first entry: a list by itself */
    for (size_t n = 0; n < whole.n; n++) { /* cut short: changes nothing */
        if (n == one)
            continue;
        activate_list(g, slice_of(list, n));
        assert_true(client_is_on(g, GRIDLINE_INFO, "net.x"));
        assert_false(client_is_on(g, GRIDLINE_DEBUG, "net.x"));
    }
    activate_list(g, whole);
    assert_false(client_is_on(g, GRIDLINE_EMERGENCY, "net.x")); /* "*" off is the later one */
    activate_list(g, SLICE_LIT("\5net.*\x0c"));
    assert_true(client_is_on(g, GRIDLINE_DEBUG, "net.x"));
    assert_true(client_is_on(g, GRIDLINE_INFO, "disk"));
    activate_list(g, SLICE_LIT("\5net.*\x63"));
    assert_true(client_is_on(g, GRIDLINE_DEBUG, "net.x")); /* there is no level 99 */
}

static void test_environment(void **state)
{
    (void)state;
    write_control("seen debug\n");
    assert_int_equal(setenv("GRIDLINE_LEVEL", "error", 1), 0);
    assert_int_equal(setenv("GRIDLINE_CONTROL", folder_file(&folder, "control"), 1), 0);
    gridline *other = gridline_open("env", "mem:1M", 0);
    assert_int_equal(unsetenv("GRIDLINE_LEVEL"), 0);
    assert_int_equal(unsetenv("GRIDLINE_CONTROL"), 0);
    assert_false(client_is_on(other, GRIDLINE_WARNING, "x"));
    assert_true(client_is_on(other, GRIDLINE_ERROR, "x"));
    assert_true(client_is_on(other, GRIDLINE_DEBUG, "seen"));
    gridline_close(other);
    assert_int_equal(unlink(folder.path), 0);
}

/* Sites are registered and written to while the rules change. */
static _Atomic bool stop;

static void *change_rules(void *arg)
{
    (void)arg;
    for (int i = 0; !atomic_load(&stop); i++) {
        gridline_set_level(g, i % 2 ? GRIDLINE_INFO : GRIDLINE_DEBUG);
        assert_int_equal(gridline_set_event_level(g, "race.*", i % 3 ? GRIDLINE_INFO : -1), 0);
    }
    return NULL;
}

static void test_changes_race(void **state)
{
    (void)state;
    pthread_t t;
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&t, NULL, change_rules, NULL), 0);
    for (int i = 0; i < 20000; i++) {
        GRIDLINE_POINT(g, GRIDLINE_INFO, "race.a");
        GRIDLINE_POINT(g, GRIDLINE_DEBUG, "race.b");
        (void)gridline_write(g, GRIDLINE_INFO, "race.c", " ");
    }
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(t, NULL), 0);
    gridline_set_level(g, GRIDLINE_DEBUG);
    assert_int_equal(gridline_set_event_level(g, "race.*", GRIDLINE_DEBUG), 0);
    assert_int_equal(write_three(), 3);
}

/* The agent's file, in the user's own folder; root's comes first, and is left alone here. */
static void test_file_of_the_agent(void **state)
{
    (void)state;
    if (access(ACTIVATION_FILE, F_OK) == 0) {
        print_message("skipped: this host's agent has activations\n");
        skip();
    }
    char *before = getenv("XDG_RUNTIME_DIR");
    char run[600], file[700];
    (void)snprintf(run, sizeof run, "%s/gridline", folder.dir);
    (void)snprintf(file, sizeof file, "%s/activate", run);
    assert_int_equal(mkdir(run, 0700), 0);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", folder.dir, 1), 0);
    gridline *other = gridline_open("act", "mem:1M", 0);
    assert_non_null(other);
    activate_look(other, 1); /* nothing there */
    assert_false(activate_is_on(other, GRIDLINE_DEBUG, SLICE_LIT("net.debug")));
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    assert_true(fputs("net.* debug\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
    other->watch.next_mono_ns = 0;
    activate_look(other, 1);
    assert_true(activate_is_on(other, GRIDLINE_DEBUG, SLICE_LIT("net.debug")));
    assert_int_equal(unlink(file), 0);
    for (int i = 1; i <= 3; i++) { /* away for a moment is not gone */
        assert_true(activate_is_on(other, GRIDLINE_DEBUG, SLICE_LIT("net.debug")));
        other->watch.next_mono_ns = 0;
        activate_look(other, 1);
    }
    assert_false(activate_is_on(other, GRIDLINE_DEBUG, SLICE_LIT("net.debug")));
    gridline_close(other);
    assert_int_equal(rmdir(run), 0);
    assert_int_equal(before ? setenv("XDG_RUNTIME_DIR", before, 1) : unsetenv("XDG_RUNTIME_DIR"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_levels, setup, teardown),
        cmocka_unit_test_setup_teardown(test_patterns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_handles_are_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_control_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_control_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_activate_frame, setup, teardown),
        cmocka_unit_test_setup_teardown(test_environment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_changes_race, setup, teardown),
        cmocka_unit_test_setup_teardown(test_file_of_the_agent, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
