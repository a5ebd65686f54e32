/* SPDX-License-Identifier: Apache-2.0 */
/* T3, the journal below an archive: every byte of a gateway's journal is changed in turn, and the thread
 * that fills an archive from it (cmd/archiver.h) reads it. No row is wrong, none is there twice; every row
 * that is missing is of a record that the archive's own table `archive.lost` names, or that the journal
 * itself, opened by its writer, does not have any more (the end of it was torn off).
 *
 *     archive_journal        some bytes, evenly
 *     archive_journal all    every byte
 */
#include "fault/archive_fault.h"
#include "unit/test.h"

#include "base/clock.h"
#include "cmd/archiver.h"
#include "event/block.h"
#include "gateway/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORDS = 30, SHORT_FLIPS = 450, LOST_MAX = 64, NUMBER = 77, LAG_S = 30 };

static bool is_whole;
static struct source source;
static char work[FOLDER_PATH];
static struct strbuf image; /* the journal's one segment */
static char segment[FOLDER_PATH + 64];

/* One record of the journal a batch, as a gateway stores blocks. */
static uint64_t write_journal(const char *dir)
{
    struct journal *j;
    struct strbuf block = {0};
    struct block_writer *w = block_writer_create();
    uint64_t number = 0;
    assert_int_equal(journal_open(dir, &(struct journal_options){.flags = JOURNAL_OWN_SEGMENTS}, &j), 0);
    for (uint64_t r = 1; r <= source.n; r++)
        for (size_t b = 0; b < source.records[r].n_batches; b++) {
            const struct batch *batch = source.records[r].batches[b];
            strbuf_reset(&block);
            for (size_t i = 0; i < batch->n; i++)
                assert_int_equal(block_writer_add(w, &batch->events[i]), 0);
            assert_int_equal(block_writer_finish(w, &batch->origin, &block), 0);
            assert_int_equal(journal_append(j, STORE_BLOCK, strbuf_slice(&block), &number), 0);
            assert_int_equal(journal_commit(j), 0);
        }
    journal_close(j);
    block_writer_destroy(w);
    strbuf_fini(&block);
    return number;
}

struct ranges {
    uint64_t first[LOST_MAX], last[LOST_MAX];
    size_t n;
};

static bool is_named(const struct ranges *lost, uint64_t number)
{
    for (size_t i = 0; i < lost->n; i++)
        if (number >= lost->first[i] && number <= lost->last[i])
            return true;
    return false;
}

static struct value value_of(const struct table_def *t, const struct rows *rows, uint32_t row,
                             const char *name)
{
    for (uint32_t i = 0; i < rows->n_columns; i++)
        if (slice_eq_str(t->columns[rows->columns[i].id].name, name))
            return column_value(&rows->columns[i], row);
    return value_none();
}

/* What the archive says it could not read. */
static void find_lost(struct view *v, struct ranges *out)
{
    struct scan_spec spec = {
        .name = SLICE_LIT("archive.lost"), .from_ns = INT64_MIN, .to_ns = INT64_MAX, .id_column = UINT16_MAX};
    struct scan_chunk chunk;
    struct scan *scan;
    struct rows rows;
    int r;
    assert_int_equal(scan_open(v, &spec, &scan), 0);
    while ((r = scan_next(scan, &chunk)) > 0) {
        assert_int_equal(scan_read(scan, BLOB_ALL_COLUMNS, NULL, 0, &rows), 0);
        for (uint32_t i = 0; i < rows.n; i++) {
            assert_true(out->n < LOST_MAX);
            out->first[out->n] = value_of(chunk.table, &rows, i, "first").u;
            out->last[out->n++] = value_of(chunk.table, &rows, i, "last").u;
        }
    }
    assert_int_equal(r, 0);
    scan_close(scan);
}

struct tally {
    uint64_t flips, named, torn;
};

static void check_missing(const struct source_found *f, const struct ranges *lost, uint64_t settled,
                          const char *where, struct tally *t)
{
    uint64_t number = 0, named = 0, torn = 0;
    for (uint64_t r = 1; r <= source.n; r++) {
        uint64_t row = source.records[r].first_row;
        for (size_t b = 0; b < source.records[r].n_batches; b++) {
            number++;
            for (size_t i = 0; i < source.records[r].batches[b]->n; i++, row++) {
                if (f->times[row])
                    continue;
                if (number <= settled && !is_named(lost, number))
                    fail_msg("%s: rows of record %llu are missing, and nobody says so", where,
                             (unsigned long long)number);
                named += number <= settled;
                torn += number > settled;
            }
        }
    }
    t->named += named > 0;
    t->torn += torn > 0;
}

static void check_archive(const char *where, uint64_t settled, struct tally *t)
{
    struct archive *a;
    struct view_reader *reader;
    struct view *view;
    struct source_found f;
    struct ranges lost = {.n = 0};
    struct diag why = {0};
    assert_int_equal(fault_open(work, &a, &why), 0);
    assert_int_equal(view_reader_create(a, NULL, 1 << 20, &reader, &why), 0);
    assert_int_equal(view_take(reader, &view), 0);
    assert_int_equal(source_find(&source, view, &f), 0);
    if (f.wrong || f.twice)
        fail_msg("%s: %llu rows are wrong, %llu twice: %s", where, (unsigned long long)f.wrong,
                 (unsigned long long)f.twice, f.first);
    find_lost(view, &lost);
    check_missing(&f, &lost, settled, where, t);
    source_found_fini(&f);
    view_release(view);
    view_reader_destroy(reader);
    archive_close(a);
}

