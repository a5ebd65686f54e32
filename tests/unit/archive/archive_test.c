/* SPDX-License-Identifier: Apache-2.0 */
/* Every row once: in heads, in blobs, over flushes and restarts, read again or not; late, of new columns, of
 * too many streams, of two sources. */
#include "unit/archive/rows_seen.h"

#include "archive/archive_internal.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>

enum { BATCHES_MAX = 64 };

static char dir[64];
static const struct archive_source journal = {"a journal"}, file = {"another file"};

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/gridline-archive-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    remove_folder(dir);
    return 0;
}

/* What was put in: record i + 1 is batches[i]. */
struct model {
    struct events_maker maker;
    struct batch *batches[BATCHES_MAX];
    size_t n_batches;
    const struct event **events;
    size_t n;
};

static void model_init(struct model *m, uint64_t seed)
{
    *m = (struct model){.n = 0};
    events_init(&m->maker, seed, INT64_C(1794777628000000000));
    m->events = mem_alloc(1 << 20);
}

static void model_fini(struct model *m)
{
    for (size_t i = 0; i < m->n_batches; i++)
        batch_unref(m->batches[i]);
    mem_free(m->events);
    events_fini(&m->maker);
}

static const struct batch *model_add(struct model *m, size_t n)
{
    struct batch *b = events_make(&m->maker, n);
    for (size_t i = 0; i < n; i++)
        m->events[m->n++] = &b->events[i];
    return m->batches[m->n_batches++] = b;
}

static struct archive *open_with(const struct archive_options *o)
{
    struct archive *a = NULL;
    struct diag why = {0};
    if (archive_open(o, &a, &why) < 0)
        fail_msg("%s", why.message);
    return a;
}

static struct archive *open_archive(void)
{
    const struct archive_options o = {.dir = dir, .partition_ns = INT64_C(600000000000)};
    return open_with(&o);
}

static void append(struct archive *a, const struct archive_source *s, uint64_t record, const struct batch *b)
{
    assert_int_equal(archive_append(a, s, record, b), 0);
    assert_int_equal(archive_done(a, s, record), 0);
}

static struct archive_counts counts(const struct archive *a)
{
    struct archive_counts c;
    archive_counts(a, &c);
    assert_int_equal(c.taken, c.kept + c.again + c.too_old + c.refused);
    return c;
}

static void every_row_once(void **state)
{
    (void)state;
    struct model m;
    model_init(&m, 1);
    m.maker.late_ns = INT64_C(1500000000000);
    struct archive *a = open_archive();
    for (unsigned i = 0; i < 20; i++) {
        append(a, &journal, i + 1, model_add(&m, 1 + i * 37 % 400));
        if (i % 4 == 3)
            assert_int_equal(archive_flush(a), 0);
        assert_int_equal(check_archive(a, NULL, m.events, m.n), m.n);
    }
    assert_int_equal(archive_cursor(a, &journal), 20);
    assert_int_equal(counts(a).kept, m.n);
    archive_close(a);
    a = open_archive();
    assert_int_equal(check_archive(a, NULL, m.events, m.n), m.n);
    archive_close(a);
    assert_int_equal(check_archive(NULL, dir, m.events, m.n), m.n);
    model_fini(&m);
}

/* Closing without a flush is as a crash is: heads are gone, and come again from the source. */
static void reads_again(void **state)
{
    (void)state;
    struct model m;
    model_init(&m, 2);
    m.maker.late_ns = INT64_C(1500000000000);
    for (unsigned i = 0; i < 30; i++)
        (void)model_add(&m, 40);
    uint64_t seed = 77, next = 1;
    for (unsigned round = 0; round < 12; round++) {
        struct archive *a = open_archive();
        uint64_t from = archive_cursor(a, &journal) + 1;
        assert_true(from <= next);
        next = from + test_random(&seed) % 6;
        for (uint64_t record = from; record < next && record <= m.n_batches; record++)
            append(a, &journal, record, m.batches[record - 1]);
        if (round % 3)
            assert_int_equal(archive_flush(a), 0);
        (void)counts(a);
        archive_close(a);
    }
    struct archive *a = open_archive();
    for (uint64_t record = 1; record <= m.n_batches; record++) /* all of it, although some is there */
        append(a, &journal, record, m.batches[record - 1]);
    assert_int_equal(check_archive(a, NULL, m.events, m.n), m.n);
    assert_true(counts(a).again > 0);
    assert_int_equal(archive_flush(a), 0);
    assert_int_equal(check_archive(a, NULL, m.events, m.n), m.n);
    archive_close(a);
    model_fini(&m);
}

