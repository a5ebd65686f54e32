/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "unit/archive/stored.h"

#include "archive/db.h"
#include "archive/partition.h"
#include "base/clock.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>

static const struct archive_source journal = {{1, 2, 3}}, file = {{9}};

static void names(void **state)
{
    (void)state;
    char name[PARTITION_NAME_MAX];
    int64_t from, step;
    partition_name(&stored_span, name, sizeof name);
    assert_string_equal(name, stored_name);
    assert_true(partition_parse_name(name, &from, &step));
    assert_int_equal(from, STORED_FROM);
    assert_int_equal(step, 0);
    partition_name(&(struct partition_span){STORED_FROM, STORED_FROM + STORED_DAY, 60 * NS_PER_S}, name,
                   sizeof name);
    assert_string_equal(name, "20261115T000000Z-60s.db");
    assert_true(partition_parse_name(name, &from, &step));
    assert_int_equal(step, 60 * NS_PER_S);
    static const char *const bad[] = {"catalog.db",
                                      "20261115T000000Z.db-wal",
                                      "20261115T000000Z.db.damaged",
                                      "",
                                      "20261315T000000Z.db",
                                      "20261115T000000Z-s.db",
                                      "20261115T000000Z-0s.db",
                                      "20261115T000000Z-60.db",
                                      "20261115t000000Z.db",
                                      "20261115T000000Z"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(partition_parse_name(bad[i], &from, &step));
}

/* What is committed is there when the file is opened again, for the writer and for a reader; what is not, is
 * not. */
static void commits(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct partition *p = stored_open(&d, PARTITION_WRITE | PARTITION_CREATE);
    assert_int_equal(partition_span(p)->to_ns, STORED_FROM + STORED_DAY);
    assert_int_equal(stored_put(p, 1, STORED_FROM, 5), 1);
    assert_int_equal(stored_put(p, 9, STORED_FROM + 100 * NS_PER_S, 5), 2);
    assert_int_equal(partition_set_mark(p, &journal, 77), 0);
    assert_int_equal(partition_mark(p, &journal), 0);
    assert_int_equal(partition_commit(p), 0);
    assert_int_equal(partition_mark(p, &journal), 77);
    assert_int_equal(partition_gen(p), 5);

    struct partition *reader = stored_open(&d, 0);
    struct stored_seen seen;
    assert_int_equal(stored_see(reader, &seen), 0);
    assert_int_equal(seen.n, 32);
    assert_int_equal(partition_mark(reader, &journal), 77);

    assert_int_equal(stored_put(p, 17, STORED_FROM, 6), 3);
    assert_int_equal(partition_set_mark(p, &file, 3), 0);
    partition_rollback(p);
    assert_int_equal(partition_mark(p, &file), 0);
    assert_int_equal(stored_see(reader, &seen), 0);
    assert_int_equal(seen.n, 32);
    assert_int_equal(stored_put(p, 17, STORED_FROM, 6), 3); /* the number was not taken */
    assert_int_equal(partition_set_mark(p, &file, 4), 0);
    assert_int_equal(partition_set_mark(p, &journal, 60), 0); /* never back */
    assert_int_equal(partition_commit(p), 0);
    assert_int_equal(stored_see(reader, &seen), 0);
    assert_int_equal(seen.n, 48);
    assert_int_equal(partition_gen(reader), 6);
    assert_int_equal(partition_mark(reader, &file), 4);
    (void)stored_put(p, 25, STORED_FROM, 7);
    partition_close(p); /* forgets it */
    p = stored_open(&d, PARTITION_WRITE);
    assert_int_equal(partition_mark(p, &journal), 77);
    assert_int_equal(stored_see(p, &seen), 0);
    assert_int_equal(seen.n, 48);
    partition_close(p);
    partition_close(reader);
    assert_int_equal(partition_unlink(d.path, stored_name), 0);
    assert_int_equal(partition_open(d.path, stored_name, 0, NULL, &p, NULL), -ENOENT);
    stored_remove_dir(&d);
}

struct found {
    uint64_t blobs[128];
    size_t n;
    size_t max;
};

static bool find(void *arg, const struct partition_section *s)
{
    struct found *f = arg;
    assert_int_equal(s->s.rows, STORED_ROWS);
    assert_int_equal(s->s.streams, 1);
    f->blobs[f->n++] = s->blob;
    return f->n < f->max;
}

static size_t count(struct partition *p, const char *name, int64_t from, int64_t to)
{
    struct found f = {.max = 128};
    assert_int_equal(partition_sections(p, slice_str(name), from, to, find, &f), 0);
    for (size_t i = 1; i < f.n; i++)
        assert_true(f.blobs[i] >= f.blobs[i - 1]);
    return f.n;
}

static void sections(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct partition *p = stored_open(&d, PARTITION_WRITE | PARTITION_CREATE);
    int64_t last = (STORED_ROWS - 1) * NS_PER_S;
    for (unsigned i = 0; i < 4; i++) /* late ones, too */
        (void)stored_put(p, 1 + i * STORED_ROWS, STORED_FROM + (3 - i) * 1000 * NS_PER_S, i + 1);
    assert_int_equal(count(p, "cpu", INT64_MIN, INT64_MAX), 0); /* not committed */
    assert_int_equal(partition_commit(p), 0);
    assert_int_equal(count(p, "cpu", INT64_MIN, INT64_MAX), 4);
    assert_int_equal(count(p, "", INT64_MIN, INT64_MAX), 8);
    assert_int_equal(count(p, "no", INT64_MIN, INT64_MAX), 0);
    assert_int_equal(count(p, "disk", STORED_FROM, STORED_FROM), 1);
    assert_int_equal(count(p, "disk", STORED_FROM + last, STORED_FROM + 1000 * NS_PER_S), 2);
    assert_int_equal(count(p, "disk", STORED_FROM + last + 1, STORED_FROM + 1000 * NS_PER_S - 1), 0);
    assert_int_equal(count(p, "disk", STORED_FROM + 2 * NS_PER_S, STORED_FROM + 2 * NS_PER_S), 1);
    struct found one = {.max = 1};
    assert_int_equal(partition_sections(p, SLICE_LIT("cpu"), INT64_MIN, INT64_MAX, find, &one), 0);
    assert_int_equal(one.n, 1);
    partition_close(p);
    stored_remove_dir(&d);
}

static bool count_one(void *arg, const struct partition_section *section)
{
    (void)section;
    (*(size_t *)arg)++;
    return true;
}

static size_t count_all(struct partition *p)
{
    size_t n = 0;
    assert_int_equal(partition_sections(p, SLICE_LIT("cpu"), INT64_MIN, INT64_MAX, count_one, &n), 0);
    return n;
}

static int64_t log_size(const struct stored_dir *d)
{
    char path[512];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/%s-wal", d->path, stored_name);
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

/* The log of a partition that is open all day, with readers, gets no larger than that and a commit. */
static void log_is_bounded(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct partition *p = stored_open(&d, PARTITION_WRITE | PARTITION_CREATE);
    struct partition *reader = stored_open(&d, 0);
    struct blob_writer *w = blob_writer_create(&(struct blob_options){.zstd_level = 0});
    struct blob_bytes blob;
    int64_t written = 0, before = 0, step = 0;
    size_t n = 0;
    uint64_t id;
    assert_non_null(w);
    stored_blob(w, 1, STORED_FROM, &blob);
    for (unsigned commits = 0; written < 3 * (int64_t)PARTITION_LOG_MAX; commits++) {
        assert_true(commits < 1000);
        for (unsigned i = 0; i < 500; i++, n++)
            assert_int_equal(partition_put(p, &blob, commits + 1, &id), 0);
        assert_int_equal(partition_commit(p), 0);
        int64_t size = log_size(&d);
        step = size > before ? size - before : step;
        written += step;
        before = size;
        assert_true(size <= PARTITION_LOG_MAX + step);
    }
    assert_int_equal(count_all(reader), n);
    blob_writer_destroy(w);
    partition_close(reader);
    partition_close(p);
    stored_remove_dir(&d);
}

/* A reader in the middle of reading sees neither what is merged nor what is taken out meanwhile. */
static void merges(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct partition *p = stored_open(&d, PARTITION_WRITE | PARTITION_CREATE);
    struct stored_seen seen;
    for (unsigned i = 0; i < 5; i++)
        (void)stored_put(p, 1 + i * STORED_ROWS, STORED_FROM, i + 1);
    assert_int_equal(partition_commit(p), 0);
    struct partition *reader = stored_open(&d, 0);
    assert_int_equal(partition_begin_read(reader), 0);
    assert_int_equal(partition_begin_read(reader), -EBUSY);

    assert_int_equal(partition_remove(p, 2), 0);
    assert_int_equal(partition_remove(p, 4), 0);
    assert_int_equal(partition_remove(p, 3), 0);
    assert_int_equal(stored_put(p, 100, STORED_FROM, 9), 6);
    partition_rollback(p);
    assert_int_equal(stored_see(p, &seen), 0);
    assert_int_equal(seen.n, 80);
    assert_int_equal(partition_remove(p, 2), 0);
    assert_int_equal(partition_remove(p, 4), 0);
    assert_int_equal(partition_remove(p, 3), 0);
    assert_int_equal(stored_put(p, 100, STORED_FROM, 9), 6);
    assert_int_equal(partition_commit(p), 0);
    assert_int_equal(partition_checkpoint(p), -EBUSY); /* the reader needs it */
    assert_int_equal(count(reader, "cpu", INT64_MIN, INT64_MAX), 5);
    struct strbuf bytes = {0};
    assert_int_equal(partition_directory(reader, 3, &bytes), 0);
    assert_int_equal(partition_body(reader, 3, &bytes), 0);
    assert_int_equal(partition_directory(p, 3, &bytes), -ENOENT);
    assert_int_equal(partition_body(p, 3, &bytes), -ENOENT);
    strbuf_fini(&bytes);
    partition_end_read(reader);
    assert_int_equal(stored_see(reader, &seen), 0);
    assert_int_equal(seen.n, 48);
    assert_true(seen.cpu[100] && seen.cpu[1] && seen.cpu[33] && !seen.cpu[9]);
    assert_int_equal(partition_missing(reader), 0);
    assert_int_equal(partition_checkpoint(p), 0);
    partition_close(reader);
    partition_close(p);
    p = stored_open(&d, 0);
    assert_int_equal(stored_see(p, &seen), 0);
    assert_int_equal(seen.n, 48);
    assert_int_equal(partition_missing(p), 0);
    partition_close(p);
    stored_remove_dir(&d);
}

/* ---------------------------------------------------------------- writes that fail */

/* A limit of file sizes makes writes fail as a bad disk does: a commit that fails has changed nothing, and
 * after it the partition works again. (Full disks are in tests/fault.) */
static void failing(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct partition *p = stored_open(&d, PARTITION_WRITE | PARTITION_CREATE);
    (void)stored_put(p, 1, STORED_FROM, 1);
    assert_int_equal(partition_set_mark(p, &journal, 1), 0);
    assert_int_equal(partition_commit(p), 0);
    struct rlimit was, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = was;
    small.rlim_cur = 200 << 10;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int r = 0;
    unsigned n = 0;
    for (; r == 0 && n < 100; n += r == 0) {
        struct blob_writer *w = blob_writer_create(&(struct blob_options){.zstd_level = 0});
        struct blob_bytes b;
        uint64_t id = 0;
        stored_blob(w, 9, STORED_FROM, &b);
        r = partition_put(p, &b, 2, &id);
        blob_writer_destroy(w);
        if (r == 0)
            r = partition_set_mark(p, &journal, 2 + n);
        r = r == 0 ? partition_commit(p) : r;
    }
    assert_int_equal(r, -EIO);
    assert_in_range(n, 2, 99);
    partition_rollback(p);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(partition_mark(p, &journal), 1 + n);
    assert_int_equal(count(p, "cpu", INT64_MIN, INT64_MAX), 1 + n);
    (void)stored_put(p, 17, STORED_FROM, 3);
    assert_int_equal(partition_set_mark(p, &journal, 200), 0);
    assert_int_equal(partition_commit(p), 0);
    assert_int_equal(partition_mark(p, &journal), 200);
    partition_close(p);
    p = stored_open(&d, PARTITION_WRITE);
    assert_int_equal(partition_mark(p, &journal), 200);
    assert_int_equal(count(p, "cpu", INT64_MIN, INT64_MAX), 2 + n);
    partition_close(p);
    stored_remove_dir(&d);
}

/* ---------------------------------------------------------------- damage */

struct damages {
    unsigned n;
    char last[200];
};

static void on_damage(void *arg, const struct partition_damage *d)
{
    struct damages *x = arg;
    x->n++;
    (void)snprintf(x->last, sizeof x->last, "%s", d->what);
}

/* Changes what SQL says to change, behind the partition's back. */
static void tamper(const struct stored_dir *d, const char *sql)
{
    char path[256];
    sqlite3 *db;
    (void)snprintf(path, sizeof path, "%s/%s", d->path, stored_name);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* Rows that are changed or taken away are noticed; what can be had otherwise is. */
static void damaged_rows(void **state)
{
    (void)state;
    static const struct {
        const char *sql;
        unsigned rows, missing;
        uint64_t mark;
        unsigned n; /* reports, at least */
    } cases[] = {
        {"UPDATE section SET sections = x'00' WHERE blob = 2", 48, 0, 7, 1},
        {"UPDATE section SET blob = 77 WHERE blob = 2", 48, 0, 7, 1},
        {"UPDATE section SET gen = 1000 WHERE blob = 2", 48, 0, 7, 1},
        {"DELETE FROM section", 48, 0, 7, 3},
        {"DELETE FROM section WHERE blob = 3", 48, 0, 7, 1},
        {"UPDATE blob SET gen = 1000 WHERE id = 1", 32, 0, 7, 1},
        {"UPDATE blob SET directory = zeroblob(length(directory)) WHERE id = 1", 32, 0, 7, 1},
        {"UPDATE blob SET directory_crc = 1 WHERE id = 1", 32, 0, 7, 1},
        {"UPDATE blob SET body = substr(body, 2) WHERE id = 1", 32, 0, 7, 1},
        {"UPDATE blob SET body_crc = 5 WHERE id = 1", 32, 0, 7, 1},
        {"UPDATE blob SET directory = (SELECT directory FROM blob WHERE id = 2) WHERE id = 1", 32, 0, 7, 1},
        {"DELETE FROM blob WHERE id = 2", 32, 0, 7, 0},
        {"DELETE FROM blob WHERE id = 2; DELETE FROM section WHERE blob = 2", 32, 1, 7, 1},
        {"UPDATE meta SET value = zeroblob(length(value))", 48, 0, 7, 2},
        {"DELETE FROM meta", 48, 0, 7, 2},
        {"DELETE FROM meta_copy", 48, 0, 7, 0},
        {"UPDATE meta SET crc = crc + 1 WHERE id = 16", 48, 0, 7, 1},
        {"UPDATE meta SET id = 17 WHERE id = 16", 48, 0, 7, 1},
        {"DELETE FROM meta WHERE id = 16; DELETE FROM meta_copy WHERE id = 16", 48, 0, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct stored_dir d = stored_make_dir();
        struct partition *p = stored_open(&d, PARTITION_WRITE | PARTITION_CREATE);
        for (unsigned k = 0; k < 3; k++)
            (void)stored_put(p, 1 + k * STORED_ROWS, STORED_FROM, k + 1);
        assert_int_equal(partition_set_mark(p, &journal, 7), 0);
        assert_int_equal(partition_commit(p), 0);
        partition_close(p);
        tamper(&d, cases[i].sql);
        struct damages seen_damages = {0};
        struct stored_seen seen;
        p = stored_open(&d, 0);
        partition_on_damage(p, on_damage, &seen_damages);
        assert_int_equal(stored_see(p, &seen), 0);
        uint64_t mark = partition_mark(p, &journal);
        if (seen.n != cases[i].rows || partition_missing(p) != cases[i].missing || mark != cases[i].mark ||
            seen_damages.n < cases[i].n)
            fail_msg("%s: %u rows, %llu missing, mark %llu, %u reports (%s)", cases[i].sql, seen.n,
                     (unsigned long long)partition_missing(p), (unsigned long long)mark, seen_damages.n,
                     seen_damages.last);
        partition_close(p);
        stored_remove_dir(&d);
    }
}

/* A file that can be opened, but whose structure is wrong, is not written to. */
static void broken_is_not_written(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct partition *p = stored_open(&d, PARTITION_WRITE | PARTITION_CREATE);
    for (unsigned k = 0; k < 20; k++)
        (void)stored_put(p, 1 + k * STORED_ROWS, STORED_FROM, k + 1);
    assert_int_equal(partition_commit(p), 0);
    partition_close(p);
    struct strbuf bytes = {0};
    stored_load(&d, stored_name, &bytes);
    bytes.p[35] = 2; /* the list of free pages begins at page 2, which is in use */
    bytes.p[39] = 1;
    stored_save(&d, stored_name, strbuf_slice(&bytes));
    p = stored_open(&d, PARTITION_WRITE);
    struct blob_writer *w = blob_writer_create(&(struct blob_options){.zstd_level = 0});
    struct blob_bytes b;
    uint64_t id = 0;
    stored_blob(w, 9, STORED_FROM, &b);
    assert_int_equal(partition_put(p, &b, 2, &id), E_DAMAGE);
    blob_writer_destroy(w);
    struct stored_seen seen;
    assert_int_equal(stored_see(p, &seen), 0);
    assert_int_equal(seen.n, 320);
    partition_close(p);
    strbuf_fini(&bytes);
    stored_remove_dir(&d);
}

/* What a later version has written is not touched. */
static void later_version(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct partition *p = stored_open(&d, PARTITION_WRITE | PARTITION_CREATE);
    partition_close(p);
    /* The checksums of a state that says version 3, all other bytes being 0. */
    char sql[512];
    unsigned char value[68] = {3};
    uint64_t id = 1;
    uint32_t crc = 0;
    crc = db_row_crc(&id, 1, slice_of((const char *)value, sizeof value));
    (void)snprintf(sql, sizeof sql,
                   "UPDATE meta SET value = x'03' || zeroblob(67), crc = %u; UPDATE meta_copy SET crc = 0",
                   crc);
    tamper(&d, sql);
    struct diag why = {0};
    assert_int_equal(partition_open(d.path, stored_name, PARTITION_WRITE, NULL, &p, &why), E_VERSION);
    stored_remove_dir(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(commits),
        cmocka_unit_test(log_is_bounded),
        cmocka_unit_test(sections),
        cmocka_unit_test(merges),
        cmocka_unit_test(failing),
        cmocka_unit_test(damaged_rows),
        cmocka_unit_test(broken_is_not_written),
        cmocka_unit_test(later_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
