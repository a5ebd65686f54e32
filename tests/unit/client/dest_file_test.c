/* SPDX-License-Identifier: Apache-2.0 */
/* Files in every encoding, appended to; disks that fill. */
#include "unit/client/blocks.h"

#include "event/encoding.h"

#include <signal.h>
#include <sys/resource.h>

static struct folder folder;

static int setup(void **state)
{
    (void)state;
    folder_make(&folder);
    return 0;
}

/* Decodes all of a file in whatever encoding it is in. */
static size_t decode(const char *path, each_event call, void *arg)
{
    struct strbuf bytes = {0};
    struct diag why = {0};
    struct decoder *d;
    size_t n = 0, used;
    load_file(path, &bytes);
    struct registry *registry = registry_create();
    struct batch_builder *b = batch_builder_create(registry, 0);
    assert_int_equal(decoder_create(encoding_by_suffix(slice_str(path)), &d), 0);
    for (struct slice left = strbuf_slice(&bytes); left.n; left = slice_from(left, used)) {
        if (decoder_run(d, left, true, b, &used, &why) < 0)
            fail_msg("%s: %s", path, why.message);
        struct batch *batch = batch_builder_finish(b, NULL);
        for (size_t i = 0; batch && i < batch->n; i++, n++)
            call(arg, &batch->origin, 0, &batch->events[i]);
        batch_unref(batch);
    }
    decoder_destroy(d);
    batch_builder_destroy(b);
    registry_destroy(registry);
    strbuf_fini(&bytes);
    return n;
}

static void check(void *arg, const struct batch_origin *o, uint64_t seq, const struct event *e)
{
    uint64_t *n = arg;
    (void)o;
    (void)seq;
    assert_true(is_named(e, "file.event"));
    assert_slice(e->prog, "file");
    assert_slice(e->host, "node17");
    assert_int_equal(e->level, GRIDLINE_NOTICE);
    assert_true(value_eq(value_of(e, "i"), value_uint((*n)++)));
    assert_true(value_eq(value_of(e, "t"), value_text(SLICE_LIT("a \"b\"\n<&,"))));
    assert_true(value_eq(value_of(e, "f"), value_float(0.25)));
    assert_true(value_eq(value_of(e, "job"), value_text(SLICE_LIT("1234.5"))));
}

static void write_some(const char *url, unsigned from, unsigned n)
{
    gridline *g = gridline_open("file", url, 0);
    assert_non_null(g);
    assert_int_equal(gridline_set_host(g, "node17"), 0);
    assert_int_equal(gridline_set_const(g, "job", "text", "1234.5"), 0);
    for (unsigned i = from; i < from + n; i++) {
        GRIDLINE_EVENT(g, GRIDLINE_NOTICE, "file.event", (u64, "i", i), (text, "t", "a \"b\"\n<&,"),
                       (f64, "f", 0.25));
        if (i % 100 == 0)
            assert_int_equal(gridline_flush(g, 1000), 0);
    }
    struct gridline_stats s = stats_of(g);
    assert_int_equal(s.dropped, 0);
    gridline_close(g);
}

/* Two runs of a program append to the same file: one head, one tail. */
static void test_encodings(void **state)
{
    (void)state;
    static const char *const endings[] = {"x.ulm", "x.bp", "x.ndjson", "x.xml", "x.glb", "x.json", NULL};
    for (size_t k = 0; endings[k]; k++) {
        uint64_t n = 0;
        char url[100];
        (void)snprintf(url, sizeof url, "%s%s", k % 2 ? "file:" : "", folder_file(&folder, endings[k]));
        write_some(url, 0, 300);
        write_some(url, 300, 200);
        assert_int_equal(decode(folder.path, check, &n), 500);
    }
    folder_end(&folder, endings);
}

static void test_csv(void **state)
{
    (void)state;
    struct strbuf text = {0};
    write_some(folder_file(&folder, "x.csv"), 0, 2);
    write_some(folder.path, 2, 2);
    gridline *g = gridline_open("file", folder.path, 0); /* other fields: the file keeps its columns */
    GRIDLINE_EVENT(g, GRIDLINE_INFO, "other", (text, "new", "x"), (u64, "i", 9));
    gridline_close(g);
    load_file(folder.path, &text);
    size_t lines = 0, heads = 0;
    for (const char *at = text.p, *end; (end = strstr(at, "\r\n")); at = end + 2) {
        struct slice line = {at, (size_t)(end - at)};
        heads += slice_eq_str(line, "time,host,prog,level,name,i,t,f,job");
        assert_true(lines++ < 5 || slice_ends(line, SLICE_LIT(",other,9,,,")));
    }
    assert_int_equal(heads, 1);
    assert_int_equal(lines, 6);
    strbuf_fini(&text);
    folder_end(&folder, (const char *const[]){"x.csv", NULL});
}

