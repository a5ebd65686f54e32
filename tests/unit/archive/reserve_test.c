/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "unit/archive/stored.h"

#include "archive/reserve.h"

static struct stat look(const struct stored_dir *d)
{
    char path[256];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/reserve", d->path);
    assert_int_equal(stat(path, &st), 0);
    return st;
}

static void holds_room(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct reserve *r = NULL;
    struct diag why = {0};
    const uint64_t bytes = 1 << 20;
    assert_int_equal(reserve_open(d.path, bytes, &r, &why), 0);
    assert_true(reserve_is_held(r));
    assert_true((uint64_t)look(&d).st_blocks * 512 >= bytes);
    assert_int_equal(reserve_refill(r), 0);
    assert_true(reserve_release(r));
    assert_false(reserve_is_held(r));
    assert_int_equal(look(&d).st_blocks, 0);
    assert_false(reserve_release(r)); /* there is no more */
    assert_int_equal(reserve_refill(r), 0);
    assert_true(reserve_is_held(r));
    reserve_close(r);
    assert_int_equal(look(&d).st_size, bytes);

    /* What is there is taken over; another size, or a hole, is not it. */
    assert_int_equal(reserve_open(d.path, bytes, &r, &why), 0);
    assert_true(reserve_is_held(r));
    reserve_close(r);
    assert_int_equal(reserve_open(d.path, bytes / 2, &r, &why), 0);
    assert_int_equal(look(&d).st_size, bytes / 2);
    reserve_close(r);
    char path[256];
    (void)snprintf(path, sizeof path, "%s/reserve", d.path);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(truncate(path, (off_t)bytes), 0);
    assert_int_equal(reserve_open(d.path, bytes, &r, &why), 0);
    assert_true((uint64_t)look(&d).st_blocks * 512 >= bytes);
    reserve_close(r);
    stored_remove_dir(&d);
}

/* A disk that has no room for it. */
static void no_room(void **state)
{
    (void)state;
    struct stored_dir d = stored_make_dir();
    struct reserve *r = NULL;
    struct diag why = {0};
    assert_int_equal(reserve_open(d.path, UINT64_C(1) << 60, &r, &why), 0);
    assert_false(reserve_is_held(r));
    assert_false(reserve_release(r));
    assert_int_equal(reserve_refill(r), -ENOSPC);
    assert_int_equal(look(&d).st_size, 0);
    reserve_close(r);
    stored_remove_dir(&d);
    assert_int_equal(reserve_open("/tmp/gridline-store-none", 0, &r, &why), -ENOENT);
    assert_non_null(strstr(why.message, "/tmp/gridline-store-none/reserve"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(holds_room), cmocka_unit_test(no_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
