/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/mem.h"
#include "sensor/roster.h"

#include <errno.h>
#include <stdio.h>

struct thing {
    struct roster_entry entry;
    int number; /* set when it was new */
};

/* A round with these names; returns which were new, a bit each. */
static unsigned round_of(struct roster *r, const char *const *names)
{
    unsigned fresh = 0;
    static int number;
    roster_begin(r);
    for (unsigned i = 0; names[i]; i++) {
        struct roster_entry *e = NULL;
        int result = roster_see(r, slice_str(names[i]), &e);
        assert_true(result == 0 || result == 1);
        assert_true(slice_eq_str(e->name, names[i]));
        if (result == 1)
            ((struct thing *)e)->number = ++number;
        assert_true(((struct thing *)e)->number > 0);
        fresh |= (unsigned)result << i;
    }
    roster_end(r);
    return fresh;
}

static void come_and_go(void **state)
{
    (void)state;
    struct roster r;
    roster_init(&r, sizeof(struct thing));
    assert_int_equal(round_of(&r, (const char *[]){"a", "b", "c", NULL}), 7);
    assert_int_equal(round_of(&r, (const char *[]){"a", "b", "c", NULL}), 0);
    assert_int_equal(round_of(&r, (const char *[]){"a", "x", "b", "c", NULL}), 2);
    assert_int_equal(round_of(&r, (const char *[]){"c", "x", "a", "b", NULL}), 0);
    assert_int_equal(round_of(&r, (const char *[]){"c", NULL}), 0);
    assert_int_equal(r.n, 1);
    assert_int_equal(round_of(&r, (const char *[]){"a", "c", NULL}), 1); /* it was away: a new one */
    assert_int_equal(round_of(&r, (const char *[]){NULL}), 0);
    assert_int_equal(r.n, 0);
    assert_int_equal(round_of(&r, (const char *[]){"a", NULL}), 1);
    roster_fini(&r);
}

static void not_twice(void **state)
{
    (void)state;
    struct roster r;
    struct roster_entry *e;
    roster_init(&r, sizeof(struct thing));
    roster_begin(&r);
    assert_int_equal(roster_see(&r, SLICE_LIT("a"), &e), 1);
    assert_int_equal(roster_see(&r, SLICE_LIT("a"), &e), E_PROTO);
    assert_int_equal(roster_see(&r, SLICE_LIT(""), &e), E_PROTO);
    roster_end(&r);
    roster_begin(&r);
    assert_int_equal(roster_see(&r, SLICE_LIT("a"), &e), 0);
    assert_int_equal(roster_see(&r, SLICE_LIT("a"), &e), E_PROTO);
    roster_end(&r);
    assert_int_equal(r.n, 1);
    roster_fini(&r);
}

static void label_is_utf8(void **state)
{
    (void)state;
    struct roster r;
    struct roster_entry *e;
    roster_init(&r, sizeof(struct thing));
    roster_begin(&r);
    assert_int_equal(roster_see(&r, SLICE_LIT("\xc3\xa9th0"), &e), 1);
    assert_true(slice_eq_str(e->label, "\xc3\xa9th0"));
    assert_int_equal(roster_see(&r, SLICE_LIT("e\xff\x80"), &e), 1);
    assert_true(slice_eq_str(e->name, "e\xff\x80"));
    assert_true(slice_eq_str(e->label, "e\\377\\200"));
    roster_end(&r);
    roster_fini(&r);
}

static void limits(void **state)
{
    (void)state;
    struct roster r;
    struct roster_entry *e;
    char name[ROSTER_NAME_MAX + 1];
    memset(name, 'n', sizeof name);
    roster_init(&r, sizeof(struct thing));
    roster_begin(&r);
    assert_int_equal(roster_see(&r, slice_of(name, ROSTER_NAME_MAX + 1), &e), E_PROTO);
    assert_int_equal(roster_see(&r, slice_of(name, ROSTER_NAME_MAX), &e), 1);
    mem_fail_after(1);
    assert_int_equal(roster_see(&r, SLICE_LIT("x"), &e), -ENOMEM);
    mem_fail_after(0);
    while (r.n < ROSTER_MAX) {
        (void)snprintf(name, sizeof name, "%zu", r.n);
        assert_int_equal(roster_see(&r, slice_str(name), &e), 1);
    }
    assert_int_equal(roster_see(&r, SLICE_LIT("one more"), &e), E_LIMIT);
    roster_end(&r);
    roster_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(come_and_go),
        cmocka_unit_test(not_twice),
        cmocka_unit_test(label_is_utf8),
        cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
