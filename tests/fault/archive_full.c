/* SPDX-License-Identifier: Apache-2.0 */
/* T6: the disk of an archive is full, as its system calls are told (disk_calls.h). The writer does what the
 * archiver does: it gives up the reserve, then the oldest partitions, which is said and counted; the newest
 * rows are there all the time, and nothing is missing that is not counted. When there is room again nothing
 * gives way any more, and the reserve is filled. */
#include "fault/archive_fault.h"
#include "fault/disk_calls.h"
#include "unit/test.h"

#include "archive/reserve.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORDS = 400, FULL_UNTIL = 340, FLUSH_EVERY = 10, ROOM = 900 << 10 };

struct full {
    char path[FOLDER_PATH];
    uint64_t room;    /* bytes, without the reserve */
    bool has_reserve; /* may it be filled? */
    uint64_t refused; /* calls */
    uint64_t gone, gone_rows;
};

static uint64_t bytes_used(const struct full *f)
{
    char dir[FOLDER_PATH + 16];
    struct stat st;
    uint64_t bytes = 0;
    (void)snprintf(dir, sizeof dir, "%s/archive", f->path);
    DIR *d = opendir(dir);
    const struct dirent *e;
    while (d && (e = readdir(d)))
        if (strcmp(e->d_name, "reserve") != 0 && fstatat(dirfd(d), e->d_name, &st, 0) == 0 &&
            S_ISREG(st.st_mode))
            bytes += (uint64_t)st.st_size;
    if (d)
        (void)closedir(d);
    return bytes;
}

/* What the call would add to a file. */
static uint64_t growth(const struct full *f, const struct disk_op *op)
{
    char path[FOLDER_PATH + 128];
    struct stat st = {.st_size = 0};
    (void)snprintf(path, sizeof path, "%s/%s", f->path, op->path);
    uint64_t end = op->call == CALL_WRITE ? op->offset + op->n : op->call == CALL_TRUNCATE ? op->offset : 0;
    uint64_t size = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    return end > size ? end - size : 0;
}

static int refuse(void *arg, const struct disk_op *op, size_t *n)
{
    struct full *f = arg;
    (void)n;
    bool is_reserve = strcmp(op->path, "archive/reserve") == 0;
    bool is_full = op->call == CALL_ALLOCATE && is_reserve && !f->has_reserve;
    if (!is_reserve && (op->call == CALL_WRITE || op->call == CALL_TRUNCATE)) {
        uint64_t more = growth(f, op);
        is_full = more && bytes_used(f) + more > f->room;
    }
    f->refused += is_full;
    return is_full ? -ENOSPC : 0;
}

static void note_gone(void *arg, const char *name, uint64_t rows, const char *what)
{
    struct full *f = arg;
    assert_true(*name && strcmp(what, "the disk is full") == 0);
    f->gone++;
    f->gone_rows += rows;
}

/* As the archiver: 0, or there is no room although everything has been given. */
static int flush(struct archive *a, struct upkeep *u)
{
    int r = archive_flush(a);
    while (r == -ENOSPC && upkeep_make_room(u))
        r = archive_flush(a);
    return r;
}

/* All of it but what is counted; and of the newest records everything. */
static void check(const struct source *s, struct archive *a, uint64_t last, bool is_restarted,
                  struct archive_counts *c)
{
    struct view_reader *reader;
    struct view *view;
    struct source_found f;
    struct diag why = {0};
    struct archive_counts now;
    archive_counts(a, &now);
    if (!is_restarted)
        *c = now;
    assert_int_equal(c->taken, c->kept + c->again + c->too_old + c->refused);
    assert_int_equal(view_reader_create(a, NULL, 1 << 20, &reader, &why), 0);
    assert_int_equal(view_take(reader, &view), 0);
    assert_int_equal(source_find(s, view, &f), 0);
    uint64_t missing = source_missing(s, &f, 1, last);
    if (f.wrong || f.twice || f.rows != c->kept - c->shed || missing != c->shed + c->too_old + c->refused)
        fail_msg("of %llu records: %llu rows, %llu missing, %llu wrong, %llu twice; kept %llu, shed %llu, "
                 "too old %llu, "
                 "refused %llu",
                 (unsigned long long)last, (unsigned long long)f.rows, (unsigned long long)missing,
                 (unsigned long long)f.wrong, (unsigned long long)f.twice, (unsigned long long)c->kept,
                 (unsigned long long)c->shed, (unsigned long long)c->too_old, (unsigned long long)c->refused);
    source_found_fini(&f);
    view_release(view);
    view_reader_destroy(reader);
}

static bool is_reserve_held(const struct full *f)
{
    char path[FOLDER_PATH + 32];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/archive/reserve", f->path);
    return stat(path, &st) == 0 && (uint64_t)st.st_size == RESERVE_BYTES;
}

static void test_full(void **state)
{
    (void)state;
    struct full f = {.room = ROOM, .has_reserve = true};
    struct source source;
    struct archive *a;
    struct upkeep *u;
    struct diag why = {0};
    struct archive_counts c, last_full;
    source_make(&source, RECORDS, 23);
    folder_make(f.path);
    disk_calls_watch(f.path, &(struct disk_watch){.before = refuse, .arg = &f});
    assert_int_equal(fault_open(f.path, &a, &why), 0);
    const struct upkeep_options o = {.keep = "*=3650d", .gone = note_gone, .arg = &f};
    assert_int_equal(upkeep_create(a, &o, &u, &why), 0);
    assert_true(is_reserve_held(&f));
    f.has_reserve = false; /* somebody else takes what it gives */
    struct source_place at = {.record = 1};
    for (uint64_t r = FLUSH_EVERY; r <= FULL_UNTIL; r += FLUSH_EVERY) {
        assert_int_equal(source_feed(&source, a, &at, r), 0);
        assert_int_equal(flush(a, u), 0);
        check(&source, a, r, false, &c);
    }
    last_full = c;
    assert_true(f.refused > 0 && f.gone > 0);
    assert_int_equal(f.gone_rows, c.shed);
    assert_false(is_reserve_held(&f));
    f.room = UINT64_MAX;
    f.has_reserve = true;
    assert_int_equal(source_feed(&source, a, &at, RECORDS), 0);
    assert_int_equal(flush(a, u), 0);
    check(&source, a, RECORDS, false, &c);
    assert_int_equal(c.shed, last_full.shed);
    for (int i = 0;
         i < 100 && upkeep_step(u, SOURCE_BEGIN + (int64_t)i * 60 * 1000000000) >= 0 && !is_reserve_held(&f);
         i++)
        ;
    assert_true(is_reserve_held(&f));
    upkeep_destroy(u);
    archive_close(a);
    disk_calls_watch(NULL, NULL);
    assert_int_equal(fault_open(f.path, &a, &why), 0);
    check(&source, a, RECORDS, true, &c);
    archive_close(a);
    print_message("%llu calls found no room: %llu partitions with %llu of %llu rows gave way, %llu rows came "
                  "too late\n",
                  (unsigned long long)f.refused, (unsigned long long)f.gone, (unsigned long long)f.gone_rows,
                  (unsigned long long)source.rows, (unsigned long long)c.too_old);
    folder_remove(f.path);
    source_fini(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_full)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