/* A flush that ended between two partitions: what the first one's mark covers does not come again. */
static void half_a_flush(void **state)
{
    (void)state;
    struct model m;
    model_init(&m, 3);
    m.maker.late_ns = INT64_C(3000000000000);
    struct archive *a = open_archive();
    for (unsigned i = 0; i < 8; i++)
        append(a, &journal, i + 1, model_add(&m, 100));
    assert_int_equal(archive_flush(a), 0);
    archive_close(a);
    /* As if the catalogue had not been written: its cursor is an old one. */
    char catalogue[96];
    for (const char *const *end = (const char *const[]){"", "-wal", "-shm", NULL}; *end; end++) {
        (void)snprintf(catalogue, sizeof catalogue, "%s/catalog.db%s", dir, *end);
        (void)unlink(catalogue); /* it may not be there */
    }
    a = open_archive();
    for (uint64_t record = 1; record <= m.n_batches; record++)
        append(a, &journal, record, m.batches[record - 1]);
    append(a, &journal, 9, model_add(&m, 50));
    assert_int_equal(check_archive(a, NULL, m.events, m.n), m.n);
    assert_int_equal(archive_flush(a), 0);
    assert_int_equal(check_archive(a, NULL, m.events, m.n), m.n);
    assert_int_equal(counts(a).again, m.n - 50);
    archive_close(a);
    model_fini(&m);
}

/* The list of free pages begins at page 2 of each partition, which is in use: to be written to they are made
 * again. */
static int break_partition(void *arg, const char *name, int64_t from_ns, int64_t step_ns)
{
    char path[160];
    (void)from_ns;
    (void)step_ns;
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, (const char[]){0, 0, 0, 2, 0, 0, 0, 1}, 8, 32), 8);
    assert_int_equal(close(fd), 0);
    ++*(unsigned *)arg;
    return 0;
}

static void broken_partitions(void **state)
{
    (void)state;
    struct model m;
    model_init(&m, 11);
    m.maker.late_ns = INT64_C(1500000000000);
    struct archive *a = open_archive();
    for (unsigned i = 0; i < 8; i++)
        append(a, &journal, i + 1, model_add(&m, 100));
    assert_int_equal(archive_flush(a), 0);
    archive_close(a);
    unsigned n = 0, mended = 0;
    assert_int_equal(catalog_partitions(dir, break_partition, &n), 0);
    assert_true(n > 1);
    a = open_archive();
    assert_int_equal(check_archive(a, NULL, m.events, m.n), m.n);
    for (unsigned i = 8; i < 12; i++)
        (void)model_add(&m, 100);
    for (int r = -ESTALE; r == -ESTALE; mended++) {
        for (uint64_t record = archive_cursor(a, &journal) + 1; record <= m.n_batches; record++)
            append(a, &journal, record, m.batches[record - 1]);
        r = archive_flush(a);
        assert_true(r == 0 || r == -ESTALE);
        assert_true(mended <= n);
    }
    assert_true(mended > 1 && catalog_troubles(archive_catalog(a)) == mended - 1);
    assert_int_equal(check_archive(a, NULL, m.events, m.n), m.n);
    archive_close(a);
    assert_int_equal(check_archive(NULL, dir, m.events, m.n), m.n);
    model_fini(&m);
}

static void two_sources(void **state)
{
    (void)state;
    struct model m;
    model_init(&m, 4);
    struct archive *a = open_archive();
    for (unsigned i = 0; i < 10; i++)
        append(a, i % 2 ? &journal : &file, i / 2 + 1, model_add(&m, 30));
    assert_int_equal(archive_flush(a), 0);
    assert_int_equal(archive_cursor(a, &journal), 5);
    assert_int_equal(archive_cursor(a, &file), 5);
    append(a, &file, 3, m.batches[4]); /* the same file once more */
    assert_int_equal(counts(a).again, 30);
    assert_int_equal(check_archive(a, NULL, m.events, m.n), m.n);
    archive_close(a);
    model_fini(&m);
}

