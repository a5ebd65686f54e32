/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/journal_disk.h"

#include "base/err.h"
#include "journal/format.h"

static struct journal *open_disk(struct disk *d, unsigned flags)
{
    struct journal *j;
    assert_int_equal(journal_open("x", &(struct journal_options){.flags = flags, .io = &d->io}, &j), 0);
    return j;
}

static void add(struct journal *j, int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(journal_append(j, 1, SLICE_LIT("x"), NULL), 0);
    assert_int_equal(journal_commit(j), 0);
}

static uint64_t position(struct disk *d, bool *is_reset)
{
    struct journal *j = open_disk(d, 0);
    struct journal_cursor *c;
    struct journal_cursor_info info;
    assert_int_equal(journal_cursor_open(j, "c", &c), 0);
    journal_cursor_info(c, &info);
    journal_close(j);
    *is_reset = info.is_reset;
    return info.position;
}

static void test_forward_only(void **state)
{
    (void)state;
    struct disk *d = disk_create();
    struct journal *j = open_disk(d, 0);
    struct journal_cursor *c, *same;
    struct journal_cursor_info info;
    add(j, 5);
    assert_int_equal(journal_cursor_open(j, "c", &c), 0);
    assert_int_equal(journal_cursor_open(j, "c", &same), 0);
    assert_ptr_equal(c, same);
    journal_cursor_info(c, &info);
    assert_int_equal(info.position, 0);
    assert_int_equal(journal_cursor_move(c, 3), 0);
    assert_int_equal(journal_cursor_move(c, 2), -EINVAL);
    assert_int_equal(journal_cursor_move(c, 6), -EINVAL);
    uint64_t calls = d->calls;
    assert_int_equal(journal_cursor_move(c, 3), 0);
    assert_int_equal(d->calls, calls); /* already there: nothing is written */
    journal_close(j);
    bool is_reset;
    assert_int_equal(position(d, &is_reset), 3);
    assert_false(is_reset);
    disk_destroy(d);
}

static void test_names(void **state)
{
    (void)state;
    struct disk *d = disk_create();
    struct journal *j = open_disk(d, 0);
    struct journal_cursor *c;
    const char *const bad[] = {
        "", "a/b", "../x", "a b", "\n", "0123456789012345678901234567890123456789012345678901234567890123x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(journal_cursor_open(j, bad[i], &c), -EINVAL);
    char name[16];
    for (int i = 0; i < JOURNAL_CURSORS_MAX; i++) {
        (void)snprintf(name, sizeof name, "c%d", i);
        assert_int_equal(journal_cursor_open(j, name, &c), 0);
    }
    assert_int_equal(journal_cursor_open(j, "more", &c), E_LIMIT);
    assert_int_equal(journal_cursor_open(j, "c7", &c), 0);
    assert_int_equal(journal_cursor_remove(c), 0);
    assert_int_equal(journal_cursor_open(j, "more", &c), 0);
    journal_close(j);
    j = open_disk(d, JOURNAL_READONLY);
    assert_int_equal(journal_cursor_open(j, "c7", &c), -ENOENT);
    assert_int_equal(journal_cursor_open(j, "more", &c), 0);
    assert_int_equal(journal_cursor_move(c, 0), -EROFS);
    assert_int_equal(journal_cursor_remove(c), -EROFS);
    journal_close(j);
    disk_destroy(d);
}

/* Each byte of the file changed, and the file cut at each length: the last position or the one before it, or
 * a reset that says so; never a position that was not set. */
static void test_damage(void **state)
{
    (void)state;
    struct disk *d = disk_create();
    struct journal *j = open_disk(d, 0);
    struct journal_cursor *c;
    add(j, 9);
    assert_int_equal(journal_cursor_open(j, "c", &c), 0);
    for (uint64_t i = 1; i <= 6; i++)
        assert_int_equal(journal_cursor_move(c, i), 0);
    journal_close(j);
    struct disk_bytes *b = &d->files[disk_find(&d->now, "c.cur")->file].now;
    assert_int_equal(b->n, SLOT_DISTANCE + SLOT_SIZE);
    bool is_reset;
    unsigned kept = 0;
    for (size_t at = 0; at < b->n; at++) {
        b->p[at] ^= 0x10;
        uint64_t p = position(d, &is_reset);
        assert_false(is_reset); /* one byte can't damage both slots */
        assert_true(p == 6 || p == 5);
        kept += p == 6;
        b->p[at] ^= 0x10;
    }
    assert_int_equal(kept, b->n - SLOT_SIZE);
    size_t whole = b->n;
    for (b->n = 0; b->n < whole; b->n++) {
        uint64_t p = position(d, &is_reset);
        assert_int_equal(is_reset, b->n < SLOT_SIZE);
        assert_int_equal(p, is_reset ? 0 : 5);
    }
    disk_destroy(d);
}

/* A reset cursor goes back to the oldest record kept, claims no loss, and works on. */
static void test_reset(void **state)
{
    (void)state;
    struct disk *d = disk_create();
    struct journal *j = open_disk(d, 0);
    struct journal_cursor *c;
    struct journal_cursor_info info;
    add(j, 4);
    assert_int_equal(journal_cursor_open(j, "c", &c), 0);
    assert_int_equal(journal_cursor_move(c, 4), 0);
    journal_close(j);
    j = open_disk(d, 0);
    add(j, 4);
    assert_int_equal(journal_trim(j), 1);
    journal_close(j);
    struct disk_bytes *b = &d->files[disk_find(&d->now, "c.cur")->file].now;
    memset(b->p, 0xee, b->n);
    j = open_disk(d, 0);
    assert_int_equal(journal_cursor_open(j, "c", &c), 0);
    journal_cursor_info(c, &info);
    assert_true(info.is_reset);
    assert_int_equal(info.position, 4);
    assert_int_equal(info.lost, 0);
    assert_int_equal(info.lost_first, 0);
    assert_int_equal(journal_cursor_move(c, 7), 0);
    journal_close(j);
    bool is_reset;
    assert_int_equal(position(d, &is_reset), 7);
    assert_false(is_reset);
    disk_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forward_only), cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_damage), cmocka_unit_test(test_reset)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
