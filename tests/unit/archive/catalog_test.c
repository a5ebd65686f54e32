/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "unit/archive/stored.h"

#include "archive/catalog.h"

#include <sqlite3.h>
#include <sys/wait.h>

static const struct archive_source journal = {{1, 2, 3}}, file = {{9}};

static struct catalog *open_catalog(const struct stored_dir *d, bool is_writer)
{
    struct catalog *c = NULL;
    struct diag why = {0};
    int r = catalog_open(d->path, is_writer, &c, &why);
    if (r < 0)
        fail_msg("%s", why.message);
    return c;
}

static struct schema *make_schema(const char *name, const struct field *fields, size_t n)
{
    struct schema *s = NULL;
    assert_int_equal(schema_create(slice_str(name), fields, n, &s), 0);
    return s;
}

#define FIELD(n, t)                                                               \
    {                                                                             \
        .name = {n, sizeof(n) - 1}, .unit = {"", 0}, .help = {"", 0}, .type = (t) \
    }

static void tables(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct catalog *c = open_catalog(&d, true);
    assert_int_equal(catalog_troubles(c), 0);
    static const struct field first[] = {
        {.name = {"a", 1}, .unit = {"s", 1}, .help = {"help", 4}, .type = VALUE_INT, .kind = KIND_COUNTER},
        {.name = {"k", 1}, .unit = {"", 0}, .help = {"", 0}, .type = VALUE_TEXT, .role = ROLE_KEY}};
    static const struct field second[] = {FIELD("b", VALUE_INT), FIELD("a", VALUE_FLOAT),
                                          FIELD("a", VALUE_INT)};
    struct schema *s = make_schema("cpu", first, 2), *t = make_schema("cpu", second, 3);
    const struct table_def *one = NULL, *two = NULL, *three = NULL;
    uint16_t ids[3];
    assert_null(catalog_table(c, SLICE_LIT("cpu")));
    assert_int_equal(catalog_learn(c, s, &one, ids), 0);
    assert_int_equal(ids[0], 0);
    assert_int_equal(ids[1], 1);
    assert_int_equal(one->n_columns, 2);
    assert_int_equal(catalog_learn(c, t, &two, ids), 0);
    assert_int_equal(ids[0], 2);
    assert_int_equal(ids[1], 3);
    assert_int_equal(ids[2], 0);
    assert_int_equal(two->n_columns, 4);
    assert_int_equal(one->n_columns, 2); /* as it was */
    assert_slice(one->columns[1].name, "k");
    assert_int_equal(catalog_learn(c, s, &three, ids), 0);
    assert_ptr_equal(three, two);
    assert_ptr_equal(catalog_table(c, SLICE_LIT("cpu")), two);
    assert_int_equal(catalog_commit(c), 0);
    struct schema *lost = make_schema("lost", first, 1);
    assert_int_equal(catalog_learn(c, lost, &one, ids), 0); /* not committed */
    schema_unref(lost);
    catalog_close(c);
    c = open_catalog(&d, false);
    assert_int_equal(catalog_tables(c), 1);
    one = catalog_table_at(c, 0);
    assert_slice(one->name, "cpu");
    assert_int_equal(one->n_columns, 4);
    assert_slice(one->columns[0].unit, "s");
    assert_slice(one->columns[0].help, "help");
    assert_int_equal(one->columns[0].kind, KIND_COUNTER);
    assert_int_equal(one->columns[1].role, ROLE_KEY);
    assert_int_equal(one->columns[3].type, VALUE_FLOAT);
    catalog_close(c);
    schema_unref(s);
    schema_unref(t);
    stored_remove_dir(&d);
}

/* A table that grows by one column a thousand times: ids stay, and there is an end. */
static void many_columns(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct catalog *c = open_catalog(&d, true);
    const struct table_def *t = NULL;
    char name[16];
    uint16_t id;
    for (unsigned i = 0; i < ROWS_COLUMNS_MAX + 10; i++) {
        (void)snprintf(name, sizeof name, "f%u", i);
        struct field f = {.name = slice_str(name), .unit = {"", 0}, .help = {"", 0}, .type = VALUE_INT};
        struct schema *s = make_schema("wide", &f, 1);
        assert_int_equal(catalog_learn(c, s, &t, &id), 0);
        assert_int_equal(id, i < ROWS_COLUMNS_MAX ? i : UINT16_MAX);
        schema_unref(s);
    }
    assert_int_equal(t->n_columns, ROWS_COLUMNS_MAX);
    assert_slice(t->columns[1000].name, "f1000");
    assert_int_equal(catalog_commit(c), 0);
    catalog_close(c);
    c = open_catalog(&d, true);
    assert_int_equal(catalog_troubles(c), 0);
    t = catalog_table(c, SLICE_LIT("wide"));
    assert_int_equal(t->n_columns, ROWS_COLUMNS_MAX);
    assert_slice(t->columns[ROWS_COLUMNS_MAX - 1].name, "f4095");
    catalog_close(c);
    stored_remove_dir(&d);
}