/* A producer with too many streams: nothing is lost, key values neither. */
static void overflow(void **state)
{
    (void)state;
    const struct archive_options o = {.dir = dir, .streams_max = 5};
    const struct field fields[] = {{.name = SLICE_LIT("device"), .type = VALUE_TEXT, .role = ROLE_KEY},
                                   {.name = SLICE_LIT("reads"), .type = VALUE_UINT, .kind = KIND_COUNTER}};
    struct model m;
    struct schema *schema;
    model_init(&m, 5);
    assert_int_equal(schema_create(SLICE_LIT("disk"), fields, 2, &schema), 0);
    assert_int_equal(registry_declare(m.maker.registry, schema), 0);
    const struct event_head head = {.time_ns = m.maker.time_ns,
                                    .name = SLICE_LIT("disk"),
                                    .host = SLICE_LIT("h"),
                                    .prog = SLICE_LIT("p"),
                                    .level = LEVEL_INFO};
    for (unsigned i = 0; i < 60; i++) {
        char device[16];
        (void)snprintf(device, sizeof device, "sd%u", i % 20);
        const struct value values[] = {value_text(slice_str(device)), value_uint(i)};
        assert_int_equal(batch_builder_add_known(m.maker.builder, &head, schema, values, NULL), 0);
    }
    struct batch_origin origin = {.epoch = 7, .first_seq = 1, .clock = {.offset_ns = -5}};
    memcpy(origin.producer, events_producer, sizeof origin.producer);
    struct batch *b = batch_builder_finish(m.maker.builder, &origin);
    for (size_t i = 0; i < b->n; i++)
        m.events[m.n++] = &b->events[i];
    struct archive *a = open_with(&o);
    append(a, &journal, 1, b);
    assert_int_equal(counts(a).overflow, 45);
    assert_int_equal(counts(a).streams, 6);
    assert_int_equal(check_archive(a, NULL, m.events, m.n), m.n);
    assert_int_equal(archive_flush(a), 0);
    assert_int_equal(check_archive(a, NULL, m.events, m.n), m.n);
    archive_close(a);
    batch_unref(b);
    schema_unref(schema);
    model_fini(&m);
}

static void too_old(void **state)
{
    (void)state;
    struct model m;
    model_init(&m, 6);
    struct archive *a = open_archive();
    (void)model_add(&m, 100);
    int64_t floor = m.events[50]->time_ns;
    archive_set_floor(a, floor);
    append(a, &journal, 1, m.batches[0]);
    for (size_t i = 0; i < 50; i++)
        m.events[i] = m.events[i]->time_ns < floor ? NULL : m.events[i];
    size_t n = check_archive(a, NULL, m.events, m.n);
    assert_int_equal(counts(a).too_old, m.n - n);
    assert_int_equal(n, 50);
    archive_close(a);
    model_fini(&m);
}

/* n rows, step_s apart from time on, flushed. */
static void flush_rows(struct archive *a, uint64_t record, int64_t from_ns, size_t n, int64_t step_s)
{
    struct registry *registry = registry_create();
    struct batch_builder *builder = batch_builder_create(registry, 0);
    batch_builder_limit(builder, SIZE_MAX, SIZE_MAX);
    for (size_t i = 0; i < n; i++) {
        const struct named_value v = {SLICE_LIT("n"), value_uint(i)};
        const struct event_head head = {.name = SLICE_LIT("e"),
                                        .host = SLICE_LIT("h"),
                                        .time_ns = from_ns + (int64_t)i * step_s * INT64_C(1000000000)};
        assert_int_equal(batch_builder_add(builder, &head, &v, 1, NULL), 0);
    }
    struct batch *b = batch_builder_finish(builder, NULL);
    append(a, &journal, record, b);
    assert_int_equal(archive_flush(a), 0);
    batch_unref(b);
    batch_builder_destroy(builder);
    registry_destroy(registry);
}

/* How many days the partition spans that has that time; 0: none does. */
static int64_t days_at(const struct archive *a, int64_t time_ns)
{
    const struct partition_span at = {.from_ns = time_ns, .to_ns = time_ns + 1};
    struct partition_span s = archive_span_of(a, time_ns);
    return archive_has_span(a, &at) ? (s.to_ns - s.from_ns) / ARCHIVE_PARTITION_NS : 0;
}

/* Old rows that are few get long partitions, dense and recent ones days; none overlaps another, and all are
 * known again when the archive is opened again. */
