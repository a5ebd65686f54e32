/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/client/blocks.h"

static struct folder folder;

struct range {
    uint64_t first, last, n, seq;
};

static void see(void *arg, const struct batch_origin *o, uint64_t seq, const struct event *e)
{
    struct range *r = arg;
    (void)o;
    uint64_t i = value_of(e, "i").u;
    if (r->n++ == 0)
        r->first = i;
    else
        assert_int_equal(i, r->last + 1);
    assert_int_equal(seq, i + 1);
    r->last = i;
}

static void test_newest_stay(void **state)
{
    (void)state;
    enum { N = 50000 };
    struct range r = {0};
    folder_make(&folder);
    gridline *g = gridline_open("mem", "mem:64KiB", 0);
    for (unsigned i = 0; i < N; i++)
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "mem", (u64, "i", i),
                       (u64, "square", (uint64_t)i * i * 7919 % 1000003));
    assert_int_equal(gridline_dump(g, folder_file(&folder, "dump.glb")), 0);
    struct gridline_stats s = stats_of(g);
    assert_int_equal(s.taken, N);
    assert_int_equal(s.queued, 0);
    assert_int_equal(s.dropped, s.dropped_memory);
    assert_true(s.dropped > 0);
    assert_int_equal(each_in(folder.path, see, &r), s.passed);
    assert_int_equal(r.last, N - 1);
    assert_int_equal(r.first, s.dropped);
    struct stat st;
    assert_int_equal(stat(folder.path, &st), 0);
    assert_true(st.st_size <= 64 * 1024);
    assert_true(st.st_size > 16 * 1024);
    assert_int_equal(gridline_dump(g, "/dev/full"), -EIO);
    assert_int_equal(gridline_dump(g, "what:ever"), -EINVAL);
    assert_int_equal(gridline_dump(g, NULL), -EINVAL);
    gridline_close(g);
    folder_end(&folder, (const char *const[]){"dump.glb", NULL});
}

static void test_sizes(void **state)
{
    (void)state;
    static const char *const bad[] = {"mem:", "mem:x", "mem:1", "mem:10k?x=1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(gridline_open("mem", bad[i], 0));
        assert_int_equal(errno, EINVAL);
    }
    gridline *g = gridline_open("mem", "syslog:", 0);
    assert_int_equal(gridline_dump(g, "/dev/null"), -ENOENT); /* it has none */
    gridline_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_newest_stay), cmocka_unit_test(test_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