static void cursors(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct catalog *c = open_catalog(&d, true);
    assert_int_equal(catalog_cursor(c, &journal), 0);
    catalog_set_cursor(c, &journal, 10);
    catalog_set_cursor(c, &file, 3);
    assert_int_equal(catalog_commit(c), 0);
    struct catalog *reader = open_catalog(&d, false);
    assert_int_equal(catalog_cursor(reader, &journal), 10);
    assert_int_equal(catalog_refresh(reader), 0);
    catalog_set_cursor(c, &journal, 11);
    assert_int_equal(catalog_refresh(reader), 0);
    assert_int_equal(catalog_commit(c), 0);
    assert_int_equal(catalog_refresh(reader), 1);
    assert_int_equal(catalog_cursor(reader, &journal), 11);
    assert_int_equal(catalog_cursor(reader, &file), 3);
    catalog_close(reader);
    catalog_close(c);
    stored_remove_dir(&d);
}

static void set_baseline(struct catalog *c, const char *name, int64_t from)
{
    const struct baseline b = {slice_str(name), SLICE_LIT("a label"), from, from + 5,
                               SLICE_LIT("host = 'a'")};
    assert_int_equal(catalog_set_baseline(c, &b), 0);
}

static void check_baselines(struct catalog *c)
{
    assert_int_equal(catalog_baselines(c), 2);
    struct baseline a = catalog_baseline_at(c, 0), b = catalog_baseline_at(c, 1);
    if (slice_eq_str(a.name, "quiet")) {
        struct baseline swap = a;
        a = b;
        b = swap;
    }
    assert_slice(a.name, "busy");
    assert_slice(a.label, "a label");
    assert_slice(a.where, "host = 'a'");
    assert_int_equal(a.from_ns, 30);
    assert_int_equal(a.to_ns, 35);
    assert_slice(b.name, "quiet");
    assert_slice(catalog_setting(c, SLICE_LIT("tiers")), "10s");
}

static void make_baselines(struct catalog *c)
{
    set_baseline(c, "busy", 10);
    set_baseline(c, "gone", 10);
    set_baseline(c, "quiet", 20);
    set_baseline(c, "busy", 30);
    assert_int_equal(catalog_remove_baseline(c, SLICE_LIT("gone")), 0);
    assert_int_equal(catalog_remove_baseline(c, SLICE_LIT("gone")), -ENOENT);
    assert_int_equal(catalog_set_setting(c, SLICE_LIT("tiers"), SLICE_LIT("10s")), 0);
    assert_int_equal(catalog_commit(c), 0);
}

static void baselines(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct catalog *c = open_catalog(&d, true);
    make_baselines(c);
    check_baselines(c);
    catalog_close(c);
    c = open_catalog(&d, true);
    check_baselines(c);
    set_baseline(c, "gone", 40);
    assert_int_equal(catalog_commit(c), 0);
    assert_int_equal(catalog_remove_baseline(c, SLICE_LIT("gone")), 0);
    assert_int_equal(catalog_commit(c), 0);
    catalog_close(c);
    c = open_catalog(&d, false);
    check_baselines(c);
    catalog_close(c);
    stored_remove_dir(&d);
}

/* One writer: another one, of this process or another, is told who has it. */
static void one_writer(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct catalog *c = open_catalog(&d, true), *second = NULL;
    struct diag why = {0};
    char pid[32];
    assert_int_equal(catalog_open(d.path, true, &second, &why), -EBUSY);
    (void)snprintf(pid, sizeof pid, "pid %d", (int)getpid());
    assert_non_null(strstr(why.message, pid));
    catalog_close(c);
    c = open_catalog(&d, true);
    catalog_close(c);
    assert_int_equal(catalog_open("/tmp/gridline-store-none", false, &c, &why), -ENOENT);
    stored_remove_dir(&d);
}

/* ---------------------------------------------------------------- made again */

