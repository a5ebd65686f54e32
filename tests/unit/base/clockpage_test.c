/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/clockpage.h"
#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[128];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/gridline-clockpage-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(path, sizeof path, "%s/clock", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder); /* fails if a file was left */
}

static struct timesync_line line_at(int64_t at)
{
    return (struct timesync_line){.at_ns = at,
                                  .base_ns = 3000,
                                  .goal_ns = 3000,
                                  .utc_base_ns = 1000,
                                  .bound_ns = 70,
                                  .drift_ppm = 250,
                                  .generation = 4};
}

static struct clock_moment moment_at(int64_t boot)
{
    return (struct clock_moment){.boot_ns = boot, .utc_ns = boot + 1000, .mono_ns = boot, .raw_ns = boot};
}

static void test_round_trip(void **state)
{
    (void)state;
    struct clockpage *w, *r;
    struct timesync_state s;
    uint32_t generation = 77;
    struct stat st;
    assert_int_equal(clockpage_create(path, &w, &generation), 0);
    assert_int_equal(generation, 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(clockpage_open(path, &r), 0);
    struct clock_moment now = moment_at(100);
    assert_false(clockpage_read(r, &now, &s)); /* nothing was written yet */
    struct timesync_line line = line_at(100);
    clockpage_write(w, &line, NS_PER_S);
    assert_true(clockpage_read(r, &now, &s));
    assert_int_equal(s.offset_ns, 2000);
    assert_int_equal(s.base_ns, 3000);
    assert_int_equal(s.bound_ns, 70);
    assert_int_equal(s.generation, 4);
    now = moment_at(100 + 40000);
    assert_true(clockpage_read(r, &now, &s));
    assert_int_equal(s.bound_ns, 80);
    now = moment_at(NS_PER_S - 1);
    assert_true(clockpage_read(r, &now, &s));
    now = moment_at(NS_PER_S);
    assert_false(clockpage_read(r, &now, &s)); /* nobody has renewed it */
    line.is_utc = true;
    line.bound_ns = TIMESYNC_UNKNOWN;
    clockpage_write(w, &line, 2 * NS_PER_S);
    assert_true(clockpage_read(r, &now, &s));
    assert_int_equal(s.offset_ns, 0);
    assert_true(s.bound_ns == TIMESYNC_UNKNOWN);
    clockpage_destroy(w);
    assert_false(clockpage_read(r, &now, &s));
    assert_int_equal(access(path, F_OK), -1);
    clockpage_close(r);
}

/* The layout is for programs in other languages, too. */
static void test_layout(void **state)
{
    (void)state;
    struct clockpage *w;
    uint32_t generation;
    unsigned char bytes[4097];
    assert_int_equal(clockpage_create(path, &w, &generation), 0);
    struct timesync_line line = line_at(0x1112131415161718);
    line.base_ns = 0x2122232425262728;
    line.goal_ns = 0x3132333435363738;
    line.utc_base_ns = 0x4142434445464748;
    line.bound_ns = 0x5152535455565758;
    line.slew_ns = 0x0a0b0c0d0e0f1011;
    line.slept_ns = -77;
    line.utc_error_ns = 0x81828384;
    line.drift_ppm = 0x61626364;
    line.generation = 0x71727374;
    clockpage_write(w, &line, 0x0102030405060708);
    int fd = open(path, O_RDONLY);
    assert_int_equal(read(fd, bytes, sizeof bytes), 4096);
    (void)close(fd);
    assert_memory_equal(bytes, "glclock\1\2\0\0\0", 12);
    const struct {
        size_t at, size;
        uint64_t value;
    } words[] = {
        {12, 4, 0x71727374},
        {16, 8, (uint64_t)0x2122232425262728 - 0x4142434445464748},
        {24, 8, 0x5152535455565758},
        {32, 8, 0x1112131415161718},
        {40, 8, 0x2122232425262728},
        {48, 8, 0x4142434445464748},
        {56, 4, 0x61626364},
        {60, 4, 0},
        {64, 8, 0x0102030405060708},
        {72, 8, 0x3132333435363738},
        {80, 8, 0x0a0b0c0d0e0f1011},
        {88, 8, (uint64_t)-77},
        {96, 4, 0x81828384},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        uint64_t v = 0;
        memcpy(&v, bytes + words[i].at, words[i].size);
        assert_true(v == words[i].value);
    }
    for (size_t i = 100; i < 4096; i++)
        assert_int_equal(bytes[i], 0);
    clockpage_destroy(w);
}

/* An agent that was killed leaves a page that is valid for a while: the next one ends that. */
static void test_replaced(void **state)
{
    (void)state;
    struct clockpage *killed, *w, *r;
    struct timesync_state s;
    uint32_t generation;
    struct clock_moment now = moment_at(100);
    struct timesync_line line = line_at(100);
    assert_int_equal(clockpage_create(path, &killed, &generation), 0);
    clockpage_write(killed, &line, NS_PER_S);
    assert_int_equal(clockpage_open(path, &r), 0);
    assert_true(clockpage_read(r, &now, &s));
    assert_int_equal(clockpage_create(path, &w, &generation), 0);
    assert_int_equal(generation, 5);
    assert_false(clockpage_read(r, &now, &s));
    clockpage_close(r);
    clockpage_destroy(killed); /* had it only been slow: the file is not its own any more */
    assert_int_equal(access(path, F_OK), 0);
    clockpage_destroy(w);
    assert_int_equal(access(path, F_OK), -1);
}

static void write_file(const char *text, size_t n)
{
    (void)unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, n), (ssize_t)n);
    (void)close(fd);
}