static void long_partitions(void **state)
{
    (void)state;
    const int64_t day = ARCHIVE_PARTITION_NS, now = 20400 * day, years = 364 * day;
    const struct archive_options o = {.dir = dir};
    struct archive *a;
    struct diag why;
    assert_int_equal(archive_open(&o, &a, &why), 0);
    assert_int_equal(archive_tick(a, 1, now), 0);
    flush_rows(a, 1, 40 * years + 5 * day, 100, 3600);
    assert_int_equal(days_at(a, 40 * years), 364);
    flush_rows(a, 2, 40 * years + 300 * day, 10, 1); /* late: there is one */
    assert_int_equal(a->n_spans, 1);
    flush_rows(a, 3, now - day, 10, 60);
    assert_int_equal(days_at(a, now - day), 1); /* recent */
    flush_rows(a, 4, 42 * years, 8640 * 2, 10);
    assert_int_equal(days_at(a, 42 * years), 28); /* 8,640 rows a day */
    flush_rows(a, 5, 42 * years + 100 * day, 100, 3600);
    assert_int_equal(days_at(a, 42 * years + 100 * day), 28); /* sparse, but the year is not free */
    flush_rows(a, 6, 44 * years, 86400 * 2, 1);
    assert_int_equal(days_at(a, 44 * years), 7);
    size_t n = a->n_spans;
    archive_close(a);
    assert_int_equal(archive_open(&o, &a, &why), 0);
    assert_int_equal(a->n_spans, n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            assert_true(i == k || a->spans[i].from_ns >= a->spans[k].to_ns ||
                        a->spans[i].to_ns <= a->spans[k].from_ns);
    assert_int_equal(days_at(a, 40 * years), 364);
    archive_close(a);
}

/* A view is as it was, whatever comes afterwards. */
static void views_stay(void **state)
{
    (void)state;
    struct model m;
    struct view_reader *r = NULL;
    struct view *v = NULL;
    struct diag why = {0};
    model_init(&m, 7);
    struct archive *a = open_archive();
    append(a, &journal, 1, model_add(&m, 200));
    assert_int_equal(archive_flush(a), 0);
    append(a, &journal, 2, model_add(&m, 200));
    assert_int_equal(view_reader_create(a, NULL, 1 << 20, &r, &why), 0);
    assert_int_equal(view_take(r, &v), 0);
    size_t n = m.n;
    append(a, &journal, 3, model_add(&m, 200));
    assert_int_equal(archive_flush(a), 0);
    append(a, &journal, 4, model_add(&m, 200));
    assert_int_equal(archive_flush(a), 0);
    assert_int_equal(check_view(v, m.events, n), n);
    uint64_t limit = archive_merge_limit(a);
    view_release(v);
    assert_true(archive_merge_limit(a) > limit); /* two flushes later */
    assert_int_equal(view_take(r, &v), 0);
    assert_int_equal(check_view(v, m.events, m.n), m.n);
    view_release(v);
    view_reader_destroy(r);
    archive_close(a);
    model_fini(&m);
}

/* Half of a record is never seen. */
static void whole_records(void **state)
{
    (void)state;
    struct model m;
    model_init(&m, 8);
    struct archive *a = open_archive();
    append(a, &journal, 1, model_add(&m, 20));
    size_t n = m.n;
    assert_int_equal(archive_append(a, &journal, 2, model_add(&m, 20)), 0);
    assert_int_equal(check_archive(a, NULL, m.events, n), n);
    assert_int_equal(archive_flush(a), -EBUSY);
    assert_int_equal(archive_append(a, &journal, 2, model_add(&m, 20)), 0);
    assert_int_equal(archive_done(a, &journal, 2), 0);
    assert_int_equal(check_archive(a, NULL, m.events, m.n), m.n);
    archive_close(a);
    model_fini(&m);
}

/* A loss that is found before the first tick is dated when it was found, not 1970. Issue 17. */
static void loss_has_no_time_of_1970(void **state)
{
    (void)state;
    const int64_t before = clock_utc_ns();
    struct archive *a = open_archive();
    const struct archive_loss lost = {.first = 1, .last = 9, .why = SLICE_LIT("a test")};
    assert_int_equal(archive_lost(a, &journal, &lost), 0);
    assert_int_equal(archive_done(a, &journal, 9), 0);
    assert_int_equal(archive_flush(a), 0);
    struct view_reader *r = NULL;
    struct view *v = NULL;
    assert_int_equal(view_reader_create(a, NULL, 0, &r, NULL), 0);
    assert_int_equal(view_take(r, &v), 0);
    struct scan_spec spec = {.name = SLICE_LIT("archive.lost"), .from_ns = INT64_MIN, .to_ns = INT64_MAX};
    struct scan *s = NULL;
    struct scan_chunk c;
    struct rows rows;
    assert_int_equal(scan_open(v, &spec, &s), 0);
    assert_int_equal(scan_next(s, &c), 1);
    assert_int_equal(scan_read(s, BLOB_TIMES, NULL, 0, &rows), 0);
    assert_int_equal(rows.n, 1);
    assert_true(rows.time_ns[0] >= before && rows.time_ns[0] <= clock_utc_ns());
    scan_close(s);
    view_release(v);
    view_reader_destroy(r);
    archive_close(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_row_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(half_a_flush, set_up, tear_down),
        cmocka_unit_test_setup_teardown(broken_partitions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_sources, set_up, tear_down),
        cmocka_unit_test_setup_teardown(overflow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_old, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_partitions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(views_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(whole_records, set_up, tear_down),
        cmocka_unit_test_setup_teardown(loss_has_no_time_of_1970, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