static void fill_archive(const struct stored_dir *d, struct catalog *c)
{
    struct partition *p = stored_open(d, PARTITION_WRITE | PARTITION_CREATE);
    (void)stored_put(p, 1, STORED_FROM, 1);
    assert_int_equal(partition_set_mark(p, &journal, 10), 0);
    assert_int_equal(partition_set_floor(p, &journal, 0), 0);
    assert_int_equal(partition_commit(p), 0);
    (void)stored_put(p, 9, STORED_FROM, 2);
    assert_int_equal(partition_set_mark(p, &journal, 20), 0);
    assert_int_equal(partition_set_floor(p, &journal, 10), 0);
    assert_int_equal(partition_commit(p), 0);
    catalog_note_partition(c, p);
    partition_close(p);
    catalog_set_cursor(c, &journal, 20);
    const struct table_def *t;
    uint16_t ids[2];
    struct schema *s = make_schema("cpu", stored_fields, 2), *disk = make_schema("disk", stored_fields, 2);
    assert_int_equal(catalog_learn(c, s, &t, ids), 0);
    assert_int_equal(catalog_learn(c, disk, &t, ids), 0);
    schema_unref(s);
    schema_unref(disk);
    make_baselines(c);
}

static void check_again(struct catalog *c, uint64_t cursor)
{
    assert_int_equal(catalog_tables(c), 2);
    const struct table_def *t = catalog_table(c, SLICE_LIT("disk"));
    assert_non_null(t);
    assert_int_equal(t->n_columns, 2);
    assert_slice(t->columns[0].name, "a");
    assert_slice(t->columns[0].unit, "s");
    assert_slice(t->columns[0].help, "a number");
    assert_int_equal(catalog_cursor(c, &journal), cursor);
    check_baselines(c);
}

static void remove_catalog(const struct stored_dir *d)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[256];
    for (unsigned i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/catalog.db%s", d->path, ends[i]);
        (void)unlink(path);
    }
}

static void gone(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct catalog *c = open_catalog(&d, true);
    fill_archive(&d, c);
    catalog_close(c);
    remove_catalog(&d);
    c = open_catalog(&d, false); /* in memory */
    check_again(c, 10);
    assert_int_equal(catalog_refresh(c), 0);
    catalog_close(c);
    c = open_catalog(&d, true);
    check_again(c, 10);
    catalog_close(c);
    c = open_catalog(&d, false);
    check_again(c, 10);
    catalog_close(c);
    struct diag why;
    assert_int_equal(catalog_rebuild(d.path, &why), 0);
    c = open_catalog(&d, false);
    check_again(c, 10);
    catalog_close(c);
    stored_remove_dir(&d);
}

/* Each byte of the catalogue's file is changed, one after the other: it is as before, or made again, and the
 * writer says so; never anything else. */
static void every_byte(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct catalog *c = open_catalog(&d, true);
    fill_archive(&d, c);
    catalog_close(c);
    struct strbuf good = {0};
    stored_load(&d, "catalog.db", &good);
    uint64_t seed = 1;
    unsigned again = 0;
    for (size_t i = 0; i < good.n; i++) {
        if (good.p[i] == 0 && test_random(&seed) % 32)
            continue; /* mostly unused space */
        char was = good.p[i];
        good.p[i] = (char)(was ^ (1 << test_random(&seed) % 8));
        remove_catalog(&d);
        stored_save(&d, "catalog.db", strbuf_slice(&good));
        good.p[i] = was;
        c = open_catalog(&d, false);
        uint64_t cursor = catalog_cursor(c, &journal);
        assert_true(cursor == 10 || cursor == 20);
        check_again(c, cursor);
        catalog_close(c);
        if (cursor == 20 && test_random(&seed) % 16 >= test_scale())
            continue; /* syncs take their time */
        if (cursor == 10 && test_random(&seed) % 8 >= test_scale())
            continue;
        c = open_catalog(&d, true);
        cursor = catalog_cursor(c, &journal);
        assert_true(cursor == 10 || cursor == 20);
        check_again(c, cursor);
        again += catalog_troubles(c) > 0;
        assert_true(cursor == 20 || catalog_troubles(c) > 0);
        catalog_close(c);
        char path[256];
        (void)snprintf(path, sizeof path, "%s/catalog.db.damaged-1", d.path);
        (void)unlink(path);
        (void)snprintf(path, sizeof path, "%s/catalog.db.damaged-1-wal", d.path);
        (void)unlink(path);
        (void)snprintf(path, sizeof path, "%s/catalog.db.damaged-1-shm", d.path);
        (void)unlink(path);
    }
    assert_true(again > 30);
    strbuf_fini(&good);
    stored_remove_dir(&d);
}

/* ---------------------------------------------------------------- partitions that have lost something */

/* Damage of a write-ahead log ends it there, and SQLite says nothing: the catalogue knows what was committed.
 * What is behind a flip is taken if all of it is good; else the source is read again from the mark that is
 * left. */
