/* SPDX-License-Identifier: Apache-2.0 */
/* Is the simulated power loss (powerloss.h) worth anything? A plain SQLite database with a write-ahead log
 * must survive it at every point with synchronous=FULL, must be broken or behind with synchronous=OFF, and
 * may lose its newest transactions, but nothing else, with synchronous=NORMAL: as SQLite's manual says of
 * each. And what is not synced at all is lost by the choice that keeps nothing. */
#include "fault/powerloss.h"
#include "fault/folder.h"
#include "unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <unistd.h>

enum { COMMITS = 24, ROWS = 7 };

static char root[FOLDER_PATH], lost[FOLDER_PATH]; /* where the workload is, and the state after the loss */

static int make_folders(void **state)
{
    (void)state;
    folder_make(root);
    folder_make(lost);
    return 0;
}

static int remove_folders(void **state)
{
    (void)state;
    folder_remove(root);
    folder_remove(lost);
    return 0;
}

static void run(sqlite3 *db, const char *sql)
{
    char *why = NULL;
    int r = sqlite3_exec(db, sql, NULL, NULL, &why);
    if (r != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
}

/* Transactions of ROWS rows; promised[i]: the point from which on the first i are promised. */
static struct powerloss *record(const char *synchronous, size_t promised[COMMITS + 1])
{
    char path[128], sql[200];
    sqlite3 *db;
    folder_empty(root);
    struct powerloss *p = powerloss_begin(root, NULL, NULL);
    (void)snprintf(path, sizeof path, "%s/x.db", root);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    (void)snprintf(sql, sizeof sql,
                   "PRAGMA page_size = 1024; PRAGMA journal_mode = WAL; PRAGMA synchronous = %s;"
                   "CREATE TABLE t (n INTEGER PRIMARY KEY, x BLOB)",
                   synchronous);
    run(db, sql);
    promised[0] = powerloss_points(p);
    for (int i = 0; i < COMMITS; i++) {
        run(db, "BEGIN");
        for (int k = 1; k <= ROWS; k++) {
            (void)snprintf(sql, sizeof sql, "INSERT INTO t VALUES (%d, zeroblob(%d))", i * ROWS + k,
                           (i * 37 + k * 101) % 700);
            run(db, sql);
        }
        run(db, "COMMIT");
        promised[i + 1] = powerloss_points(p);
        if (i % 5 == 4)
            run(db, "PRAGMA wal_checkpoint(PASSIVE)");
        if (i % 11 == 10)
            run(db, "PRAGMA wal_checkpoint(TRUNCATE)");
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    powerloss_end(p);
    if (powerloss_missed(p))
        fail_msg("%s was written by a call that is not watched", powerloss_missed(p));
    return p;
}

static int first_number(void *arg, int n, char **values, char **names)
{
    (void)names;
    *(long *)arg = n > 0 && values[0] ? strtol(values[0], NULL, 10) : -1;
    return 1;
}

static int is_ok(void *arg, int n, char **values, char **names)
{
    (void)names;
    *(bool *)arg = n == 1 && strcmp(values[0], "ok") == 0;
    return 1;
}

/* How many transactions are there, whole; -1: it is broken. */
static long transactions_found(void)
{
    char path[128];
    sqlite3 *db;
    bool ok = false;
    long rows = -1, last = -1, wrong = -1;
    (void)snprintf(path, sizeof path, "%s/x.db", lost);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    (void)sqlite3_exec(db, "PRAGMA integrity_check", is_ok, &ok, NULL);
    (void)sqlite3_exec(db, "SELECT count(*) FROM t", first_number, &rows, NULL);
    (void)sqlite3_exec(db, "SELECT ifnull(max(n), 0) FROM t", first_number, &last, NULL);
    (void)sqlite3_exec(
        db, "SELECT count(*) FROM t WHERE length(x) <> ((n - 1) / 7 * 37 + ((n - 1) % 7 + 1) * 101) % 700",
        first_number, &wrong, NULL);
    (void)sqlite3_close(db);
    if (ok && rows < 0)
        return 0; /* not even the table yet */
    return ok && rows == last && rows % ROWS == 0 && wrong == 0 ? rows / ROWS : -1;
}

struct tally {
    unsigned states, whole, behind, broken; /* whole: everything promised is there */
};

/* Every point behind the one at which the table was promised, every choice. */
static struct tally lose_power(const char *synchronous)
{
    size_t promised[COMMITS + 1];
    struct powerloss *p = record(synchronous, promised);
    struct tally t = {0};
    for (size_t point = promised[0]; point <= powerloss_points(p); point++) {
        long want = COMMITS;
        while (promised[want] > point)
            want--;
        for (unsigned k = 0; k < POWERLOSS_CHOICES + 4 * test_scale(); k++) {
            enum powerloss_choice choice = k < POWERLOSS_CHOICES ? k : POWERLOSS_PREFIX + k % 3;
            powerloss_make(p, point, choice, point * 1000 + k, lost);
            long found = transactions_found();
            t.states++;
            t.whole += found >= want;
            t.behind += found >= 0 && found < want;
            t.broken += found < 0;
            assert_true(found <= want + 1);
            if (choice == POWERLOSS_ALL && found < want)
                fail_msg("%s: even with every write kept, %ld of %ld at %s", synchronous, found, want,
                         powerloss_describe(p, point));
        }
    }
    print_message("synchronous=%s: %zu points, %u states: %u whole, %u behind, %u broken\n", synchronous,
                  powerloss_points(p), t.states, t.whole, t.behind, t.broken);
    powerloss_free(p);
    return t;
}

static void test_full_survives(void **state)
{
    (void)state;
    struct tally t = lose_power("FULL");
    assert_int_equal(t.whole, t.states);
}

static void test_normal_is_behind_but_whole(void **state)
{
    (void)state;
    struct tally t = lose_power("NORMAL");
    assert_int_equal(t.broken, 0);
    assert_true(t.behind > 0);
}

static void test_off_breaks(void **state)
{
    (void)state;
    struct tally t = lose_power("OFF");
    assert_true(t.broken > 0);
    assert_true(t.behind > 0);
}

static void write_at(int fd, char c, size_t n, off_t offset)
{
    char bytes[4096];
    memset(bytes, c, n);
    assert_int_equal(pwrite(fd, bytes, n, offset), (ssize_t)n);
}

static bool is_there(const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", lost, name);
    return access(path, F_OK) == 0;
}

/* Names and content are durable each by its own sync. */
static void test_names(void **state)
{
    (void)state;
    char path[128], other[128];
    folder_empty(root);
    int dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir >= 0);
    (void)close(dir);
    struct powerloss *p = powerloss_begin(root, NULL, NULL);
    (void)snprintf(path, sizeof path, "%s/a", root);
    (void)snprintf(other, sizeof other, "%s/b", root);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    write_at(fd, 'x', 2000, 0);
    assert_int_equal(fsync(fd), 0);
    size_t unnamed = powerloss_points(p);
    dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(fsync(dir), 0);
    size_t named = powerloss_points(p);
    assert_int_equal(rename(path, other), 0);
    size_t renamed = powerloss_points(p);
    assert_int_equal(fsync(dir), 0);
    assert_int_equal(unlinkat(dir, "b", 0), 0);
    (void)close(dir);
    (void)close(fd);
    powerloss_end(p);
    assert_null(powerloss_missed(p));
    powerloss_make(p, unnamed, POWERLOSS_NONE, 1, lost);
    assert_false(is_there("a"));
    powerloss_make(p, named, POWERLOSS_NONE, 1, lost);
    assert_true(is_there("a"));
    powerloss_make(p, renamed, POWERLOSS_NONE, 1, lost);
    assert_true(is_there("a") && !is_there("b"));
    powerloss_make(p, renamed, POWERLOSS_ALL, 1, lost);
    assert_true(is_there("b") && !is_there("a"));
    powerloss_make(p, powerloss_points(p), POWERLOSS_NONE, 1, lost);
    assert_true(is_there("b"));
    powerloss_make(p, powerloss_points(p), POWERLOSS_ALL, 1, lost);
    assert_false(is_there("b"));
    powerloss_free(p);
}

static int fail_second_sync(void *arg, const struct disk_op *op, size_t *n)
{
    (void)n;
    return op->call == CALL_SYNC && ++*(int *)arg == 2 ? -EIO : 0;
}

/* Sectors are old or new, each for itself; and what a failed sync left behind no later one saves. */
static void test_sectors(void **state)
{
    (void)state;
    char path[128];
    int syncs = 0;
    folder_empty(root);
    (void)snprintf(path, sizeof path, "%s/a", root);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    (void)close(fd);
    struct powerloss *p = powerloss_begin(root, fail_second_sync, &syncs);
    fd = open(path, O_RDWR | O_CLOEXEC);
    write_at(fd, 'x', 4096, 0);
    assert_int_equal(fdatasync(fd), 0);
    write_at(fd, 'y', 4096, 0);
    size_t torn = powerloss_points(p);
    assert_int_equal(fdatasync(fd), -1);
    assert_int_equal(errno, EIO);
    assert_int_equal(fdatasync(fd), 0);
    size_t forgotten = powerloss_points(p);
    (void)close(fd);
    powerloss_end(p);
    (void)snprintf(path, sizeof path, "%s/a", lost);
    unsigned mixed = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        char bytes[4096];
        unsigned new = 0;
        powerloss_make(p, torn, POWERLOSS_TORN, seed, lost);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_int_equal(pread(fd, bytes, sizeof bytes, 0), sizeof bytes);
        (void)close(fd);
        for (size_t s = 0; s < 8; s++) {
            new += bytes[s * 512] == 'y';
            for (size_t i = 1; i < 512; i++)
                assert_int_equal(bytes[s * 512 + i], bytes[s * 512]);
        }
        mixed += new > 0 && new < 8;
    }
    assert_true(mixed > 10);
    char first;
    powerloss_make(p, forgotten, POWERLOSS_ALL, 1, lost);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(pread(fd, &first, 1, 0), 1);
    (void)close(fd);
    assert_int_equal(first, 'x');
    powerloss_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),         cmocka_unit_test(test_sectors),
        cmocka_unit_test(test_full_survives), cmocka_unit_test(test_normal_is_behind_but_whole),
        cmocka_unit_test(test_off_breaks),
    };
    return cmocka_run_group_tests(tests, make_folders, remove_folders);
}