static void test_refused(void **state)
{
    (void)state;
    struct clockpage *p = NULL;
    char page[4096] = "glclock\1";
    assert_int_equal(clockpage_open(path, &p), -ENOENT);
    write_file("", 0);
    assert_int_equal(clockpage_open(path, &p), E_PROTO);
    write_file(page, sizeof page - 1);
    assert_int_equal(clockpage_open(path, &p), E_PROTO);
    page[7] = 2;
    write_file(page, sizeof page);
    assert_int_equal(clockpage_open(path, &p), E_VERSION);
    page[0] = 'x';
    write_file(page, sizeof page);
    assert_int_equal(clockpage_open(path, &p), E_PROTO);
    (void)unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(clockpage_open(path, &p), E_PROTO); /* and does not wait for a writer */
    assert_null(p);
    (void)unlink(path);
    uint32_t generation;
    assert_int_equal(clockpage_create("/nonexistent/clock", &p, &generation), -ENOENT);
    for (uint64_t n = 1; n <= 2; n++) {
        mem_fail_after(n);
        assert_int_equal(clockpage_create(path, &p, &generation), -ENOMEM);
        mem_fail_after(0);
    }
    assert_null(p);
}

/* Whose page it is matters, not who may write the folder. */
static void test_someone_elses(void **state)
{
    (void)state;
    struct clockpage *p;
    char page[4096] = "glclock\1";
    if (geteuid() != 0)
        skip();
    write_file(page, sizeof page);
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_int_equal(clockpage_open(path, &p), -EPERM);
    assert_int_equal(chown(path, 0, 0), 0);
    assert_int_equal(clockpage_open(path, &p), 0);
    clockpage_close(p);
}

/* A writer that died between two stores. */
static void test_writer_stays_in_the_middle(void **state)
{
    (void)state;
    struct clockpage *p;
    struct timesync_state s;
    char page[4096] = "glclock\1";
    int64_t valid = INT64_MAX;
    memcpy(page + 64, &valid, 8);
    page[8] = 1;
    write_file(page, sizeof page);
    assert_int_equal(clockpage_open(path, &p), 0);
    struct clock_moment now = moment_at(5);
    assert_false(clockpage_read(p, &now, &s));
    clockpage_close(p);
}

static _Atomic bool must_stop;

/* Each line has one number in all of its fields. */
static void *write_lines(void *arg)
{
    for (int64_t i = 0; !atomic_load(&must_stop); i++) {
        struct timesync_line line = {.at_ns = i,
                                     .base_ns = i,
                                     .goal_ns = i,
                                     .utc_base_ns = 0,
                                     .bound_ns = (uint64_t)i,
                                     .generation = (uint32_t)i};
        clockpage_write(arg, &line, INT64_MAX);
    }
    return NULL;
}

static void test_never_torn(void **state)
{
    (void)state;
    struct clockpage *w, *r;
    uint32_t generation;
    pthread_t writer;
    assert_int_equal(clockpage_create(path, &w, &generation), 0);
    struct timesync_line line = {0};
    clockpage_write(w, &line, INT64_MAX);
    assert_int_equal(clockpage_open(path, &r), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_lines, w), 0);
    uint64_t last = 0, changes = 0;
    struct clock_moment now = {0};
    for (unsigned i = 0; i < 200000 * test_scale() || changes < 10; i++) {
        struct timesync_state s;
        if (!clockpage_read(r, &now, &s))
            continue;
        assert_true((uint64_t)s.base_ns == s.bound_ns && (uint64_t)s.offset_ns == s.bound_ns);
        assert_true((s.generation == (uint32_t)s.bound_ns) && s.bound_ns >= last);
        changes += s.bound_ns != last;
        last = s.bound_ns;
    }
    atomic_store(&must_stop, true);
    assert_int_equal(pthread_join(writer, NULL), 0);
    clockpage_close(r);
    clockpage_destroy(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_layout, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_someone_elses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_writer_stays_in_the_middle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_never_torn, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