static void lost_commits(bool is_flip)
{
    struct stored_dir d = stored_make_dir();
    struct catalog *c = open_catalog(&d, true);
    struct partition *p = stored_open(&d, PARTITION_WRITE | PARTITION_CREATE);
    (void)stored_put(p, 1, STORED_FROM, 1);
    assert_int_equal(partition_set_mark(p, &journal, 10), 0);
    assert_int_equal(partition_commit(p), 0);
    struct strbuf old = {0}, main_file = {0}, wal = {0};
    stored_load(&d, "20261115T000000Z.db-wal", &old);
    (void)stored_put(p, 9, STORED_FROM, 2);
    assert_int_equal(partition_set_mark(p, &journal, 20), 0);
    assert_int_equal(partition_set_mark(p, &file, 5), 0);
    assert_int_equal(partition_commit(p), 0);
    catalog_note_partition(c, p);
    catalog_set_cursor(c, &journal, 20);
    catalog_set_cursor(c, &file, 7);
    assert_int_equal(catalog_commit(c), 0);
    /* What a crash leaves: the files as they are now. */
    stored_load(&d, stored_name, &main_file);
    stored_load(&d, "20261115T000000Z.db-wal", &wal);
    partition_close(p);
    catalog_close(c);
    if (is_flip)
        wal.p[old.n + 16] ^= 1; /* a sum of the first page of the second commit */
    else
        memset(wal.p + old.n + 24, 0, 8192);
    stored_save(&d, stored_name, strbuf_slice(&main_file));
    stored_save(&d, "20261115T000000Z.db-wal", strbuf_slice(&wal));
    c = open_catalog(&d, true);
    assert_true(catalog_troubles(c) >= 1);
    assert_int_equal(catalog_cursor(c, &journal), is_flip ? 20 : 10);
    assert_int_equal(catalog_cursor(c, &file), is_flip ? 7 : 0);
    catalog_close(c);
    c = open_catalog(&d, true); /* once is enough */
    assert_int_equal(catalog_troubles(c), 0);
    assert_int_equal(catalog_cursor(c, &journal), is_flip ? 20 : 10);
    catalog_close(c);
    p = stored_open(&d, 0);
    struct stored_seen seen;
    assert_int_equal(stored_see(p, &seen), 0);
    assert_int_equal(seen.n, is_flip ? 32 : 16);
    partition_close(p);
    strbuf_fini(&old);
    strbuf_fini(&main_file);
    strbuf_fini(&wal);
    stored_remove_dir(&d);
}

static void lost_commits_are_found(void **state)
{
    (void)state;
    lost_commits(true);
}

static void lost_commits_are_read_again(void **state)
{
    (void)state;
    lost_commits(false);
}

static int count_names(void *arg, const char *name, int64_t from_ns, int64_t step_ns)
{
    static const char *const want[] = {"20261114T000000Z.db", "20261115T000000Z.db",
                                       "20261115T000000Z-60s.db"};
    unsigned *n = arg;
    (void)from_ns;
    (void)step_ns;
    assert_string_equal(name, want[(*n)++]);
    return 0;
}

static void partitions(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    unsigned n = 0;
    static const char *const files[] = {
        "20261115T000000Z-60s.db", "20261115T000000Z.db",     "x.db",
        "20261114T000000Z.db",     "20261115T000000Z.db-wal", "20261115T000000Z.db.damaged"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        stored_save(&d, files[i], slice_of("", 0));
    assert_int_equal(catalog_partitions(d.path, count_names, &n), 0);
    assert_int_equal(n, 3);
    stored_remove_dir(&d);
    d = stored_make_dir();
    struct catalog *c = open_catalog(&d, true);
    fill_archive(&d, c);
    catalog_close(c);
    assert_int_equal(partition_unlink(d.path, stored_name), 0);
    c = open_catalog(&d, true);
    assert_int_equal(catalog_troubles(c), 1);
    assert_string_equal(catalog_trouble_at(c, 0), "20261115T000000Z.db is gone");
    fill_archive(&d, c);
    catalog_forget_partition(c, stored_name);
    assert_int_equal(catalog_commit(c), 0);
    catalog_close(c);
    assert_int_equal(partition_unlink(d.path, stored_name), 0);
    c = open_catalog(&d, true);
    assert_int_equal(catalog_troubles(c), 0);
    catalog_close(c);
    stored_remove_dir(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables),
        cmocka_unit_test(many_columns),
        cmocka_unit_test(cursors),
        cmocka_unit_test(baselines),
        cmocka_unit_test(one_writer),
        cmocka_unit_test(gone),
        cmocka_unit_test(every_byte),
        cmocka_unit_test(lost_commits_are_found),
        cmocka_unit_test(lost_commits_are_read_again),
        cmocka_unit_test(partitions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