static void flip(size_t at, struct tally *t)
{
    char where[100], dir[FOLDER_PATH + 16], archive_dir_[FOLDER_PATH + 16];
    (void)snprintf(where, sizeof where, "byte %zu of %zu", at, image.n);
    (void)snprintf(dir, sizeof dir, "%s/journal", work);
    (void)snprintf(archive_dir_, sizeof archive_dir_, "%s/archive", work);
    folder_empty(archive_dir_);
    int fd = open(segment, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    image.p[at] = (char)~image.p[at];
    assert_int_equal(write(fd, image.p, image.n), image.n);
    image.p[at] = (char)~image.p[at];
    (void)close(fd);
    struct journal *j;
    struct journal_stats stats;
    struct archiver *a;
    struct diag why = {0};
    int r = journal_open(dir, &(struct journal_options){.flags = JOURNAL_OWN_SEGMENTS}, &j);
    if (r < 0)
        fail_msg("%s: the journal does not open: %s", where, err_text(r));
    journal_stats(j, &stats);
    const struct archiver_options o = {.journal = dir,
                                       .archive = {.dir = archive_dir_, .partition_ns = FAULT_PARTITION_NS}};
    r = archiver_create(&o, &a, &why);
    if (r < 0)
        fail_msg("%s: %s: %s", where, err_text(r), why.message);
    archiver_settled(a, NUMBER, stats.last);
    archiver_destroy(a);
    journal_close(j);
    check_archive(where, stats.last, t);
    t->flips++;
}

static void read_image(const char *dir)
{
    (void)snprintf(segment, sizeof segment, "%s/%016llx.seg", dir, 1ULL);
    int fd = open(segment, O_RDONLY | O_CLOEXEC);
    struct stat st;
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    char *to = strbuf_room(&image, (size_t)st.st_size);
    assert_non_null(to);
    assert_int_equal(read(fd, to, (size_t)st.st_size), st.st_size);
    strbuf_advance(&image, (size_t)st.st_size);
    (void)close(fd);
}

static void test_flips(void **state)
{
    (void)state;
    char dir[FOLDER_PATH + 16];
    struct tally t = {0};
    source_make(&source, RECORDS, 17);
    folder_make(work);
    (void)snprintf(dir, sizeof dir, "%s/journal", work);
    uint64_t records = write_journal(dir);
    read_image(dir);
    size_t stride = is_whole ? 1 : image.n / (SHORT_FLIPS * (size_t)test_scale()) + 1;
    for (size_t at = 0; at < image.n; at += stride)
        flip(at, &t);
    print_message(
        "%llu flips of %zu bytes, %llu records: %llu cost rows that are named, %llu tore off the end\n",
        (unsigned long long)t.flips, image.n, (unsigned long long)records, (unsigned long long)t.named,
        (unsigned long long)t.torn);
    assert_true(t.named > t.flips / 2);
    strbuf_fini(&image);
    folder_remove(work);
    source_fini(&source);
}

static uint64_t lag_of(struct archiver *a)
{
    struct archived_state state = {0};
    archiver_state(a, &state);
    return state.lag;
}

/* Records behind the last batch that hold nothing for the archive: it is not behind by them. */
static void test_lag(void **state)
{
    (void)state;
    char dir[FOLDER_PATH + 16], archive_dir_[FOLDER_PATH + 16];
    struct journal *j;
    struct archiver *a;
    struct diag why = {0};
    uint64_t number;
    source_make(&source, 3, 17);
    folder_make(work);
    (void)snprintf(dir, sizeof dir, "%s/journal", work);
    (void)snprintf(archive_dir_, sizeof archive_dir_, "%s/archive", work);
    (void)write_journal(dir);
    assert_int_equal(journal_open(dir, &(struct journal_options){.flags = JOURNAL_OWN_SEGMENTS}, &j), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(journal_append(j, STORE_COUNTS, SLICE_LIT("counts"), &number), 0);
    assert_int_equal(journal_commit(j), 0);
    const struct archiver_options o = {.journal = dir,
                                       .archive = {.dir = archive_dir_, .partition_ns = FAULT_PARTITION_NS}};
    assert_int_equal(archiver_create(&o, &a, &why), 0);
    archiver_settled(a, NUMBER, number);
    const int64_t until_ns = clock_mono_ns() + LAG_S * NS_PER_S;
    while (lag_of(a) > 0) {
        if (clock_mono_ns() > until_ns)
            fail_msg("it says that it is %llu records behind", (unsigned long long)lag_of(a));
        (void)usleep(1000);
    }
    archiver_destroy(a);
    journal_close(j);
    folder_remove(work);
    source_fini(&source);
}

int main(int argc, char **argv)
{
    is_whole = argc > 1 && strcmp(argv[1], "all") == 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_flips), cmocka_unit_test(test_lag)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