static void test_format_option(void **state)
{
    (void)state;
    uint64_t n = 0;
    char url[120], to[120];
    (void)snprintf(url, sizeof url, "file:%s?format=bp", folder_file(&folder, "plain"));
    write_some(url, 0, 3);
    (void)snprintf(to, sizeof to, "%s/plain.bp", folder.dir);
    assert_int_equal(rename(folder.path, to), 0);
    assert_int_equal(decode(to, check, &n), 3);
    static const char *const bad[] = {"?format=", "?format=odt", "?colour=red"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(url, sizeof url, "file:%s%s", folder_file(&folder, "none"), bad[i]);
        assert_null(gridline_open("file", url, 0));
        assert_int_equal(errno, EINVAL);
    }
    assert_null(gridline_open("file", "file:/nowhere/at/all.ulm", 0));
    assert_int_equal(errno, ENOENT);
    assert_null(gridline_open("file", folder.dir, 0));
    assert_int_equal(errno, EISDIR);
    folder_end(&folder, (const char *const[]){"plain.bp", NULL});
}

static void test_dev_full(void **state)
{
    (void)state;
    gridline *g = gridline_open("full", "/dev/full?format=ulm", 0);
    assert_non_null(g);
    for (unsigned i = 0; i < 100; i++) {
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "full", (u64, "i", i));
        assert_int_equal(gridline_flush(g, 0), -EAGAIN); /* the first block waits, the others are dropped */
    }
    struct gridline_stats s = stats_of(g);
    assert_int_equal(s.passed, 0);
    assert_true(s.taken >= 100);
    assert_true(s.queued >= 1 && s.queued < 5);
    assert_int_equal(s.dropped, s.dropped_unwritable);
    gridline_close(g);
    assert_int_equal(rmdir(folder.dir), 0);
}

struct tally {
    uint64_t events, reports, last;
};

static void count(void *arg, const struct batch_origin *o, uint64_t seq, const struct event *e)
{
    struct tally *t = arg;
    (void)o;
    (void)seq;
    if (is_named(e, "gridline.dropped")) {
        t->reports++;
        return;
    }
    uint64_t i = value_of(e, "i").u;
    assert_true(t->events == 0 || i > t->last);
    t->last = i;
    t->events++;
}

/* The disk is full for a while, in the middle of a block or line: what was begun is finished first, the
 * program does not die of SIGXFSZ, and the ledger says exactly what is missing. */
static void limited(const char *name, unsigned flags)
{
    enum { N = 6000 };
    struct rlimit before, small;
    struct tally t = {0};
    uint64_t seed = 1;
    char noise[40];
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100 * 1000 + 3;
    gridline *g = gridline_open("full", folder_file(&folder, name), flags);
    assert_non_null(g);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (unsigned i = 0; i < N; i++) {
        for (size_t k = 0; k < sizeof noise; k++)
            noise[k] = (char)('a' + test_random(&seed) % 26);
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "full", (u64, "i", i), (textn, "noise", noise, sizeof noise));
        if (i % 50 == 0)
            (void)gridline_flush(g, 0);
        if (i == N / 2) {
            struct gridline_stats s = stats_of(g);
            assert_true(s.dropped_unwritable > 0);
            assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
            assert_int_equal(gridline_flush(g, 5000), 0);
        }
    }
    assert_int_equal(gridline_flush(g, 5000), 0);
    struct gridline_stats s = stats_of(g);
    gridline_close(g);
    uint64_t at_close = decode(folder.path, count, &t) - s.passed;
    assert_true(at_close <= 1); /* a last report */
    assert_int_equal(s.dropped, s.dropped_unwritable);
    uint64_t reports = s.taken - N, reports_lost = reports - (t.reports - at_close);
    assert_int_equal(t.events + s.dropped - reports_lost, N);
    assert_true(t.reports >= 1);
    assert_int_equal(t.last, N - 1);
}

static void test_disk_full(void **state)
{
    (void)state;
    limited("x.glb", 0);
    limited("x.ulm", 0);
    limited("x.xml", GRIDLINE_THREAD);
    folder_end(&folder, (const char *const[]){"x.glb", "x.ulm", "x.xml", NULL});
}

/* Closed while the disk is still full: no half line stays behind. */
static void test_closed_full(void **state)
{
    (void)state;
    struct rlimit before, small;
    struct tally t = {0};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 1000;
    gridline *g = gridline_open("full", folder_file(&folder, "x.ulm"), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (unsigned i = 0; i < 100; i++) {
        GRIDLINE_EVENT(g, GRIDLINE_INFO, "full", (u64, "i", i));
        (void)gridline_flush(g, 0);
    }
    gridline_close(g);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(decode(folder.path, count, &t) > 3);
    folder_end(&folder, (const char *const[]){"x.ulm", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_encodings, setup),     cmocka_unit_test_setup(test_csv, setup),
        cmocka_unit_test_setup(test_format_option, setup), cmocka_unit_test_setup(test_dev_full, setup),
        cmocka_unit_test_setup(test_disk_full, setup),     cmocka_unit_test_setup(test_closed_full, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
