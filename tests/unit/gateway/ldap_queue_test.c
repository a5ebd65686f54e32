/* SPDX-License-Identifier: Apache-2.0 */
/* What is to do about an LDAP server: one thing an entry, the newest. */
#include "unit/test.h"

#include "base/err.h"
#include "gateway/ldap_queue.h"

#include <stdio.h>

static struct ldap_queue q;

static int set_up(void **state)
{
    (void)state;
    ldap_queue_init(&q);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ldap_queue_fini(&q);
    return 0;
}

static int put(const char *name, const char *record)
{
    return ldap_queue_put(&q, slice_str(name), slice_str(record), strncmp(name, "host", 4) == 0, true);
}

/* The first is this, and is done. */
static void does(const char *name, const char *record)
{
    struct ldap_item *i = ldap_queue_first(&q);
    assert_non_null(i);
    assert_slice(slice_of(i->name, i->name_n), name);
    if (record)
        assert_slice(slice_of(i->record, i->record_n), record);
    else
        assert_null(i->record);
    ldap_queue_done(&q, i, i->version, record);
}

static void newest_wins(void **state)
{
    (void)state;
    assert_int_equal(put("a", "1"), 1);
    assert_int_equal(put("b", "1"), 1);
    assert_int_equal(put("a", "2"), 1);
    assert_int_equal(put("a", "2"), 0);
    assert_int_equal(q.waiting, 2);
    does("b", "1");
    does("a", "2");
    assert_null(ldap_queue_first(&q));
    assert_int_equal(q.waiting, 0);
    assert_int_equal(put("a", "2"), 0); /* as it is */
    assert_null(ldap_queue_first(&q));
    assert_true(ldap_queue_remove(&q, SLICE_LIT("a")));
    assert_false(ldap_queue_remove(&q, SLICE_LIT("a")));
    assert_false(ldap_queue_remove(&q, SLICE_LIT("nobody")));
    does("a", NULL);
    assert_int_equal(q.items.n, 1);
    assert_int_equal(put("a", "2"), 1);
    does("a", "2");
}

/* It changes while it is written. */
static void changes_meanwhile(void **state)
{
    (void)state;
    assert_int_equal(put("a", "1"), 1);
    struct ldap_item *i = ldap_queue_first(&q);
    uint64_t version = i->version;
    assert_int_equal(put("a", "2"), 1);
    ldap_queue_done(&q, i, version, true);
    assert_true(ldap_item_is_there(&q, i));
    assert_int_equal(q.waiting, 1);
    version = i->version;
    assert_true(ldap_queue_remove(&q, SLICE_LIT("a")));
    ldap_queue_done(&q, i, version, true);
    does("a", NULL);
    assert_int_equal(q.items.n, 0);
}

static void hosts_go_after_their_sensors(void **state)
{
    (void)state;
    put("host", "h");
    put("s1", "1");
    put("s2", "2");
    does("host", "h");
    does("s1", "1");
    does("s2", "2");
    assert_true(ldap_queue_remove(&q, SLICE_LIT("host"))); /* even if it is said first */
    assert_true(ldap_queue_remove(&q, SLICE_LIT("s1")));
    assert_true(ldap_queue_remove(&q, SLICE_LIT("s2")));
    put("host2", "x");
    does("s1", NULL);
    does("s2", NULL);
    does("host2", "x");
    does("host", NULL);
    assert_int_equal(q.waiting, 0);
}

static void rounds(void **state)
{
    (void)state;
    put("a", "1");
    put("b", "1");
    put("c", "1");
    does("a", "1");
    does("b", "1");
    assert_true(ldap_queue_remove(&q, SLICE_LIT("b")));
    ldap_queue_begin(&q);
    assert_int_equal(q.waiting, 3);
    assert_true(ldap_queue_seen(&q, SLICE_LIT("a"), SLICE_LIT("1")));
    assert_true(ldap_queue_seen(&q, SLICE_LIT("b"), SLICE_LIT("1")));
    assert_false(ldap_queue_seen(&q, SLICE_LIT("stranger"), SLICE_LIT("1")));
    assert_int_equal(q.waiting, 2);
    struct ldap_item *c = map_get(&q.items, SLICE_LIT("c")), *b = map_get(&q.items, SLICE_LIT("b"));
    assert_false(ldap_item_is_there(&q, c));
    assert_true(ldap_item_is_there(&q, b)); /* and has to go */
    does("c", "1");
    does("b", NULL);
    assert_null(ldap_queue_first(&q));
    ldap_queue_begin(&q);
    assert_true(ldap_queue_seen(&q, SLICE_LIT("a"), SLICE_LIT("other"))); /* somebody has changed it */
    assert_int_equal(q.waiting, 2);
    does("a", "1");
    does("c", "1");
    assert_null(ldap_queue_first(&q));
    put("a", "2"); /* settled in this round: one thing to do again */
    assert_int_equal(q.waiting, 1);
    ldap_queue_begin(&q);
    assert_int_equal(q.waiting, 2);
}

static void is_bounded(void **state)
{
    (void)state;
    char name[16];
    for (int i = 0; i < LDAP_ENTRIES_MAX; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        assert_int_equal(put(name, "r"), 1);
    }
    assert_int_equal(put("one more", "r"), E_LIMIT);
    assert_int_equal(put("7", "s"), 1);
    assert_int_equal(q.waiting, LDAP_ENTRIES_MAX);
    assert_int_equal(q.items.n, LDAP_ENTRIES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(newest_wins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(changes_meanwhile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hosts_go_after_their_sensors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(is_bounded, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
