/* SPDX-License-Identifier: Apache-2.0 */
/* The index of the journal's events: what is entered is read again, over a restart, and never with a hole. */
#include "unit/test.h"

#include "cmd/refill_index.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/gridline-refill-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    struct dirent **names = NULL;
    int n = scandir(dir, &names, NULL, NULL);
    for (int i = 0; i < n; i++) {
        char path[sizeof dir + sizeof names[i]->d_name];
        (void)snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
        (void)unlink(path); /* not . and .. */
        free(names[i]);
    }
    free(names);
    return rmdir(dir);
}

static struct refill_index *start(uint64_t journal, uint64_t record)
{
    struct refill_index *x = refill_index_create(dir);
    assert_non_null(x);
    refill_index_keep(x, 0);
    refill_index_start(x, journal, record);
    return x;
}

static void add(struct refill_index *x, uint64_t record, uint32_t part, uint64_t seq)
{
    const struct event events[] = {{.time_ns = 50}, {.time_ns = 20}, {.time_ns = 30}};
    struct batch b = {.origin = {.producer = {1}, .epoch = 2, .first_seq = seq}, .events = events, .n = 3};
    const struct journal_batch item = {
        .kind = JOURNAL_BATCH, .first = record, .last = record, .part = part, .batch = &b};
    refill_index_add(x, &item);
}

static int count(struct refill_index *x, uint64_t from, uint64_t last, uint64_t *covered)
{
    static struct refill_entry entries[64];
    return refill_index_read(x, from, 0, last, covered, entries, 64);
}

static void test_read(void **state)
{
    (void)state;
    struct refill_index *x = start(9, 4);
    struct refill_entry e[4];
    uint64_t covered;
    assert_int_equal(count(x, 1, 100, &covered), 0);
    assert_true(covered == UINT64_MAX);
    add(x, 6, 0, 1);
    add(x, 6, 1, 4);
    add(x, 9, 0, 7);
    assert_int_equal(refill_index_write(x), 0);
    assert_int_equal(refill_index_read(x, 1, 0, 100, &covered, e, 4), 3);
    assert_int_equal(covered, 6);
    assert_true(e[1].record == 6 && e[1].part == 1 && e[1].count == 3 && e[1].first_seq == 4);
    assert_true(e[1].min_ns == 20 && e[1].max_ns == 50 && e[1].epoch == 2 && e[1].producer[0] == 1);
    assert_int_equal(refill_index_read(x, 6, 1, 8, &covered, e, 4), 1);
    assert_int_equal(refill_index_read(x, 7, 0, 8, &covered, e, 4), 0);
    refill_index_destroy(x);
    /* The archive has up to 6: what is behind comes again. */
    x = start(9, 6);
    assert_int_equal(count(x, 1, 100, &covered), 2);
    add(x, 9, 0, 7);
    assert_int_equal(refill_index_write(x), 0);
    assert_int_equal(count(x, 1, 100, &covered), 3);
    assert_int_equal(covered, 6);
    refill_index_destroy(x);
    /* It has more than the index, or it is another journal: from anew. */
    x = start(9, 11);
    assert_int_equal(count(x, 1, 100, &covered), 0);
    add(x, 12, 0, 1);
    refill_index_destroy(x);
    x = start(9, 12); /* was not written before the end */
    assert_int_equal(count(x, 1, 100, &covered), 0);
    add(x, 13, 0, 1);
    assert_int_equal(refill_index_write(x), 0);
    refill_index_destroy(x);
    x = start(10, 13);
    assert_int_equal(count(x, 1, 100, &covered), 0);
    refill_index_destroy(x);
}

/* Files end, old ones go as they are passed, and all of them when nobody wants any. */
static void test_files(void **state)
{
    (void)state;
    struct refill_index *x = start(9, 0);
    uint64_t covered;
    for (uint64_t n = 1; n <= 3 * REFILL_FILE; n++)
        add(x, n, 0, 3 * n);
    assert_int_equal(refill_index_write(x), 0);
    assert_int_equal(count(x, REFILL_FILE - 5, REFILL_FILE + 10, &covered), 6);
    assert_int_equal(covered, 1);
    assert_int_equal(count(x, REFILL_FILE + 1, REFILL_FILE + 10, &covered), 10);
    refill_index_keep(x, REFILL_FILE + 7);
    add(x, 3 * REFILL_FILE + 1, 0, 1);
    (void)count(x, 1, 1, &covered);
    assert_int_equal(covered, REFILL_FILE + 1);
    refill_index_keep(x, UINT64_MAX);
    add(x, 3 * REFILL_FILE + 2, 0, 1);
    (void)count(x, 1, 1, &covered);
    assert_true(covered == UINT64_MAX);
    assert_int_equal(rmdir(dir), 0); /* nothing is left in it */
    assert_int_equal(make_dir(state), 0);
    refill_index_destroy(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_read, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_files, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
