/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "unit/archive/stored.h"

#include "archive/backup.h"
#include "archive/catalog.h"
#include "base/clock.h"

static const struct archive_source journal = {{1, 2, 3}};

struct copied {
    unsigned files, wrong;
    uint64_t bytes, progress;
    /* Commits again in the middle, between the catalogue and the partition. */
    struct partition *writer;
    struct catalog *catalog;
};

static void commit(struct partition *p, struct catalog *c, uint64_t seq, uint64_t record)
{
    (void)stored_put(p, seq, STORED_FROM + (int64_t)seq * NS_PER_S, record);
    assert_int_equal(partition_set_mark(p, &journal, record), 0);
    assert_int_equal(partition_commit(p), 0);
    catalog_note_partition(c, p);
    catalog_set_cursor(c, &journal, record);
    assert_int_equal(catalog_commit(c), 0);
}

static bool on_file(void *arg, const char *name, uint64_t bytes, const char *what)
{
    struct copied *x = arg;
    x->files++;
    x->wrong += *what != '\0';
    x->bytes += bytes;
    if (x->writer && strcmp(name, "catalog.db") == 0)
        commit(x->writer, x->catalog, 9, 2);
    return true;
}

static void on_progress(void *arg, uint64_t bytes)
{
    ((struct copied *)arg)->progress = bytes;
}

/* The catalogue's cursor is never past what the copy has, also if it is written meanwhile. */
static void while_it_is_written(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir(), to = stored_make_dir();
    struct diag why = {0};
    struct copied x = {0};
    assert_int_equal(catalog_open(d.path, true, &x.catalog, &why), 0);
    x.writer = stored_open(&d, PARTITION_WRITE | PARTITION_CREATE);
    const struct baseline b = {SLICE_LIT("quiet"), SLICE_LIT("a label"), 1, 2, SLICE_LIT("")};
    assert_int_equal(catalog_set_baseline(x.catalog, &b), 0);
    commit(x.writer, x.catalog, 1, 1);
    const struct backup_ops ops = {on_file, on_progress, &x};
    assert_int_equal(archive_backup(d.path, to.path, &ops, &why), 0);
    assert_int_equal(x.files, 3);
    assert_int_equal(x.wrong, 0);
    assert_int_equal(x.bytes, x.progress);
    partition_close(x.writer);
    catalog_close(x.catalog);

    struct catalog *c = NULL;
    assert_int_equal(catalog_open(to.path, true, &c, &why), 0);
    assert_int_equal(catalog_troubles(c), 0);
    assert_int_equal(catalog_cursor(c, &journal), 1);
    assert_int_equal(catalog_baselines(c), 1);
    struct partition *p = stored_open(&to, PARTITION_WRITE);
    struct stored_seen seen;
    assert_int_equal(stored_see(p, &seen), 0);
    assert_int_equal(seen.n, 32);
    assert_int_equal(partition_mark(p, &journal), 2); /* record 2 does not come again */
    commit(p, c, 17, 3);
    partition_close(p);
    catalog_close(c);
    stored_remove_dir(&d);
    stored_remove_dir(&to);
}

/* A file that SQLite can't read is copied as it is, and said; a folder that has something in it is not
 * touched. */
static void damaged_and_refused(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir(), to = stored_make_dir();
    struct diag why = {0};
    struct copied x = {0};
    static const char text[] =
        "not a database, but long enough to be taken for one that is none at all, isn't it";
    stored_save(&d, stored_name, slice_str(text));
    const struct backup_ops ops = {on_file, NULL, &x};
    assert_int_equal(archive_backup(d.path, to.path, &ops, &why), 0);
    assert_int_equal(x.files, 1);
    assert_int_equal(x.wrong, 1);
    struct strbuf copy = {0};
    stored_load(&to, stored_name, &copy);
    assert_slice(strbuf_slice(&copy), text);
    strbuf_fini(&copy);
    assert_int_equal(archive_backup(d.path, to.path, &ops, &why), -EEXIST);
    assert_non_null(strstr(why.message, "not empty"));
    assert_int_equal(archive_backup("/tmp/gridline-store-none", to.path, &ops, &why), -ENOENT);
    stored_remove_dir(&d);
    stored_remove_dir(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(while_it_is_written),
                                       cmocka_unit_test(damaged_and_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
